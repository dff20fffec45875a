//! A plan with `[sla]` or `[explore]`: instead of points, one search or exploration for each server and load without its
//! height, and the points that they ask for.

use super::{Matrix, Point, ServerConfig};
use crate::ids::{SearchId, ServerId, canonical_json, short_digest};
use crate::plan::{Params, number, spelling};
use itertools::Itertools;
use serde_json::{Value, json};
use vsweep_strategy::search::{Answer, BRIEF_S, ExploreSettings, Load, Question, Requests, Settings, Target, Vary};

const NUM_PROMPTS: &str = "num_prompts";
/// Share of `bench.timeout` within which the requests of a rate must be due; the rest is for answering the last of them.
const SENDING: f64 = 0.8;

/// One search: a server config under a load of which everything is known but how high it is.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSearch {
    /// Made from the server, the load and all that decides which questions are asked.
    pub id: SearchId,
    /// The server it runs on.
    pub server: ServerId,
    /// Short text for people: the bench parameters that vary; `default` if none does.
    pub name: String,
    /// Every bench parameter with its value, without the load that is searched for and what follows it.
    pub params: Params,
    /// What is searched for.
    pub settings: Settings,
    /// The lowest load as the plan has it, if the search cannot begin there.
    pub raised_from: Option<f64>,
    /// Which configuration of the bench side it is.
    index: usize,
}

/// One exploration: a server config under a load of which everything is known but how high it is.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadExploration {
    /// Made from the server, the load and all that decides which loads are asked for.
    pub id: SearchId,
    /// The server it runs on.
    pub server: ServerId,
    /// Short text for people: the bench parameters that vary; `default` if none does.
    pub name: String,
    /// Every bench parameter with its value, without those that the exploration decides.
    pub params: Params,
    /// What is explored.
    pub settings: ExploreSettings,
    /// Which configuration of the bench side it is.
    index: usize,
}

impl LoadSearch {
    /// What a reader should know of where the search begins.
    pub fn remark(&self) -> Option<String> {
        let (from, lower) = (self.raised_from?, self.settings.lower);
        Some(format!(
            "the search begins at request_rate = {lower:.3}, not at sla.min = {from}: at a lower rate sending the requests of a \
             run takes more than 80 % of bench.timeout; raise bench.timeout, or send fewer (num_prompts)"
        ))
    }

    /// The answers, with that remark where no load was found.
    pub fn with_remark(&self, mut answers: Vec<Answer>) -> Vec<Answer> {
        for answer in answers.iter_mut().filter(|answer| answer.found.value().is_none()) {
            answer.notes.extend(self.remark());
        }
        answers
    }

    /// What its runs may be too short for, by the highest rate.
    fn brief(&self) -> Option<String> {
        let Settings {
            vary, requests, upper, ..
        } = self.settings;
        let is_brief =
            vary == Vary::RequestRate && requests.per_value == 0.0 && requests.at(upper) as f64 / upper < BRIEF_S;
        is_brief.then(|| {
            let count = requests.at(upper);
            format!(
                "num_prompts = {count} are sent within {BRIEF_S} s from request_rate = {:.3} on, and say little of a load that \
                 lasts; write num_prompts = {{ per = \"request_rate\", times = 10, min = {count} }}",
                count as f64 / BRIEF_S
            )
        })
    }
}

impl Matrix {
    /// What a reader should know of the plan's searches before they run, each remark once.
    pub fn remarks(&self) -> Vec<String> {
        let servers = self.servers().take(1);
        let searches = servers.flat_map(|server| self.searches_of(&server).collect::<Vec<_>>());
        let remarks = searches.flat_map(|search| [search.remark(), search.brief()]);
        remarks.flatten().unique().collect()
    }

    /// The searches on one server, in the order of the plan; none without `[sla]`.
    pub fn searches_of(&self, server: &ServerConfig) -> impl Iterator<Item = LoadSearch> {
        let loads = self.sla.is_some().then(|| self.loads_of(server));
        let loads = loads.into_iter().flatten();
        loads.filter_map(move |bench| self.search(bench, server))
    }

    /// The explorations on one server, in the order of the plan; none without `[explore]`.
    pub fn explorations_of(&self, server: &ServerConfig) -> impl Iterator<Item = LoadExploration> {
        let loads = self.explore.is_some().then(|| self.loads_of(server));
        let loads = loads.into_iter().flatten();
        loads.filter_map(move |bench| self.exploration(bench, server))
    }

