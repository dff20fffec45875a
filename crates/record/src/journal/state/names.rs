//! The names of loads. The plan of a later session may give a recorded load another name, which then holds for all its runs.

use super::{RunRecord, State};
use crate::journal::declared::{LoadName, LoadNames};
use crate::journal::event::SearchStarted;
use crate::journal::rank::Rank;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use vsweep_base::ids::{PointId, SearchId, ServerId};

/// The last names that sessions gave to recorded loads, with the ranks of these sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    points: BTreeMap<PointId, (Rank, LoadName)>,
    searches: BTreeMap<SearchId, (Rank, String)>,
}

impl Names {
    pub fn apply_to_run(&self, run: &mut RunRecord) {
        if let Some((_, named)) = self.points.get(&run.point) {
            run.name = named.name.as_str().into();
            run.combo = named.combo.as_deref().map(Arc::from);
        }
    }

    pub fn apply_to_search(&self, started: &mut SearchStarted) {
        if let Some((_, name)) = self.searches.get(&started.search) {
            started.name.clone_from(name);
        }
    }
}

impl State {
    /// Applies the names that the session of this rank gives, unless a later one gave others.
    pub(super) fn rename(&mut self, rank: Rank, renamed: LoadNames) {
        for (point, named) in renamed.points {
            keep_last(&mut self.names.points, point.clone(), (rank, named));
            for at in self.by_point.get(&point).into_iter().flatten() {
                self.names.apply_to_run(&mut self.attempts[*at]);
            }
        }
        for (search, named) in renamed.searches {
            keep_last(&mut self.names.searches, search.clone(), (rank, named));
            for (_, facts) in self.searches.range_mut((search.clone(), 0)..=(search, u32::MAX)) {
                facts.chosen = OnceLock::new();
                for (_, started) in &mut facts.roots {
                    self.names.apply_to_search(started);
                }
            }
        }
    }

    /// Returns true if every run of a point has this name.
    pub fn is_named(&self, point: &PointId, named: &LoadName) -> bool {
        let mut runs = self.by_point.get(point).into_iter().flatten();
        runs.all(|at| {
            let run = &self.attempts[*at];
            *run.name == *named.name && run.combo.as_deref() == named.combo.as_deref()
        })
    }

    /// Returns the present names of searches and of their runs that differ from the recorded ones. `present` has the server of each search,
    /// and the name and combination that its load has now.
    pub fn renamed_searches(&self, present: &BTreeMap<SearchId, (ServerId, LoadName)>) -> LoadNames {
        let mut renamed = LoadNames::default();
        let before = |search: &SearchId| Some(self.latest_search(search)?.started.name.as_str());
        for (search, (_, present)) in present {
            if before(search).is_some_and(|before| before != present.name) {
                renamed.searches.insert(search.clone(), present.name.clone());
            }
        }
        for run in &self.attempts {
            let Some((search, (_, present))) = run.search.as_ref().and_then(|search| present.get_key_value(search))
            else {
                continue;
            };
            // The name of a probe ends with the load that was asked for.
            let load = match before(search) {
                Some("default") => Some(&*run.name),
                before => before.and_then(|before| run.name.strip_prefix(before)?.strip_prefix(", ")),
            };
            let Some(load) = load else { continue };
            let name = match present.name.as_str() {
                "default" => load.to_owned(),
                name => format!("{name}, {load}"),
            };
            let combo = present.combo.clone();
            let named = LoadName { name, combo };
            if !self.is_named(&run.point, &named) {
                renamed.points.insert(run.point.clone(), named);
            }
        }
        renamed
    }
}

fn keep_last<K: Ord, V>(names: &mut BTreeMap<K, (Rank, V)>, key: K, given: (Rank, V)) {
    if names.get(&key).is_none_or(|(rank, _)| *rank < given.0) {
        names.insert(key, given);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::event::{Event, Link, RunStarted, SessionStarted};
    use crate::journal::rank::{LineId, Nonce};
    use vsweep_strategy::search::{Seed, Vary};

    fn given(name: &str, combo: &str) -> LoadName {
        LoadName {
            name: name.to_owned(),
            combo: Some(combo.to_owned()),
        }
    }

    fn runs(state: &State) -> Vec<LoadName> {
        let attempts = state.attempts.iter();
        let named = |run: &RunRecord| given(&run.name, run.combo.as_deref().unwrap_or_default());
        attempts.map(named).collect()
    }

    #[test]
    fn the_last_name_holds_for_all_runs_in_any_order_of_reading() {
        let point = PointId("p".into());
        let (mut state, mut lines) = (State::default(), Vec::new());
        for name in ["chat", "docs"] {
            let renamed = LoadNames {
                points: BTreeMap::from([(point.clone(), given(name, name))]),
                ..LoadNames::default()
            };
            let session = SessionStarted {
                renamed,
                ..SessionStarted::default()
            };
            lines.push(state.apply_hypothetical(Event::SessionStarted(Box::new(session))));
            let started = RunStarted {
                point: point.clone(),
                name: "old".to_owned(),
                ..RunStarted::default()
            };
            lines.push(state.apply_hypothetical(Event::RunStarted(Box::new(started))));
        }
        let docs = given("docs", "docs");
        assert_eq!(runs(&state), [docs.clone(), docs.clone()]);
        assert!(state.is_named(&point, &docs) && !state.is_named(&point, &given("chat", "chat")));
        lines.reverse();
        assert_eq!(runs(&State::of(lines)), [docs.clone(), docs]);
    }

    #[test]
    fn a_search_and_its_probes_are_renamed() {
        let mut state = State::default();
        let search = SearchId("s".into());
        let begun = state.apply_hypothetical(Event::SearchStarted(Box::new(SearchStarted {
            search: search.clone(),
            server: ServerId("v".into()),
            slot: 0,
            name: "chat".to_owned(),
            params: vsweep_plan::Params::new(),
            vary: Vary::RequestRate,
            targets: Vec::new(),
            seed: Seed::neighbour(1.0),
            rivals: Vec::new(),
        })));
        let after = LineId {
            journal: Nonce::IMAGINED,
            seq: begun.rank.line.seq,
        };
        state.apply_hypothetical(Event::RunStarted(Box::new(RunStarted {
            point: PointId("p".into()),
            name: "chat, request_rate=4".to_owned(),
            combo: Some("chat".to_owned()),
            search: Some(Link {
                id: search.clone(),
                after,
                step: 0,
                draw: 0,
            }),
            ..RunStarted::default()
        })));
        let present = BTreeMap::from([(search.clone(), (ServerId("v".into()), given("docs", "docs")))]);
        let renamed = state.renamed_searches(&present);
        state.apply_hypothetical(Event::SessionStarted(Box::new(SessionStarted {
            renamed,
            ..SessionStarted::default()
        })));
        assert_eq!(runs(&state), [given("docs, request_rate=4", "docs")]);
        assert_eq!(
            state.latest_search(&search).map(|record| &*record.started.name),
            Some("docs")
        );
        assert!(state.renamed_searches(&present).is_empty());
    }
}
