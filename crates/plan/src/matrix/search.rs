//! Searches and explorations of plans with `[sla]` or `[explore]`. Such a plan has no points in advance, but one search or exploration for
//! each server and each load. The varied parameter of the load is open; points are made when a search or exploration asks for them.

use super::{Matrix, Point, ServerConfig};
use crate::{Params, number_or_text, show, spelling};
use itertools::Itertools;
use serde_json::{Value, json};
use vsweep_base::ids::{SearchId, ServerId, canonical_json, short_digest};
use vsweep_base::units::parse_duration;
use vsweep_strategy::search::{Answer, BRIEF_S, ExploreSettings, Load, Question, Requests, Settings, Vary};

/// The parameter that says how many requests a run sends.
pub(super) const NUM_PROMPTS: &str = "num_prompts";
/// The parameter that says for how long a run of vsweep's load generator sends requests.
const DURATION: &str = "duration";
/// Assumed number of requests of a run that is ended by time alone. No run sends more.
const UNCOUNTED: u64 = 10_000_000;
/// Share of `bench.timeout` in which all requests must be sent. The rest is for the last answers.
const SENDING_SHARE: f64 = 0.8;

/// A search or an exploration: a server config and a load whose varied parameter is open, with the settings that decide which values are
/// tried.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadFinder<S> {
    /// Made from the server, the load and everything that decides which loads are tried.
    pub id: SearchId,
    /// The server it runs on.
    pub server: ServerId,
    /// Short text for people: the bench parameters that vary; `default` if none does.
    pub name: String,
    /// Name of the load's combination, if the plan names one.
    pub combo: Option<String>,
    /// Every bench parameter with its value, without the varied parameter and the parameters derived from it.
    pub params: Params,
    /// Settings of the search or exploration.
    pub settings: S,
    /// Lowest load of the plan, if the search must begin at a higher one.
    pub raised_from: Option<f64>,
    /// Index of the load among the configurations of the bench side.
    index: usize,
}

/// One search.
pub type LoadSearch = LoadFinder<Settings>;
/// One exploration.
pub type LoadExploration = LoadFinder<ExploreSettings>;

impl LoadSearch {
    /// Returns a remark for the user if the search begins above `sla.min`.
    pub fn remark(&self) -> Option<String> {
        let (from, lower) = (self.raised_from?, self.settings.lower);
        if spelling::find(&self.params, DURATION).is_some() {
            return Some(format!(
                "the search begins at request_rate = {lower:.3}, not at sla.min = {from}: at a lower rate no request comes within \
                 duration; raise duration"
            ));
        }
        Some(format!(
            "the search begins at request_rate = {lower:.3}, not at sla.min = {from}: at a lower rate sending the requests of a \
             run takes more than 80 % of bench.timeout; raise bench.timeout, or send fewer (num_prompts)"
        ))
    }

    /// Adds the search's remark, if it has one, to each answer that has no load.
    pub fn with_remark(&self, mut answers: Vec<Answer>) -> Vec<Answer> {
        for answer in answers.iter_mut().filter(|answer| answer.found.value().is_none()) {
            answer.notes.extend(self.remark());
        }
        answers
    }

    /// Returns a warning if runs at the highest rate are too short.
    fn warning_of_short_runs(&self) -> Option<String> {
        let Settings {
            vary, requests, upper, ..
        } = self.settings;
        let is_brief =
            vary == Vary::RequestRate && requests.per_value == 0.0 && requests.at(upper) as f64 / upper < BRIEF_S;
        is_brief.then(|| {
            let count = requests.at(upper);
            format!(
                "from request_rate = {:.3} on, the requests of a run (num_prompts = {count}) are sent within {BRIEF_S} s, too short to \
                 show a lasting load; write num_prompts = {{ per = \"request_rate\", times = 10, min = {count} }}",
                count as f64 / BRIEF_S
            )
        })
    }
}

impl Matrix {
    /// Remarks about the plan's searches, without duplicates.
    pub fn remarks(&self) -> Vec<String> {
        // The searches of a load on several servers have the same remarks, so one is enough.
        let firsts = (0..self.sides.bench.len()).filter_map(|bench| {
            let mut servers = self.kept_servers();
            Some((servers.find(|serve| self.keeps(*serve, bench))?, bench))
        });
        let pairs = self.plan.sla.iter().cartesian_product(firsts);
        let searches = pairs.map(|(sla, (serve, bench))| self.search(sla.clone(), bench, &self.server(serve)));
        let remarks = searches.flat_map(|search| [search.remark(), search.warning_of_short_runs()]);
        remarks.flatten().unique().collect()
    }

    /// The searches on one server, in the order of the plan; none without `[sla]`.
    pub fn searches_of(&self, server: &ServerConfig) -> impl Iterator<Item = LoadSearch> {
        let pairs = self.plan.sla.iter().cartesian_product(self.loads_of(server));
        pairs.map(move |(sla, bench)| self.search(sla.clone(), bench, server))
    }

