//! Where a search starts, and whom its server must beat: the best of what is known before its first question. It is recorded
//! with the start of the search, so that one that was interrupted goes on from the same.

use super::{GroupSession, Start};
use crate::bench;
use crate::error::Result;
use crate::journal::{Event, FIRST_SLOT, SearchEnd, SearchRecord, SearchStarted, State};
use crate::matrix::LoadSearch;
use crate::plan::{BenchRunner, Plan};
use crate::run::{Ending, record};
use crate::search::{Answer, Basis, Question, Rival, Seed, Vary};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a ready server may take to tell of its KV cache. Its answer saves a run or two, no more.
const LIMIT: Duration = Duration::from_secs(10);

impl GroupSession<'_, '_> {
    /// Records the start of a search that has not begun; an ending if the user asked to stop meanwhile.
    pub(super) async fn begin_search(&mut self, planned: &LoadSearch) -> Result<Option<Ending>> {
        if self.recorder.state().search(&planned.id).is_some() {
            return Ok(None);
        }
        let mut kv = None;
        let started = self.start_of(planned)?;
        if started.seed.basis == Some(Basis::Nothing) && self.kv_tells(planned) {
            match self.ensure_ready().await? {
                Start::Ready => kv = self.kv_seed(planned).await,
                Start::Failed(failure) => self.failed_start = Some(failure),
                Start::Replaced => return Ok(Some(Ending::Finished)),
                Start::Interrupted => return Ok(Some(Ending::Interrupted)),
            }
        }
        let seed = kv.unwrap_or(started.seed);
        self.record_search(SearchStarted { seed, ..started }).map(|()| None)
    }

    /// Records the start of a search that has not begun, without asking its server.
    pub(super) fn note_search(&mut self, planned: &LoadSearch) -> Result<()> {
        if self.recorder.state().search(&planned.id).is_some() {
            return Ok(());
        }
        let started = self.start_of(planned)?;
        self.record_search(started)
    }

    fn record_search(&mut self, started: SearchStarted) -> Result<()> {
        let event = Event::SearchStarted(Box::new(started));
        record(self.recorder, self.observer, event).map(drop)
    }

    fn start_of(&mut self, planned: &LoadSearch) -> Result<SearchStarted> {
        // What other shards have found is in journals of their own.
        self.recorder.refresh()?;
        let forecast = self.forecasts.get(&planned.id);
        Ok(search_started(planned, self.plan, self.recorder.state(), forecast))
    }

    /// Whether the size of the KV cache says something about the load: requests in flight whose lengths are known.
    fn kv_tells(&self, planned: &LoadSearch) -> bool {
        planned.settings.vary == Vary::MaxConcurrency && self.lengths(planned).is_some()
    }

    /// Mean input and output of the search's requests, in tokens.
    fn lengths(&self, planned: &LoadSearch) -> Option<(f64, f64)> {
        let question = Question {
            target: String::new(),
            value: planned.settings.lower,
            requests: planned.settings.requests.at(planned.settings.lower),
            confirm: false,
            draw: 0,
        };
        let point = self.matrix.point_for(planned, &question);
        let params = match (&self.plan.bench.runner, &point.argv) {
            (BenchRunner::Native, _) => point.params,
            (BenchRunner::Command(_), Some(argv)) => bench::params_of(argv)?,
            _ => return None,
        };
        bench::native::mean_lengths(&params)
    }

    /// A guess from what the ready server says of its KV cache; a server that says nothing gives none.
    async fn kv_seed(&self, planned: &LoadSearch) -> Option<Seed> {
        let (input, output) = self.lengths(planned)?;
        let http = self.running.as_ref()?.server.http();
        let metrics = http
            .get("/metrics", LIMIT)
            .await
            .ok()
            .filter(|answer| answer.is_success())?;
        let tokens = bench::kv_cache_tokens(&metrics.body)?;
        Some(Seed::kv_capacity(tokens as f64, input, output))
    }
}

/// What a search looks for, where it starts and whom its server must beat, as far as no server need be asked.
pub(crate) fn search_started(
    planned: &LoadSearch,
    plan: &Plan,
    state: &State,
    forecast: Option<&BTreeMap<String, f64>>,
) -> SearchStarted {
    let targets = &planned.settings.targets;
    let predicted = |target: &str| forecast.and_then(|forecast| forecast.get(target)).copied();
    let forecast = targets.iter().find_map(|target| predicted(&target.name));
    let started = SearchStarted {
        search: planned.id.clone(),
        server: planned.server.clone(),
        slot: FIRST_SLOT,
        name: planned.name.clone(),
        params: plan.secrets.redact_params(&planned.params),
        vary: planned.settings.vary,
        targets: targets.clone(),
        seed: forecast.map_or(Seed::UNKNOWN, Seed::forecast),
        rivals: Vec::new(),
    };
    let alike: Vec<&SearchRecord> = state
        .searches()
        .filter(|record| is_alike(&record.started, &started))
        .collect();
    let neighbour = alike.iter().rev().find_map(|record| first_value(record));
    let rivals = targets
        .iter()
        .filter_map(|target| rival(&target.name, &alike, state, predicted(&target.name)));
    SearchStarted {
        seed: neighbour.map_or(started.seed, Seed::neighbour),
        rivals: rivals.collect(),
        ..started
    }
}

/// Whether a forecast would say something new about a search: it has not begun, and no neighbour is known or its server may
/// be skipped.
pub(crate) fn wants_forecast(planned: &LoadSearch, plan: &Plan, state: &State) -> bool {
    let is_new = state.search(&planned.id).is_none();
    let has_neighbour = || search_started(planned, plan, state, None).seed.basis == Some(Basis::Neighbour);
    is_new && (planned.settings.skip_beaten || !has_neighbour())
}

/// Whether two searches ask the same of two servers.
fn is_alike(one: &SearchStarted, other: &SearchStarted) -> bool {
    (one.vary, &one.params, &one.targets) == (other.vary, &other.params, &other.targets) && one.search != other.search
}

fn answers(record: &SearchRecord) -> &[Answer] {
    match &record.ended {
        Some(SearchEnd::Answered(answers)) => answers,
        _ => &[],
    }
}

/// The load of the first target that one was found for.
fn first_value(record: &SearchRecord) -> Option<f64> {
    answers(record).iter().find_map(|answer| answer.found.value())
}

/// The best answer for a target so far; of equal ones the first.
fn rival(target: &str, alike: &[&SearchRecord], state: &State, forecast: Option<f64>) -> Option<Rival> {
    let mut best: Option<Rival> = None;
    for record in alike {
        let mut found = answers(record).iter().filter(|answer| answer.target == target);
        let Some(load) = found.find_map(|answer| answer.found.value()) else {
            continue;
        };
        if best.as_ref().is_none_or(|best| load > best.load) {
            let server = &record.started.server;
            let name = state
                .servers
                .get(server)
                .map_or_else(|| server.to_string(), |known| known.name.clone());
            best = Some(Rival {
                target: target.to_owned(),
                server: name,
                load,
                forecast,
            });
        }
    }
    best
}
