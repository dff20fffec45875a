//! Converts text to token ids and back, with the `tokenizer.json` of a model's folder or by a toy scheme. In the toy scheme, a word of the
//! form `w0123` is one token. Other text is cut into pieces of up to four ASCII characters or one other character, whose bytes are in the
//! id. The scheme is reversible, except for characters of four bytes.

use std::borrow::Cow;
use std::path::Path;

/// Number of words in the toy vocabulary from which answers are made.
const WORDS: u32 = 1000;
/// Smallest id that contains its own text.
const PIECES: u32 = 1 << 28;

/// A tokenizer.
pub enum Tokenizer {
    /// The toy scheme.
    Toy,
    /// A Hugging Face tokenizer.
    File(Box<tokenizers::Tokenizer>),
}

impl Tokenizer {
    /// Returns the tokenizer in the model's folder, or the toy scheme if there is none. The error for an unreadable file has the reason.
    pub fn of(model: &str) -> Result<Tokenizer, String> {
        let path = Path::new(model).join("tokenizer.json");
        if !path.is_file() {
            return Ok(Tokenizer::Toy);
        }
        let loaded = tokenizers::Tokenizer::from_file(&path);
        loaded
            .map(|t| Tokenizer::File(Box::new(t)))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the vocabulary size: ids of answers are less than this.
    pub fn vocabulary(&self) -> u32 {
        match self {
            Tokenizer::Toy => WORDS,
            Tokenizer::File(file) => file.get_vocab_size(false).clamp(1, PIECES as usize) as u32,
        }
    }

    /// Returns the token ids of a text, with special tokens if `special` is true.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, String> {
        match self {
            Tokenizer::Toy => Ok(toy_encode(text)),
            Tokenizer::File(file) => file
                .encode_fast(text, special)
                .map(|e| e.get_ids().to_vec())
                .map_err(|error| error.to_string()),
        }
    }

    /// Returns the text of token ids.
    pub fn decode(&self, ids: &[u32]) -> Result<String, String> {
        match self {
            Tokenizer::Toy => {
                let text: String = ids.iter().map(|id| toy_piece(*id)).collect();
                let starts_with_word = ids.first().is_some_and(|id| *id < PIECES);
                Ok(if starts_with_word { text[1..].to_string() } else { text })
            }
            Tokenizer::File(file) => file.decode(ids, true).map_err(|error| error.to_string()),
        }
    }

    /// Appends the text of one token of an answer, escaped for a JSON string.
    pub fn append(&self, id: u32, out: &mut Vec<u8>) {
        match self {
            // Words of answers are written without an allocation.
            Tokenizer::Toy if id < 10_000 => {
                let digit = |power: u32| b'0' + (id / power % 10) as u8;
                out.extend_from_slice(&[b' ', b'w', digit(1000), digit(100), digit(10), digit(1)]);
            }
            _ => escape(&self.piece(id), out),
        }
    }

    /// Returns the text of one token of an answer.
    pub fn piece(&self, id: u32) -> Cow<'static, str> {
        match self {
            Tokenizer::Toy => toy_piece(id),
            Tokenizer::File(file) => {
                let text = file.decode(&[id], true).unwrap_or_default();
                Cow::Owned(if text.starts_with(|c: char| c.is_alphanumeric()) {
                    format!(" {text}")
                } else {
                    text
                })
            }
        }
    }
}

/// Writes a text with the escapes of a JSON string, without its quotes.
fn escape(text: &str, out: &mut Vec<u8>) {
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.extend_from_slice(text.as_bytes());
    } else {
        let quoted = serde_json::json!(text).to_string();
        out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
    }
}

