//! Declares the tables of the plan. One declaration ([`table!`]) makes the type, its reader and its part of the schema, so these three
//! always agree.

use super::Reader;
use crate::written::{self, Definitions, ListOfWords, described};
use crate::{Entry, Node, suggest};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::ops::RangeInclusive;

/// A type that can be read from a plan, with its form in the schema.
pub(crate) trait FromNode: Sized {
    /// Its form in a plan.
    type Written: written::Written;

    /// Reads a value; messages call it `what`. Returns `None` if the value is invalid, after reporting the problem to the reader.
    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Self>;
}

/// A table declared by [`table!`].
pub(crate) trait Table: Sized {
    /// Its name in the schema.
    const TITLE: &'static str;
    /// Its description.
    const ABOUT: &'static str;
    /// Prefix of its keys in messages, such as `serve.`.
    const PREFIX: &'static str;
    /// Form of the values of keys that the user names, if the table allows them.
    const OTHERS: Option<SchemaOf>;

    /// Its keys, and those of tables that are embedded in it.
    fn keys() -> Vec<KeySchema>;

    /// Reads the values of all keys.
    fn take(table: &mut OpenTable<'_>, reader: &mut Reader<'_>) -> Self;

    /// Validates and completes the table after its keys were read.
    fn check(&mut self, reader: &mut Reader<'_>, node: &Node);

    /// Reads its keys from a table that may have other keys. Returns `None` if a required key has no valid value.
    fn part(reader: &mut Reader<'_>, node: &Node) -> Option<Self> {
        let mut table = OpenTable {
            node,
            prefix: Self::PREFIX,
            is_complete: true,
        };
        let mut read = Self::take(&mut table, reader);
        read.check(reader, node);
        table.is_complete.then_some(read)
    }

    /// Returns the entries that are not keys of the table, such as names that the user chooses.
    fn others(node: &Node) -> Vec<&Entry> {
        let keys = Self::keys();
        let is_other = |entry: &&Entry| !keys.iter().any(|key| key.name == entry.key);
        node.entries().iter().filter(is_other).collect()
    }
}

impl<T: Table> FromNode for T {
    type Written = T;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<T> {
        reader.table(node, what, &format!("write its keys below [{what}]"))?;
        for entry in T::others(node).into_iter().filter(|_| T::OTHERS.is_none()) {
            let remedy = suggest(&entry.key, T::keys().iter().map(|key| key.name));
            reader.object(entry.key_span, format!("unknown key `{}`", entry.key), remedy);
        }
        T::part(reader, node)
    }
}

impl<T: Table> written::Written for T {
    fn schema(definitions: &mut Definitions) -> Value {
        definitions.refer(T::TITLE, describe::<T>)
    }
}

/// A table while its keys are read.
pub(crate) struct OpenTable<'n> {
    node: &'n Node,
    prefix: &'static str,
    /// True if every required key that was read has a valid value.
    is_complete: bool,
}

/// A key with what the schema says about it.
pub(crate) struct KeySchema {
    name: &'static str,
    help: &'static str,
    schema: SchemaOf,
    /// Bounds of a whole number, if they are narrower than its type.
    bounds: Option<RangeInclusive<u32>>,
    is_required: bool,
}

/// Describes a table for the schema.
pub(crate) fn describe<T: Table>(definitions: &mut Definitions) -> Map<String, Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for key in T::keys() {
        let mut property = described(key.help, (key.schema)(definitions));
        if let Some(bounds) = key.bounds {
            property.insert("minimum".into(), (*bounds.start()).into());
            let most = Some(*bounds.end()).filter(|most| *most < u32::MAX);
            property.extend(most.map(|most| ("maximum".to_owned(), most.into())));
        }
        properties.insert(key.name.to_owned(), property.into());
        required.extend(key.is_required.then_some(key.name));
    }
    let others = T::OTHERS.map_or(false.into(), |others| others(definitions));
    let table = json!({"type": "object", "properties": properties, "additionalProperties": others});
    let mut table = described(T::ABOUT, table);
    if !required.is_empty() {
        table.insert("required".into(), json!(required));
    }
    table
}

