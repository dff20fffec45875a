//! The chains of a search. Each probe refers to the previous one, so that probes of two sessions that did not know of each other never form
//! one chain. One chain counts: one whose search has all its answers, else the longest, else the first. A search that was given up may begin
//! anew; its earlier chains without all answers then no longer count.

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
    /// Beginnings: one for each session that did not know of an earlier one, or began anew.
    pub roots: Vec<(Rank, SearchStarted)>,
    /// Indices of the attempts that the search asked for.
    pub asked: Vec<usize>,
    /// Ends of the search: rank, last line of the chain, and result. The entry of the first start slot has the ends on all slots.
    pub ends: Vec<(Rank, LineId, SearchEnd)>,
    /// The chain that counts; computed on first use.
    pub chosen: OnceLock<Option<SearchRecord>>,
}

impl SearchLines {
    /// Returns the rank of its first beginning.
    pub fn began(&self) -> Option<Rank> {
        self.roots.iter().map(|(rank, _)| *rank).min()
    }
}

impl State {
    /// Returns the record of a search on a planned start, by the chain that counts; `None` if it has not begun. The search need not be in
    /// the current plan.
    pub fn search(&self, search: &SearchId, slot: u32) -> Option<&SearchRecord> {
        let facts = self.searches.get(&(search.clone(), slot))?;
        let first = self.searches.get(&(search.clone(), FIRST_SLOT));
        let ends = first.map_or(&[][..], |first| &first.ends);
        facts.chosen.get_or_init(|| self.choose(facts, ends)).as_ref()
    }

    /// Returns true if an attempt is a probe of a chain that does not count.
    pub(super) fn is_off_chain(&self, at: usize) -> bool {
        let run = &self.attempts[at];
        match &run.search {
            // A probe that was given up untried belongs to no chain, and may count.
            Some(search) if run.after.is_some() => {
                let chain = self.search(search, run.slot);
                chain.is_none_or(|chain| !chain.probes.contains(&at))
            }
            _ => false,
        }
    }

    fn choose(&self, facts: &SearchLines, ends: &[(Rank, LineId, SearchEnd)]) -> Option<SearchRecord> {
        let mut next: BTreeMap<LineId, Vec<usize>> = BTreeMap::new();
        for at in &facts.asked {
            let run = &self.attempts[*at];
            // A chain ends before its first probe that is lost, retired or without a result.
            if run.status == RunStatus::Done
                && self.retirement_of(run).is_none()
                && let Some(after) = run.after
            {
                next.entry(after).or_default().push(*at);
            }
        }
        // Beginnings and ends on a server that was replaced since do not count. A beginning that a later one had seen gives way unless its
        // search has all its answers: the search was given up, and begun anew.
        let server = &facts.roots.first()?.1.server;
        let is_retired = |line: LineId| self.retired_from(server, line).is_some();
        let ends: Vec<_> = ends.iter().filter(|(rank, ..)| !is_retired(rank.line)).collect();
        let is_anew = |line: LineId| facts.roots.iter().any(|(later, _)| self.had_seen(later.line, line));
        let roots = facts.roots.iter().map(|(rank, _)| rank);
        let roots = roots.filter(|rank| !is_retired(rank.line));
        // An answered chain, else one of the latest beginning, else the longest, else the one whose lines come first.
        let mut best: Option<(bool, bool, usize, Reverse<Vec<Rank>>)> = None;
        let mut open: Vec<Vec<Rank>> = roots.map(|rank| vec![*rank]).collect();
        while let Some(chain) = open.pop() {
            let line = chain[chain.len() - 1].line;
            let further = next.get(&line).into_iter().flatten().map(|at| self.attempts[*at].rank);
            // Damage could make lines follow each other in a circle.
            let further = further.filter(|rank| !chain.contains(rank));
            open.extend(further.map(|rank| [&chain[..], &[rank]].concat()));
            let is_answered = ends.iter().any(|(_, after, end)| *after == line && end.is_final());
            let is_latest = !is_anew(chain[0].line);
            best = best.max(Some((is_answered, is_latest, chain.len(), Reverse(chain))));
        }
        let (.., Reverse(chain)) = best?;
        let root = chain[0];
        let (_, started) = facts.roots.iter().find(|(rank, _)| *rank == root)?;
        let tip = chain[chain.len() - 1].line;
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
            probes: chain[1..].iter().map(|rank| self.by_line[&rank.line]).collect(),
        })
    }
}