    /// The explorations on one server, in the order of the plan; none without `[explore]`.
    pub fn explorations_of(&self, server: &ServerConfig) -> impl Iterator<Item = LoadExploration> {
        let pairs = self.plan.explore.iter().cartesian_product(self.loads_of(server));
        pairs.map(move |(explore, bench)| self.exploration(explore.clone(), bench, server))
    }

    /// The searches and explorations on one server.
    pub fn search_ids_of(&self, server: &ServerConfig) -> Vec<SearchId> {
        let searches = self.searches_of(server).map(|search| search.id);
        let explorations = self.explorations_of(server).map(|exploration| exploration.id);
        searches.chain(explorations).collect()
    }

    /// Returns the bench parameters of typical runs, for checks before anything runs. These are the parameters of every point; for a search
    /// or an exploration, the parameters at some loads that it may try.
    pub fn specimens(&self) -> impl Iterator<Item = Params> {
        let of_points = self.points().map(|point| point.params);
        let loads = 0..self.sides.bench.len();
        let found = loads.filter(|bench| self.finds_its_loads() && self.is_kept(*bench));
        of_points.chain(found.flat_map(|bench| self.specimens_at(bench)))
    }

    fn specimens_at(&self, index: usize) -> Vec<Params> {
        let bench = &self.sides.bench;
        let at = |vary: Vary, value: f64| {
            let mut given = vec![(vary.name(), vary.to_param(value))];
            // `num_prompts` is computed if it is derived from the varied parameter. If it is derived from another one, which may have no
            // value here, it is given.
            if bench.derived(NUM_PROMPTS).is_some() && !self.follows(NUM_PROMPTS, vary) {
                given.push((NUM_PROMPTS, json!(1)));
            }
            bench.params_with(index, &given)
        };
        // At lower rates no request comes within the duration.
        let lowest = self.duration_s(index).map_or(0.0, |seconds| 1.0 / seconds);
        let searched = self.plan.sla.iter().map(|sla| at(sla.vary, sla.lower.max(lowest)));
        // The first and the last level of an exploration have no rate. The levels between them have one if the rate is varied.
        let explored = self.plan.explore.iter().flat_map(|explore| {
            let rate = (explore.vary == Vary::RequestRate).then(|| at(Vary::RequestRate, 1.0));
            [at(Vary::MaxConcurrency, 1.0)].into_iter().chain(rate)
        });
        searched.chain(explored).collect()
    }

    /// Returns true if a parameter is derived from the varied parameter.
    fn follows(&self, name: &str, vary: Vary) -> bool {
        let derived = self.sides.bench.derived(name);
        derived.is_some_and(|derived| spelling::same(&derived.per, vary.name()))
    }

    fn loads_of(&self, server: &ServerConfig) -> impl Iterator<Item = usize> + Clone {
        let serve = self.index_of(server).into_iter();
        serve.flat_map(|serve| self.kept_loads(serve))
    }

    /// The point that a search asks for.
    pub fn point_for(&self, search: &LoadSearch, question: &Question) -> Point {
        let vary = search.settings.vary;
        let limits = [(vary.name(), vary.to_param(question.value))];
        self.point_under(search, &limits, question.requests.into())
    }

    /// The point that an exploration asks for.
    pub fn point_at(&self, exploration: &LoadExploration, load: &Load) -> Point {
        let concurrency = load.max_concurrency.map(|most| (Vary::MaxConcurrency, json!(most)));
        let rate = load.request_rate.map(|rate| (Vary::RequestRate, json!(rate)));
        let limits = concurrency.into_iter().chain(rate);
        let limits: Vec<(&str, Value)> = limits.map(|(vary, limit)| (vary.name(), limit)).collect();
        self.point_under(exploration, &limits, load.requests.into())
    }

    fn point_under<S>(&self, finder: &LoadFinder<S>, limits: &[(&str, Value)], requests: Value) -> Point {
        let load = limits.iter().map(|(name, limit)| ((*name).to_owned(), limit.clone()));
        let load = super::settings_text(&load.collect());
        let name = match finder.name.as_str() {
            "default" => load,
            name => format!("{name}, {load}"),
        };
        let given = match self.is_timed(finder.index) {
            true => limits.to_vec(),
            false => [limits, &[(NUM_PROMPTS, requests)]].concat(),
        };
        let params = self.sides.bench.params_with(finder.index, &given);
        self.point_with(finder.index, params, name, &finder.server)
    }

    fn search(&self, mut settings: Settings, index: usize, server: &ServerConfig) -> LoadSearch {
        settings.requests = self.requests(index, settings.vary, settings.requests);
        let as_planned = settings.lower;
        settings.lower = settings.lower.max(self.lowest(index));
        let is_asked_for = as_planned != Settings::new(settings.vary, Vec::new()).lower;
        let raised_from = Some(as_planned).filter(|planned| *planned < settings.lower && is_asked_for);
        let content = json!({
            "vary": settings.vary,
            "targets": settings.targets,
            "bounds": [settings.lower, settings.upper],
            "tolerance": settings.tolerance,
            "max_probes": settings.max_probes,
            "confirmations": settings.confirmations,
            "requests": settings.requests,
        });
        LoadFinder {
            raised_from,
            ..self.finder(index, server, settings.vary, settings, content)
        }
    }