    /// The searches and explorations on one server.
    pub fn search_ids_of(&self, server: &ServerConfig) -> Vec<SearchId> {
        let searches = self.searches_of(server).map(|search| search.id);
        let explorations = self.explorations_of(server).map(|exploration| exploration.id);
        searches.chain(explorations).collect()
    }

    /// Bench parameters as runs of the plan have them, for whoever checks them before anything runs: those of every
    /// point, and for a search or an exploration those at loads that it may ask for.
    pub fn specimens(&self) -> impl Iterator<Item = Params> {
        let of_points = self.points().map(|point| point.params);
        let finders = (0..if self.finds_its_loads() { self.bench_count } else { 0 })
            .filter(|bench| (0..self.serve_count).any(|serve| self.keeps(serve, *bench)));
        of_points.chain(finders.flat_map(|bench| self.specimens_at(bench)))
    }

    fn specimens_at(&self, index: usize) -> Vec<Params> {
        let at = |vary: Vary, value: f64| {
            let mut given = vec![(vary.name(), vary.to_param(value))];
            // A number of requests that follows the load is computed; one that follows another cannot be at every load.
            if let Some(derived) = self.bench.derived(NUM_PROMPTS)
                && !spelling::same(&derived.per, vary.name())
            {
                given.push((NUM_PROMPTS, json!(1)));
            }
            self.bench.params_with(index, &given)
        };
        let searched = self.sla.iter().map(|sla| at(sla.vary, sla.lower));
        // The ends of an exploration have no rate, and what lies between has one if that is what varies.
        let explored = self.explore.iter().flat_map(|explore| {
            let rate = (explore.vary == Vary::RequestRate).then(|| at(Vary::RequestRate, 1.0));
            [at(Vary::MaxConcurrency, 1.0)].into_iter().chain(rate)
        });
        searched.chain(explored).collect()
    }

    fn loads_of(&self, server: &ServerConfig) -> impl Iterator<Item = usize> {
        let serve = self.index_of(server).into_iter();
        serve.flat_map(move |serve| (0..self.bench_count).filter(move |bench| self.keeps(serve, *bench)))
    }

    /// The point that a search asks for.
    pub fn point_for(&self, search: &LoadSearch, question: &Question) -> Point {
        let load = search.settings.vary.to_param(question.value);
        let vary = search.settings.vary.name();
        let given = [(vary, load.clone()), (NUM_PROMPTS, json!(question.requests))];
        let load = super::text(&Params::from_iter([(vary.to_owned(), load)]));
        self.point_under(search.index, &given, &search.name, load, &search.server)
    }

    /// The point that an exploration asks for.
    pub fn point_at(&self, exploration: &LoadExploration, load: &Load) -> Point {
        let limits = [
            load.max_concurrency
                .map(|most| (Vary::MaxConcurrency.name(), json!(most))),
            load.request_rate.map(|rate| (Vary::RequestRate.name(), json!(rate))),
        ];
        let limits: Vec<(&str, Value)> = limits.into_iter().flatten().collect();
        let text = super::text(
            &limits
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        );
        let requests = (NUM_PROMPTS, json!(load.requests));
        let given: Vec<(&str, Value)> = limits.into_iter().chain([requests]).collect();
        self.point_under(exploration.index, &given, &exploration.name, text, &exploration.server)
    }

    fn point_under(&self, index: usize, given: &[(&str, Value)], name: &str, load: String, server: &ServerId) -> Point {
        let name = match name {
            "default" => load,
            name => format!("{name}, {load}"),
        };
        Point {
            combo: self.bench.combo_name(index),
            ..self.point_of(self.bench.params_with(index, given), name, server)
        }
    }

