//! The `[link]` table: parameters that are tied to each other.

use crate::{Kind, Node, ParamRef, Reader, table};

table! {
    /// Parameters that are tied to each other, named as `serve.max_num_seqs` or `bench.max_concurrency`.
    #[derive(Debug, Clone)]
    pub struct Link("LinkTable", "link.") {
        /// Groups of parameters; only pairs of server and load in which all parameters of a group are equal are kept.
        pub equal: Vec<Vec<ParamRef>> = by::<Vec<Vec<String>>, _>(groups),
        /// Groups of axes that advance together, first value with first value and so on.
        pub zip: Vec<Vec<ParamRef>> = by::<Vec<Vec<String>>, _>(groups),
    }
}

const EXAMPLE: &str = "write groups such as [[\"serve.max_num_seqs\", \"bench.max_concurrency\"]]";

/// Reads groups of parameters. An unreadable group is kept empty, so that the positions of the others are those in the text.
fn groups(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<Vec<ParamRef>>> {
    reader.each(node, what, EXAMPLE, |reader, node| Some(group(reader, node, what)))
}

fn group(reader: &mut Reader<'_>, node: &Node, what: &str) -> Vec<ParamRef> {
    let members = reader
        .list(node, &format!("a group of {what}"), EXAMPLE)
        .unwrap_or_default();
    let mut params: Vec<ParamRef> = Vec::with_capacity(members.len());
    for member in members {
        let name = reader.text(member, what);
        let Some(param) = name.and_then(|name| reader.param_ref(&name, member.span)) else {
            continue;
        };
        if params.contains(&param) {
            reader.object(member.span, format!("`{param}` is in this group twice"), "remove one");
        }
        params.push(param);
    }
    if members.len() < 2 && matches!(node.kind, Kind::List(_)) {
        reader.object(node.span, "a group ties two parameters at least", EXAMPLE);
    }
    params
}
