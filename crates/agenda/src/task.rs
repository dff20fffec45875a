//! One run to measure, and the interpretation of its result for the search or exploration that asks for it.

use serde_json::Value;
use std::sync::Arc;
use vsweep_base::cause::{Cause, Failure};
use vsweep_base::ids::SearchId;
use vsweep_base::validity::{Code, Doubt, Validity};
use vsweep_metrics::RunResult;
use vsweep_plan::matrix::{LoadSearch, Point};
use vsweep_plan::{MOST_RUNS, Params, number_or_text};
use vsweep_record::journal::RunEvidence;
use vsweep_strategy::search::{
    CurvePoint, Cut, ExplorationRun, Load, Probe, Question, RequestLatencies, Search, Target, Vary, Watch, share_of,
};

/// One run to measure.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its point.
    pub point: Point,
    /// The planned start of its server.
    pub slot: u32,
    /// Its repetition on that start, from 0.
    pub run: u32,
    /// Reader of the search or exploration that asks for it; `None` for a point of the plan.
    pub reader: Option<RunReader>,
    /// Names of the metrics that the journal keeps of the result; empty if a search or an exploration asks for the run.
    pub figures: Vec<String>,
}

/// Interprets a run for the search or exploration that asks for it.
#[derive(Debug, Clone)]
pub enum RunReader {
    /// For a search.
    Search(Box<SearchReader>),
    /// For an exploration.
    Exploration {
        /// The exploration.
        id: SearchId,
        /// The load that it asked for.
        load: Load,
    },
}

/// Interprets a run for a search.
#[derive(Debug, Clone)]
pub struct SearchReader {
    /// The search.
    pub id: SearchId,
    /// Its question.
    pub question: Question,
    /// The targets for which the run is evaluated.
    pub targets: Arc<[Target]>,
    /// The load that the search varies.
    pub vary: Vary,
    /// Ends the run once its verdict is certain.
    pub watch: Watch,
    /// The highest load that the search measured to the end of a run; zero if there is none.
    pub highest_completed: f64,
}

/// Result of a benchmark, from which a task learns.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredView<'a> {
    /// The figures.
    pub result: &'a RunResult,
    /// Latencies of every request; empty for an external benchmark.
    pub requests: &'a [RequestLatencies],
    /// Reason why the run was ended before its last request.
    pub cut: Option<&'a Cut>,
    /// True if the figures are meaningless.
    pub is_failed: bool,
    /// Doubts about the figures.
    pub doubts: &'a [Doubt],
}

impl MeasuredView<'_> {
    fn codes(&self) -> impl Iterator<Item = Code> {
        self.doubts.iter().map(|doubt| doubt.code)
    }

    /// Returns true if the run did not measure what it claims.
    fn is_invalid(&self) -> bool {
        Validity::of(self.codes()) == Validity::Invalid
    }

    /// Returns true if only a disturbance makes the run invalid.
    fn is_invalid_by_disturbance(&self) -> bool {
        let others = self.codes().filter(|code| !code.is_disturbance());
        self.is_invalid() && Validity::of(others) != Validity::Invalid
    }

    /// Returns the names of the codes of disturbances.
    fn disturbances(&self) -> Vec<String> {
        let codes = self.codes().filter(|code| code.is_disturbance());
        codes.map(|code| code.name().to_owned()).collect()
    }

    fn metric(&self, key: &str) -> Option<f64> {
        self.result.get(key).and_then(Value::as_f64)
    }

    /// Returns a metric of the result, or a share of the requests.
    fn figure(&self, name: &str) -> Option<f64> {
        self.metric(name).or_else(|| share_of(name, self.requests))
    }
}

/// Returns the seed in bench parameters, a number or its text; 0 if there is none.
pub fn seed_of(params: &Params) -> u64 {
    let Some(seed) = params.get("seed") else { return 0 };
    // A floating-point number cannot hold every number of 64 bits exactly.
    let exact = seed.as_u64().or_else(|| seed.as_str()?.trim().parse().ok());
    exact.unwrap_or_else(|| number_or_text(seed).filter(|seed| seed.is_finite()).unwrap_or(0.0) as u64)
}

