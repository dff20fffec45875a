//! What searches found for each target, by server: over all starts of a server, and which server holds the most. Several starts
//! decide by their intervals, and fresh ones of the finalists have the last word, as with points.

use super::Standing;
use crate::journal::{FIRST_SLOT, SearchEnd, SearchRecord, State};
use itertools::Itertools;
use std::collections::BTreeSet;
use std::ops::Range;
use vsweep_plan::cause::Failure;
use vsweep_plan::ids::SearchId;
use vsweep_plan::validity::Doubt;
use vsweep_strategy::search::{Answer, Found, Target, over_starts, reaching_best};

/// One target of one search that has begun.
#[derive(Debug, Clone)]
pub struct Sought<'a> {
    /// The search on each start on which it has begun, the first start first.
    pub starts: Vec<&'a SearchRecord>,
    /// The target.
    pub target: &'a Target,
    /// What all starts found together, once the search has ended on every planned one.
    answer: Option<Answer>,
    /// What the journals tell.
    pub state: &'a State,
}

/// What was sought for one target under one load, on every server. What long prompts allow is no match for what short ones do, so loads do
/// not compete.
#[derive(Debug)]
pub struct Race<'a> {
    /// The servers, the winner first, then those that cannot be told from it, then the others, each by its load.
    pub servers: Vec<Sought<'a>>,
    /// How many of them cannot be told from the best one, the winner included; 0 where nobody holds a load.
    pub equals: usize,
    /// What the winner rests on; none with one start.
    pub standing: Option<Standing>,
}

/// Every target of every search, in the order in which they began.
pub fn sought(state: &State) -> Vec<Sought<'_>> {
    let searches = grouped(state.searches(), |one, other| {
        one.started.search == other.started.search
    });
    let all = searches.into_iter().flat_map(|mut starts| {
        starts.sort_by_key(|record| record.started.slot);
        let targets = starts[0].started.targets.iter();
        targets.map(move |target| Sought::new(starts.clone(), target, state))
    });
    all.collect()
}

/// The same by target and load, in the order of the plan.
pub fn races(state: &State) -> Vec<Race<'_>> {
    let races = grouped(sought(state), Sought::asks_as);
    races.into_iter().map(Race::of).collect()
}

