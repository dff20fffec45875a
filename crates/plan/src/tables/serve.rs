//! The `[serve]` table: the server side.

use crate::commands::{COMMAND, ENV, is_command_or_variable};
use crate::written::{self, Values, Words, words};
use crate::{
    Axis, Combo, Commands, Entry, FromNode, Kind, Members, Node, Param, Problem, Reader, Side, Span, combos, nearest,
    params, show, start_of, suggest, table,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

const READY_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Default of `ready_timeout` for a server that is already running. Such a server should answer at once, and the timeout allows for a short
/// interruption.
const ATTACHED_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_GRACE: Duration = Duration::from_secs(30);
const HANG_TIMEOUT: Duration = Duration::from_secs(2 * 60);

table! {
    /// The server.
    #[derive(Debug, Clone)]
    pub struct Serve("ServeTable", "serve.") {
        /// The server's command line, such as `vllm serve MODEL`: a string, split into words as a shell would, or a list of words.
        /// Parameters are added to it as flags. A table of named command lines is an axis, `serve.command`: `{ old = "vllm-0.31 serve
        /// MODEL", new = "vllm serve MODEL" }`.
        command: Option<Commands>,
        /// Base URL of a server that is already running, instead of `command`. It is neither started nor stopped, so no parameter may have
        /// several values and `env` does not reach it.
        url: Option<String> = maybe::<String, _>(url),
        /// Measures the server behind `url` anew each time the plan is run; earlier results leave the tables. Default: false.
        pub fresh: bool,
        /// Environment variables for the server, added to vsweep's own. A list of values is an axis, `serve.env.NAME`.
        variables as "env": Vec<(String, Axis)> = by::<BTreeMap<String, Values>, _>(variables),
        /// Limit from launch to ready, e.g. `15m` (default; `30s` for a server that is already running).
        pub ready_timeout: Duration = key().or(READY_TIMEOUT),
        /// Time between SIGTERM and SIGKILL when the server is stopped, e.g. `30s` (default).
        pub stop_grace: Duration = key().or(STOP_GRACE),
        /// A server with requests in flight that produces nothing for this long counts as hung and is ended, e.g. `2m` (default).
        pub hang_timeout: Duration = key().or(HANG_TIMEOUT),
        /// Action between runs, and before the first one on a server behind `url`: `caches` (default) resets the server's caches through
        /// its routes, `restart` starts it anew, `none` does nothing, `POST /route` sends this request to the server; anything else is a
        /// command line that must exit with 0 within 2 minutes, or the run that follows is marked `suspect` (`caches_not_reset`).
        pub reset: Reset,
        /// Differences from vLLM.
        pub protocol: ServerProtocol = part(),
        /// Asks every start of a server a few fixed questions. A config whose answers differ from the others' is `invalid`
        /// (`answers_differ`; docs/verdicts.md). Default: true.
        pub answer_check: bool = key().or(true),
        /// Flags of the server, with dashes or underscores. A list or a range is an axis; axes multiply.
        pub params: Vec<(String, Axis)> = by::<BTreeMap<String, Param>, _>(params),
        /// Path of a JSON file, relative to this one, with combinations in the form of `vllm bench sweep`: a list of
        /// objects, or an object of named objects. Added to `combos`; values are taken as they are.
        _params_file as "params_file": () = for_schema_only::<String>(),
        /// Named combinations of parameters, multiplied with the axes. They override fixed values of the same name.
        _combos as "combos": () = for_schema_only::<Vec<Combo>>(),
    }
    internal {
        /// Launch a server, or attach to one.
        pub target: Target,
        /// The environment variables that have one value.
        pub env: BTreeMap<String, String>,
        /// Named combinations, multiplied with the axes; empty means one empty combination.
        pub combos: Vec<Combo>,
    }
    then Serve::check
}

table! {
    /// Properties of a server that is not vLLM. The defaults describe vLLM.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ServerProtocol("ServerProtocol", "serve.") {
        /// The route that answers 200 when the server is healthy. Default: `/health`.
        pub health: String = by::<String, _>(health).or("/health"),
        /// Text that must also appear in the server's log before the server counts as ready. Default: none.
        pub ready_pattern: Option<String>,
        /// Spelling of flags: `dashes` (default; `max_num_seqs` becomes `--max-num-seqs`) or `as_written`, for a server whose flags have
        /// underscores.
        pub flag_style: FlagStyle = one_of::<FlagStyle, _>(),
        /// For a server that does not run below its command, as in a container or on another machine: a command line that ends it and
        /// exits with 0. It runs whenever the server must be ended, even after vsweep was killed. `{name}`, also in `command`, is a
        /// name that no other start has, and `{port}` a free port.
        pub stop_command: Vec<String> = by::<Words, _>(|reader, node, what| reader.words(node, what)),
        /// Commands that run in addition to it, also on other nodes.
        pub members: Members = part(),
    }
}

