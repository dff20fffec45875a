//! Writes the matrix as a shell script that measures it by hand. One subshell for each server starts it, waits until it is ready, runs its
//! benchmarks and stops it. The templates in `sh/` are the script; this file quotes the command lines in it. Secrets become references to
//! variables with the same names.

use crate::agenda::seed_of;
use crate::bench::{Job, command_line, to_flags};
use crate::matrix::{LoadFinder, Matrix, Point, ServerConfig, argv, settings_text};
use crate::plan::checks::members::HEAD as HEAD_PLACEHOLDER;
use crate::plan::{BenchRunner, Piece, Plan, Reset, Target};
use crate::printable::printable;
use crate::server::address::{self, Address};
use crate::server::{NAME, reset, this_program};
use crate::shell::{shell_line, shell_word};
use crate::units::show_many;
use itertools::Itertools;
use minijinja::{Environment, Value, context};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Port of every server whose command line has none. Only one server runs at a time.
const PORT: u16 = 8000;

/// Placeholders for the script's variables `run`, `model`, `root` and `head`. Their control characters do not occur in a plan by accident.
const RUN: &str = "\u{1}run\u{1}";
const MODEL: &str = "\u{1}model\u{1}";
const ROOT: &str = "\u{1}root\u{1}";
const HEAD_VARIABLE: &str = "\u{1}head\u{1}";

const HEAD_TEMPLATE: &str = include_str!("sh/head.jinja");
const SERVER_TEMPLATE: &str = include_str!("sh/server.jinja");

pub fn write(plan: &Plan, matrix: &Matrix, out: &mut impl Write) -> io::Result<()> {
    let script = Script {
        plan,
        matrix,
        folder: PathBuf::from(format!("results/{}-by-hand", plan.name)),
        secret_variables: RefCell::default(),
    };
    // The servers are made first, because the head of the script lists the variables that they use.
    let mut servers = Vec::new();
    script.servers(&mut servers)?;
    let folder = script.folder.display().to_string();
    let head = context! {
        name => script.comment(&plan.name),
        runs => show_many(plan.runs.least().into(), "run"),
        starts => plan.starts,
        results => script.comment(&folder),
        variables => script.secret_variables.borrow().iter().join(" "),
        vsweep => script.quote(&this_program().display().to_string()),
        folder => script.quote(&folder),
        is_launched => script.is_launched(),
        asks_model => script.asks_model(),
    };
    write_filled(HEAD_TEMPLATE, head, out)?;
    out.write_all(&servers)
}

fn write_filled(template: &str, context: Value, out: &mut impl Write) -> io::Result<()> {
    let text = Environment::new()
        .render_str(template, context)
        .map_err(io::Error::other)?;
    writeln!(out, "{text}")
}

struct Script<'a> {
    plan: &'a Plan,
    matrix: &'a Matrix,
    /// Folder of logs and results.
    folder: PathBuf,
    /// Variables in place of secrets.
    secret_variables: RefCell<BTreeSet<String>>,
}

