//! `[[assert]]`, and `required` of a target.

use super::{Names, Reader, split_side};
use crate::plan::condition::bound;
use crate::plan::node::{Entry, Kind, Node};
use crate::plan::{Assertion, Condition, ParamRef, Required, Requirement, Servers, schema, spelling};

impl Reader<'_> {
    /// `required = true` or `"all"` of a target.
    pub(super) fn required(&mut self, node: &Node) -> Option<Servers> {
        match &node.kind {
            Kind::Bool(false) => None,
            Kind::Bool(true) => Some(Servers::Any),
            Kind::Text(text) if text == "all" => Some(Servers::All),
            _ => {
                let remedy = "write true (some server must meet the target) or \"all\" (every server)";
                self.object(node.span, "`required` is neither true, false nor \"all\"", remedy);
                None
            }
        }
    }

    /// `is_detailed`: the latencies of single requests may be in run files.
    pub(super) fn assertions(&mut self, node: Option<&Node>, names: &Names, is_detailed: bool) -> Vec<Requirement> {
        let remedy = "write each requirement below its own [[assert]]";
        let blocks = node.and_then(|node| self.list(node, "assert", remedy));
        let blocks = blocks.unwrap_or_default().iter();
        let read = blocks.filter_map(|block| self.assertion(block, names, is_detailed));
        read.collect()
    }

    fn assertion(&mut self, node: &Node, names: &Names, is_detailed: bool) -> Option<Requirement> {
        let mut fields = self.open::<schema::AssertTable>(node, "assert")?;
        let name = fields.get("name").and_then(|node| self.text(node, "name"));
        let choices = [("any", Servers::Any), ("all", Servers::All)];
        let servers = fields.with("servers", |node, what| self.choice(node, what, &choices));
        let conditions = fields.with("where", |node, what| {
            let remedy = "write it as where = { max_concurrency = 8 }";
            Some(self.conditions(node, what, remedy, names))
        });
        let bounds: Vec<&Entry> = fields.rest().collect();
        if bounds.is_empty() {
            let remedy = "add a bound such as p99_ttft_ms = \"<=500\"";
            self.object(node.span, "this requirement has no bounds", remedy);
        }
        let unseen = bounds
            .iter()
            .find(|entry| ["ttft_ms", "tpot_ms"].contains(&entry.key.as_str()));
        if let (Some(entry), false) = (unseen, is_detailed) {
            let message = format!("`{}` of single requests is not in the results", entry.key);
            let remedy = "set save_detailed = true in [bench.params], or bound a percentile such as p99_ttft_ms";
            self.object(entry.key_span, message, remedy);
        }
        let assertion = Assertion {
            name,
            criteria: self.criteria(&bounds),
            conditions: conditions.unwrap_or_default(),
        };
        Some(Requirement {
            what: Required::Points(assertion),
            servers: servers.unwrap_or(Servers::Any),
        })
    }

    /// Values of parameters, or comparisons, of the table that is called `what`.
    pub(super) fn conditions(&mut self, node: &Node, what: &str, remedy: &str, names: &Names) -> Vec<Condition> {
        let Kind::Table(entries) = &node.kind else {
            let message = format!("`{what}` must be a table, found {}", node.kind_name());
            self.object(node.span, message, remedy);
            return Vec::new();
        };
        let read = |entry: &Entry| {
            let param = self.param_of(entry, names);
            self.condition(entry, param)
        };
        entries.iter().filter_map(read).collect()
    }

    /// The condition that an entry states on a parameter.
    pub(super) fn condition(&mut self, entry: &Entry, param: Option<ParamRef>) -> Option<Condition> {
        let value = self.scalar(&entry.value, &entry.key)?;
        match bound(&value) {
            Ok((op, value)) => param.map(|param| Condition { param, op, value }),
            Err(why) => {
                let remedy = "write a value, or a comparison such as \">64\"";
                self.object(entry.value.span, why, remedy);
                None
            }
        }
    }

    /// The parameter of a condition; its side may be left out where only one has it.
    fn param_of(&mut self, entry: &Entry, names: &Names) -> Option<ParamRef> {
        let qualified = names.qualified();
        let is_meant = |name: &&String| split_side(name).is_some_and(|(_, bare)| spelling::same(bare, &entry.key));
        let mut meant = qualified.iter().filter(is_meant);
        let key = match (split_side(&entry.key), meant.next(), meant.next()) {
            (None, Some(only), None) => only,
            _ => &entry.key,
        };
        let known = self.param_ref(key, entry.key_span, names);
        // A file that cannot be read here may have it.
        let unread = || split_side(key).filter(|_| names.open);
        known.or_else(|| {
            unread().map(|(side, name)| ParamRef {
                side,
                name: name.to_owned(),
            })
        })
    }
}