/// Source of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Launch these command lines.
    Launch(Commands),
    /// Measure a server that is already running at this base URL.
    Attach(String),
}

impl Default for Target {
    fn default() -> Target {
        Target::Launch(Commands::default())
    }
}

words! {
    /// Spelling of a server's flags.
    pub enum FlagStyle("FlagStyle") {
        /// With dashes, whatever the plan writes.
        Dashes = "dashes",
        /// In the plan's spelling.
        AsWritten = "as_written",
    }
    default Dashes
}

/// Action on the server's caches between runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reset {
    /// Reset prefix, multimodal and encoder caches through the server's routes.
    #[default]
    Caches,
    /// Stop the server and start it again.
    Restart,
    /// Do nothing: runs may profit from the caches that earlier runs filled.
    Nothing,
    /// Send an empty POST request to this route.
    Route(String),
    /// Run this command line; it must exit with 0.
    Command(Vec<String>),
}

impl Serve {
    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        self.combos = combos(reader, node, Side::Serve);
        let command = node.entry("command");
        let url = node.entry("url");
        let is_named = command.is_some() || url.is_some() || all_combos_have_command(node);
        if !is_named && !reader.names.may_lack_some {
            let remedy = "add command = \"vllm serve MODEL\", or url = \"http://...\" of a running server";
            reader.found.add(Problem {
                explained_at: ["command", "url"].iter().flat_map(|key| node.misspelt(key)).collect(),
                ..Problem::new(start_of(node.span), "[serve] names no server", remedy)
            });
        }
        if let (Some(command), Some(url)) = (command, url) {
            let message = "a server is either launched or already running";
            let problem = Problem::new(url.key_span, message, "keep `command` or `url`, not both");
            reader.found.add(problem.and(command.key_span, "launched here"));
        }
        if let (true, Some(fresh), Some(command)) = (self.fresh, node.entry("fresh"), command) {
            let message =
                "`fresh` is for a server that is already running: one that vsweep launches is known by its command";
            let remedy = "remove it; `vsweep run --fresh` starts over in a new directory";
            let problem = Problem::new(fresh.key_span, message, remedy);
            reader.found.add(problem.and(command.key_span, "launched here"));
        }
        let commands = self.command.take().unwrap_or_default();
        let mut varied: Vec<(String, Axis)> = commands.axis().into_iter().collect();
        for (name, axis) in std::mem::take(&mut self.variables) {
            match axis {
                Axis::Fixed(value) => drop(self.env.insert(name, show(&value))),
                axis => varied.push((format!("{ENV}{name}"), axis)),
            }
        }
        self.params.splice(0..0, varied);
        reader.names.add(Side::Serve, node, &self.params, &self.combos);
        match (self.url.take(), url, command) {
            (Some(base), Some(url), None) => {
                self.target = Target::Attach(base);
                if node.child("ready_timeout").is_none() {
                    self.ready_timeout = ATTACHED_TIMEOUT;
                }
                self.check_attached(reader, node, url.key_span);
            }
            _ => self.target = Target::Launch(commands),
        }
    }

    /// Rejects settings that do not work with a server that is already running: nothing about it can vary, and vsweep cannot start it.
    fn check_attached(&self, reader: &mut Reader<'_>, node: &Node, url: Span) {
        let mut refuse = |place: Span, message: &str, remedy: &str| {
            let problem = Problem::new(place, message, remedy);
            reader.found.add(problem.and(url, "attached here"));
        };
        for (name, axis) in &self.params {
            let varies = matches!(axis, Axis::Values(values) if values.len() > 1 || is_command_or_variable(name));
            let entry = match name.strip_prefix(ENV) {
                Some(variable) => node.child("env").and_then(|env| env.entry(variable)),
                None => node.child("params").and_then(|params| params.entry(name)),
            };
            if let (true, Some(entry)) = (varies, entry) {
                let message = format!("`{name}` cannot vary on a server that is already running");
                refuse(entry.key_span, &message, "give one value, or launch with `command`");
            }
        }
        if self.combos.len() > 1 {
            let message = "a server that is already running has one combination of parameters";
            refuse(node.span, message, "give one combination, or launch with `command`");
        }
        let mut names = self.combos.iter().flat_map(|combo| combo.params.keys());
        if let Some(name) = names.find(|name| is_command_or_variable(name)) {
            let message = format!("`{name}` in a combination is for a server that vsweep starts");
            refuse(node.span, &message, "remove it, or launch with `command`");
        }
        for key in ["ready_pattern", "stop_command", "flag_style", "nodes", "members"] {
            if let Some(entry) = node.entry(key) {
                let message = format!("`{key}` is for a server that vsweep starts");
                refuse(entry.key_span, &message, "remove it, or launch with `command`");
            }
        }
        if let (Reset::Restart, Some(reset)) = (&self.reset, node.child("reset")) {
            let message = "a server that vsweep did not start cannot be restarted";
            refuse(reset.span, message, "use reset = \"caches\" or \"none\"");
        }
    }
}