impl Script<'_> {
    /// Returns true if the script starts servers. A benchmark without a server loads the engine itself.
    fn is_launched(&self) -> bool {
        matches!(self.plan.serve.target, Target::Launch(_)) && self.plan.bench.runner.offline().is_none()
    }

    /// Returns true if the script asks the server for its model. Our own benchmarks do that themselves.
    fn asks_model(&self) -> bool {
        matches!(self.plan.bench.runner, BenchRunner::Command(_))
    }

    fn servers(&self, out: &mut impl Write) -> io::Result<()> {
        let mut servers = self.matrix.servers();
        servers.try_for_each(|server| write_filled(SERVER_TEMPLATE, self.server(&server)?, out))
    }

    fn server(&self, server: &ServerConfig) -> io::Result<Value> {
        let (url, launch) = match &self.plan.serve.target {
            Target::Attach(url) => (url.clone(), Value::UNDEFINED),
            Target::Launch(_) if self.is_launched() => self.launch(server)?,
            Target::Launch(_) => (String::new(), Value::UNDEFINED),
        };
        let searches = self
            .matrix
            .searches_of(server)
            .map(|search| self.finder("search", &search));
        let explorations = self.matrix.explorations_of(server);
        let explorations = explorations.map(|exploration| self.finder("exploration", &exploration));
        let point = |point: Point| {
            context! {
                id => point.id.to_string(),
                settings => self.comment(&settings_text(&self.plan.secrets.redact_params(&point.params))),
                command => self.bench(server, &point, &url),
            }
        };
        Ok(context! {
            id => server.id.to_string(),
            name => self.comment(&server.name),
            url => self.quote(&url),
            launch => launch,
            asks_model => self.asks_model(),
            searches => searches.chain(explorations).collect_vec(),
            points => self.matrix.points_of(server).map(point).collect_vec(),
            runs => (0..self.plan.runs.least()).join(" "),
            resets => self.resets(server, &url),
        })
    }

    /// Describes the search or exploration of a server's loads.
    fn finder<S: Display>(&self, kind: &str, finder: &LoadFinder<S>) -> Value {
        let load = settings_text(&self.plan.secrets.redact_params(&finder.params));
        context! {
            what => format!("{kind} {} {}", finder.id, self.comment(&load)),
            settings => self.comment(&finder.settings.to_string()),
        }
    }

    /// Returns the base URL of a server that the script starts, and the template's values for starting and stopping it.
    fn launch(&self, server: &ServerConfig) -> io::Result<(String, Value)> {
        let serve = &self.plan.serve;
        let mut argv = server.argv.clone();
        let mut address = Address::read(&argv).map_err(|failure| io::Error::other(failure.to_string()))?;
        address.settle_on(PORT, &mut argv);
        let mut stop = serve.protocol.stop_command.clone();
        let (name, port) = (format!("vsweep-{}", server.id), address.port.unwrap_or(PORT));
        for word in argv.iter_mut().chain(&mut stop) {
            *word = word.replace(NAME, &name).replace(address::PORT, &port.to_string());
        }
        let mut env = server.env.clone();
        let mut has_head = false;
        for word in argv.iter_mut().chain(env.values_mut()) {
            has_head |= word.contains(HEAD_PLACEHOLDER);
            *word = word.replace(HEAD_PLACEHOLDER, HEAD_VARIABLE);
        }
        let members = serve.protocol.members.commands.iter();
        let log = self.folder.join(format!("{}.log", server.id));
        let launch = context! {
            has_head => has_head,
            members => members.map(|member| self.comment(&shell_line(member))).collect_vec(),
            health => self.quote(&serve.protocol.health),
            stop => self.command(&BTreeMap::new(), &stop),
            grace => serve.stop_grace.as_secs(),
            command => self.command(&env, &argv),
            log => self.quote(&log.display().to_string()),
            patience => serve.ready_timeout.as_secs().max(1),
        };
        Ok((address.base_url(), launch))
    }

    /// Returns the commands that reset the server before each run.
    fn resets(&self, server: &ServerConfig, url: &str) -> Vec<String> {
        // Only the first route must exist.
        let post = |(at, route): (usize, &str)| {
            let options = if at == 0 { "-fsS" } else { "-s" };
            format!(
                "curl {options} -o /dev/null -X POST {}",
                self.quote(&format!("{url}{route}"))
            )
        };
        match &self.plan.serve.reset {
            Reset::Caches => reset::routes_of(&server.argv)
                .iter()
                .copied()
                .enumerate()
                .map(post)
                .collect(),
            Reset::Route(route) => vec![post((0, route.as_str()))],
            Reset::Command(argv) => {
                let env = BTreeMap::from([("VSWEEP_BASE_URL".to_owned(), url.to_owned())]);
                vec![self.command(&env, argv)]
            }
            Reset::Restart if self.plan.bench.runner.offline().is_none() => {
                vec!["# vsweep run would start the server again here".to_owned()]
            }
            Reset::Restart | Reset::Nothing => vec![],
        }
    }

    /// Returns the command for one run of a point.
    fn bench(&self, server: &ServerConfig, point: &Point, url: &str) -> String {
        let bench = &self.plan.bench;
        let result = self.folder.join(format!("{}-{RUN}.json", point.id));
        let Some(argv) = &point.argv else {
            return self.vsweep_command(point, url, &result);
        };
        let job = Job {
            runner: bench.runner.clone(),
            scratch: self.folder.clone(),
            warmup: bench.warmup,
            timeout: bench.timeout,
            ..Job::new(url, MODEL, ROOT, point.params.clone())
        };
        let mut env = match bench.runner.offline() {
            Some(_) => server.env.clone(),
            None => bench.env.clone(),
        };
        env.insert("VSWEEP_RESULT".to_owned(), result.display().to_string());
        self.command(&env, &command_line(&job, &result, argv))
    }

    /// Returns the command for one run of a point by a subcommand of vsweep.
    fn vsweep_command(&self, point: &Point, url: &str, result: &Path) -> String {
        let path = |path: &Path| path.display().to_string();
        let params = point.params.clone();
        let (name, mut params, output) = match self.plan.bench.runner {
            BenchRunner::Iterations => ("bench iterations", params, vec!["--output".to_owned(), path(result)]),
            BenchRunner::Phases => {
                let folder = path(&result.with_extension(""));
                ("bench phases", params, vec!["--output".to_owned(), folder])
            }
            _ => {
                let output = ["--save-result".to_owned(), "--result-filename".to_owned(), path(result)];
                ("bench", to_flags(&params, self.plan.bench.warmup), output.to_vec())
            }
        };
        let seed = seed_of(&params);
        params.remove("seed");
        let start = ["vsweep"].into_iter().chain(name.split(' ')).chain(["--base-url", url]);
        let start: Vec<String> = start.map(str::to_owned).collect();
        let [words, output] =
            [argv::apply(&start, &params), output].map(|words| self.command(&BTreeMap::new(), &words));
        // A seed has 32 bits, and the next one after the highest is 0, as in a sweep.
        let seed = match u32::try_from(seed).is_ok_and(|seed| seed > u32::MAX / 2) {
            true => format!("$((({seed} + run) & {}))", u32::MAX),
            false => format!("$(({seed} + run))"),
        };
        format!("{words} --seed {seed} {output}")
    }

    /// Returns a text that stays within one comment line, without secrets.
    fn comment(&self, text: &str) -> String {
        let redacted = self.plan.secrets.redact(text);
        printable(&redacted).into_owned()
    }

    fn command(&self, env: &BTreeMap<String, String>, argv: &[String]) -> String {
        let assignments = env.iter().map(|(name, value)| match self.plan.secrets.announces(name) {
            true => format!("{name}={}", self.secret(name)),
            false => format!("{name}={}", self.quote(value)),
        });
        let pieces = self.plan.secrets.pieces(argv).into_iter();
        let words = pieces.enumerate().map(|(i, pieces)| match (i, pieces.as_slice()) {
            (0, [Piece::Plain("vsweep")]) => "\"$vsweep\"".to_owned(),
            _ => self.quote_pieces(pieces),
        });
        assignments.chain(words).join(" ")
    }

    /// Quotes a word for the shell. Placeholders and secrets in it become variables.
    fn quote(&self, word: &str) -> String {
        self.quote_pieces(self.plan.secrets.pieces_of(word))
    }

    fn quote_pieces(&self, pieces: Vec<Piece<'_>>) -> String {
        let with_variables = |text: &str| {
            [RUN, MODEL, ROOT, HEAD_VARIABLE]
                .iter()
                .fold(shell_word(text), |word, mark| {
                    let name = mark.trim_matches('\u{1}');
                    word.replace(&shell_word(mark), &format!("\"${name}\""))
                })
        };
        let quoted = pieces.into_iter().map(|piece| match piece {
            Piece::Plain(text) => with_variables(text),
            Piece::Secret(name) => self.secret(name),
        });
        quoted.collect()
    }

    /// Returns a reference to the variable in place of a secret.
    fn secret(&self, name: &str) -> String {
        let mut variable = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_");
        if variable.starts_with(|c: char| c.is_ascii_digit()) {
            variable.insert(0, '_');
        }
        let reference = format!("\"${variable}\"");
        self.secret_variables.borrow_mut().insert(variable);
        reference
    }
}
