//! The matrix as a shell script that measures it by hand: one subshell for each server, which starts it, waits until it
//! is ready, runs its benchmarks and stops it. Secrets stay references to variables of their name.

use crate::bench::{Job, command_line, told};
use crate::matrix::{LoadFinder, Matrix, Point, ServerConfig, argv, text};
use crate::plan::{BenchRunner, Piece, Plan, Reset, Target};
use crate::printable::printable;
use crate::server::address::{self, Address};
use crate::server::{NAME, reset, this_program};
use crate::shell::{shell_line, shell_word};
use crate::units::show_many;
use itertools::Itertools;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The port of every server whose command line names none: one runs at a time.
const PORT: u16 = 8000;

/// What only the shell knows, as it stands in words (no plan can be typed with it by accident) and in the script.
const RUN: (&str, &str) = ("\u{1}run\u{1}", "\"$run\"");
const MODEL: (&str, &str) = ("\u{1}model\u{1}", "\"$model\"");
const ROOT: (&str, &str) = ("\u{1}root\u{1}", "\"$root\"");

/// Functions of the script; both work on the server of the subshell.
const FUNCTIONS: &str = r#"
sweep_ready() { # URL SECONDS LOG [HEALTH]
    left=$2
    until curl -fs -m 5 -o /dev/null "$1${4-/health}"; do
        kill -0 "$server" 2>/dev/null || [ -n "${elsewhere-}" ] || { echo "the server ended; see $3" >&2; exit 1; }
        [ "$left" -gt 0 ] || { echo "the server is not ready after $2 s; see $3" >&2; exit 1; }
        left=$((left - 1)); sleep 1
    done
}
sweep_stop() { # SECONDS
    [ -n "$server" ] || return 0
    left=$1
    kill "$server" 2>/dev/null || :
    while kill -0 "$server" 2>/dev/null; do
        [ "$left" -gt 0 ] || kill -9 "$server"
        left=$((left - 1)); sleep 1
    done
    wait "$server" 2>/dev/null || :
}
"#;

/// What the server calls its first model: its `id` or its `root`.
const ASK_MODEL: &str = r#"sweep_model() { # URL KEY
    curl -fs -H "Authorization: Bearer ${OPENAI_API_KEY-}" "$1/v1/models" |
        grep -o "\"$2\": *\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4
}
"#;

pub fn write(plan: &Plan, matrix: &Matrix, out: &mut impl Write) -> io::Result<()> {
    let folder = PathBuf::from(format!("results/{}-by-hand", plan.name));
    let script = Script {
        plan,
        matrix,
        folder,
        used: RefCell::default(),
    };
    // Written twice, because the variables it uses stand before it.
    script.servers(&mut io::sink())?;
    writeln!(
        out,
        "# {}: each server, then its points ({} of each{}); results go to {}",
        script.comment(&plan.name),
        show_many(plan.runs.least().into(), "run"),
        match plan.starts {
            1 => "",
            _ => ", on one start: the script leaves out the others",
        },
        script.comment(&script.folder.display().to_string())
    )?;
    let names = script.used.borrow().iter().join(" ");
    if !names.is_empty() {
        writeln!(out, "# secrets are left out; set these variables first: {names}")?;
    }
    writeln!(out, "vsweep={}", script.quote(&this_program().display().to_string()))?;
    writeln!(out, "mkdir -p {}", script.quote(&script.folder.display().to_string()))?;
    // A subshell that ends after a signal would otherwise only make room for the next server.
    writeln!(out, "trap 'exit 130' INT TERM HUP")?;
    if matches!(plan.serve.target, Target::Launch(_)) && plan.bench.runner.offline().is_none() {
        out.write_all(FUNCTIONS.trim_start().as_bytes())?;
    }
    if let BenchRunner::Command(_) = plan.bench.runner {
        out.write_all(ASK_MODEL.as_bytes())?;
    }
    script.servers(out)
}

struct Script<'a> {
    plan: &'a Plan,
    matrix: &'a Matrix,
    /// Of logs and results.
    folder: PathBuf,
    /// Variables that stand for secrets.
    used: RefCell<BTreeSet<String>>,
}

