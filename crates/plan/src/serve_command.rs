//! Reads the command line of a server: the program that it starts, and its flags as `vllm serve` defines them. Another program may give
//! these flags other meanings, but they are read in the same way.

use super::{Offline, is_of_server, spelling};
use std::ops::Range;
use std::path::Path;

/// Module that starts vLLM's server without the program `vllm`.
const API_SERVER: &str = "vllm.entrypoints.openai.api_server";
/// Module that starts SGLang's server.
const SGLANG_SERVER: &str = "sglang.launch_server";

/// A server's command line.
#[derive(Debug, Clone, Copy)]
pub struct ServeCommand<'a> {
    argv: &'a [String],
    /// Index of the first word that may be a flag of the server.
    first: usize,
}

/// The program that a command line starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// vLLM.
    Vllm,
    /// vsweep's simulator, which takes vLLM's flags.
    Simulator,
    /// SGLang.
    Sglang,
    /// Any other program.
    Other,
}

/// One flag of a command line.
#[derive(Debug)]
pub struct Flag<'a> {
    /// Index of its word in the command line.
    place: usize,
    /// The word without a value that is attached to it.
    pub flag: &'a str,
    /// The parameter that it sets, in canonical spelling; `None` for an unknown short flag.
    pub name: Option<String>,
    /// The value in the same word, if there is one: `8000` of `--port=8000`.
    pub attached: Option<&'a str>,
    /// The words that follow, up to the next flag.
    pub after: &'a [String],
}

impl<'a> Flag<'a> {
    fn new(place: usize, word: &'a str, after: &'a [String]) -> Flag<'a> {
        // An optimization level may follow its flag without a space: `-O3`.
        let (flag, attached) = match (word.strip_prefix("-O"), word.split_once('=')) {
            (Some(level @ ("0" | "1" | "2" | "3")), None) => (&word[..2], Some(level)),
            (_, Some((flag, value))) => (flag, Some(value)),
            (_, None) => (word, None),
        };
        let length = after.iter().take_while(|word| !spelling::is_flag(word)).count();
        Flag {
            place,
            flag,
            name: spelling::parameter(flag),
            attached,
            after: &after[..length],
        }
    }

    /// Returns true if it sets this parameter.
    pub fn is(&self, parameter: &str) -> bool {
        self.name.as_deref() == Some(parameter)
    }

    /// Returns the range of its words on the command line: the flag and, unless its value is attached, at most `values` of the words that
    /// follow.
    pub fn words(&self, values: usize) -> Range<usize> {
        let values = self.attached.map_or(values.min(self.after.len()), |_| 0);
        self.place..self.place + 1 + values
    }
}

impl<'a> ServeCommand<'a> {
    /// Finds the first word that may be a flag of the server. Earlier words belong to a launcher such as `numactl -- vllm serve` or `docker
    /// run -p 8000:8000 IMAGE vllm serve`, whose flags mean other things.
    pub fn of(argv: &'a [String]) -> ServeCommand<'a> {
        let last = |wanted: &str| argv.iter().rposition(|word| word == wanted);
        let offline = || {
            let is_one =
                |pair: &[String]| pair[0] == "bench" && Offline::ALL.iter().any(|one| one.subcommand() == pair[1]);
            argv.windows(2).rposition(is_one).map(|at| at + 1)
        };
        let before = last("serve")
            .or_else(|| last(API_SERVER))
            .or_else(|| last(SGLANG_SERVER))
            .or_else(offline)
            .or_else(|| last("--"));
        let first = (before.unwrap_or(0) + 1).min(argv.len());
        ServeCommand { argv, first }
    }

    /// The words from the first one that may be a flag of the server.
    pub fn args(self) -> &'a [String] {
        &self.argv[self.first..]
    }

