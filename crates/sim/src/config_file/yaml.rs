//! The part of YAML in which settings of a server are written: tables and lists by indentation, texts with and without quotes, numbers,
//! and JSON on one line. All other YAML is refused with its line number, never read as something else.

use serde_json::{Deserializer, Map, Value};

/// Parses a document. An empty one is null.
pub fn read(text: &str) -> Result<Value, String> {
    let lines = lines(text)?;
    let mut rest = &lines[..];
    let value = match rest.first() {
        Some(first) => block(&mut rest, first.indent)?,
        None => Value::Null,
    };
    rest.first().map_or(Ok(value), |line| {
        Err(line.wrong(
            "does not continue the lines above it; give what belongs together one indentation, and a value one line",
        ))
    })
}

/// A line without its indentation.
#[derive(Clone, Copy)]
struct TextLine<'t> {
    number: usize,
    indent: usize,
    text: &'t str,
}

impl<'t> TextLine<'t> {
    fn wrong(&self, why: &str) -> String {
        format!("line {} {why}", self.number)
    }

    fn is_item(&self) -> bool {
        self.text == "-" || self.text.starts_with("- ")
    }

    /// Returns the key of a table's entry, and the text after its colon.
    fn entry(&self) -> Result<(String, &'t str), String> {
        let is_colon = |(at, _): &(usize, &str)| matches!(self.text[at + 1..].chars().next(), None | Some(' '));
        let split = match quoted(self.text).map_err(|why| self.wrong(&why))? {
            Some((key, rest)) => rest.strip_prefix(':').map(|after| (key, after)),
            None => {
                let colon = self.text.match_indices(':').find(is_colon);
                colon.map(|(at, _)| (self.text[..at].trim_end_matches(' ').to_owned(), &self.text[at + 1..]))
            }
        };
        let is_key = |key: &str| !key.is_empty() && !key.starts_with(SPECIAL) && !key.contains(" #");
        let split = split.filter(|(key, after)| is_key(key) && (after.is_empty() || after.starts_with(' ')));
        let (key, after) = split.ok_or_else(|| self.wrong("has no `key: value`; write one setting per line"))?;
        Ok((key, after.trim_start_matches(' ')))
    }

    /// Parses a part of the line as a value; `None` if it is only a comment.
    fn value(&self, part: &'t str) -> Result<Option<Value>, String> {
        if part.is_empty() || part.starts_with('#') {
            return Ok(None);
        }
        let (value, rest) = value(part).map_err(|why| self.wrong(&why))?;
        let after = rest.trim_start_matches(' ');
        match after.is_empty() || (after.len() < rest.len() && after.starts_with('#')) {
            true => Ok(Some(value)),
            false => Err(self.wrong(&format!("has `{after}` behind a value; put the value in quotes"))),
        }
    }
}