impl Script<'_> {
    fn servers(&self, out: &mut impl Write) -> io::Result<()> {
        self.matrix.servers().try_for_each(|server| self.server(&server, out))
    }

    fn server(&self, server: &ServerConfig, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\n# server {} {}", server.id, self.comment(&server.name))?;
        writeln!(out, "(")?;
        let url = match &self.plan.serve.target {
            // The benchmark loads the engine itself.
            Target::Launch(_) if self.plan.bench.runner.offline().is_some() => String::new(),
            Target::Launch(_) => self.launch(server, out)?,
            Target::Attach(url) => url.clone(),
        };
        if let BenchRunner::Command(_) = self.plan.bench.runner {
            let url = self.quote(&url);
            writeln!(out, "model=$(sweep_model {url} id) root=$(sweep_model {url} root)")?;
            writeln!(out, "export VSWEEP_BASE_URL={url} VSWEEP_MODEL=\"$model\"")?;
        }
        for search in self.matrix.searches_of(server) {
            self.finder("search", &search, out)?;
        }
        for exploration in self.matrix.explorations_of(server) {
            self.finder("exploration", &exploration, out)?;
        }
        for point in self.matrix.points_of(server) {
            self.point(server, &point, &url, out)?;
        }
        writeln!(out, ")")
    }

    /// Says which loads would be tried.
    fn finder<S: Display>(&self, kind: &str, finder: &LoadFinder<S>, out: &mut impl Write) -> io::Result<()> {
        let settings = text(&self.plan.secrets.redact_params(&finder.params));
        writeln!(out, "# {kind} {} {}", finder.id, self.comment(&settings))?;
        writeln!(out, "# {}", self.comment(&finder.settings.to_string()))
    }

    /// Starts the server and waits for it; returns its base URL.
    fn launch(&self, server: &ServerConfig, out: &mut impl Write) -> io::Result<String> {
        let serve = &self.plan.serve;
        let mut argv = server.argv.clone();
        let mut address = Address::read(&argv).map_err(|failure| io::Error::other(failure.to_string()))?;
        address.settle_on(PORT, &mut argv);
        let mut stop = serve.manners.stop_command.clone();
        for word in argv.iter_mut().chain(&mut stop) {
            let name = format!("vsweep-{}", server.id);
            *word = word.replace(NAME, &name).replace(address::PORT, &PORT.to_string());
        }
        for member in &serve.manners.members.commands {
            let member = self.comment(&shell_line(member));
            writeln!(out, "# beside the server, which this script does not start: {member}")?;
        }
        let (url, mut env) = (address.base_url(), server.env.clone());
        env.entry("VLLM_SERVER_DEV_MODE".into()).or_insert_with(|| "1".into());
        let log = self.folder.join(format!("{}.log", server.id));
        let health = &serve.manners.health;
        let (quoted, log) = (self.quote(&url), self.quote(&log.display().to_string()));
        writeln!(
            out,
            "! curl -fs -m 5 -o /dev/null {quoted}{health} || {{ echo {quoted} is taken >&2; exit 1; }}"
        )?;
        let grace = serve.stop_grace.as_secs();
        let stops = match stop.is_empty() {
            true => String::new(),
            false => {
                writeln!(
                    out,
                    "elsewhere=1; sweep_elsewhere() {{ {}; }}",
                    self.command(&BTreeMap::new(), &stop)
                )?;
                "; sweep_elsewhere".to_owned()
            }
        };
        // Set before there is a server: a signal in between must not leave it behind.
        writeln!(
            out,
            "server=; trap 'sweep_stop {grace}{stops}' EXIT; trap 'exit 130' INT TERM HUP"
        )?;
        writeln!(out, "{} >{log} 2>&1 &", self.command(&env, &argv))?;
        writeln!(out, "server=$!")?;
        writeln!(
            out,
            "sweep_ready {quoted} {} {log}{}",
            serve.ready_timeout.as_secs().max(1),
            match serve.manners.health.as_str() {
                "/health" => String::new(),
                route => format!(" {}", self.quote(route)),
            }
        )?;
        Ok(url)
    }

    fn point(&self, server: &ServerConfig, point: &Point, url: &str, out: &mut impl Write) -> io::Result<()> {
        let settings = text(&self.plan.secrets.redact_params(&point.params));
        writeln!(out, "# point {} {}", point.id, self.comment(&settings))?;
        let runs = (0..self.plan.runs.least()).map(|run| run.to_string());
        writeln!(out, "for run in {}; do", Vec::from_iter(runs).join(" "))?;
        let post = |route: &str| format!("curl -s -o /dev/null -X POST {}", self.quote(&format!("{url}{route}")));
        let resets = match &self.plan.serve.reset {
            Reset::Caches => reset::ROUTES.map(post).to_vec(),
            Reset::Route(route) => vec![post(route)],
            Reset::Command(argv) => {
                let env = BTreeMap::from([("VSWEEP_BASE_URL".to_owned(), url.to_owned())]);
                vec![self.command(&env, argv)]
            }
            Reset::Restart if self.plan.bench.runner.offline().is_none() => {
                vec!["# vsweep run would start the server again here".to_owned()]
            }
            Reset::Restart | Reset::Nothing => vec![],
        };
        for reset in resets {
            writeln!(out, "    {reset}")?;
        }
        let result = self.folder.join(format!("{}-{}.json", point.id, RUN.0));
        writeln!(out, "    {}", self.bench(server, point, url, &result))?;
        writeln!(out, "done")
    }

    /// One run of a point.
    fn bench(&self, server: &ServerConfig, point: &Point, url: &str, result: &Path) -> String {
        let bench = &self.plan.bench;
        let Some(argv) = &point.argv else {
            return self.own(point, url, result);
        };
        let job = Job {
            runner: bench.runner.clone(),
            scratch: self.folder.clone(),
            warmup: bench.warmup,
            timeout: bench.timeout,
            ..Job::new(url, MODEL.0, ROOT.0, point.params.clone())
        };
        let mut env = match bench.runner.offline() {
            Some(_) => server.env.clone(),
            None => bench.env.clone(),
        };
        env.insert("VSWEEP_RESULT".to_owned(), result.display().to_string());
        self.command(&env, &command_line(&job, result, argv))
    }

    /// One run of a point by a subcommand of ours.
    fn own(&self, point: &Point, url: &str, result: &Path) -> String {
        let path = |path: &Path| path.display().to_string();
        let params = point.params.clone();
        let (name, mut params, output) = match self.plan.bench.runner {
            BenchRunner::Iterations => ("iterations", params, vec!["--output".to_owned(), path(result)]),
            BenchRunner::Phases => {
                let folder = path(&result.with_extension(""));
                ("phases", params, vec!["--output-dir".to_owned(), folder])
            }
            _ => {
                let file = result.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let [save, folder, name] = ["--save-result", "--result-dir", "--result-filename"].map(str::to_owned);
                let output = vec![save, folder, path(&self.folder), name, file];
                ("bench", told(&params, self.plan.bench.warmup), output)
            }
        };
        let seed = params.remove("seed").and_then(|seed| seed.as_u64()).unwrap_or(0);
        let start = ["vsweep", name, "--base-url", url].map(str::to_owned);
        let [words, output] =
            [argv::apply(&start, &params), output].map(|words| self.command(&BTreeMap::new(), &words));
        format!("{words} --seed $(({seed} + run)) {output}")
    }

    /// Text that stays within one comment line.
    fn comment(&self, text: &str) -> String {
        let redacted = self.plan.secrets.redact(text);
        printable(&redacted).into_owned()
    }

    fn command(&self, env: &BTreeMap<String, String>, argv: &[String]) -> String {
        let assignments = env.iter().map(|(name, value)| match self.plan.secrets.announces(name) {
            true => format!("{name}={}", self.reference(name)),
            false => format!("{name}={}", self.quote(value)),
        });
        let words = argv.iter().enumerate().map(|(i, word)| match (i, word.as_str()) {
            (0, "vsweep") => "\"$vsweep\"".to_owned(),
            _ => self.quote(word),
        });
        assignments.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// A word for the shell.
    fn quote(&self, word: &str) -> String {
        for (mark, reference) in [RUN, MODEL, ROOT] {
            if let Some((before, after)) = word.split_once(mark) {
                let part = |text: &str| match text {
                    "" => String::new(),
                    text => self.quote(text),
                };
                return format!("{}{reference}{}", part(before), part(after));
            }
        }
        let quoted = self.plan.secrets.pieces(word).into_iter().map(|piece| match piece {
            Piece::Plain(text) => shell_word(text),
            Piece::Secret(name) => self.reference(name),
        });
        quoted.collect()
    }

    /// The variable that stands for a secret.
    fn reference(&self, name: &str) -> String {
        let name = variable(name);
        let reference = format!("\"${name}\"");
        self.used.borrow_mut().insert(name);
        reference
    }
}

/// A secret's name as that of a shell variable.
fn variable(name: &str) -> String {
    let name = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_");
    match name.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{name}"),
        false => name,
    }
}
