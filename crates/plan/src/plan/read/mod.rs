//! From the value tree to typed parts of a plan, one file a table. Every reader reports what it objects to and goes on,
//! so that all problems of a plan are found in one pass.

mod bench;
mod compare;
mod exec;
mod explore;
mod k8s;
mod link;
mod params;
mod range;
mod report;
mod requirement;
mod runs;
mod scalar;
mod serve;
mod sla;
mod slurm;

use super::node::{Entry, Kind, Node};
use super::problem::{Found, Problem, suggest};
use super::schema;
use super::secrets::Secrets;
use super::source::{Format, Sources, Span};
use super::world::World;
use super::{Axis, BenchRunner, Exclusion, Offline, OnFailure, Plan, Reset, Runs, Serve, Side, spelling};
use std::path::PathBuf;
use std::sync::Arc;

pub(super) use params::Names;

/// What reading a plan needs and gathers.
pub(super) struct Reader<'a> {
    /// Where variables and files come from.
    pub world: &'a World<'a>,
    /// Values that ranges have taken so far.
    pub range_values: u128,
    /// All texts so far.
    pub sources: Sources,
    /// What is wrong so far.
    pub found: Found,
    /// Secret values met so far.
    pub secrets: Secrets,
}

impl Reader<'_> {
    /// Notes a problem at one place.
    fn object(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) {
        self.found.object(span, message, remedy);
    }

    /// Reads the top-level table, with defaults where something is wrong with it. `stem` is the name of a plan that gives none. Where the
    /// plan comes from is for the caller to fill in.
    pub fn plan(&mut self, root: &Node, stem: &str) -> Plan {
        let empty = Node {
            span: root.span,
            kind: Kind::Table(Vec::new()),
        };
        let root = match root.kind {
            Kind::Table(_) => root,
            _ => {
                let message = format!("a plan is a table of settings, found {}", root.kind_name());
                self.object(root.span, message, "write an object with the key \"serve\"");
                &empty
            }
        };
        let mut fields = self
            .open::<schema::PlanFile>(root, "plan")
            .expect("a table")
            .by_own_names();
        if let Some(version) = fields.get("version") {
            self.version(version);
        }
        fields.get("extends");
        fields.get("$schema");
        if let Some(node) = fields.get("secrets") {
            self.secret_names(node);
        }
        self.secrets.note_environment((self.world.vars)());
        let name = self.name(fields.get("name"), stem, root.span);
        let starts_node = fields.get("starts");
        let starts = fields.whole(self, "starts").unwrap_or(1);
        let runs_node = fields.get("runs");
        let runs = self.runs(runs_node);
        let repeat_first = fields.yes_or_no(self, "repeat_first").unwrap_or(false);
        let choices = [("continue", OnFailure::Continue), ("stop", OnFailure::Stop)];
        let on_failure = fields.with("on_failure", |node, what| self.choice(node, what, &choices));
        let serve_node = fields.get("serve");
        if serve_node.is_none() && self.found.is_empty() {
            let remedy = "add [serve] with a command, such as command = \"vllm serve MODEL\"";
            self.object(start_of(root.span), "the plan has no server", remedy);
        }
        let bench_node = fields.get("bench");
        let mut serve = self.serve(serve_node.unwrap_or(&empty), serve_node.is_some());
        let bench = self.bench(bench_node.unwrap_or(&empty));
        if let Some(offline) = bench.runner.offline() {
            self.without_server(offline, &mut serve, root);
        }
        let slurm = self.slurm(fields.get("slurm"));
        let k8s = self.k8s(fields.get("k8s"));
        let sentinel_node = fields.get("sentinel");
        let sentinel = fields.yes_or_no(self, "sentinel").unwrap_or(false);
        if let (Some(node), true, Some(url)) =
            (sentinel_node, sentinel, serve_node.and_then(|serve| serve.entry("url")))
        {
            let message =
                "a server that is already running is on one node, so there is nothing to tell apart by a sentinel";
            let problem = Problem::new(node.span, message, "remove `sentinel`");
            self.found.add(problem.and(url.key_span, "attached here"));
        }
        let names_of = |node: Option<&Node>, params: &[(String, Axis)]| {
            let beside = params::names_beside_flags(params);
            params::names(node).into_iter().chain(beside).collect()
        };
        let names = Names {
            serve: names_of(serve_node, &serve.params),
            bench: names_of(bench_node, &bench.params),
            open: [serve_node, bench_node]
                .iter()
                .flatten()
                .any(|node| node.entry("params_file").is_some()),
        };
        let names = names.with_combos(&serve.combos, &bench.combos);
        let exec = self.exec(fields.get("exec"), serve_node, &names);
        self.check_members(&serve, serve_node, &exec, &bench);
        let link = self.link(fields.get("link"), &names);
        let exclude = self.exclude(fields.get("exclude"), &names);
        let (sla, required) = fields.get("sla").map(|node| self.sla(node)).unwrap_or_default();
        let explore_node = fields.get("explore");
        if let (Some(node), true) = (explore_node, sla.is_some()) {
            let remedy = "remove one of them, or write two plans";
            self.object(node.span, "[sla] and [explore] both choose the loads", remedy);
        }
        let explore = explore_node.and_then(|node| self.explore(node, runs.least()));
        let finds_its_loads = sla.is_some() || explore_node.is_some();
        if let (Some(node), true, true) = (fields.get("repeat_first"), repeat_first, finds_its_loads) {
            self.check_repeat_first(node);
        }
        if let (Some(node), 2..) = (starts_node, starts) {
            self.check_starts(node, &serve);
        }
        if let (Some(node), Runs::Until { .. }, Some(_)) = (runs_node, &runs, explore_node) {
            let message = "[explore] measures every level equally often";
            self.object(node.span, message, "write a plain number, such as runs = 3");
        }
        let compare_node = fields.get("compare");
        let compare = compare_node.and_then(|node| self.compare(node));
        if let Some(node) = compare_node {
            let others = [
                ("[sla]", sla.is_some()),
                ("[explore]", explore_node.is_some()),
                ("`starts`", starts_node.is_some()),
            ];
            self.check_compare(node, &serve, &runs, others);
        }
        // Pairs are judged from the fourth on; an axis begins with its ends.
        let starts = compare.as_ref().map_or(starts, |compare| compare.max_starts);
        let is_detailed = names.open
            || bench.runner != BenchRunner::Native
            || names.bench.iter().any(|name| spelling::same(name, "save_detailed"));
        let mut report = fields.get("report").map(|node| self.report(node)).unwrap_or_default();
        report.requirements = required;
        let assertions = self.assertions(fields.get("assert"), &names, is_detailed);
        report.requirements.extend(assertions);
        fields.close(&mut self.found);
        Plan {
            name,
            starts,
            sentinel,
            runs,
            repeat_first,
            on_failure: on_failure.unwrap_or(OnFailure::Continue),
            serve,
            bench,
            exec,
            slurm,
            k8s,
            link,
            exclude,
            sla,
            explore,
            compare,
            report,
            text: String::new(),
            format: Format::Toml,
            path: PathBuf::new(),
            secrets: std::mem::take(&mut self.secrets),
            origin: Arc::default(),
        }
    }

    /// A benchmark that loads the engine itself: whatever asks for a running server is a mistake.
    fn without_server(&mut self, offline: Offline, serve: &mut Serve, root: &Node) {
        // Every run has an engine of its own.
        serve.reset = Reset::Restart;
        let within = |table: &str, key: &str| root.entry(table).and_then(|entry| entry.value.entry(key));
        let refused = [
            (within("serve", "url"), "give a `command` such as \"vllm serve MODEL\""),
            (within("serve", "reset"), "remove it: every run loads the engine anew"),
            (within("bench", "env"), "put the variables into [serve.env]"),
            (
                within("bench", "warmup_prompts"),
                "remove it: the benchmark has options of its own",
            ),
            (root.entry("sla"), "remove it, and sweep the benchmark's own parameters"),
            (
                root.entry("explore"),
                "remove it, and sweep the benchmark's own parameters",
            ),
        ];
        for (entry, remedy) in refused {
            let Some(entry) = entry else { continue };
            let message = format!(
                "runner {} has no server that `{}` could be about",
                offline.name(),
                entry.key
            );
            self.object(entry.key_span, message, remedy);
        }
    }

    /// Names that the plan itself calls secret. They are read before everything that may have such a name.
    fn secret_names(&mut self, node: &Node) {
        let names = self.texts(node, "secrets");
        if names.iter().any(|name| name.trim().is_empty()) {
            let remedy = "write the name of a variable, a header or a parameter";
            self.object(node.span, "`secrets` has an empty name", remedy);
        }
        self.secrets = Secrets::naming(names);
    }

    fn version(&mut self, node: &Node) {
        let newer = matches!(&node.kind, Kind::Number(number) if number.as_u64().is_some_and(|version| version > 1));
        if newer {
            let message = "the plan's format is newer than this vsweep, which reads version 1";
            self.object(node.span, message, "use a newer vsweep");
        } else {
            self.whole(node, "version", 1..=1);
        }
    }

    /// The experiment's name, which becomes a directory.
    fn name(&mut self, node: Option<&Node>, stem: &str, root: Span) -> String {
        let proper = |character: char| character.is_ascii_alphanumeric() || ".-_".contains(character);
        let (name, span, remedy) = match node {
            Some(node) => {
                let Some(name) = self.text(node, "name") else {
                    return stem.to_string();
                };
                (
                    name,
                    node.span,
                    "use letters, digits, `.`, `_` and `-`, not `.` or `-` first, at most 100",
                )
            }
            None => (
                // A file may be called as its owner likes.
                stem.replace(|c| !proper(c), "-")
                    .trim_start_matches(['.', '-'])
                    .to_owned(),
                start_of(root),
                "add name = \"...\" with letters, digits, `.`, `_` and `-`",
            ),
        };
        if name.is_empty() || name.len() > 100 || name.starts_with(['.', '-']) || !name.chars().all(proper) {
            self.object(span, format!("`{name}` cannot name a directory"), remedy);
        }
        name
    }

    fn exclude(&mut self, node: Option<&Node>, names: &Names) -> Vec<Exclusion> {
        let remedy = "write each block below its own [[exclude]]";
        let blocks = node
            .and_then(|node| self.list(node, "exclude", remedy))
            .unwrap_or_default();
        let mut exclusions = Vec::with_capacity(blocks.len());
        for block in blocks {
            let Kind::Table(entries) = &block.kind else {
                let message = format!("a block of `exclude` must be a table, found {}", block.kind_name());
                self.object(block.span, message, "write it below [[exclude]]");
                continue;
            };
            if entries.is_empty() {
                let remedy = "add conditions such as \"bench.max_concurrency\" = \">64\"";
                self.object(block.span, "this block has no conditions", remedy);
            }
            let read = |entry: &Entry| {
                let param = self.param_ref(&entry.key, entry.key_span, names);
                self.condition(entry, param)
            };
            let conditions = entries.iter().filter_map(read).collect();
            exclusions.push(Exclusion { conditions });
        }
        exclusions
    }
}

/// The place right at the start of a text, for what is missing in it.
fn start_of(span: Span) -> Span {
    Span {
        end: span.start,
        ..span
    }
}

/// The side a name such as `serve.x` is about, and the name without it.
fn split_side(text: &str) -> Option<(Side, &str)> {
    let (side, name) = text.split_once('.')?;
    match side {
        "serve" => Some((Side::Serve, name)),
        "bench" => Some((Side::Bench, name)),
        _ => None,
    }
}

/// The remedy for a parameter name that does not exist.
fn suggest_param(name: &str, names: &Names) -> String {
    let known = names.qualified();
    suggest(name, known.iter().map(String::as_str))
}
