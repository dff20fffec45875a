//! The results of searches: one for each target of each search, joined over all starts of the server.

use crate::journal::{FIRST_SLOT, SearchEnd, SearchRecord, State};
use std::ops::Range;
use vsweep_base::cause::Failure;
use vsweep_base::validity::Doubt;
use vsweep_strategy::search::{Answer, Target, over_starts};

/// One target of one search that has begun.
#[derive(Debug, Clone)]
pub struct SearchResult<'a> {
    /// The search on each start on which it has begun, the first start first.
    pub starts: Vec<&'a SearchRecord>,
    /// The target.
    pub target: &'a Target,
    /// The answer over the starts on which the search has ended.
    answer: Option<Answer>,
    /// The state of the journals.
    pub state: &'a State,
}

/// Returns the result of each target of each search, in the order in which the searches began.
pub fn search_results(state: &State) -> Vec<SearchResult<'_>> {
    let mut searches: Vec<Vec<&SearchRecord>> = Vec::new();
    for record in state.searches() {
        let is_same = |starts: &&mut Vec<&SearchRecord>| starts[0].started.search == record.started.search;
        match searches.iter_mut().find(is_same) {
            Some(starts) => starts.push(record),
            None => searches.push(vec![record]),
        }
    }
    let all = searches.into_iter().flat_map(|mut starts| {
        starts.sort_by_key(|record| record.started.slot);
        let targets = starts[0].started.targets.iter();
        targets.map(move |target| SearchResult::new(starts.clone(), target, state))
    });
    all.collect()
}

impl<'a> SearchResult<'a> {
    fn new(starts: Vec<&'a SearchRecord>, target: &'a Target, state: &'a State) -> SearchResult<'a> {
        let mut own = SearchResult {
            starts,
            target,
            answer: None,
            state,
        };
        own.answer = own.answer_over(FIRST_SLOT..u32::MAX);
        if let (Some(failure), Some(answer)) = (own.given_up(), &mut own.answer) {
            let cause = failure.cause.in_words();
            answer.notes.push(format!("given up on a start: {cause}"));
        }
        own
    }

    /// Returns the search on the first start on which it has begun.
    pub fn record(&self) -> &'a SearchRecord {
        self.starts[0]
    }

    fn planned_starts(&self) -> u32 {
        self.state.planning_session().map_or(1, |planned| planned.starts.max(1))
    }

    fn ended(&self, slots: Range<u32>) -> impl Iterator<Item = &'a SearchRecord> {
        let ended = self.starts.iter().copied().filter(|record| record.ended.is_some());
        ended.filter(move |record| slots.contains(&record.started.slot))
    }

    fn answer_over(&self, slots: Range<u32>) -> Option<Answer> {
        let answers = self.ended(slots).filter_map(|record| record.answer(&self.target.name));
        over_starts(self.record().started.vary, &answers.collect::<Vec<&Answer>>())
    }

    /// Returns the answer over the starts that have ended; `None` if none of them has an answer, or if the server's answers to the fixed
    /// questions are in doubt.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref().filter(|_| self.doubt().is_none())
    }

    /// Returns the answer over the planned starts only, without the fresh starts of finalists.
    pub fn planned_answer(&self) -> Option<Answer> {
        self.answer()?;
        self.answer_over(FIRST_SLOT..self.planned_starts())
    }

    /// Returns the highest load that meets the target, if there is one.
    pub fn load(&self) -> Option<f64> {
        self.answer()?.found.value()
    }

    /// Returns the failure for which the search was given up on at least one start.
    pub fn given_up(&self) -> Option<&'a Failure> {
        self.starts.iter().find_map(|record| match &record.ended {
            Some(SearchEnd::GivenUp(failure)) => Some(failure),
            _ => None,
        })
    }

    /// Returns the doubt about the server's answers to the fixed questions, if there is one. Nothing measured on such a server counts.
    pub fn doubt(&self) -> Option<&'a Doubt> {
        self.state.doubted_server(&self.record().started.server)
    }

    /// Returns true if the search has not ended on every planned start, so that its answer may still change.
    pub fn is_open(&self) -> bool {
        self.ended(FIRST_SLOT..self.planned_starts()).count() < self.planned_starts() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, RecordedPlan, SearchStarted, SessionStarted};
    use vsweep_base::ids::{SearchId, ServerId};
    use vsweep_strategy::search::{Found, Seed, Vary};

    /// Begins a session whose plan has one search, on so many starts.
    fn plan(state: &mut State, starts: u32) {
        state.apply_hypothetical(Event::SessionStarted(Box::new(SessionStarted {
            plan: RecordedPlan::new("plan", String::new(), &[], &[SearchId("00000000000000aa".into())]),
            searches: u64::from(starts),
            starts,
            ..SessionStarted::default()
        })));
    }

    /// Begins the search on a start, and ends it with a load, if there is one.
    fn search(state: &mut State, slot: u32, load: Option<f64>) {
        let search = SearchId("00000000000000aa".into());
        let target = Target {
            name: "chat".into(),
            criteria: Vec::new(),
        };
        let begun = state.apply_hypothetical(Event::SearchStarted(Box::new(SearchStarted {
            search: search.clone(),
            server: ServerId("s".into()),
            slot,
            name: "default".into(),
            params: serde_json::Map::new(),
            vary: Vary::MaxConcurrency,
            targets: vec![target],
            seed: Seed::UNKNOWN,
            rivals: Vec::new(),
        })));
        if let Some(load) = load {
            let answer = Answer {
                target: "chat".into(),
                found: Found::Met(load),
                low: load,
                high: load + 1.0,
                probes: 2,
                ..Answer::default()
            };
            state.apply_hypothetical(Event::SearchFinished {
                search,
                after: begun.rank.line,
                answers: vec![answer],
                cause: None,
                detail: String::new(),
            });
        }
    }

    #[test]
    fn the_starts_that_ended_give_the_answer_of_an_open_search() {
        let mut state = State::default();
        plan(&mut state, 2);
        search(&mut state, 0, Some(9.0));
        search(&mut state, 1, None);
        let results = search_results(&state);
        assert_eq!((results[0].load(), results[0].is_open()), (Some(9.0), true));
    }

    #[test]
    fn searches_on_starts_that_the_plan_no_longer_has_are_not_of_it() {
        let mut state = State::default();
        plan(&mut state, 2);
        search(&mut state, 0, None);
        search(&mut state, 1, Some(9.0));
        assert_eq!(state.searches_left(), 1);
        plan(&mut state, 1);
        assert_eq!(state.searches_left(), 1);
    }
}