    /// Creates a search or an exploration. Its id comes from the settings that influence its loads and from the load that it varies.
    fn finder<S>(
        &self,
        index: usize,
        server: &ServerConfig,
        vary: Vary,
        settings: S,
        mut content: Value,
    ) -> LoadFinder<S> {
        let mut params = self.sides.bench.params(index);
        // Parameters derived from the varied one have no value yet.
        params.retain(|name, _| !self.follows(name, vary));
        content["load"] = json!(self.point_with(index, params.clone(), String::new(), &server.id).id);
        LoadFinder {
            id: SearchId(short_digest(&canonical_json(&content)).into()),
            server: server.id.clone(),
            name: self.name(&self.sides.bench, index),
            combo: self.sides.bench.combo_name(index),
            params,
            settings,
            raised_from: None,
            index,
        }
    }

    /// Returns the lowest rate at which a run of a search can end in time; 0 if no search varies the rate. At a lower rate, sending the
    /// requests would take too long, or none would be sent within the run's duration.
    pub(super) fn lowest(&self, index: usize) -> f64 {
        match &self.plan.sla {
            Some(sla) if sla.vary == Vary::RequestRate => {
                let requests = self.requests(index, sla.vary, sla.requests);
                let in_time = requests.lowest_rate(SENDING_SHARE * self.plan.bench.timeout.as_secs_f64());
                self.duration_s(index)
                    .map_or(in_time, |seconds| in_time.max(1.0 / seconds))
            }
            _ => 0.0,
        }
    }

    fn exploration(&self, mut settings: ExploreSettings, index: usize, server: &ServerConfig) -> LoadExploration {
        settings.requests = self.requests(index, Vary::MaxConcurrency, settings.requests);
        let is_rate = settings.vary == Vary::RequestRate;
        settings.requests_per_rate = is_rate && self.follows(NUM_PROMPTS, Vary::RequestRate);
        let content = json!(settings);
        self.finder(index, server, settings.vary, settings, content)
    }

    /// Returns a `max_concurrency` that the search may try although the plan's `num_prompts` is smaller, and that `num_prompts`.
    pub(super) fn unreachable(&self, index: usize) -> Option<(f64, u64)> {
        let sla = self.plan.sla.as_ref().filter(|sla| sla.vary == Vary::MaxConcurrency)?;
        let requests = self.planned_requests(index)?;
        // If a load exceeds its number of requests, so do all higher loads.
        let mut ends = [sla.lower, sla.upper].map(|load| (load, requests.at(load))).into_iter();
        ends.find(|(load, count)| (*count as f64) < *load)
    }

    /// Returns the number of requests of a run, as a function of the load: by `num_prompts`, else by `duration`, else `usual`.
    fn requests(&self, index: usize, vary: Vary, usual: Requests) -> Requests {
        let by_time = || {
            let seconds = self.duration_s(index)?;
            let is_rate = vary == Vary::RequestRate;
            Some(Requests {
                per_value: if is_rate { seconds } else { 0.0 },
                min: if is_rate { 1 } else { UNCOUNTED },
                max: UNCOUNTED,
            })
        };
        self.planned_requests(index).or_else(by_time).unwrap_or(usual)
    }

    /// Returns true if the runs of a load are ended by time alone, not by their number of requests.
    pub(super) fn is_timed(&self, index: usize) -> bool {
        self.duration_s(index).is_some() && self.planned_requests(index).is_none()
    }

    /// Returns the `duration` of a load in seconds, if it has one and vsweep's own generator sends it.
    fn duration_s(&self, index: usize) -> Option<f64> {
        let given = self.sides.bench.value(index, DURATION);
        let given = given.filter(|_| self.is_own_load())?;
        Some(parse_duration(&show(&given)).ok()?.as_secs_f64())
    }

    /// Returns true if a run of a load sends every row of a file, so that a search does not know the number of requests.
    pub(super) fn is_uncounted(&self, index: usize) -> bool {
        self.num_prompts(index) == Some(0.0)
    }

    /// Returns the number of prompts that the plan sets for a load.
    fn num_prompts(&self, index: usize) -> Option<f64> {
        number_or_text(&*self.sides.bench.value(index, NUM_PROMPTS)?)
    }

    /// Returns the number of requests of a run by `num_prompts`, as a function of the load. `None` if the plan does not set it, or sets it
    /// to 0, which means every row of a file.
    fn planned_requests(&self, index: usize) -> Option<Requests> {
        let fixed = self.num_prompts(index).filter(|count| *count > 0.0);
        let fixed = fixed.map(|count| Requests {
            per_value: 0.0,
            min: count as u64,
            max: count as u64,
        });
        fixed.or_else(|| {
            let derived = self.sides.bench.derived(NUM_PROMPTS)?;
            Some(Requests {
                per_value: derived.times,
                min: derived.min.map_or(1, |min| min.ceil() as u64),
                max: derived.max.map_or(u64::MAX, |max| max.ceil() as u64),
            })
        })
    }
}