    /// The words before the server's own flags.
    pub fn before(self) -> &'a [String] {
        &self.argv[..self.first]
    }

    /// Returns the program that the command line starts.
    pub fn program(self) -> Program {
        let before = |back: usize| Some(self.argv.get(self.first.checked_sub(back)?)?.as_str());
        let name = |word: Option<&'a str>| word.and_then(|word| Path::new(word).file_name()?.to_str());
        match (name(before(3)), name(before(2)), before(1)) {
            (Some("vsweep"), Some("sim"), Some("serve")) => Program::Simulator,
            (_, Some("vllm"), Some("serve")) | (_, _, Some(API_SERVER)) => Program::Vllm,
            (_, Some("sglang"), Some("serve")) | (_, _, Some(SGLANG_SERVER)) => Program::Sglang,
            _ => Program::Other,
        }
    }

    /// Returns true if the command line shows where its flags begin: after `serve`, or after the module of vLLM or SGLang.
    pub fn shows_flags(self) -> bool {
        let last = self.before().last().map(String::as_str);
        matches!(last, Some("serve" | API_SERVER | SGLANG_SERVER))
    }

    /// The words before the first flag.
    pub fn positional(self) -> &'a [String] {
        let count = self.args().iter().take_while(|word| !spelling::is_flag(word)).count();
        &self.args()[..count]
    }

    /// The flags, in their order.
    pub fn flags(self) -> impl DoubleEndedIterator<Item = Flag<'a>> {
        let words = self.argv.iter().enumerate().skip(self.first);
        let flags = words.filter(|(_, word)| spelling::is_flag(word));
        flags.map(move |(place, word)| Flag::new(place, word, &self.argv[place + 1..]))
    }

    /// Returns the words after the program, without the flags for which `taken` returns a number. Each of these flags is removed with at
    /// most this number of the words that follow it.
    pub fn without(self, taken: impl Fn(&Flag<'a>) -> Option<usize>) -> Vec<String> {
        let gone = self.flags().filter_map(|flag| Some(flag.words(taken(&flag)?)));
        let gone: Vec<Range<usize>> = gone.collect();
        let words = self.argv.iter().enumerate().skip(self.first);
        let kept = words.filter(|(place, _)| !gone.iter().any(|range| range.contains(place)));
        kept.map(|(_, word)| word.clone()).collect()
    }

    /// Returns the last flag that sets a parameter.
    fn given(self, parameter: &str) -> Option<Flag<'a>> {
        self.flags().rfind(|flag| {
            // Other programs give `-p` other meanings (docker: 8000:8000), so only a plain number counts.
            let value = flag.attached.or(flag.after.first().map(String::as_str));
            let is_port = || value.is_some_and(|value| value.parse::<u16>().is_ok());
            flag.is(parameter) && (flag.flag != "-p" || is_port())
        })
    }

    /// Returns true if a parameter is given.
    pub fn has(self, parameter: &str) -> bool {
        self.given(parameter).is_some()
    }

    /// Returns the value of a parameter, named in canonical spelling. If it is given several times, the last one counts, as in argparse.
    pub fn value(self, parameter: &str) -> Option<&'a str> {
        self.values(parameter).first().copied()
    }

    /// The values of a parameter that takes a list.
    pub fn values(self, parameter: &str) -> Vec<&'a str> {
        let values = self.given(parameter).map(|flag| match flag.attached {
            Some(value) => vec![value],
            None => flag.after.iter().map(String::as_str).collect(),
        });
        values.unwrap_or_default()
    }

    /// The model, if the command line names it.
    pub fn model(self) -> Option<&'a str> {
        let placed = || self.positional().first().filter(|_| self.shows_flags());
        let named = self.value("model").or_else(|| self.value("model_path"));
        named.or_else(|| placed().map(String::as_str))
    }

    /// The names under which the server offers its model; empty if they are unknown.
    pub fn model_names(self) -> Vec<&'a str> {
        match self.values("served_model_name") {
            names if names.is_empty() => self.model().into_iter().collect(),
            names => names,
        }
    }
}

