//! Regular expressions that cut a text into words before it is tokenized: the same pieces as by the library's general way.

use tokenizers::utils::SysRegex;

/// An expression.
pub(super) struct Cut(SysRegex);

impl Cut {
    /// `None` if it is no expression.
    pub fn new(pattern: &str) -> Option<Cut> {
        SysRegex::new(pattern).ok().map(Cut)
    }

    /// What it finds, and what lies between; nothing empty.
    pub fn pieces(&self, text: &str) -> Vec<(usize, usize)> {
        let (mut all, mut end) = (Vec::with_capacity(text.len() / 4), 0);
        let found = self.0.find_iter(text).chain([(text.len(), text.len())]);
        for (from, to) in found {
            all.extend([(end, from), (from, to)].into_iter().filter(|(from, to)| from < to));
            end = to;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::byte_level::GPT_2;

    #[test]
    fn pieces_are_what_is_found_and_what_lies_between() {
        let cut = |pattern: &str, text: &str| {
            let cut = Cut::new(pattern).expect("an expression");
            let pieces = cut.pieces(text).into_iter();
            pieces.map(|(from, to)| text[from..to].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(cut(GPT_2, "it's  12 a\n"), ["it", "'s", " ", " 12", " a", "\n"]);
        assert_eq!(cut("b+", "abba"), ["a", "bb", "a"]);
        assert_eq!(cut("b", ""), [""; 0]);
        assert!(Cut::new("(").is_none());
    }
}
