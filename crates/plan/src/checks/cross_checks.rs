//! Reads the top-level table of a plan, and checks the plan's name and settings of one table that another table does not allow.

use crate::{
    Condition, Entry, FromNode, Kind, Node, Offline, Parallel, Plan, Problem, Reader, Requirement, Reset, Runs,
    Secrets, ServerCondition, Servers, Target, start_of,
};

impl Reader<'_> {
    /// Reads the top-level table. A setting that cannot be read gets its default. A plan without a `name` is named after `stem`, its file's
    /// name without the extension. The caller fills in the text, the path and the origin.
    pub fn plan(&mut self, root: &Node, stem: &str) -> Plan {
        if !matches!(root.kind, Kind::Table(_)) {
            let message = format!("a plan is a table of settings, found {}", root.kind_name());
            self.object(root.span, message, "write an object with the key \"serve\"");
            return Plan::default();
        }
        // Secrets are noted before other tables are read, because problems of these tables may quote them.
        if let Some(node) = root.child("secrets") {
            self.secret_names(node);
        }
        self.secrets.note_environment(&self.world.vars);
        if let (Some(_), Some(explore)) = (root.child("sla"), root.child("explore")) {
            let remedy = "remove one of them, or write two plans";
            self.object(explore.span, "[sla] and [explore] both choose the loads", remedy);
        }
        let mut plan = Plan::from_node(self, root, "plan").unwrap_or_default();
        if plan.name.is_empty() {
            // Names of files may have characters that names of experiments may not have.
            let stem = stem.replace(|c| !is_name_character(c), "-");
            plan.name = stem.trim_start_matches(['.', '-']).to_owned();
            if root.child("name").is_none() && !is_name(&plan.name) {
                let remedy = "add name = \"...\" with letters, digits, `.`, `_` and `-`";
                let message = format!("`{}` cannot name a directory", plan.name);
                self.object(start_of(root.span), message, remedy);
            }
        }
        plan.secrets = std::mem::take(&mut self.secrets);
        plan
    }

    /// Reads `secrets`, the further names of variables, headers and parameters that hold secrets.
    fn secret_names(&mut self, node: &Node) {
        let names: Vec<String> = Vec::from_node(self, node, "secrets").unwrap_or_default();
        if names.iter().any(|name| name.trim().is_empty()) {
            let remedy = "write the name of a variable, a header or a parameter";
            self.object(node.span, "`secrets` has an empty name", remedy);
        }
        self.secrets = Secrets::naming(names);
    }
}

fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || ".-_".contains(character)
}

/// Returns true if an experiment, and so a directory, can have this name.
pub fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len()) && !name.starts_with(['.', '-']) && name.chars().all(is_name_character)
}

