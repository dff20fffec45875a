//! Declares the closed lists of this crate: an enum whose entries have names in files, and facts that are looked up by entry. The lists
//! themselves are in `cause` and `validity`.

/// Declares a closed list and the type of its facts. An entry has what it means, its name in files, its facts, and one sentence that
/// tells the user what to do.
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

        impl std::fmt::Display for $list {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
