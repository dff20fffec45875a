//! The `[link]` table.

use super::Reader;
use super::params::Names;
use crate::plan::node::Node;
use crate::plan::{Link, ParamRef};

impl Reader<'_> {
    pub(super) fn link(&mut self, node: Option<&Node>, names: &Names) -> Link {
        let Some(mut fields) = node.and_then(|node| self.open::<Link>(node, "link")) else {
            return Link::default();
        };
        let mut groups = |key| fields.with(key, |node, what| Some(self.groups(node, what, names)));
        let (equal, zip) = (groups("equal"), groups("zip"));
        fields.close(&mut self.found);
        Link {
            equal: equal.unwrap_or_default(),
            zip: zip.unwrap_or_default(),
        }
    }

    /// Groups of parameters. An unreadable group is kept empty, so that positions stay those of the text.
    fn groups(&mut self, node: &Node, what: &str, names: &Names) -> Vec<Vec<ParamRef>> {
        let example = "write groups such as [[\"serve.max_num_seqs\", \"bench.max_concurrency\"]]";
        let groups = self.list(node, what, example).unwrap_or_default();
        let mut read = Vec::with_capacity(groups.len());
        for group in groups {
            let members = self
                .list(group, &format!("a group of {what}"), example)
                .unwrap_or_default();
            let mut params: Vec<ParamRef> = Vec::with_capacity(members.len());
            for member in members {
                let param = self
                    .text(member, what)
                    .and_then(|text| self.param_ref(&text, member.span, names));
                if let Some(param) = param {
                    if params.contains(&param) {
                        let message = format!("`{param}` is in this group twice");
                        self.object(member.span, message, "remove one");
                    }
                    params.push(param);
                }
            }
            if members.len() < 2 && matches!(group.kind, crate::plan::Kind::List(_)) {
                self.object(group.span, "a group ties two parameters at least", example);
            }
            read.push(params);
        }
        read
    }
}
