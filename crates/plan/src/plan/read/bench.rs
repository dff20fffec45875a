//! The `[bench]` table.

use super::Reader;
use crate::plan::commands::COMMAND;
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
        let mut bench = Bench {
            runner: BenchRunner::Native,
            env: BTreeMap::new(),
            result: BTreeMap::new(),
            timeout: TIMEOUT,
            warmup: Warmup::Automatic,
            telemetry: true,
            params: Vec::new(),
            combos: Vec::new(),
        };
        let Some(mut fields) = self.open::<schema::BenchTable>(node, "bench") else {
            return bench;
        };
        let runner = fields.entry("runner");
        let command = fields.entry("command");
        if let Some(runner) = runner {
            let own = [BenchRunner::Native, BenchRunner::Iterations, BenchRunner::Phases];
            let own = own.into_iter().chain(Offline::ALL.map(BenchRunner::Offline));
            let named = own.map(|own| (own.name().unwrap_or_default(), own));
            bench.runner = self
                .choice(&runner.value, "bench.runner", &named.collect::<Vec<_>>())
                .unwrap_or(BenchRunner::Native);
        }
        if let Some(command) = command {
            bench.runner = BenchRunner::Command(self.commands(&command.value, "bench.command"));
            if let Some(runner) = runner {
                let message = "the load comes from a runner of vsweep or from a command";
                let problem = Problem::new(command.key_span, message, "keep `runner` or `command`, not both");
                self.found.add(problem.and(runner.key_span, "native here"));
            }
        }
        let env = fields.with("env", |node, what| Some(self.env(node, what)));
        bench.env = env.unwrap_or_default();
        let timeout = match bench.runner.offline() {
            Some(_) => OFFLINE_TIMEOUT,
            None => TIMEOUT,
        };
        bench.timeout = fields.duration(self, "timeout").unwrap_or(timeout);
        let warmup = fields.whole(self, "warmup_prompts");
        bench.warmup = warmup.map_or(Warmup::Automatic, Warmup::Requests);
        bench.telemetry = fields.yes_or_no(self, "telemetry").unwrap_or(true);
        if let Some(result) = fields.entry("result") {
            bench.result = self.places(&result.value);
            if command.is_none() {
                let message = "`result` is for the result of a benchmark `command`";
                self.object(result.key_span, message, "remove it, or give a command");
            }
        }
        let params = fields.get("params").map(|node| self.params(node, "bench.params"));
        let names = match &bench.runner {
            BenchRunner::Command(commands) => commands.names(),
            _ => Vec::new(),
        };
        let command_axis = (!names.is_empty()).then(|| (COMMAND.to_owned(), Axis::Values(names)));
        bench.params = command_axis.into_iter().chain(params.unwrap_or_default()).collect();
        bench.combos = self.combos(fields.get("combos"), fields.get("params_file"), "bench");
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