/// Reads the value of a key from its node. The text is the name of the key in messages.
type Read<T> = dyn Fn(&mut Reader<'_>, &Node, &str) -> Option<T>;

/// Describes how a plan writes a value.
pub(crate) type SchemaOf = fn(&mut Definitions) -> Value;

/// A key of a table.
pub(crate) struct Key<T> {
    read: Box<Read<T>>,
    schema: SchemaOf,
    bounds: Option<RangeInclusive<u32>>,
    default: T,
    is_required: bool,
    /// Message and remedy for a table without this key; `None` if the table is valid without it, or its own check reports that.
    missing: Option<(&'static str, &'static str)>,
    /// Returns the keys of the table that this field embeds, if it embeds one.
    part: Option<fn() -> Vec<KeySchema>>,
}

/// Declares a key that is read by its type.
pub(crate) fn key<T: FromNode + Default + 'static>() -> Key<T> {
    by::<T::Written, T>(T::from_node)
}

/// Declares a key with its own reader, whose value has the form `W` in a plan.
pub(crate) fn by<W: written::Written, T: Default>(
    read: impl Fn(&mut Reader<'_>, &Node, &str) -> Option<T> + 'static,
) -> Key<T> {
    Key {
        read: Box::new(read),
        schema: W::schema,
        bounds: None,
        default: T::default(),
        is_required: false,
        missing: None,
        part: None,
    }
}

/// Declares an optional key with its own reader.
pub(crate) fn maybe<W: written::Written, T: 'static>(
    read: impl Fn(&mut Reader<'_>, &Node, &str) -> Option<T> + 'static,
) -> Key<Option<T>> {
    by::<W, Option<T>>(move |reader, node, what| read(reader, node, what).map(Some))
}

/// Declares a field that holds the keys of another table as part of this one.
pub(crate) fn part<T: Table + Default + 'static>() -> Key<T> {
    Key {
        part: Some(T::keys),
        ..by::<T, T>(|reader, node, _| T::part(reader, node))
    }
}

/// Declares a key that is read before or after the table, and appears here only for the schema.
pub(crate) fn for_schema_only<W: written::Written>() -> Key<()> {
    by::<W, ()>(|_, _, _| Some(()))
}

/// Declares a key for a whole number within these bounds.
pub(crate) fn whole<T: From<u32> + Default>(bounds: RangeInclusive<u32>) -> Key<T> {
    Key {
        bounds: Some(bounds.clone()),
        ..by::<u32, T>(move |reader, node, what| reader.whole(node, what, bounds.clone()).map(T::from))
    }
}

/// Declares a key for one of the words of `W`.
pub(crate) fn one_of<W: written::Written + ListOfWords, T: DeserializeOwned + Default>() -> Key<T> {
    by::<W, T>(|reader, node, what| {
        let word = reader.word::<W>(node, what)?;
        Some(serde_json::from_value(word.into()).expect("the type has every word of the list"))
    })
}

impl<T> Key<T> {
    /// Sets the default value, which also takes the place of an invalid value.
    pub fn or(self, default: impl Into<T>) -> Key<T> {
        let default = default.into();
        Key { default, ..self }
    }

