//! Identities made from content: the canonical JSON of a thing and the SHA-256 of it.
//!
//! Two configurations have equal ids exactly if everything that can change their measurement is equal. So no outdated result is reused, and
//! an edited plan re-measures exactly what changed.

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::{fmt, io};

/// Reads a value from a string without copying the string, because a record has several such strings in each of its lines.
pub fn read_text<'de, D: Deserializer<'de>, T>(
    from: D,
    read: impl FnOnce(&str) -> Result<T, &'static str>,
) -> Result<T, D::Error> {
    struct Text<F>(F);

    impl<T, F: FnOnce(&str) -> Result<T, &'static str>> Visitor<'_> for Text<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            (self.0)(text).map_err(E::custom)
        }
    }

    from.deserialize_str(Text(read))
}

/// Declares identities, each a text of its own type. Copies share the text, because a record names each point in all of its runs.
macro_rules! identities {
    ($($(#[doc = $about:literal])+ $identity:ident;)+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $identity(pub Arc<str>);

        impl Serialize for $identity {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $identity {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                read_text(from, |text| Ok($identity(text.into())))
            }
        }

        impl AsRef<str> for $identity {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $identity {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )+};
}

identities! {
    /// Identity of one server config: first 16 hex digits of the SHA-256 of its canonical JSON.
    ServerId;
    /// Identity of one point (server config plus bench config), made the same way.
    PointId;
    /// Identity of one search (server config, load without the varied parameter, targets and settings), made the same way.
    SearchId;
}

/// A set of ids of 16 digits each, written as one text, because a plan may have a million.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids(Vec<[u8; 16]>);

impl Ids {
    /// Returns the set of these ids.
    ///
    /// # Panics
    /// If an id does not have 16 digits. Every id that is made here has.
    pub fn of<I: AsRef<str>>(ids: impl IntoIterator<Item = I>) -> Ids {
        let digits = |id: I| <[u8; 16]>::try_from(id.as_ref().as_bytes()).expect("an id has 16 digits");
        let mut ids: Vec<[u8; 16]> = ids.into_iter().map(digits).collect();
        ids.sort_unstable();
        ids.dedup();
        Ids(ids)
    }

    /// Returns true if the id is in the set.
    pub fn contains(&self, id: &str) -> bool {
        // Numbers are compared faster than texts.
        let number = |id: &[u8; 16]| u128::from_be_bytes(*id);
        let place = |id| self.0.binary_search_by_key(&number(&id), number);
        <[u8; 16]>::try_from(id.as_bytes()).is_ok_and(|id| place(id).is_ok())
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|id| std::str::from_utf8(id).expect("made from text"))
    }
}

impl Serialize for Ids {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.iter().collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ids, D::Error> {
        let text = String::deserialize(from)?;
        if !text.is_ascii() || text.len() % 16 != 0 {
            return Err(D::Error::custom("no text of ids with 16 digits each"));
        }
        let ids = text.as_bytes().chunks_exact(16);
        Ok(Ids::of(ids.map(|id| std::str::from_utf8(id).expect("ASCII"))))
    }
}

/// Returns JSON text that is equal for equal values: object keys are sorted, and there are no spaces.
pub fn canonical_json(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

/// A SHA-256, written as 64 lower-case hex digits. It is kept as bytes, because a record has one for each of its runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hash256([u8; 32]);

impl Hash256 {
    /// Returns the hash of some bytes.
    pub fn of(bytes: &[u8]) -> Hash256 {
        Hash256(Sha256::digest(bytes).into())
    }

    /// Returns the hash of all that can be read.
    pub fn of_all(mut from: impl io::Read) -> io::Result<Hash256> {
        let (mut hasher, mut piece) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(Hash256(hasher.finalize().into())),
                Ok(length) => hasher.update(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read(text: &str) -> Option<Hash256> {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let (pairs, _) = text.as_bytes().as_chunks::<2>();
        let mut hash = Hash256::default();
        for (byte, [high, low]) in hash.0.iter_mut().zip(pairs) {
            *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
        }
        (text.len() == 64).then_some(hash)
    }
}

impl fmt::Display for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Hash256 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash256 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hash256, D::Error> {
        read_text(from, |text| Hash256::read(text).ok_or("no SHA-256 of 64 hex digits"))
    }
}

/// Returns the SHA-256 of some bytes as 64 lower-case hex digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Hash256::of(bytes).to_string()
}

/// Returns the first 64 bits of the SHA-256 of some bytes.
pub fn digest_start(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    u64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

/// Returns the first 16 hex digits of the SHA-256 of a text. They are short enough for a path, and the probability that two of a million
/// points share them is below 1 in 10^7.
pub fn short_digest(text: &str) -> String {
    format!("{:016x}", digest_start(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_change_the_identity() {
        let a: Value = serde_json::from_str(r#"{"b":[1,{"d":null,"c":"x"}],"a":1.5}"#).expect("valid");
        assert_eq!(canonical_json(&a), r#"{"a":1.5,"b":[1,{"c":"x","d":null}]}"#);
        assert_eq!(
            canonical_json(&json!({"a": 1, "b": 2})),
            canonical_json(&json!({"b": 2, "a": 1}))
        );
    }

    #[test]
    fn digest_is_sha256() {
        let hash = Hash256::of(b"abc");
        assert_eq!(Hash256::of_all(&b"abc"[..]).expect("readable"), hash);
        assert_eq!(Hash256::read(&sha256_hex(b"abc")), Some(hash));
        for text in ["", "ba78", &"g".repeat(64), &"0".repeat(66)] {
            assert_eq!(Hash256::read(text), None, "{text}");
        }
        assert_eq!(short_digest("abc"), "ba7816bf8f01cfea");
    }
}
