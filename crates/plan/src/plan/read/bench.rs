//! The `[bench]` table.

use super::Reader;
use crate::plan::commands::COMMAND;
use crate::plan::fields::Fields;
use crate::plan::node::{Kind, Node};
use crate::plan::problem::Problem;
use crate::plan::{Axis, Bench, BenchRunner, FigurePlace, Offline, Warmup, schema};
use std::collections::BTreeMap;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Of a benchmark that loads a model, perhaps several times.
const OFFLINE_TIMEOUT: Duration = Duration::from_secs(2 * 60 * 60);

impl Reader<'_> {
    pub(super) fn bench(&mut self, node: &Node) -> Bench {
        let mut fields = Fields::open_any::<schema::BenchTable>(node, "bench", &mut self.found);
        let named = fields.entry("runner");
        let command = fields.entry("command");
        let mut runner = BenchRunner::Native;
        if let Some(named) = named {
            let own = [BenchRunner::Native, BenchRunner::Iterations, BenchRunner::Phases];
            let own = own.into_iter().chain(Offline::ALL.map(BenchRunner::Offline));
            let own: Vec<_> = own.map(|own| (own.name().unwrap_or_default(), own)).collect();
            runner = self.choice(&named.value, "bench.runner", &own).unwrap_or(runner);
        }
        if let Some(command) = command {
            runner = BenchRunner::Command(self.commands(&command.value, "bench.command"));
            if let Some(named) = named {
                let message = "the load comes from a runner of vsweep or from a command";
                let problem = Problem::new(command.key_span, message, "keep `runner` or `command`, not both");
                self.found.add(problem.and(named.key_span, "native here"));
            }
        }
        let env = fields.with("env", |node, what| Some(self.env(node, what)));
        let timeout = match runner.offline() {
            Some(_) => OFFLINE_TIMEOUT,
            None => TIMEOUT,
        };
        let warmup = fields.whole(self, "warmup_prompts");
        let result = fields.entry("result");
        if let (Some(result), None) = (result, command) {
            let message = "`result` is for the result of a benchmark `command`";
            self.object(result.key_span, message, "remove it, or give a command");
        }
        let params = fields.get("params").map(|node| self.params(node, "bench.params"));
        let names = match &runner {
            BenchRunner::Command(commands) => commands.names(),
            _ => Vec::new(),
        };
        let command_axis = (!names.is_empty()).then(|| (COMMAND.to_owned(), Axis::Values(names)));
        let bench = Bench {
            runner,
            env: env.unwrap_or_default(),
            result: result.map(|result| self.places(&result.value)).unwrap_or_default(),
            timeout: fields.duration(self, "timeout").unwrap_or(timeout),
            warmup: warmup.map_or(Warmup::Automatic, Warmup::Requests),
            telemetry: fields.yes_or_no(self, "telemetry").unwrap_or(true),
            params: command_axis.into_iter().chain(params.unwrap_or_default()).collect(),
            combos: self.combos(fields.get("combos"), fields.get("params_file"), "bench"),
        };
        fields.close(&mut self.found);
        bench
    }

    /// `[bench.result]`.
    fn places(&mut self, node: &Node) -> BTreeMap<String, FigurePlace> {
        let mut places = BTreeMap::new();
        for entry in node.entries() {
            let what = format!("bench.result.{}", entry.key);
            let (at, times) = match &entry.value.kind {
                Kind::Table(_) => {
                    let Some(mut fields) = self.open::<FigurePlace>(&entry.value, &what) else {
                        continue;
                    };
                    let at = fields.get("at").and_then(|node| self.text(node, &what));
                    let any = f64::MIN_POSITIVE..=f64::MAX;
                    let times = fields.with("times", |node, what| self.ratio(node, what, any));
                    fields.close(&mut self.found);
                    (at, times)
                }
                _ => (self.text(&entry.value, &what), None),
            };
            match at {
                Some(at) if at.starts_with('/') => drop(places.insert(
                    entry.key.clone(),
                    FigurePlace {
                        at,
                        times: times.unwrap_or(1.0),
                    },
                )),
                Some(_) => {
                    let message = format!("`{what}` must be a JSON pointer");
                    let remedy = "write the keys and positions that lead to it, each after a slash: /latency/p99";
                    self.object(entry.value.span, message, remedy);
                }
                None => {}
            }
        }
        places
    }
}
