//! The `[serve]` table.

use super::Reader;
use super::start_of;
use crate::plan::commands::{COMMAND, Commands, ENV, is_no_flag};
use crate::plan::fields::Fields;
use crate::plan::members::{COMMAND as ALL, is_of_node};
use crate::plan::node::{Entry, Kind, Node};
use crate::plan::problem::{Problem, suggest};
use crate::plan::{Axis, Bench, Exec, Manners, Members, Parallel, Reset, Serve, Target, schema};
use serde_json::Value;
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
        let given = given && matches!(node.kind, Kind::Table(_)) && !all_combos_have_command(node);
        let mut fields = Fields::open_any::<schema::ServeTable>(node, "serve", &mut self.found);
        let command = fields.entry("command");
        let url = fields.entry("url");
        let target = match (command, url) {
            (Some(command), None) => Target::Launch(self.commands(&command.value, "serve.command")),
            (None, Some(url)) => Target::Attach(self.url(&url.value)),
            (command, url) => {
                if let (Some(command), Some(url)) = (command, url) {
                    let message = "a server is either launched or already running";
                    let problem = Problem::new(url.key_span, message, "keep `command` or `url`, not both");
                    self.found.add(problem.and(command.key_span, "launched here"));
                } else if given {
                    let remedy = "add command = \"vllm serve MODEL\", or url = \"http://...\" of a running server";
                    self.object(start_of(node.span), "[serve] names no server", remedy);
                }
                Target::Launch(Commands::One(Vec::new()))
            }
        };
        let fresh = fields.yes_or_no(self, "fresh").unwrap_or_default();
        if let (true, Some(fresh), Some(command)) = (fresh, fields.entry("fresh"), command) {
            let message =
                "`fresh` is for a server that is already running: one that vsweep launches is known by its command";
            let remedy = "remove it; `vsweep run --fresh` starts over in a new directory";
            let problem = Problem::new(fresh.key_span, message, remedy);
            self.found.add(problem.and(command.key_span, "launched here"));
        }
        let (env, varied) = fields.get("env").map(|node| self.env_axes(node)).unwrap_or_default();
        let ready_timeout = match target {
            Target::Launch(_) => READY_TIMEOUT,
            Target::Attach(_) => ATTACHED_TIMEOUT,
        };
        let reset = fields.get("reset");
        let names = target.names();
        let command_axis = (!names.is_empty()).then(|| (COMMAND.to_owned(), Axis::Values(names)));
        let serve = Serve {
            target,
            env,
            fresh,
            ready_timeout: fields.duration(self, "ready_timeout").unwrap_or(ready_timeout),
            stop_grace: fields.duration(self, "stop_grace").unwrap_or(STOP_GRACE),
            hang_timeout: fields.duration(self, "hang_timeout").unwrap_or(HANG_TIMEOUT),
            reset: reset.and_then(|node| self.reset(node)).unwrap_or(Reset::Caches),
            manners: self.manners(&mut fields),
            answer_check: fields.yes_or_no(self, "answer_check").unwrap_or(true),
            params: {
                let flags = fields.get("params").map(|node| self.flags(node));
                let beside = command_axis.into_iter().chain(varied);
                beside.chain(flags.unwrap_or_default()).collect()
            },
            combos: self.combos(fields.get("combos"), fields.get("params_file"), "serve"),
        };
        fields.close(&mut self.found);
        if let (Some(url), None) = (url, command) {
            self.check_attached(node, &serve, reset, url.key_span);
        }
        serve
    }

    fn manners(&mut self, fields: &mut Fields<'_>) -> Manners {
        let mut manners = Manners::default();
        if let (Some(node), Some(route)) = (fields.get("health"), fields.text(self, "health")) {
            self.check_route(node, "serve.health", &route);
            manners.health = route;
        }
        manners.ready_pattern = fields.text(self, "ready_pattern");
        let styles = [("dashes", false), ("as_written", true)];
        let style = fields.with("flag_style", |node, what| self.choice(node, what, &styles));
        manners.flags_as_written = style.unwrap_or_default();
        let stop = fields.with("stop_command", |node, what| self.words(node, what));
        manners.stop_command = stop.unwrap_or_default();
        manners.members = self.members(fields);
        manners
    }

    /// Commands that run beside the server's, and the nodes of all of them.
    fn members(&mut self, fields: &mut Fields<'_>) -> Members {
        let mut members = Members {
            nodes: fields.whole(self, "nodes").unwrap_or(1),
            commands: Vec::new(),
        };
        let remedy =
            "write a list of command lines, such as [\"srun -w {node} {command} --headless --node-rank {rank}\"]";
        let list = fields.with("members", |node, what| self.list(node, what, remedy));
        for node in list.unwrap_or_default() {
            let Some(words) = self.words(node, "serve.members") else {
                continue;
            };
            if is_of_node(&words) && members.nodes < 2 {
                let message = "a member of another node, but the server has one node alone";
                self.object(node.span, message, "say how many nodes it takes: nodes = 2");
            }
            if words.iter().any(|word| word.contains(ALL) && word != ALL) {
                let message = format!("`{ALL}` stands for several words, so it must be a word of its own");
                self.object(node.span, message, "put spaces around it");
            }
            members.commands.push(words);
        }
        if let (Some(node), 2..) = (fields.get("nodes"), members.nodes)
            && !members.commands.iter().any(|words| is_of_node(words))
        {
            let message = "nothing says what runs on the further nodes";
            let remedy = "add members = [\"srun --nodes=1 --ntasks=1 -w {node} {command} --headless --node-rank {rank}\"], or what starts \
                          your server there";
            self.object(node.span, message, remedy);
        }
        members
    }

    /// What servers of several commands cannot be combined with.
    pub(super) fn check_members(&mut self, serve: &Serve, node: Option<&Node>, exec: &Exec, bench: &Bench) {
        let members = &serve.manners.members;
        let place = |key: &str| node.and_then(|node| node.entry(key)).map(|entry| entry.key_span);
        if let (2.., Some(span), true) = (members.nodes, place("nodes"), exec.parallel != Parallel::No) {
            let message = "servers on several nodes take them whole, so they do not run side by side";
            self.object(span, message, "remove `nodes`, or exec.parallel");
        }
        if let (false, Some(span), Some(offline)) =
            (members.commands.is_empty(), place("members"), bench.runner.offline())
        {
            let message = format!(
                "bench.runner = \"{}\" serves nothing, so nothing runs beside it",
                offline.name()
            );
            self.object(span, message, "remove `members`, or use another runner");
        }
    }

    fn check_route(&mut self, node: &Node, key: &str, route: &str) {
        if !route.starts_with('/') || route.contains(char::is_whitespace) {
            let message = format!("`{key}` must be a route of the server");
            self.object(
                node.span,
                message,
                "write it with a slash first and without blanks, as in /health",
            );
        }
    }

    /// One command line, or several by name.
    pub(super) fn commands(&mut self, node: &Node, what: &str) -> Commands {
        let Kind::Table(entries) = &node.kind else {
            return Commands::One(self.words(node, what).unwrap_or_default());
        };
        if entries.is_empty() {
            let remedy = "write a command line, or a table of them such as { old = \"vllm-0.31 serve MODEL\", new = \"vllm serve MODEL\" }";
            self.object(node.span, format!("`{what}` names no program"), remedy);
        }
        let mut named = Vec::with_capacity(entries.len());
        for Entry { key, value, .. } in entries {
            let words = self.words(value, &format!("{what}.{key}")).unwrap_or_default();
            named.push((key.clone(), words));
        }
        Commands::Named(named)
    }

    /// Environment variables: those with one value, and those with several as axes.
    fn env_axes(&mut self, node: &Node) -> (BTreeMap<String, String>, Vec<(String, Axis)>) {
        let Kind::Table(entries) = &node.kind else {
            return (self.env(node, "serve.env"), Vec::new());
        };
        let mut env = BTreeMap::new();
        let mut axes = Vec::new();
        for entry in entries {
            match &entry.value.kind {
                Kind::List(items) if items.is_empty() => {
                    let message = format!("`{}` has no values", entry.key);
                    let remedy = "give one at least, or remove it";
                    self.object(entry.value.span, message, remedy);
                }
                Kind::List(items) => {
                    let values = items.iter().filter_map(|item| self.variable(entry, item));
                    let values: Vec<Value> = values.map(Value::from).collect();
                    if !values.is_empty() {
                        axes.push((format!("{ENV}{}", entry.key), Axis::Values(values)));
                    }
                }
                _ => {
                    let value = self.variable(entry, &entry.value);
                    env.extend(value.map(|value| (entry.key.clone(), value)));
                }
            }
        }
        (env, axes)
    }

    /// `[serve.params]`, in which what is no flag has no place.
    fn flags(&mut self, node: &Node) -> Vec<(String, Axis)> {
        for entry in node.entries().iter().filter(|entry| is_no_flag(&entry.key)) {
            let (message, remedy) = match entry.key.strip_prefix(ENV) {
                None => (
                    "`command` is no flag".to_owned(),
                    "write it in [serve]: command = { old = \"...\", new = \"...\" }".to_owned(),
                ),
                Some(name) => (
                    format!("`{}` is no flag", entry.key),
                    format!("write it in [serve]: env = {{ {name} = [...] }}"),
                ),
            };
            self.object(entry.key_span, message, remedy);
        }
        self.params(node, "serve.params")
    }

    fn url(&mut self, node: &Node) -> String {
        let url = self.text(node, "serve.url").unwrap_or_default();
        self.secrets.note_text(&url);
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || rest.contains(char::is_whitespace)) {
            let remedy = "write http:// or https://, a host and a port, without a blank";
            self.object(
                node.span,
                "`serve.url` must be a base URL such as `http://127.0.0.1:8000`",
                remedy,
            );
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
        if let [method, route] = words.as_slice()
            && method == "POST"
        {
            self.check_route(node, "serve.reset", route);
            return Some(Reset::Route(route.clone()));
        }
        if let [word] = words.as_slice() {
            if let Some((_, reset)) = known.iter().find(|(name, _)| name == word) {
                return Some(reset.clone());
            }
            let remedy = suggest(word, known.iter().map(|(name, _)| *name));
            if remedy.starts_with("did you mean") {
                self.object(node.span, format!("`serve.reset` cannot be `{word}`"), remedy);
                return None;
            }
        }
        Some(Reset::Command(words))
    }

    /// A running server is what it is: nothing about it can vary, and it cannot be started anew.
    fn check_attached(&mut self, node: &Node, serve: &Serve, reset: Option<&Node>, url: crate::plan::Span) {
        let params = node.entry("params").map(|entry| &entry.value);
        let env = node.entry("env").map(|entry| &entry.value);
        for (name, axis) in &serve.params {
            let varies = matches!(axis, Axis::Values(values) if values.len() > 1 || is_no_flag(name));
            let entry = match name.strip_prefix(ENV) {
                Some(variable) => env.and_then(|env| env.entry(variable)),
                None => params.and_then(|params| params.entry(name)),
            };
            if let (true, Some(entry)) = (varies, entry) {
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
        for key in ["ready_pattern", "stop_command", "flag_style", "nodes", "members"] {
            if let Some(entry) = node.entry(key) {
                let message = format!("`{key}` is for a server that vsweep starts");
                let problem = Problem::new(entry.key_span, message, "remove it, or launch with `command`");
                self.found.add(problem.and(url, "attached here"));
            }
        }
        if let (Reset::Restart, Some(reset)) = (&serve.reset, reset) {
            let message = "a server that vsweep did not start cannot be restarted";
            let problem = Problem::new(reset.span, message, "use reset = \"caches\" or \"none\"");
            self.found.add(problem.and(url, "attached here"));
        }
    }
}

/// Whether each combination brings its own command line.
fn all_combos_have_command(serve: &Node) -> bool {
    match serve.child("combos").map(|combos| &combos.kind) {
        Some(Kind::List(combos)) => !combos.is_empty() && combos.iter().all(|combo| combo.entry(COMMAND).is_some()),
        _ => false,
    }
}

impl Target {
    /// The names of the command lines among which servers choose; none where there is one for all.
    fn names(&self) -> Vec<Value> {
        match self {
            Target::Launch(commands) => commands.names(),
            Target::Attach(_) => Vec::new(),
        }
    }
}
