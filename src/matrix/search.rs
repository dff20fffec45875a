//! A plan with `[sla]`: instead of points, one search for each server and load without its height, and the points that
//! a search asks for.

use super::{Matrix, Point, ServerConfig};
use crate::ids::{SearchId, ServerId, canonical_json, short_digest};
use crate::plan::{Params, number, spelling};
use crate::search::{Question, Requests, Settings, Target, Vary};
use serde_json::{Value, json};

const NUM_PROMPTS: &str = "num_prompts";

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
    /// Which configuration of the bench side it is.
    index: usize,
}

impl Matrix {
    /// The searches on one server, in the order of the plan; none without `[sla]`.
    pub fn searches_of(&self, server: &ServerConfig) -> impl Iterator<Item = LoadSearch> {
        let serve = self.sla.as_ref().and_then(|_| self.index_of(server));
        let loads = serve
            .into_iter()
            .flat_map(move |serve| (0..self.bench_count).filter(move |bench| self.keeps(serve, *bench)));
        loads.filter_map(move |bench| self.search(bench, server))
    }

    /// The point that a search asks for.
    pub fn point_for(&self, search: &LoadSearch, question: &Question) -> Point {
        let load = match search.settings.vary {
            Vary::MaxConcurrency => json!(question.value as u64),
            Vary::RequestRate => json!(question.value),
        };
        let vary = search.settings.vary.name();
        let given = [(vary, load.clone()), (NUM_PROMPTS, json!(question.requests))];
        let params = self.bench.params_with(search.index, &given);
        let load = super::text(&Params::from_iter([(vary.to_owned(), load)]));
        let name = match search.name.as_str() {
            "default" => load,
            name => format!("{name}, {load}"),
        };
        self.point_of(params, name, &search.server)
    }

    fn search(&self, index: usize, server: &ServerConfig) -> Option<LoadSearch> {
        let mut settings = self.sla.clone()?;
        settings.requests = self.requests(index, &settings);
        let mut params = self.bench.params(index);
        let followed = |name: &str| self.bench.derived(name).map(|derived| derived.per.as_str());
        params.retain(|name, _| followed(name).is_none_or(|per| !spelling::same(per, settings.vary.name())));
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
            name: self.bench.label(index),
            params,
            settings,
            index,
        })
    }

    /// Requests of a run: as `num_prompts` says, which may follow the load.
    fn requests(&self, index: usize, settings: &Settings) -> Requests {
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
            None => settings.requests,
        }
    }
}
