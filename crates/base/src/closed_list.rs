//! Declares the closed lists of this crate: enums whose entries have names in files, and facts that are looked up by entry. The lists
//! themselves are in `cause` and `validity`.

/// Returns the name of an entry in words, for sentences: `GPU memory held` for `gpu_memory_held`.
pub fn in_words(name: &str) -> String {
    let phrase = match name {
        "oom_at_load" => "out of memory while loading",
        "oom_under_load" => "out of memory while serving",
        "bad_flag" => "flag refused",
        "bad_config" => "setting refused",
        "ready_timeout" => "not ready in time",
        "bench_failed" => "benchmark failed",
        "bench_timeout" => "benchmark timed out",
        "run_too_short" => "too short",
        "other_load" => "result of another load",
        "server_not_alone" => "other clients on the server",
        "gpu_not_alone" => "other programs on a GPU",
        _ => "",
    };
    if !phrase.is_empty() {
        return phrase.to_owned();
    }
    let words = name.split('_').map(|word| match word {
        "kv" | "gpu" => word.to_uppercase(),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Declares a closed list and the type of its facts. Each entry has a description, its name in files, its facts, and a sentence of advice
/// for the user. `Display` is missing on purpose: a sentence cannot have the name in files by mistake.
macro_rules! closed_list {
    (
        $(#[$about:meta])+
        $list:ident of $facts:ident;
        $($(#[$doc:meta])+ $entry:ident $name:literal $($fact:ident=$value:tt)+: $advice:literal;)+
    ) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $list {
            $($(#[$doc])+ #[serde(rename = $name)] $entry,)+
        }

        impl $list {
            /// Every entry.
            pub const ALL: [$list; [$($name),+].len()] = [$($list::$entry),+];

            /// The name in files and tables.
            pub fn name(self) -> &'static str {
                match self {
                    $($list::$entry => $name,)+
                }
            }

            /// The name in words, for sentences: `out of memory while loading`.
            pub fn in_words(self) -> String {
                crate::closed_list::in_words(self.name())
            }

            /// One sentence that tells the user what to do.
            pub fn advice(self) -> &'static str {
                match self {
                    $($list::$entry => $advice,)+
                }
            }

            fn facts(self) -> $facts {
                match self {
                    $($list::$entry => $facts { $($fact: $value),+ },)+
                }
            }
        }
    };
}