impl Offline {
    /// Returns the command of the benchmark on a server's engine: `vllm serve MODEL …` as `vllm bench …`, without the flags that only a
    /// server has. The error is a sentence that ends in the remedy.
    pub fn command(self, serve: &[String]) -> Result<Vec<String>, String> {
        let Some(place) = serve.iter().rposition(|word| word == "serve") else {
            return Err(format!(
                "`vllm bench {}` is made of a command with the word `serve`; write one such as `vllm serve MODEL`",
                self.subcommand()
            ));
        };
        let command = ServeCommand::of(serve);
        let mut engine = command.without(|flag| is_of_server(flag.flag).then_some(usize::MAX));
        if !command.positional().is_empty() {
            engine.insert(0, "--model".to_owned());
        }
        let bench = ["bench", self.subcommand()].map(str::to_owned);
        Ok([&serve[..place], &bench, &engine].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T>(line: &str, of: impl Fn(ServeCommand<'_>) -> T) -> T {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        of(ServeCommand::of(&argv))
    }

    #[test]
    fn the_program_is_known_behind_any_launcher() {
        let program = |line: &str| read(line, |command| command.program());
        assert_eq!(program("docker run -p 1:1 image /opt/bin/vllm serve m"), Program::Vllm);
        assert_eq!(
            program("python -m vllm.entrypoints.openai.api_server --model m"),
            Program::Vllm
        );
        assert_eq!(program("target/debug/vsweep sim serve m"), Program::Simulator);
        assert_eq!(
            program("python -m sglang.launch_server --model-path m"),
            Program::Sglang
        );
        assert_eq!(program("sglang serve --model-path m"), Program::Sglang);
        assert_eq!(program("./start.sh --port 1"), Program::Other);
        assert_eq!(program("other serve m"), Program::Other);
    }

    #[test]
    fn names_of_the_model() {
        let names = |line: &str| read(line, |command| command.model_names().join(","));
        assert_eq!(names("vllm serve org/m --port 1"), "org/m");
        assert_eq!(names("vllm serve org/m --served-model-name a b --port 1"), "a,b");
        assert_eq!(names("vllm serve org/m --served_model_name=a"), "a");
        assert_eq!(names("python -m vllm.entrypoints.openai.api_server --model m"), "m");
        assert_eq!(
            names("python -m sglang.launch_server --model-path org/m --tp 2"),
            "org/m"
        );
        assert_eq!(names("./start.sh"), "");
    }

    #[test]
    fn the_last_of_every_spelling_wins() {
        let value = |line: &str, name: &str| read(line, |command| command.value(name).map(str::to_owned));
        let sizes = "vllm serve m -tp 2 --tensor-parallel-size=4";
        assert_eq!(value(sizes, "tensor_parallel_size").as_deref(), Some("4"));
        assert_eq!(
            value("docker run -p 8000:8000 image --port 7", "port").as_deref(),
            Some("7")
        );
        assert_eq!(value("docker run -p 8000:8000 image", "port"), None);
        assert_eq!(value("vllm serve m -p 9", "port").as_deref(), Some("9"));
        assert_eq!(value("vllm serve m --port --seed 1", "port"), None);
    }

    fn benchmark(offline: Offline, line: &str) -> Result<String, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        offline.command(&words).map(|argv| argv.join(" "))
    }

    #[test]
    fn the_engine_of_a_server_is_benchmarked_without_it() {
        let line = "vllm serve org/m --port 8000 --enforce-eager --host=h --served-model-name a b --no-enable-log-requests \
                    --allowed_origins x y -tp 2";
        assert_eq!(
            benchmark(Offline::Startup, line).as_deref(),
            Ok("vllm bench startup --model org/m --enforce-eager --served-model-name a b -tp 2")
        );
        assert_eq!(
            benchmark(Offline::MmProcessor, "docker run -p 1:1 image vllm serve --model m").as_deref(),
            Ok("docker run -p 1:1 image vllm bench mm-processor --model m")
        );
        assert!(benchmark(Offline::Latency, "./start.sh --port 1").is_err());
    }
}