impl FromNode for Commands {
    type Written = written::Commands;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Commands> {
        let Kind::Table(entries) = &node.kind else {
            return Some(Commands::one(reader.words(node, what).unwrap_or_default()));
        };
        if entries.is_empty() {
            let remedy = "write a command line, or a table of them such as { old = \"vllm-0.31 serve MODEL\", new = \"vllm serve MODEL\" }";
            reader.object(node.span, format!("`{what}` names no program"), remedy);
        }
        let named = entries.iter().map(|entry| {
            if entry.key.is_empty() {
                reader.object(
                    entry.key_span,
                    format!("a command line of `{what}` has no name"),
                    "name it",
                );
            }
            let words = reader.words(&entry.value, &format!("{what}.{}", entry.key));
            (entry.key.clone(), words.unwrap_or_default())
        });
        Some(Commands::named(named))
    }
}

impl FromNode for Reset {
    type Written = Words;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Reset> {
        let words = reader.words(node, what)?;
        let known = [
            ("caches", Reset::Caches),
            ("restart", Reset::Restart),
            ("none", Reset::Nothing),
        ];
        match words.as_slice() {
            [method, route] if method == "POST" => {
                check_route(reader, node, what, route);
                return Some(Reset::Route(route.clone()));
            }
            [word] => {
                if let Some((_, reset)) = known.iter().find(|(name, _)| name == word) {
                    return Some(reset.clone());
                }
                let names = known.map(|(name, _)| name);
                if !nearest(word, names).is_empty() {
                    let message = format!("`{what}` cannot be `{word}`");
                    return reader.refuse(node.span, message, suggest(word, names));
                }
            }
            _ => {}
        }
        Some(Reset::Command(words))
    }
}

fn url(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<String> {
    let url = reader.text(node, what).unwrap_or_default();
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || rest.contains(char::is_whitespace)) {
        let message = "`serve.url` must be a base URL such as `http://127.0.0.1:8000`";
        let remedy = "write http:// or https://, a host and a port, without a blank";
        reader.object(node.span, message, remedy);
    } else if rest.is_some_and(|rest| !rest.split('/').next().unwrap_or(rest).is_ascii()) {
        let message = "`serve.url` has a host name with letters beyond ASCII, which is not looked up";
        let remedy = "write its form in ASCII, which begins with `xn--`";
        reader.object(node.span, message, remedy);
    }
    Some(url.trim_end_matches('/').to_owned())
}

fn health(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<String> {
    let route = reader.text(node, what)?;
    check_route(reader, node, what, &route);
    Some(route)
}

fn check_route(reader: &mut Reader<'_>, node: &Node, key: &str, route: &str) {
    if !route.starts_with('/') || route.contains(char::is_whitespace) {
        let message = format!("`{key}` must be a route of the server");
        let remedy = "write it with a slash first and without blanks, as in /health";
        reader.object(node.span, message, remedy);
    }
}

/// Reads the environment variables. A list of values is an axis.
fn variables(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<(String, Axis)>> {
    let Kind::Table(entries) = &node.kind else {
        return reader.wrong_kind(node, what, "a table of variables");
    };
    let variable = |entry: &Entry| {
        let Kind::List(items) = &entry.value.kind else {
            let value = reader.variable(entry, &entry.value)?;
            return Some((entry.key.clone(), Axis::Fixed(value.into())));
        };
        if items.is_empty() {
            let message = format!("`{}` has no values", entry.key);
            reader.object(entry.value.span, message, "give one at least, or remove it");
        }
        let values = items.iter().filter_map(|item| reader.variable(entry, item));
        let values: Vec<Value> = values.map(Value::from).collect();
        (!values.is_empty()).then(|| (entry.key.clone(), Axis::Values(values)))
    };
    Some(entries.iter().filter_map(variable).collect())
}

/// Returns true if each combination has its own command line.
fn all_combos_have_command(serve: &Node) -> bool {
    let combos = serve.child("combos").map(Node::children).unwrap_or_default();
    !combos.is_empty() && combos.iter().all(|combo| combo.entry(COMMAND).is_some())
}
