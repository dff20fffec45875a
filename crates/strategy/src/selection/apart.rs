//! Groups side by side whose servers do not start while another one is measured, in virtual time: a start waits for the runs that are
//! under way, and the runs that come after it wait for the start. So starts cost more than their own time. The rule itself, which real
//! sweeps follow too, is here.

use super::packed::{Capacity, Need, Placed, Round};

/// The time of a group: its starts at equal distances, and runs of equal length between them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Starts of its server.
    pub starts: u64,
    /// Sum of all starts, in seconds.
    pub starting_s: f64,
    /// Runs.
    pub runs: u64,
    /// Sum of all runs, in seconds.
    pub running_s: f64,
    /// True if nothing is measured while it starts.
    pub starts_apart: bool,
}

/// An activity of a group that runs at the same time as others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Measures a run.
    Run,
    /// Starts a server.
    Start,
    /// Starts a server while nothing is measured.
    StartApart,
}

impl Activity {
    /// True if two groups may do these things at the same time.
    pub fn goes_with(self, other: Activity) -> bool {
        !matches!(
            (self, other),
            (Activity::Run, Activity::StartApart) | (Activity::StartApart, Activity::Run)
        )
    }
}

/// A thing that a group does, or waits to do.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// Its place among those that have begun.
    place: usize,
    activity: Activity,
    seconds: f64,
}

/// Plays the groups, and returns them in the order in which they begin. A group that takes longer than its work has waited.
pub fn play_apart(capacity: Capacity, needs: &[Need], works: &[Work], order: &[usize]) -> Vec<Placed> {
    let mut round = Round::new(capacity, needs, order);
    let mut turns = Vec::new();
    let (mut waiting, mut active): (Vec<Turn>, Vec<(f64, Turn)>) = Default::default();
    let (mut now, mut after) = (0.0, None);
    loop {
        round.begin(now, after);
        for place in turns.len()..round.placed.len() {
            let mut own = turns_of(works[round.placed[place].group], place);
            waiting.extend(own.next());
            turns.push(own);
        }
        admit(&mut waiting, &mut active, now);
        let Some(first) = (0..active.len()).min_by(|a, b| active[*a].0.total_cmp(&active[*b].0)) else {
            return round.placed;
        };
        let (ended_at, Turn { place, .. }) = active.remove(first);
        now = ended_at;
        match turns[place].next() {
            Some(next) => waiting.push(next),
            None => after = Some(round.end(place, now)),
        }
    }
}

/// Admits those that may begin now. The one that came earlier goes first, unless both may at once.
fn admit(waiting: &mut Vec<Turn>, active: &mut Vec<(f64, Turn)>, now: f64) {
    let mut left: Vec<Turn> = Vec::new();
    for turn in waiting.drain(..) {
        let mut others = active.iter().map(|(_, other)| other).chain(&left);
        match others.all(|other| turn.activity.goes_with(other.activity)) {
            true => active.push((now + turn.seconds, turn)),
            false => left.push(turn),
        }
    }
    *waiting = left;
}

/// The turns of a group, in order; at least one thing, so that it ends.
fn turns_of(work: Work, place: usize) -> impl Iterator<Item = Turn> {
    let starts = work.starts.max(1);
    let turn = move |activity: Activity, seconds: f64| Turn {
        place,
        activity,
        seconds,
    };
    // A server that is up already needs no start.
    let starting = match work.starts_apart && work.starting_s > 0.0 {
        true => Activity::StartApart,
        false => Activity::Start,
    };
    let of_start = move |at: u64| {
        let runs = work.runs * (at + 1) / starts - work.runs * at / starts;
        let start = turn(starting, work.starting_s / starts as f64);
        let run = turn(Activity::Run, work.running_s / work.runs.max(1) as f64);
        std::iter::once(start).chain((0..runs).map(move |_| run))
    };
    (0..starts).flat_map(of_start)
}

#[cfg(test)]
mod tests {
    use super::super::packed::length;
    use super::*;
    use proptest::prelude::*;

    const NODE: Capacity = Capacity { gpus: 8, groups: 8 };

    fn group(starting_s: f64, runs: u64, running_s: f64, starts_apart: bool) -> (Need, Work) {
        let need = Need {
            gpus: 1,
            seconds: starting_s + running_s,
            alone: false,
        };
        let work = Work {
            starts: 1,
            starting_s,
            runs,
            running_s,
            starts_apart,
        };
        (need, work)
    }

    fn ends(groups: &[(Need, Work)]) -> Vec<f64> {
        let (needs, works): (Vec<Need>, Vec<Work>) = groups.iter().copied().unzip();
        let order: Vec<usize> = (0..needs.len()).collect();
        let mut placed = play_apart(NODE, &needs, &works, &order);
        placed.sort_by_key(|placed| placed.group);
        placed.iter().map(|placed| placed.to).collect()
    }

    #[test]
    fn runs_wait_for_starts_that_began_before() {
        let long = |apart| [group(10.0, 2, 20.0, apart), group(30.0, 1, 5.0, apart)];
        assert_eq!(ends(&long(false)), [30.0, 35.0]);
        assert_eq!(
            ends(&long(true)),
            [50.0, 35.0],
            "its first run waits for the other start"
        );
    }

    #[test]
    fn a_start_waits_for_the_run_under_way_and_not_for_those_after_it() {
        // Eight places, so the ninth group begins when the first ends, at 11 s, while the others are measured until 12 s.
        let first = group(1.0, 1, 10.0, true);
        let others = group(1.0, 2, 22.0, true);
        let mut groups = vec![others; 7];
        groups.insert(0, first);
        groups.push(group(5.0, 1, 1.0, true));
        let ends = ends(&groups);
        assert_eq!((ends[0], ends[8]), (11.0, 18.0));
        assert!(ends[1..8].iter().all(|end| *end == 28.0), "{ends:?}");
    }

    proptest! {
        #[test]
        fn starts_that_are_kept_apart_never_shorten_a_sweep_and_other_ones_change_nothing(
            drawn in proptest::collection::vec((0u32..4, 1u64..4, 1u32..100, 0u64..9, 1u32..100), 1..20),
        ) {
            let groups = |starts_apart: bool| -> (Vec<Need>, Vec<Work>) {
                let group = |(power, starts, starting, runs, running): &(u32, u64, u32, u64, u32)| {
                    let (starting_s, running_s) = (f64::from(*starting), if *runs > 0 { f64::from(*running) } else { 0.0 });
                    let need = Need { gpus: 1 << power, seconds: starting_s + running_s, alone: false };
                    (need, Work { starts: *starts, starting_s, runs: *runs, running_s, starts_apart })
                };
                drawn.iter().map(group).unzip()
            };
            let (needs, works) = groups(false);
            let order = NODE.order(&needs);
            let plain = length(&NODE.play(&needs, &order));
            prop_assert!((length(&play_apart(NODE, &needs, &works, &order)) - plain).abs() < 1e-6);
            let (needs, works) = groups(true);
            let placed = play_apart(NODE, &needs, &works, &order);
            prop_assert_eq!(placed.len(), needs.len());
            for group in &placed {
                prop_assert!(group.to - group.from >= needs[group.group].seconds - 1e-6);
            }
        }
    }
}
