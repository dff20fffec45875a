//! The `[serve]` table.

use super::Reader;
use super::start_of;
use crate::plan::fields::Fields;
use crate::plan::node::Node;
use crate::plan::problem::{Problem, suggest};
use crate::plan::{Axis, Reset, Serve, Target, schema};
use std::collections::BTreeMap;
use std::time::Duration;

const READY_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// A running server should answer at once; this bridges a hiccup.
const ATTACHED_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_GRACE: Duration = Duration::from_secs(30);
const HANG_TIMEOUT: Duration = Duration::from_secs(2 * 60);

impl Reader<'_> {
    /// Reads the table; `given` is false if the plan has none, which is reported elsewhere.
    pub(super) fn serve(&mut self, node: &Node, given: bool) -> Serve {
        let mut serve = Serve {
            target: Target::Launch(Vec::new()),
            env: BTreeMap::new(),
            fresh: false,
            ready_timeout: READY_TIMEOUT,
            stop_grace: STOP_GRACE,
            hang_timeout: HANG_TIMEOUT,
            reset: Reset::Caches,
            params: Vec::new(),
            combos: Vec::new(),
        };
        let Some(mut fields) = Fields::open::<schema::ServeTable>(node, "serve", &mut self.found) else {
            return serve;
        };
        let command = fields.entry("command");
        let url = fields.entry("url");
        match (command, url) {
            (Some(command), None) => {
                let words = self.words(&command.value, "serve.command").unwrap_or_default();
                serve.target = Target::Launch(words);
            }
            (None, Some(url)) => serve.target = Target::Attach(self.url(&url.value)),
            (Some(command), Some(url)) => {
                let message = "a server is either launched or already running";
                let problem = Problem::new(url.key_span, message, "keep `command` or `url`, not both");
                self.found.add(problem.and(command.key_span, "launched here"));
            }
            (None, None) if given => {
                let remedy = "add command = \"vllm serve MODEL\", or url = \"http://...\" of a running server";
                self.found
                    .add(Problem::new(start_of(node.span), "[serve] names no server", remedy));
            }
            (None, None) => {}
        }
        if let Some(fresh) = fields.entry("fresh") {
            serve.fresh = self.yes_or_no(&fresh.value, "serve.fresh").unwrap_or_default();
            if let (true, Some(command)) = (serve.fresh, command) {
                let message =
                    "`fresh` is for a server that is already running: one that vsweep launches is known by its command";
                let remedy = "remove it; `vsweep run --fresh` starts over in a new directory";
                let problem = Problem::new(fresh.key_span, message, remedy);
                self.found.add(problem.and(command.key_span, "launched here"));
            }
        }
        serve.env = fields
            .get("env")
            .map(|node| self.env(node, "serve.env"))
            .unwrap_or_default();
        let ready_timeout = match serve.target {
            Target::Launch(_) => READY_TIMEOUT,
            Target::Attach(_) => ATTACHED_TIMEOUT,
        };
        serve.ready_timeout = self.duration(fields.get("ready_timeout"), "serve.ready_timeout", ready_timeout);
        serve.stop_grace = self.duration(fields.get("stop_grace"), "serve.stop_grace", STOP_GRACE);
        serve.hang_timeout = self.duration(fields.get("hang_timeout"), "serve.hang_timeout", HANG_TIMEOUT);
        let reset = fields.get("reset");
        serve.reset = reset.and_then(|node| self.reset(node)).unwrap_or(Reset::Caches);
        serve.params = fields
            .get("params")
            .map(|node| self.params(node, "serve.params"))
            .unwrap_or_default();
        serve.combos = self.combos(fields.get("combos"), fields.get("params_file"), "serve");
        fields.close(&mut self.found);
        if let (Some(url), None) = (url, command) {
            self.check_attached(node, &serve, reset, url.key_span);
        }
        serve
    }

    fn url(&mut self, node: &Node) -> String {
        let url = self.text(node, "serve.url").unwrap_or_default();
        self.secrets.note_text(&url);
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || rest.contains(char::is_whitespace)) {
            let remedy = "write http:// or https://, a host and a port, without a blank";
            self.found.add(Problem::new(
                node.span,
                "`serve.url` must be a base URL such as `http://127.0.0.1:8000`",
                remedy,
            ));
        }
        url.trim_end_matches('/').to_string()
    }

    fn reset(&mut self, node: &Node) -> Option<Reset> {
        let words = self.words(node, "serve.reset")?;
        let known = [
            ("caches", Reset::Caches),
            ("restart", Reset::Restart),
            ("none", Reset::Nothing),
        ];
        if let [word] = words.as_slice() {
            if let Some((_, reset)) = known.iter().find(|(name, _)| name == word) {
                return Some(reset.clone());
            }
            let remedy = suggest(word, known.iter().map(|(name, _)| *name));
            if remedy.starts_with("did you mean") {
                self.found.add(Problem::new(
                    node.span,
                    format!("`serve.reset` cannot be `{word}`"),
                    remedy,
                ));
                return None;
            }
        }
        Some(Reset::Command(words))
    }

    /// A running server is what it is: nothing about it can vary, and it cannot be started anew.
    fn check_attached(&mut self, node: &Node, serve: &Serve, reset: Option<&Node>, url: crate::plan::Span) {
        let params = node.entry("params").map(|entry| &entry.value);
        for (name, axis) in &serve.params {
            let varies = matches!(axis, Axis::Values(values) if values.len() > 1);
            if let (true, Some(entry)) = (varies, params.and_then(|params| params.entry(name))) {
                let message = format!("`{name}` cannot vary on a server that is already running");
                let problem = Problem::new(entry.key_span, message, "give one value, or launch with `command`");
                self.found.add(problem.and(url, "attached here"));
            }
        }
        if serve.combos.len() > 1 {
            let message = "a server that is already running has one combination of parameters";
            let problem = Problem::new(node.span, message, "give one combination, or launch with `command`");
            self.found.add(problem.and(url, "attached here"));
        }
        if let (Reset::Restart, Some(reset)) = (&serve.reset, reset) {
            let message = "a server that vsweep did not start cannot be restarted";
            let problem = Problem::new(reset.span, message, "use reset = \"caches\" or \"none\"");
            self.found.add(problem.and(url, "attached here"));
        }
    }
}