    /// Sets another reader.
    pub fn read_by(self, read: impl Fn(&mut Reader<'_>, &Node, &str) -> Option<T> + 'static) -> Key<T> {
        let read = Box::new(read);
        Key { read, ..self }
    }

    /// Makes the key required.
    pub fn required(self, message: &'static str, remedy: &'static str) -> Key<T> {
        let missing = Some((message, remedy));
        Key {
            missing,
            ..self.required_elsewhere()
        }
    }

    /// Marks the key as required; the table's own check reports its absence.
    pub fn required_elsewhere(self) -> Key<T> {
        let is_required = true;
        Key { is_required, ..self }
    }

    /// Returns the default value of the field.
    pub fn into_default(self) -> T {
        self.default
    }

    /// Reads the field from the key of this name.
    pub fn take(self, key: &'static str, table: &mut OpenTable<'_>, reader: &mut Reader<'_>) -> T {
        let given = match self.part {
            Some(_) => Some(table.node),
            None => table.node.child(key),
        };
        let read = given.and_then(|node| (self.read)(reader, node, &format!("{}{key}", table.prefix)));
        reader.unread += usize::from(given.is_some() && read.is_none());
        if let (None, Some((message, remedy))) = (given, self.missing) {
            reader.object(table.node.span, message, remedy);
        }
        table.is_complete &= read.is_some() || self.missing.is_none();
        read.unwrap_or(self.default)
    }

    /// Returns the keys that the field contributes to the schema.
    pub fn keys(self, name: &'static str, help: &'static str) -> Vec<KeySchema> {
        match self.part {
            Some(keys) => keys(),
            None => vec![KeySchema {
                name,
                help,
                schema: self.schema,
                bounds: self.bounds,
                is_required: self.is_required,
            }],
        }
    }
}

/// Declares a table: its description, its name in the schema, the prefix of its keys in messages, and each key with its help, its type and,
/// if needed, a [`Key`]. `as` gives a key another name than its field. A trailing `..` with a type allows keys of the user's own, with
/// values of that type. `internal` holds fields that are not keys, and `then` names a function that validates or completes the table.
///
/// ```ignore
/// table! {
///     /// A machine.
///     #[derive(Debug)]
///     pub struct Machine("MachineTable", "machine.") {
///         /// Its name.
///         pub name: String = key().required("a machine without a name", "add name = \"...\""),
///         /// Its GPUs. Default: 8.
///         pub gpus: u32 = whole(0..=1024).or(8u32),
///         /// Its owner. Default: nobody.
///         pub owner: Option<String>,
///     }
/// }
/// ```
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        #[derive($($derived:ident),*)]
        $vis:vis struct $name:ident($title:literal, $prefix:literal) {
            $($(#[doc = $help:literal])+ $field_vis:vis $field:ident $(as $key:literal)?: $type:ty $(= $declared:expr)?,)*
            $(..$others:ty)?
        }
        $(internal { $($(#[$internal_about:meta])+ $internal_vis:vis $internal:ident: $internal_type:ty,)* })?
        $(then $check:path)?
    ) => {
        $(#[doc = $about])+
        #[derive($($derived),*)]
        $vis struct $name {
            $($(#[doc = $help])+ $field_vis $field: $type,)*
            $($($(#[$internal_about])+ $internal_vis $internal: $internal_type,)*)?
        }

        const _: () = {
            #[allow(unused_imports)]
            use $crate::syntax::node::Node;
            use $crate::read::Reader;
            #[allow(unused_imports)]
            use $crate::read::table::{KeySchema, Key, OpenTable, SchemaOf, Table, by, for_schema_only, key, maybe, one_of, part, whole};

            impl Default for $name {
                fn default() -> Self {
                    $(let $field: $type = table!(@declared $type $(, $declared)?).into_default();)*
                    Self { $($field,)* $($($internal: Default::default(),)*)? }
                }
            }

            impl Table for $name {
                const TITLE: &'static str = $title;
                const ABOUT: &'static str = concat!($($about),+);
                const PREFIX: &'static str = $prefix;
                const OTHERS: Option<SchemaOf> = table!(@others $($others)?);

                fn take(table: &mut OpenTable<'_>, reader: &mut Reader<'_>) -> Self {
                    $(let $field: $type =
                        table!(@declared $type $(, $declared)?).take(table!(@key $field $($key)?), table, reader);)*
                    Self { $($field,)* $($($internal: Default::default(),)*)? }
                }

                fn check(&mut self, _reader: &mut Reader<'_>, _node: &Node) {
                    $($check(self, _reader, _node);)?
                }

                fn keys() -> Vec<KeySchema> {
                    let keys = [$(Key::<$type>::keys(
                        table!(@declared $type $(, $declared)?),
                        table!(@key $field $($key)?),
                        concat!($($help),+),
                    )),*];
                    keys.into_iter().flatten().collect()
                }
            }
        };
    };
    (@declared $type:ty) => { key::<$type>() };
    (@declared $type:ty, $declared:expr) => { $declared };
    (@others) => { None };
    (@others $others:ty) => { Some(<$others as $crate::written::Written>::schema) };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}

pub(crate) use table;
