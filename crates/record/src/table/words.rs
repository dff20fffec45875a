//! Splitting lists that people type (`a<=1,b=='x,y'`): commas inside quotes belong to the value.

/// The items of a comma-separated list without the spaces around them; an empty text has no items.
pub(super) fn items(text: &str) -> Result<Vec<&str>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut items = Vec::new();
    let (mut start, mut quote) = (0, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ',') => {
                items.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if let Some(open) = quote {
        return Err(format!("`{text}` opens a {open} that nothing closes; close it"));
    }
    items.push(text[start..].trim());
    Ok(items)
}
