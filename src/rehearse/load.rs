//! Plays one run in virtual time: makes requests and due times from the parameters of a benchmark as the native generator does, and lets a
//! virtual server answer them.

use super::plays::Timing;
use super::server::ModelledServer;
use super::{Budget, Unknown};
use crate::bench::Measurement;
use crate::bench::native::settings::NativeSettings;
use crate::bench::native::warmup::{Amount, LONGEST};
use crate::bench::native::{measurement_of, show_to_watch};
use crate::bench::params_of;
use crate::dataset::{self, Dataset, Draw, Item, Prompt, Sampling, Vocabulary};
use crate::load::SendWindow;
use crate::metrics::{Metric, Sample, seconds};
use crate::plan::{Params, Warmup};
use crate::rng::mix;
use crate::search::{Cut, Watch};
use crate::sim::engine::SequenceRequest;
use crate::sim::virtual_time::{VirtualLoad, VirtualResult, VirtualServer};
use crate::stats::ClassTag;
use std::ops::ControlFlow;
use std::time::Duration;

/// Token ids of prompts. Their values do not affect the time.
const VOCABULARY: std::ops::Range<u32> = 260..32_000;
/// Most requests of a run that are played. The duration of more is extrapolated in proportion.
const MOST_PLAYED: usize = 50_000;
/// Delay from a client's sending to the engine's queue, in nanoseconds.
const DELAY: u64 = 400_000;

/// Returns the time of a run in addition to its load, in seconds, by the command line of its point. vsweep's own generator starts a thread
/// and opens connections. `vllm bench serve`, or a compatible command, starts Python with its imports and the tokenizer. `None` for other
/// programs.
pub fn overhead_s(argv: Option<&[String]>) -> Option<f64> {
    match argv {
        None => Some(0.005),
        Some(argv) => params_of(argv).map(|_| 15.0),
    }
}

/// Plays runs on a virtual server, which is replaced only if a run needs another kind.
#[derive(Debug)]
pub struct Player<'a> {
    stand_in: &'a ModelledServer,
    /// True if caches keep the content of earlier runs.
    keeps_caches: bool,
    /// True if the gaps between tokens are needed, the only figure that needs the time of every token.
    reads_gaps: bool,
    /// The virtual server, and true if the content of prompts matters to it.
    server: Option<(bool, VirtualServer)>,
}

/// One run to be played.
#[derive(Debug)]
pub struct Play<'a> {
    /// The parameters of the benchmark.
    pub params: &'a Params,
    /// Unmeasured requests before the load.
    pub warmup: Warmup,
    /// Ends the run once its verdict is certain.
    pub watch: Option<Watch>,
    /// Longest time for sending the load. Requests that are due later are never sent.
    pub limit: Duration,
    /// Budget of the forecast, from which the run's tokens are taken.
    pub budget: &'a Budget,
}

