//! The chains of a search. Each probe names the one before it, so that the probes of two sessions that did not know of each
//! other are never taken for one search. One chain counts: one that has answers, else the longest, else the first.

use super::records::RunStatus;
use super::{FIRST_SLOT, SearchEnd, SearchRecord, State};
use crate::journal::event::SearchStarted;
use crate::journal::rank::{LineId, Rank};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use vsweep_base::ids::SearchId;

/// All lines of one search on one start slot.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchLines {
    /// Beginnings: one for each session that did not know of an earlier one.
    pub roots: Vec<(Rank, SearchStarted)>,
    /// The attempts that it asked for.
    pub asked: Vec<usize>,
    /// Ends: rank, last line, and result. Ends on every start slot are kept with the first one.
    pub ends: Vec<(Rank, LineId, SearchEnd)>,
    /// The chain that counts; made when asked for.
    pub counts: OnceLock<Option<SearchRecord>>,
}

impl SearchLines {
    /// First beginning.
    pub fn began(&self) -> Option<Rank> {
        self.roots.iter().map(|(rank, _)| *rank).min()
    }
}

impl State {
    /// The record of a search on a planned start, by the chain that counts; `None` if it has not begun. It may be in the plan or not.
    pub fn search(&self, search: &SearchId, slot: u32) -> Option<&SearchRecord> {
        let facts = self.searches.get(&(search.clone(), slot))?;
        let first = self.searches.get(&(search.clone(), FIRST_SLOT));
        let ends = first.map_or(&[][..], |first| &first.ends);
        facts.counts.get_or_init(|| self.choose(facts, ends)).as_ref()
    }

    /// Returns true if searches do not rule out an attempt: it belongs to a point of the plan, or it is a probe of the chain that counts.
    pub(super) fn is_chained(&self, at: usize) -> bool {
        let run = &self.attempts[at];
        match &run.search {
            // A probe that was given up untried belongs to no chain.
            Some(search) if run.after.is_some() => {
                let chain = self.search(search, run.slot);
                chain.is_some_and(|chain| chain.probes.contains(&at))
            }
            _ => true,
        }
    }

    fn choose(&self, facts: &SearchLines, ends: &[(Rank, LineId, SearchEnd)]) -> Option<SearchRecord> {
        let mut next: BTreeMap<LineId, Vec<usize>> = BTreeMap::new();
        for at in &facts.asked {
            let run = &self.attempts[*at];
            // A chain ends before its first probe that is lost.
            if run.standing == RunStatus::Done
                && self.retirement_of(run).is_none()
                && let Some(after) = run.after
            {
                next.entry(after).or_default().push(*at);
            }
        }
        // A search that began or ended on a server that was since replaced begins anew.
        let server = &facts.roots.first()?.1.server;
        let is_retired = |line: LineId| self.retired_from(server, line).is_some();
        let ends: Vec<_> = ends.iter().filter(|(rank, ..)| !is_retired(rank.line)).collect();
        let roots = facts.roots.iter().filter(|(rank, _)| !is_retired(rank.line));
        // One that is answered, else the longest, else the first from the beginning on.
        let mut best: Option<(bool, usize, Reverse<Vec<Rank>>)> = None;
        let mut open: Vec<Vec<Rank>> = roots.map(|(rank, _)| vec![*rank]).collect();
        while let Some(places) = open.pop() {
            let line = places[places.len() - 1].line;
            let further = next.get(&line).into_iter().flatten().map(|at| self.attempts[*at].rank);
            // Damage could make lines follow each other in a circle.
            let further = further.filter(|rank| !places.contains(rank));
            open.extend(further.map(|rank| [&places[..], &[rank]].concat()));
            let is_answered = ends.iter().any(|(_, after, end)| *after == line && end.is_final());
            best = best.max(Some((is_answered, places.len(), Reverse(places))));
        }
        let (.., Reverse(places)) = best?;
        let begun = places[0];
        let (_, started) = facts.roots.iter().find(|(rank, _)| *rank == begun)?;
        let tip = places[places.len() - 1].line;
        let of_tip = ends.into_iter().filter(|(_, after, _)| *after == tip);
        // An answer is final. A search that was given up may have continued and been given up again.
        let ended = of_tip.max_by_key(|(rank, _, end)| match end {
            SearchEnd::Answered(_) => (true, Reverse(Some(*rank)), None),
            SearchEnd::GivenUp(..) => (false, Reverse(None), Some(*rank)),
        });
        Some(SearchRecord {
            started: started.clone(),
            ended: ended.map(|(_, _, end)| end.clone()),
            tip,
            probes: places[1..].iter().map(|rank| self.by_line[&rank.line]).collect(),
        })
    }
}