/// Returns the lines that are not blank, not only a comment, and not the mark at the beginning of the document.
fn lines(text: &str) -> Result<Vec<TextLine<'_>>, String> {
    let (mut lines, mut is_begun) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let text = text.trim_end_matches(' ');
        let line = TextLine { number, indent, text };
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if indent == 0 && text == "---" && lines.is_empty() && !is_begun {
            is_begun = true;
            continue;
        }
        if indent == 0 && ["---", "..."].iter().any(|mark| text.starts_with(mark)) {
            return Err(line.wrong("begins or ends a document; keep one, without such a line"));
        }
        if text.contains(|c: char| c.is_control()) {
            return Err(
                line.wrong("has a tab or another control character; indent with spaces, and write others as \"\\t\"")
            );
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Parses the table or list whose lines have this indentation. A list may be indented like its key.
fn block(rest: &mut &[TextLine<'_>], indent: usize) -> Result<Value, String> {
    let is_list = rest.first().is_some_and(TextLine::is_item);
    let (mut table, mut items) = (Map::new(), Vec::new());
    while let Some((line, after)) = rest.split_first() {
        if line.indent != indent || line.is_item() != is_list {
            break;
        }
        *rest = after;
        if is_list {
            items.push(line.value(line.text[1..].trim_start_matches(' '))?.unwrap_or_default());
            continue;
        }
        let (key, written) = line.entry()?;
        let below = rest
            .first()
            .filter(|next| next.indent > indent || (next.indent == indent && next.is_item()));
        let value = match (line.value(written)?, below) {
            (Some(value), _) => value,
            (None, Some(next)) => block(rest, next.indent)?,
            (None, None) => Value::Null,
        };
        if table.insert(key, value).is_some() {
            return Err(line.wrong("has a key for the second time; remove one"));
        }
    }
    Ok(if is_list { items.into() } else { table.into() })
}

/// Parses a value, and returns what follows it on its line.
fn value(text: &str) -> Result<(Value, &str), String> {
    if let Some((text, rest)) = quoted(text)? {
        return Ok((text.into(), rest));
    }
    if text.starts_with(['[', '{']) {
        let mut json = Deserializer::from_str(text).into_iter::<Value>();
        if let Some(Ok(value)) = json.next() {
            return Ok((value, &text[json.byte_offset()..]));
        }
        // Lists of plain values, such as `[a, b]`, are not valid JSON.
        let list = text.strip_prefix('[').and_then(|list| list.split_once(']'));
        let list = list.filter(|(items, _)| !items.contains(['[', '{', '}', '"', '\'', '#']) && !items.contains(": "));
        let (items, rest) =
            list.ok_or("has brackets that are neither a plain list nor JSON; write JSON on one line")?;
        let items: Result<Vec<Value>, String> = items.split(',').map(|item| scalar(item.trim_matches(' '))).collect();
        return Ok((items?.into(), rest));
    }
    let (plain, rest) = text.split_at(text.find(" #").unwrap_or(text.len()));
    Ok((scalar(plain.trim_end_matches(' '))?, rest))
}

/// Parses the quoted text at the beginning of `text`, and returns it with the rest of the line; `None` if `text` begins with no quote.
fn quoted(text: &str) -> Result<Option<(String, &str)>, String> {
    let unclosed = "has a quote that is never closed on its line; close it, and write line feeds as \"\\n\"";
    if let Some(mut rest) = text.strip_prefix('\'') {
        let mut read = String::new();
        loop {
            let (part, after) = rest.split_once('\'').ok_or(unclosed)?;
            read += part;
            // Two single quotes are an escaped one.
            let Some(more) = after.strip_prefix('\'') else {
                return Ok(Some((read, after)));
            };
            read.push('\'');
            rest = more;
        }
    }
    if !text.starts_with('"') {
        return Ok(None);
    }
    // Parsed as JSON, after escapes of eight digits, which JSON lacks, are replaced.
    let mut json = String::from('"');
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match (c, chars.clone().next()) {
            ('"', _) => {
                let read = serde_json::from_str(&(json + "\""));
                let read = read.map_err(|_| "has an escape that JSON does not have; write \\U and eight digits")?;
                return Ok(Some((read, &text[at + 1..])));
            }
            ('\\', Some((_, 'U'))) => {
                let code = text
                    .get(at + 2..at + 10)
                    .and_then(|code| u32::from_str_radix(code, 16).ok());
                let c = code
                    .and_then(char::from_u32)
                    .ok_or("has a \\U without eight digits of a character; correct them")?;
                json.push_str(
                    serde_json::to_string(&c)
                        .expect("a character is JSON")
                        .trim_matches('"'),
                );
                chars.by_ref().take(9).for_each(drop);
            }
            ('\\', Some((_, escaped))) => {
                json.extend(['\\', escaped]);
                chars.next();
            }
            (c, _) => json.push(c),
        }
    }
    Err(unclosed.into())
}

/// Characters with which a text without quotes cannot begin.
const SPECIAL: &[char] = &[
    '&', '*', '!', '|', '>', '%', '@', '`', '"', '\'', '[', ']', '{', '}', ',', '#', '?', ':', '-',
];

/// Parses a value without quotes, as PyYAML does.
fn scalar(text: &str) -> Result<Value, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_numeric = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if text.is_empty() || (text.starts_with(SPECIAL) && !is_numeric) || text.contains(": ") || text.ends_with(':') {
        return Err(format!(
            "has the value `{text}`, which is not read without quotes; put it in quotes"
        ));
    }
    match text {
        "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Ok(true.into()),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Ok(false.into()),
        _ => {}
    }
    let is_digits_and =
        |text: &str, others: &str| is_numeric && text.chars().all(|c| c.is_ascii_digit() || others.contains(c));
    // An exponent without a sign makes it a text.
    let mantissa = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) if exponent.starts_with(['-', '+']) => mantissa,
        _ => digits,
    };
    let lower = digits.to_ascii_lowercase();
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(number), _) if number.to_string() == text => Ok(number.into()),
        (_, Ok(number)) if number.is_finite() && is_digits_and(mantissa, ".") && mantissa.contains('.') => {
            Ok(number.into())
        }
        // Octal, hexadecimal, with a sign, with `_` or `:`: versions of YAML differ in these.
        _ if is_digits_and(digits, "_:")
            || ["0x", "0o", "0b", ".inf", ".nan"]
                .iter()
                .any(|start| lower.starts_with(start)) =>
        {
            Err(format!(
                "has `{text}`, which some read as another number; write it as a decimal number, or in quotes"
            ))
        }
        _ => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests;