impl<'a> Player<'a> {
    /// Returns a player on a server that fits into memory.
    pub fn new(stand_in: &'a ModelledServer, keeps_caches: bool, reads_gaps: bool) -> Player<'a> {
        Player {
            stand_in,
            keeps_caches,
            reads_gaps,
            server: None,
        }
    }

    /// Plays a run. Returns its duration, and the measurement that a search would read; `None` if every request failed. The error is the
    /// reason why the run cannot be played.
    pub fn play(&mut self, play: Play<'_>) -> Result<(Timing, Option<Measurement>), Unknown> {
        let mut settings = NativeSettings::read(play.params).map_err(|problems| problems.join("; "))?;
        if !self.reads_gaps {
            settings.figures.metrics.0.retain(|metric| *metric != Metric::Itl);
        }
        if settings.dataset.traits().has_turns {
            let why = "conversations of several turns cannot be simulated yet: their prompts follow from the answers";
            return Err(Unknown::Because(why.to_owned()));
        }
        let every_token = self.reads_gaps;
        let arrivals = settings.arrival.arrivals();
        let seed = u64::from(settings.prompts.seed);
        let wanted = match settings.count() {
            Some(count) => count,
            None if settings.is_self_timed() => MOST_PLAYED,
            None => self.fill(&settings, play.budget)?,
        };
        // Replicas take turns, so only one of them is played.
        let replicas = self.replicas(&settings);
        let (server, has_content) = self.server(&settings)?;
        let sampling = settings.prompts.sampling(wanted.min(MOST_PLAYED), seed);
        let mut items = draw(&*settings.dataset, sampling, has_content)?;
        let scale = match items.len() {
            MOST_PLAYED => (wanted as f64 / MOST_PLAYED as f64).max(1.0),
            _ => 1.0,
        };
        let all = items.len();
        let mut due: Vec<u64> = match settings.is_self_timed() {
            true => dataset::sort_by_time(&mut items)
                .into_iter()
                .map(|s| (s * 1e9) as u64)
                .collect(),
            // A part of the requests stands for all of a ramp.
            false if scale > 1.0 => arrivals.due_times(items.len(), settings.prompts.seed),
            false => settings.arrival.due_times(items.len(), settings.prompts.seed),
        };
        let last_due = due.last().copied().unwrap_or_default();
        due.truncate(
            due.partition_point(|due| u128::from(*due) <= play.limit.as_nanos())
                .max(1),
        );
        items.truncate(due.len());
        let sent = items.len();
        let amount = Amount::of(play.warmup, &settings, settings.requests_of(all), &due);
        let items: Vec<Item> = items.into_iter().step_by(replicas).collect();
        let due: Vec<u64> = due.into_iter().step_by(replicas).collect();
        // Prompt tokens take less effort, because many are computed at a time.
        let effort = items.iter().map(|item| item.output_len + item.prompt_len / 100);
        play.budget.spend(effort.sum())?;
        let load = |requests: Vec<SequenceRequest>, due: Vec<u64>| VirtualLoad {
            requests,
            due,
            classes: Vec::new(),
            limit: settings.concurrency().map(|slots| slots.div_ceil(replicas)),
            sending: None,
            deadline: None,
            every_token,
            delay: DELAY,
        };
        let limits = settings.arrival.sending();
        let sending = limits.map(|sending| sending.lasts.as_nanos() as u64);
        let mut warmup_s = 0.0;
        let mut warm_up = |from: usize, due: Vec<u64>| {
            // No warm-up prompt begins like a measured one, so no measured prompt is in a cache.
            let vary = |item: &Item| {
                let mut item = item.clone();
                item.prompt.vary_prefix();
                request(&item, !seed)
            };
            let requests = items.iter().cycle().skip(from).take(due.len()).map(vary);
            let duration = server.drive(load(requests.collect(), due)).duration;
            warmup_s += seconds(duration);
            Duration::from_nanos(duration)
        };
        let at_once = match amount {
            Amount::AtOnce(count) => count.div_ceil(replicas),
            Amount::AtRate(..) => 1,
        };
        let first = warm_up(0, vec![0; at_once]);
        let further = amount.due_after(first).into_iter();
        warm_up(at_once, further.step_by(replicas).collect());
        let shares = settings.mix.as_ref().map(|mix| mix.shares(seed));
        let class_of = |place| shares.as_ref().map(|shares| shares.at(place) as u8);
        let load = VirtualLoad {
            sending,
            deadline: limits.map(SendWindow::deadline),
            classes: (0..sent).step_by(replicas).map_while(class_of).collect(),
            ..load(items.iter().map(|item| request(item, seed)).collect(), due)
        };
        // A watch judges by all requests of a run.
        let (simulated, cut) = match play.watch.filter(|_| replicas == 1) {
            Some(watch) => drive_watched(watch, &settings.class_tags(), server, load),
            None => (server.drive(load), None),
        };
        let samples = simulated.samples.into_iter();
        let samples = samples
            .flat_map(|sample| std::iter::repeat_n(sample, replicas))
            .take(sent);
        let simulated = VirtualResult {
            samples: samples.collect(),
            ..simulated
        };
        let all = all.min(simulated.samples.len());
        // A run that is ended by time may send more requests than are played. The played part is then extrapolated to the whole time.
        let scale = match sending.filter(|_| settings.count().is_none() && all >= MOST_PLAYED) {
            Some(lasts) => lasts as f64 / simulated.duration.clamp(1, lasts) as f64,
            None => scale,
        };
        // A load that was cut is not extrapolated.
        let seconds = match cut {
            None => scale * seconds(simulated.duration.max(last_due.min(sending.unwrap_or(u64::MAX)))),
            Some(_) => seconds(simulated.duration),
        };
        // Requests that were aborted by the cut are not measured.
        let ended = simulated
            .samples
            .into_iter()
            .filter(|sample| cut.is_none() || sample.is_ok());
        let measurement = measurement_of(&settings, &ended.collect::<Vec<_>>().into(), simulated.duration);
        let measurement = match (measurement, cut) {
            (Some(measurement), cut) => Some(Measurement { cut, ..measurement }),
            (None, cut) => cut.map(Measurement::of_nothing),
        };
        let timing = Timing {
            seconds,
            warmup_s: warmup_s.min(LONGEST.as_secs_f64()),
            requests: (scale * all as f64) as u64,
            failure: None,
            learned: None,
        };
        Ok((timing, measurement))
    }

    /// Returns a number of requests that fills the time of a closed loop, at most [`MOST_PLAYED`].
    fn fill(&mut self, settings: &NativeSettings, budget: &Budget) -> Result<usize, Unknown> {
        let replicas = self.replicas(settings);
        let slots = settings.concurrency().unwrap_or(1).div_ceil(replicas);
        let lasts = settings
            .arrival
            .sending()
            .map_or(0.0, |sending| sending.lasts.as_secs_f64());
        let (server, _) = self.server(settings)?;
        let mut count = (4 * slots).clamp(32, MOST_PLAYED);
        loop {
            let sampling = settings.prompts.sampling(count, settings.prompts.seed.into());
            let items = draw(&*settings.dataset, sampling, false)?;
            budget.spend(items.iter().map(|item| item.output_len + item.prompt_len / 100).sum())?;
            let simulated = server.drive(VirtualLoad {
                requests: items.iter().map(|item| request(item, !0)).collect(),
                due: vec![0; items.len()],
                limit: Some(slots),
                delay: DELAY,
                ..VirtualLoad::default()
            });
            let took = seconds(simulated.duration);
            if took >= lasts || count >= MOST_PLAYED || took == 0.0 {
                return Ok(count * replicas);
            }
            // The ramp and the end, with fewer requests in flight, take a smaller share of a longer run. So a longer run answers more
            // requests in a second, and the count grows by more than the ratio of the times.
            count = ((1.5 * lasts / took * count as f64) as usize)
                .max(2 * count)
                .min(MOST_PLAYED);
        }
    }

    /// Returns the number of data parallel replicas that have work under a load.
    fn replicas(&self, settings: &NativeSettings) -> usize {
        let engine = self.stand_in.settings.as_ref();
        let all = engine.map_or(1, |engine| engine.cost.data_parallel);
        all.min(settings.concurrency().unwrap_or(all)).max(1)
    }

    /// Returns the server for a run, and true if the content of prompts matters to it.
    fn server(&mut self, settings: &NativeSettings) -> Result<(&mut VirtualServer, bool), String> {
        let engine = self.stand_in.settings.as_ref().ok_or("the server does not start")?;
        let shares = settings.dataset.traits().shared_share > 0.0 || self.keeps_caches;
        let has_content = engine.limits.prefix_caching && shares;
        let server = match self.server.take() {
            Some((content, server)) if content == has_content => server,
            _ => {
                let mut engine = engine.clone();
                engine.limits.prefix_caching = has_content;
                VirtualServer::start(&engine).map_err(|_| "the model does not fit")?
            }
        };
        let (_, server) = self.server.insert((has_content, server));
        if !self.keeps_caches {
            server.reset();
        }
        Ok((server, has_content))
    }
}

/// Drives the load until it ends or the watch cuts it. Returns the reason for the cut, if there was one.
fn drive_watched(
    mut watch: Watch,
    classes: &[ClassTag],
    server: &mut VirtualServer,
    load: VirtualLoad,
) -> (VirtualResult, Option<Cut>) {
    let mut decided = None;
    let simulated = server.drive_watched(load, &mut |progress| {
        decided = show_to_watch(&mut watch, &progress, classes);
        match decided {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    // If the last request decides, the run is complete.
    let is_whole = simulated.samples.iter().all(Sample::is_ok);
    (simulated, decided.filter(|_| !is_whole))
}

/// Draws the requests of a dataset, without content if only their lengths matter. Of a dataset that needs more prompts than that, more are
/// drawn, as in a run. Fails if the dataset would have to be downloaded.
fn draw(dataset: &dyn Dataset, sampling: Sampling, has_content: bool) -> Result<Vec<Item>, String> {
    let (count, least) = (sampling.num_prompts, dataset.traits().least);
    if count == 0 || count >= least {
        return draw_all(dataset, sampling, has_content);
    }
    let raised = Sampling {
        num_prompts: least,
        ..sampling
    };
    let mut items = draw_all(dataset, raised, has_content)?;
    items.truncate(count);
    Ok(items)
}

fn draw_all(dataset: &dyn Dataset, sampling: Sampling, has_content: bool) -> Result<Vec<Item>, String> {
    if !has_content && let Some(lengths) = dataset.lengths(&sampling, VOCABULARY.end.into()) {
        let item = |(i, (prompt, output)): (usize, (u64, u64))| Item::new(i, Prompt::Ids(Vec::new()), prompt, output);
        return Ok(lengths.into_iter().enumerate().map(item).collect());
    }
    if let Some(name) = dataset.to_download() {
        return Err(format!(
            "the dataset {name} is not on this machine, and nothing is fetched for a rehearsal"
        ));
    }
    dataset.draw(&Draw::of(sampling, &Vocabulary::Ids(VOCABULARY)))
}

/// Returns a request of the engine model. The tokens of a text are made up; equal texts get equal tokens.
fn request(item: &Item, seed: u64) -> SequenceRequest {
    let prompt = match &item.prompt {
        Prompt::Ids(ids) if !ids.is_empty() => ids.clone(),
        Prompt::Ids(_) => vec![0; item.prompt_len.max(1) as usize],
        other => {
            let text = other.to_value().to_string();
            let content = text.bytes().fold(seed, |hash, byte| mix(hash ^ u64::from(byte)));
            (0..item.prompt_len.max(1))
                .map(|place| mix(content ^ place) as u32)
                .collect()
        }
    };
    SequenceRequest {
        prompt,
        output_len: item.output_len.max(1) as usize,
        seed,
        ..SequenceRequest::default()
    }
}
