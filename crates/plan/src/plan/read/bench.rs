//! The `[bench]` table.

use super::Reader;
use crate::plan::fields::Fields;
use crate::plan::node::Node;
use crate::plan::problem::Problem;
use crate::plan::{Bench, BenchRunner, Offline, Warmup, schema};
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
            timeout: TIMEOUT,
            warmup: Warmup::Automatic,
            telemetry: true,
            params: Vec::new(),
            combos: Vec::new(),
        };
        let Some(mut fields) = Fields::open::<schema::BenchTable>(node, "bench", &mut self.found) else {
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
            let words = self.words(&command.value, "bench.command").unwrap_or_default();
            bench.runner = BenchRunner::Command(words);
            if let Some(runner) = runner {
                let message = "the load comes from a runner of vsweep or from a command";
                let problem = Problem::new(command.key_span, message, "keep `runner` or `command`, not both");
                self.found.add(problem.and(runner.key_span, "native here"));
            }
        }
        bench.env = fields
            .get("env")
            .map(|node| self.env(node, "bench.env"))
            .unwrap_or_default();
        let timeout = match bench.runner.offline() {
            Some(_) => OFFLINE_TIMEOUT,
            None => TIMEOUT,
        };
        bench.timeout = self.duration(fields.get("timeout"), "bench.timeout", timeout);
        let warmup = fields.get("warmup_prompts");
        let warmup = warmup.and_then(|node| self.whole(node, "bench.warmup_prompts", 0..=1_000_000));
        bench.warmup = warmup.map_or(Warmup::Automatic, Warmup::Requests);
        let telemetry = fields.get("telemetry");
        bench.telemetry = telemetry.is_none_or(|node| self.yes_or_no(node, "bench.telemetry").unwrap_or(true));
        bench.params = fields
            .get("params")
            .map(|node| self.params(node, "bench.params"))
            .unwrap_or_default();
        bench.combos = self.combos(fields.get("combos"), fields.get("params_file"), "bench");
        fields.close(&mut self.found);
        bench
    }
}