/// What is alike together, in the order in which the first of each group came.
fn grouped<T>(all: impl IntoIterator<Item = T>, are_alike: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for one in all {
        match groups.iter_mut().find(|group| are_alike(&group[0], &one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// The searches that must be asked on fresh starts before one of their servers is called the winner.
pub fn searches_of_finalists(state: &State) -> BTreeSet<SearchId> {
    let finalists = races(state).into_iter().filter_map(|race| {
        let found = finalists(&race.servers);
        (found.len() > 1).then(|| found.into_iter().map(|at| race.servers[at].search().clone()).collect())
    });
    finalists.flat_map(|race: Vec<SearchId>| race).collect()
}

/// The servers whose intervals over the planned starts overlap the best one's, by their places. Where all of them hold the highest load allowed,
/// a fresh start tells nothing more: then the best alone is one.
fn finalists(race: &[Sought<'_>]) -> Vec<usize> {
    let answers: Vec<Option<Answer>> = race.iter().map(Sought::planned_answer).collect();
    let mut found = reaching_best(answers.iter().map(Option::as_ref));
    let found_at = |place: &usize| answers[*place].as_ref().map(|answer| answer.found);
    let is_at_most = |place: &usize| matches!(found_at(place), Some(Found::Beyond(_)));
    if found.iter().all(is_at_most) {
        found.truncate(1);
    }
    found
}

impl<'a> Race<'a> {
    /// The server that holds the highest load.
    pub fn winner(&self) -> &Sought<'a> {
        &self.servers[0]
    }

    /// Those that cannot be told from the winner.
    pub fn tied(&self) -> &[Sought<'a>] {
        &self.servers[1..self.equals.max(1)]
    }

    fn of(mut servers: Vec<Sought<'a>>) -> Race<'a> {
        let order = |one: &Sought<'_>, other: &Sought<'_>| {
            let load = |sought: &Sought<'_>| sought.load().unwrap_or(f64::NEG_INFINITY);
            load(other).total_cmp(&load(one))
        };
        servers.sort_by(order);
        let finalists = finalists(&servers);
        let fresh = servers.iter().enumerate();
        let fresh = fresh.map(|(place, own)| own.fresh_answer().filter(|_| finalists.contains(&place)));
        let fresh: Vec<Option<Answer>> = fresh.collect();
        let confirmed = reaching_best(fresh.iter().map(Option::as_ref));
        let is_tried = finalists.iter().all(|place| servers[*place].is_tried_fresh());
        let all = || reaching_best(servers.iter().map(Sought::answer));
        let (standing, equals) = match finalists.len() {
            _ if servers[0].planned() == 1 => (None, all()),
            0 | 1 => (Some(Standing::Alone), all()),
            _ if is_tried && !confirmed.is_empty() => (Some(Standing::Confirmed), confirmed),
            _ => (Some(Standing::Unconfirmed), finalists),
        };
        let winner = match standing {
            None => equals.first().copied(),
            Some(_) => equals.iter().copied().min_by_key(|place| servers[*place].overrides()),
        };
        let rank = |(place, _): &(usize, Sought<'a>)| (Some(*place) != winner, !equals.contains(place));
        let ranked = servers.into_iter().enumerate().sorted_by_key(rank);
        Race {
            servers: ranked.map(|(_, own)| own).collect(),
            equals: equals.len(),
            standing,
        }
    }
}

impl<'a> Sought<'a> {
    fn new(starts: Vec<&'a SearchRecord>, target: &'a Target, state: &'a State) -> Sought<'a> {
        let mut own = Sought {
            starts,
            target,
            answer: None,
            state,
        };
        if !own.is_open() {
            own.answer = own.answer_over(FIRST_SLOT..u32::MAX);
            if let (Some(failure), Some(answer)) = (own.given_up(), &mut own.answer) {
                answer.notes.push(format!("given up on a start: {}", failure.cause));
            }
        }
        own
    }

    /// The search on the first start on which it has begun.
    pub fn record(&self) -> &'a SearchRecord {
        self.starts[0]
    }

    fn search(&self) -> &'a SearchId {
        &self.record().started.search
    }

    fn planned(&self) -> u32 {
        self.state.planning_session().map_or(1, |planned| planned.starts.max(1))
    }

    fn asks_as(&self, other: &Sought<'_>) -> bool {
        self.target.name == other.target.name && self.record().started.name == other.record().started.name
    }

    fn ended(&self, slots: Range<u32>) -> impl Iterator<Item = &'a SearchRecord> {
        let ended = self.starts.iter().copied().filter(|record| record.ended.is_some());
        ended.filter(move |record| slots.contains(&record.started.slot))
    }

    fn answer_over(&self, slots: Range<u32>) -> Option<Answer> {
        let answers = self.ended(slots).filter_map(|record| record.answer(&self.target.name));
        over_starts(&answers.collect::<Vec<&Answer>>())
    }

    /// The answer that counts: none of a server whose own answers may not be believed.
    pub fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref().filter(|_| self.doubt().is_none())
    }

    fn planned_answer(&self) -> Option<Answer> {
        self.answer()?;
        self.answer_over(FIRST_SLOT..self.planned())
    }

    fn fresh_answer(&self) -> Option<Answer> {
        self.answer()?;
        self.answer_over(self.planned()..u32::MAX)
    }

    /// Whether it has ended on every fresh start, however.
    fn is_tried_fresh(&self) -> bool {
        self.ended(self.planned()..u32::MAX).count() >= self.planned() as usize
    }

    /// The highest load that meets the target, if there is one.
    pub fn load(&self) -> Option<f64> {
        self.answer()?.found.value()
    }

    /// Why it was given up, on a start if not on all.
    pub fn given_up(&self) -> Option<&'a Failure> {
        self.starts.iter().find_map(|record| match &record.ended {
            Some(SearchEnd::GivenUp(failure)) => Some(failure),
            _ => None,
        })
    }

    /// Why nothing on this server counts, as its answers to the fixed questions tell.
    pub fn doubt(&self) -> Option<&'a Doubt> {
        self.state.doubted_server(&self.record().started.server)
    }

    /// Whether the search has not ended on every planned start, so that its answer is not known yet.
    pub fn is_open(&self) -> bool {
        self.ended(FIRST_SLOT..self.planned()).count() < self.planned() as usize
    }

    /// How many settings its server has.
    fn overrides(&self) -> usize {
        let server = self.state.servers.get(&self.record().started.server);
        server.map_or(0, |server| server.params.len())
    }
}