/// Adds a draw to the seed in bench parameters. The seed stays within 32 bits, the most that benchmarks take, if the plan's seed does.
pub fn seeded(mut params: Params, draw: u32) -> Params {
    let seed = seed_of(&params);
    let seed = match u32::try_from(seed) {
        Ok(seed) => seed.wrapping_add(draw).into(),
        Err(_) => seed.wrapping_add(draw.into()),
    };
    params.insert("seed".to_owned(), seed.into());
    params
}

#[cfg(test)]
thread_local! {
    /// Number of tasks that were made.
    pub(super) static MADE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Task {
    /// Returns a run of a point that no search or exploration asks for.
    pub fn of(point: Point, slot: u32, run: u32, figures: Vec<String>) -> Task {
        #[cfg(test)]
        MADE.set(MADE.get() + 1);
        Task {
            point,
            slot,
            run,
            reader: None,
            figures,
        }
    }

    /// Returns the number that is added to the plan's seed for a run of a point of the plan.
    pub fn draw_of(slot: u32, run: u32) -> u32 {
        // The slot and the run may come from a journal.
        slot.wrapping_mul(MOST_RUNS).wrapping_add(run)
    }

    /// Returns the number that is added to the plan's seed, so that this run has its own prompts and arrivals. It differs between
    /// repetitions of a point and between all runs of a search, but not between the levels of an exploration.
    pub fn draw(&self) -> u32 {
        match &self.reader {
            Some(RunReader::Search(reader)) => reader.question.draw,
            _ => Task::draw_of(self.slot, self.run),
        }
    }

    /// Returns the bench parameters of this run: those of its point, with the seed of its draw. If the benchmark has a command line, they
    /// stay unchanged.
    pub fn params(&self) -> Params {
        let params = self.point.params.clone();
        match self.point.argv {
            None => seeded(params, self.draw()),
            Some(_) => params,
        }
    }

    /// Returns the figures of a measured run that later decisions use; `None` if there are none.
    pub fn learn(&self, seen: MeasuredView<'_>) -> Option<RunEvidence> {
        match &self.reader {
            Some(RunReader::Search(reader)) => reader.probe(seen).map(Box::new).map(RunEvidence::Probe),
            Some(RunReader::Exploration { load, .. }) => Some(level(load, curve_point(load, seen))),
            None if self.figures.is_empty() || seen.is_failed => None,
            None => {
                let figure = |name: &String| Some((name.clone(), seen.figure(name).filter(|value| value.is_finite())?));
                Some(RunEvidence::Figures(self.figures.iter().filter_map(figure).collect()))
            }
        }
    }

    /// Like `learn`, for a run without figures.
    pub(super) fn learn_of_failure(&self, failure: &Failure) -> Option<RunEvidence> {
        match self.reader.as_ref()? {
            RunReader::Search(reader) => reader.probe_of_failure(failure).map(Box::new).map(RunEvidence::Probe),
            RunReader::Exploration { load, .. } => Some(level(load, None)),
        }
    }

    /// Returns the watch that ends the run once its verdict is certain.
    pub fn watch(&self) -> Option<&Watch> {
        match &self.reader {
            Some(RunReader::Search(reader)) => Some(&reader.watch),
            _ => None,
        }
    }
}

impl RunReader {
    /// Returns the id of the search or exploration.
    pub fn id(&self) -> &SearchId {
        match self {
            RunReader::Search(reader) => &reader.id,
            RunReader::Exploration { id, .. } => id,
        }
    }

    /// Creates the reader for the answer to a search's question.
    pub(super) fn of_search(planned: &LoadSearch, search: &Search, question: Question) -> RunReader {
        let probes = search.probes().iter();
        let whole = probes.filter(|probe| probe.stopped.is_none() && !probe.readings.is_empty());
        RunReader::Search(Box::new(SearchReader {
            id: planned.id.clone(),
            watch: search.watch(&question),
            targets: planned.settings.targets.clone().into(),
            vary: planned.settings.vary,
            highest_completed: whole.map(|probe| probe.question.value).fold(0.0, f64::max),
            question,
        }))
    }
}

impl SearchReader {
    /// Returns the answer of a run to the search's question. If the run failed, the load is too high, whatever the figures. A run that only
    /// a disturbance makes invalid becomes a probe without readings; any other invalid run gives no probe.
    fn probe(&self, seen: MeasuredView<'_>) -> Option<Probe> {
        let question = self.question.clone();
        let probe = if seen.is_failed {
            Probe::overloaded(question)
        } else if seen.is_invalid_by_disturbance() {
            Probe::without_figures(question)
        } else if seen.is_invalid() {
            return None;
        } else {
            let metric = |key: &str| seen.metric(key);
            Probe::read(question, &self.targets, self.vary, metric, seen.requests, seen.cut)
        };
        Some(probe.disturbed_by(seen.disturbances()))
    }

    /// Returns the answer of a run without figures: the load is too high, if the failure may come from load; else `None`. A low load takes
    /// long by itself. So after a timeout at a load below one that was completed, only that low load is given up as unmeasurable.
    fn probe_of_failure(&self, failure: &Failure) -> Option<Probe> {
        let question = self.question.clone();
        if failure.cause == Cause::BenchTimeout && question.value < self.highest_completed {
            return Some(Probe::without_figures(question));
        }
        failure.cause.may_come_from_load().then(|| Probe::overloaded(question))
    }
}

fn level(load: &Load, figures: Option<CurvePoint>) -> RunEvidence {
    RunEvidence::Level(Box::new(ExplorationRun { load: *load, figures }))
}

/// Returns the position of a run on the curve; `None` if unknown. A latency that the benchmark does not report follows from Little's law.
fn curve_point(load: &Load, seen: MeasuredView<'_>) -> Option<CurvePoint> {
    if seen.is_failed || seen.is_invalid() {
        return None;
    }
    let throughput = seen.metric("request_throughput").filter(|rate| *rate > 0.0)?;
    let done = seen.requests.iter().map(|request| request.e2el_ms);
    let done: Vec<f64> = done.filter(|latency| latency.is_finite()).collect();
    let measured = (!done.is_empty()).then(|| done.iter().sum::<f64>() / done.len() as f64);
    let of_slots = load.max_concurrency.map(|slots| 1000.0 * slots as f64 / throughput);
    let latency_ms = measured.or_else(|| seen.metric("mean_e2el_ms")).or(of_slots)?;
    Some(CurvePoint { throughput, latency_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept_metrics;
    use std::path::Path;
    use vsweep_plan::matrix::Matrix;
    use vsweep_plan::{Format, World, parse};

    #[test]
    fn the_share_that_an_assertion_bounds_is_kept() {
        let text = "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[bench.params]\nnum_prompts = 2\nsave_detailed = true\n\
                    [[assert]]\nattainment = \">=90%\"\nttft_ms = \"<500\"\n";
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
        let matrix = Matrix::expand(&plan).expect("it expands");
        let point = matrix.points().next().expect("a point");
        let requests = [100.0, 900.0].map(|ttft_ms| RequestLatencies {
            ttft_ms,
            ..RequestLatencies::default()
        });
        let learned = Task::of(point, 0, 0, kept_metrics(&plan)).learn(MeasuredView {
            result: &RunResult::default(),
            requests: &requests,
            cut: None,
            is_failed: false,
            doubts: &[],
        });
        let Some(RunEvidence::Figures(figures)) = learned else {
            panic!("{learned:?}")
        };
        assert_eq!(figures.get("share(ttft_ms<500)"), Some(0.5));
    }

    #[test]
    fn a_seed_may_be_written_as_a_text() {
        for (seed, value) in [("7", 7), ("\"7\"", 7), ("7.0", 7), ("null", 0)] {
            let params = format!("{{\"seed\": {seed}}}");
            let params = serde_json::from_str(&params).expect("an object");
            assert_eq!(seed_of(&seeded(params, 2)), value + 2, "{seed}");
        }
        let highest = [("seed".to_owned(), u32::MAX.into())].into_iter().collect();
        assert_eq!(seed_of(&seeded(highest, 2)), 1);
    }

    #[test]
    fn any_slot_that_a_journal_names_has_a_draw() {
        assert_eq!(Task::draw_of(3, 2), 3 * MOST_RUNS + 2);
        assert_eq!(Task::draw_of(u32::MAX, 0), 0_u32.wrapping_sub(MOST_RUNS));
    }
}