/// Reads the experiment's name. A name that cannot name a directory is reported, and still returned.
pub(crate) fn name(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<String> {
    let name = reader.text(node, what)?;
    if !is_name(&name) {
        let remedy = "use letters, digits, `.`, `_` and `-`, not `.` or `-` first, at most 100";
        reader.object(node.span, format!("`{name}` cannot name a directory"), remedy);
    }
    Some(name)
}

pub(crate) fn version(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<u32> {
    match &node.kind {
        Kind::Number(number) if number.as_u64().is_some_and(|version| version > 1) => {
            let message = "the plan's format is newer than this vsweep, which reads version 1";
            reader.refuse(node.span, message, "use a newer vsweep")
        }
        _ => reader.whole(node, what, 1..=1),
    }
}

pub(crate) fn exclusions(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Vec<Vec<Condition>>> {
    reader.each(
        node,
        what,
        "write each block below its own [[exclude]]",
        |reader, block| {
            let Kind::Table(entries) = &block.kind else {
                let message = format!("a block of `exclude` must be a table, found {}", block.kind_name());
                return reader.refuse(block.span, message, "write it below [[exclude]]");
            };
            if entries.is_empty() {
                let remedy = "add conditions such as \"bench.max_concurrency\" = \">64\"";
                reader.object(block.span, "this block has no conditions", remedy);
            }
            let read = |entry: &Entry| {
                let param = reader.param_ref(&entry.key, entry.key_span);
                reader.condition(entry, param)
            };
            // Every condition is read, so that all mistakes are reported. If a condition cannot be read, the block becomes empty and
            // excludes nothing, because without the condition it would exclude too much.
            let conditions: Option<Vec<Condition>> = entries.iter().map(read).collect::<Vec<_>>().into_iter().collect();
            Some(conditions.unwrap_or_default())
        },
    )
}

impl Plan {
    pub(crate) fn check(&mut self, reader: &mut Reader<'_>, root: &Node) {
        if root.child("serve").is_none() && !reader.names.may_lack_some {
            let remedy = "add [serve] with a command, such as command = \"vllm serve MODEL\"";
            reader.found.add(Problem {
                explained_at: root.misspelt("serve"),
                ..Problem::new(start_of(root.span), "the plan has no server", remedy)
            });
        }
        if let Some(offline) = self.bench.runner.offline() {
            self.check_offline(offline, reader, root);
        }
        self.check_attached(reader, root);
        self.check_loads(reader, root);
        self.check_classes(reader, root);
        if let Some(node) = root.child("compare") {
            self.check_compare(reader, root, node);
        }
        if let Some(node) = root.child("optimize") {
            self.check_optimize(reader, root, node);
        }
        let is_conflict = self.serve.protocol.members.nodes > 1 && self.exec.parallel != Parallel::No;
        if let Some(nodes) = given(root, "serve.nodes").filter(|_| is_conflict) {
            let message = "servers on several nodes take them whole, so they do not run side by side";
            reader.object(nodes.key_span, message, "remove `nodes`, or exec.parallel");
        }
        if let Some(explore) = &mut self.explore {
            explore.runs = self.runs.least();
        }
        // A comparison has at most this many starts; it ends earlier if its verdict is clear.
        self.starts = self.compare.as_ref().map_or(self.starts, |compare| compare.max_starts);
        let required = reader.required.drain(..).map(|(name, is_every_server)| Requirement {
            what: ServerCondition::Target(name),
            servers: if is_every_server { Servers::All } else { Servers::Any },
        });
        self.report.requirements = required.collect();
        self.report.requirements.append(&mut self.assertions);
        self.report.runs = Some(self.runs.clone());
    }

    /// Checks a plan whose benchmark loads the engine itself, and rejects settings that need a running server.
    fn check_offline(&mut self, offline: Offline, reader: &mut Reader<'_>, root: &Node) {
        // Every run loads an engine of its own. So each run is a restart, and no start can be kept apart from the runs.
        self.serve.reset = Reset::Restart;
        self.exec.starts_apart = Some(false);
        let name = offline.name();
        let refused = [
            ("serve.url", "give a `command` such as \"vllm serve MODEL\""),
            ("serve.reset", "remove it: every run loads the engine anew"),
            ("exec.starts_apart", "remove it: every run loads the engine anew"),
            ("bench.env", "put the variables into [serve.env]"),
            (
                "bench.warmup_prompts",
                "remove it: the benchmark has options of its own",
            ),
            ("sla", "remove it, and sweep the benchmark's own parameters"),
            ("explore", "remove it, and sweep the benchmark's own parameters"),
        ];
        for (path, remedy) in refused {
            if let Some(entry) = given(root, path) {
                let message = format!("runner {name} has no server that `{}` could be about", entry.key);
                reader.object(entry.key_span, message, remedy);
            }
        }
        let has_members = !self.serve.protocol.members.commands.is_empty();
        if let Some(members) = given(root, "serve.members").filter(|_| has_members) {
            let message = format!("bench.runner = \"{name}\" serves nothing, so nothing can run next to it");
            reader.object(members.key_span, message, "remove `members`, or use another runner");
        }
    }

    /// Rejects settings of a plan with a `url` that need a server started by vsweep.
    fn check_attached(&self, reader: &mut Reader<'_>, root: &Node) {
        let Some(url) = given(root, "serve.url") else {
            return;
        };
        if let Some(parallel) = given(root, "exec.parallel") {
            let message = "a server that is already running has its GPUs, so nothing can run next to it";
            let remedy = "remove [exec], or launch the servers with `command`";
            let problem = Problem::new(parallel.key_span, message, remedy);
            reader.found.add(problem.and(url.key_span, "attached here"));
        }
        let is_attached = matches!(self.serve.target, Target::Attach(_));
        if let Some(starts) = root.child("starts").filter(|_| is_attached && self.starts > 1) {
            let message = "`starts` needs a server that vsweep starts, and this plan has a `url`";
            reader.object(starts.span, message, "remove `starts`, or give `serve.command`");
        }
    }

    /// Rejects settings that do not work with a search or an exploration.
    fn check_loads(&self, reader: &mut Reader<'_>, root: &Node) {
        let is_explored = root.child("explore").is_some();
        let is_searched = root.child("sla").is_some();
        let finds_its_loads = is_searched || is_explored;
        if let Some(repeat) = root
            .child("repeat_first")
            .filter(|_| self.repeat_first && finds_its_loads)
        {
            let message = "[sla] and [explore] find their loads, so there is no first point to repeat";
            let remedy = "remove `repeat_first`; to learn whether a server drifts, list loads in a plan of their own";
            reader.object(repeat.span, message, remedy);
        }
        if let Some(assert) = root.entry("assert").filter(|_| finds_its_loads) {
            let message = "[[assert]] is about the points of a plan, and [sla] and [explore] choose their loads";
            let remedy = match is_searched {
                true => "write its bounds into an [[sla.target]], with `required`",
                false => "remove it, or list loads in [bench.params]",
            };
            reader.object(assert.key_span, message, remedy);
        }
        let varies = matches!(self.runs, Runs::Until { .. });
        if let Some(runs) = root.child("runs").filter(|_| varies && is_explored) {
            let message = "[explore] measures every level equally often";
            reader.object(runs.span, message, "write a plain number, such as runs = 3");
        }
    }

    /// Rejects settings that do not work with a comparison.
    fn check_compare(&self, reader: &mut Reader<'_>, root: &Node, compare: &Node) {
        let mut refuse = |message: &str, remedy: &str| reader.object(compare.span, message, remedy);
        if let Target::Attach(_) = self.serve.target {
            let message = "[compare] starts the servers that it compares, and this plan has a `url`";
            refuse(message, "give `serve.command`");
        }
        if let Runs::Until { .. } = self.runs {
            let message = "[compare] needs the same number of runs on every start";
            refuse(message, "write a plain number, such as runs = 2");
        }
        let conflicts = [
            ("[sla]", root.child("sla").is_some()),
            ("[explore]", root.child("explore").is_some()),
            ("`starts`", root.child("starts").is_some()),
        ];
        for (name, _) in conflicts.into_iter().filter(|(_, is_given)| *is_given) {
            let message = format!("[compare] decides itself what is started, so it does not go with {name}");
            refuse(&message, &format!("remove {name}, or write two plans"));
        }
    }
}

/// Returns the plan's entry under a name such as `serve.url`.
fn given<'n>(root: &'n Node, name: &str) -> Option<&'n Entry> {
    match name.split_once('.') {
        Some((table, key)) => root.child(table)?.entry(key),
        None => root.entry(name),
    }
}