    fn search(&self, index: usize, server: &ServerConfig) -> Option<LoadSearch> {
        let mut settings = self.sla.clone()?;
        settings.requests = self.requests(index, settings.requests);
        let as_planned = settings.lower;
        settings.lower = settings.lower.max(self.lowest(index));
        let is_asked_for = as_planned != Settings::new(settings.vary, Vec::new()).lower;
        let raised_from = Some(as_planned).filter(|planned| *planned < settings.lower && is_asked_for);
        let params = self.params_without(index, settings.vary);
        let load = self.point_of(params.clone(), String::new(), &server.id);
        let target = |target: &Target| json!({"name": target.name, "criteria": target.criteria});
        let content = json!({
            "load": load.id.0,
            "vary": settings.vary,
            "targets": settings.targets.iter().map(target).collect::<Vec<Value>>(),
            "bounds": [settings.lower, settings.upper],
            "tolerance": settings.tolerance,
            "max_probes": settings.max_probes,
            "confirmations": settings.confirmations,
            "requests": settings.requests,
        });
        Some(LoadSearch {
            id: SearchId(short_digest(&canonical_json(&content))),
            server: server.id.clone(),
            name: self.name(&self.bench, index),
            params,
            settings,
            raised_from,
            index,
        })
    }

    /// The lowest load of a search whose run can end in time: at a lower rate its requests alone would come for longer.
    pub(super) fn lowest(&self, index: usize) -> f64 {
        match &self.sla {
            Some(sla) if sla.vary == Vary::RequestRate => {
                let requests = self.requests(index, sla.requests);
                requests.lowest_rate(SENDING * self.timeout.as_secs_f64())
            }
            _ => 0.0,
        }
    }

    fn exploration(&self, index: usize, server: &ServerConfig) -> Option<LoadExploration> {
        let mut settings = self.explore.clone()?;
        settings.requests = self.requests(index, settings.requests);
        let followed = self.bench.derived(NUM_PROMPTS).map(|derived| derived.per.as_str());
        let of_rate = followed.is_some_and(|per| spelling::same(per, Vary::RequestRate.name()));
        settings.requests_per_rate = of_rate && settings.vary == Vary::RequestRate;
        let params = self.params_without(index, settings.vary);
        let load = self.point_of(params.clone(), String::new(), &server.id);
        let content = json!({
            "load": load.id.0,
            "vary": settings.vary,
            "levels": settings.levels,
            "spacing": settings.spacing,
            "max_concurrency": settings.max_concurrency,
            "runs": settings.runs,
            "requests": settings.requests,
            "requests_per_rate": settings.requests_per_rate,
        });
        Some(LoadExploration {
            id: SearchId(short_digest(&canonical_json(&content))),
            server: server.id.clone(),
            name: self.name(&self.bench, index),
            params,
            settings,
            index,
        })
    }

    /// The bench parameters without those that follow what is varied.
    fn params_without(&self, index: usize, vary: Vary) -> Params {
        let mut params = self.bench.params(index);
        let followed = |name: &str| self.bench.derived(name).map(|derived| derived.per.as_str());
        params.retain(|name, _| followed(name).is_none_or(|per| !spelling::same(per, vary.name())));
        params
    }

    /// A load in flight that `num_prompts` of the plan cannot bring, with the number of requests it has.
    pub(super) fn unreachable(&self, index: usize) -> Option<(f64, u64)> {
        let sla = self.sla.as_ref().filter(|sla| sla.vary == Vary::MaxConcurrency)?;
        let is_given = self.bench.value(index, NUM_PROMPTS).is_some() || self.bench.derived(NUM_PROMPTS).is_some();
        let requests = self.requests(index, sla.requests);
        let (lowest, highest) = (requests.at(sla.lower), requests.at(sla.upper));
        // Where the load outgrows the requests it does so from some load on.
        let short = [(sla.lower, lowest), (sla.upper, highest)];
        short
            .into_iter()
            .find(|(load, count)| is_given && (*count as f64) < *load)
    }

    /// Requests of a run: as `num_prompts` says, which may follow the load, else as usual.
    fn requests(&self, index: usize, usual: Requests) -> Requests {
        let fixed = self.bench.value(index, NUM_PROMPTS).and_then(|value| number(&value));
        if let Some(count) = fixed {
            return Requests {
                per_value: 0.0,
                min: count as u64,
                max: count as u64,
            };
        }
        match self.bench.derived(NUM_PROMPTS) {
            Some(derived) => Requests {
                per_value: derived.times,
                min: derived.min.map_or(1, |min| min.ceil() as u64),
                max: derived.max.map_or(u64::MAX, |max| max.ceil() as u64),
            },
            None => usual,
        }
    }
}