fn toy_piece(id: u32) -> Cow<'static, str> {
    if id < PIECES {
        return Cow::Owned(format!(" w{id:04}"));
    }
    let (count, bits) = match id >> 28 {
        count @ ..=4 => (count, 7),
        tag => ((tag - 4).min(3), 8),
    };
    let mask = u8::MAX >> (8 - bits);
    let bytes: Vec<u8> = (0..count).map(|index| (id >> (bits * index)) as u8 & mask).collect();
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns an id that contains its text: up to four characters of seven bits, or one character of up to three bytes. Bits 28 to 31 are the
/// number of bytes, plus 4 in the second case.
fn pack(bytes: &[u8], bits: u32) -> u32 {
    let tag = bytes.len() as u32 + if bits == 7 { 0 } else { 4 };
    let shifts = (0..).step_by(bits as usize);
    bytes
        .iter()
        .zip(shifts)
        .fold(tag << 28, |id, (byte, shift)| id | u32::from(*byte) << shift)
}

fn toy_encode(text: &str) -> Vec<u32> {
    let mut ids = Vec::with_capacity(text.len() / 4 + 1);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (id, length) = word(rest, ids.is_empty()).unwrap_or_else(|| match first.is_ascii() {
            true => ascii(rest),
            false => non_ascii(first),
        });
        ids.push(id);
        rest = &rest[length..];
    }
    ids
}

/// Returns the id and length of ` w` with four or more digits. The start of a text has no blank, because decoding removes it.
fn word(text: &str, at_start: bool) -> Option<(u32, usize)> {
    let body = text.strip_prefix(if at_start { "w" } else { " w" })?;
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let id: u32 = body
        .get(..digits)
        .filter(|d| d.len() == 4 || (d.len() > 4 && !d.starts_with('0')))?
        .parse()
        .ok()?;
    (id < PIECES).then_some((id, text.len() - body.len() + digits))
}

/// Returns the id and length of up to four ASCII characters, which end before a blank, because that may begin a word.
fn ascii(text: &str) -> (u32, usize) {
    let bytes = text.as_bytes();
    let fits = |(index, byte): &(usize, &u8)| byte.is_ascii() && (*index == 0 || **byte != b' ');
    let count = bytes.iter().enumerate().take(4).take_while(fits).count();
    (pack(&bytes[..count], 7), count)
}

/// Returns the id and length of a character of two to four bytes. A character of four bytes does not fit an id, and becomes the replacement
/// character.
fn non_ascii(character: char) -> (u32, usize) {
    let length = character.len_utf8();
    let kept = if length > 3 {
        char::REPLACEMENT_CHARACTER
    } else {
        character
    };
    (pack(kept.encode_utf8(&mut [0; 4]).as_bytes(), 8), length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_word_is_a_token_and_other_text_four_characters() {
        assert_eq!(toy_encode("w0003 w0417 w123456"), [3, 417, 123_456]);
        assert_eq!(Tokenizer::Toy.decode(&[3, 417]).expect("toy"), "w0003 w0417");
        let words = "The quick brown fox jumps over the lazy dog".len();
        assert!(toy_encode("The quick brown fox jumps over the lazy dog").len() <= words / 3);
    }

    #[test]
    fn an_appended_token_is_its_text() {
        for id in [0, 7, 999, 9_999, 10_000, 123_456, (1 << 28) | u32::from(b'"')] {
            let mut out = Vec::new();
            Tokenizer::Toy.append(id, &mut out);
            let quoted = format!("\"{}\"", String::from_utf8(out).expect("text"));
            let text: String = serde_json::from_str(&quoted).expect("the inside of a JSON string");
            assert_eq!(text, Tokenizer::Toy.piece(id));
        }
    }

    proptest! {
        #[test]
        fn text_survives_the_round_trip(text in "[ -~äß€]{0,40}") {
            prop_assert_eq!(Tokenizer::Toy.decode(&toy_encode(&text)).expect("toy"), text);
        }

        #[test]
        fn ids_survive_the_round_trip(ids in prop::collection::vec(0u32..200_000, 0..40)) {
            prop_assert_eq!(toy_encode(&Tokenizer::Toy.decode(&ids).expect("toy")), ids);
        }

        #[test]
        fn no_text_and_no_id_is_too_strange(text in any::<String>(), ids in prop::collection::vec(any::<u32>(), 0..20)) {
            prop_assert!(Tokenizer::Toy.decode(&toy_encode(&text)).is_ok());
            prop_assert!(Tokenizer::Toy.decode(&ids).is_ok());
        }
    }
}
