//! The classes of a mixed load: their names as part of the names of figures, as in `chat.p99_ttft_ms`, and the tags by which single
//! requests refer to their classes.

/// Names that mean something else before a dot.
const TAKEN: [&str; 2] = ["serve", "bench"];

/// The class of a single request, as a digest of the name. The default means no class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassTag(u64);

impl ClassTag {
    /// No class.
    pub const NONE: ClassTag = ClassTag(0);

    /// Returns the tag of a class: the FNV-1a digest of its name.
    pub fn of(name: &str) -> ClassTag {
        let digest = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        ClassTag(name.bytes().fold(0xcbf2_9ce4_8422_2325, digest))
    }
}

/// Returns true if a class can have this name: letters, digits, `_` and `-`, beginning with a letter. `p99` would be confused with a
/// percentile, and `serve` and `bench` with a part of the plan.
pub fn is_class_name(name: &str) -> bool {
    let is_proper = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_percentile = || {
        let percent = name.strip_prefix('p');
        percent.is_some_and(|percent| !percent.is_empty() && percent.chars().all(|c| c.is_ascii_digit()))
    };
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(is_proper)
        && !TAKEN.contains(&name)
        && !is_percentile()
}

/// Returns the name of a class's figure; without a class, that of the whole load.
pub fn figure_of(class: Option<&str>, figure: &str) -> String {
    match class {
        Some(class) => format!("{class}.{figure}"),
        None => figure.to_owned(),
    }
}

/// Splits the name of a figure into the class, if it has one, and the name without it.
pub fn split_class(figure: &str) -> (Option<&str>, &str) {
    match figure.split_once('.') {
        Some((class, rest)) if is_class_name(class) => (Some(class), rest),
        _ => (None, figure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_found_in_the_names_of_its_figures() {
        assert_eq!(split_class("chat.p99_ttft_ms"), (Some("chat"), "p99_ttft_ms"));
        assert_eq!(
            split_class("long-docs.p99.9_ttft_ms"),
            (Some("long-docs"), "p99.9_ttft_ms")
        );
        for plain in [
            "p99.9_ttft_ms",
            "p99_ttft_ms",
            "bench.seed",
            "serve.tp",
            "share(ttft_ms<0.5)",
            ".x",
        ] {
            assert_eq!(split_class(plain), (None, plain));
        }
        assert_eq!(figure_of(Some("chat"), "failed"), "chat.failed");
    }

    #[test]
    fn names_that_mean_something_else_are_no_classes() {
        for good in ["chat", "p", "pages", "p99x", "A-1_b"] {
            assert!(is_class_name(good), "{good}");
        }
        for bad in ["", "p99", "serve", "bench", "1st", "a.b", "a b", "_x", "é"] {
            assert!(!is_class_name(bad), "{bad}");
        }
        assert!(ClassTag::of("chat") != ClassTag::of("docs") && ClassTag::of("chat") != ClassTag::NONE);
    }
}
