//! Chooses the order of groups if several run at the same time, and predicts when all have ended. As soon as resources are free, the first
//! group of the list that fits begins.
//!
//! Lists are compared by playing them with the expected durations: first the lists of a few rules, then random changes of the best list.
//! With true durations the list is close to the best. With wrong ones, the next group that fits still begins at once.

use crate::stats::Random;

/// Resources for groups that run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Number of GPUs.
    pub gpus: u32,
    /// Maximum number of groups at the same time.
    pub groups: u32,
}

/// Needs of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Need {
    /// Number of GPUs.
    pub gpus: u32,
    /// Expected duration, in seconds.
    pub seconds: f64,
    /// True if nothing may run at the same time.
    pub alone: bool,
}

/// The time span of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupSpan {
    /// Index of the group.
    pub group: usize,
    /// Beginning, in seconds.
    pub from: f64,
    /// End, in seconds.
    pub to: f64,
    /// The group at whose end it begins; `None` at time 0.
    pub after: Option<usize>,
}

/// Maximum number of groups that are placed in the search for a list. The search takes a fraction of a second.
const EFFORT: usize = 300_000;
/// A changed list replaces the list of a rule only if its length is below this share of the rule's. Lists of rules are preferred, because
/// they suffer less from wrong durations.
const SHORT_ENOUGH: f64 = 0.995;

impl Capacity {
    /// Returns true if a group fits next to `under_way` others that leave `free_gpus` GPUs.
    pub fn has(self, free_gpus: u32, under_way: usize, need: &Need) -> bool {
        need.gpus <= free_gpus && under_way < if need.alone { 1 } else { self.groups as usize }
    }

    /// Returns the order in which groups begin as soon as they fit. Each must fit alone.
    pub fn order(self, needs: &[Need]) -> Vec<usize> {
        let ruled = RULES.map(|rule| {
            let key = |group: &usize| rule(&needs[*group]);
            let mut list: Vec<usize> = (0..needs.len()).collect();
            list.sort_by(|one, other| compare(key(other), key(one)));
            (length(&self.play(needs, &list)), list)
        });
        let shortest = ruled.into_iter().min_by(|one, other| compare(one.0, other.0));
        let (length, list) = shortest.expect("there are rules");
        self.improve(needs, length, list)
    }

    /// Swaps pairs and moves single groups at random. Returns the shortest list found, or the given one, of length `given`, if
    /// it is hardly longer.
    fn improve(self, needs: &[Need], given: f64, list: Vec<usize>) -> Vec<usize> {
        let bound = self.bound(needs);
        let (mut best, mut shortest) = (list.clone(), given);
        let mut random = Random::seeded(needs.len() as u64);
        let mut draw = |end: usize| (random.bits() % end as u64) as usize;
        for _ in 0..EFFORT / needs.len().max(1) {
            if needs.len() < 2 || shortest <= bound * 1.001 {
                break;
            }
            let mut changed = best.clone();
            let (one, other) = (draw(changed.len()), draw(changed.len()));
            match draw(2) {
                0 => changed.swap(one, other),
                _ => {
                    let group = changed.remove(one);
                    changed.insert(other, group);
                }
            }
            let length = length(&self.play(needs, &changed));
            // Lists of equal length are accepted too, because they lead out of local minima.
            if length <= shortest {
                (best, shortest) = (changed, length);
            }
        }
        match shortest < given * SHORT_ENOUGH {
            true => best,
            false => list,
        }
    }

    /// Returns the time spans of the groups if they take as long as expected, in the order in which they begin.
    pub fn play(self, needs: &[Need], order: &[usize]) -> Vec<GroupSpan> {
        let mut groups = VirtualGroups::new(self, needs, order);
        let (mut now, mut after) = (0.0, None);
        loop {
            groups.begin(now, after);
            let ends = |at: &&usize| groups.placed[**at].to;
            let Some(first) = groups
                .under_way
                .iter()
                .min_by(|a, b| compare(ends(a), ends(b)))
                .copied()
            else {
                return groups.placed;
            };
            now = groups.placed[first].to;
            after = Some(groups.end(first, now));
        }
    }

    /// Returns a lower bound of the length of any list, in seconds: the greatest of the time with all GPUs busy, the time with as many
    /// groups as allowed, and the duration of the longest group.
    pub fn bound(self, needs: &[Need]) -> f64 {
        let seconds = needs.iter().map(|need| need.seconds);
        let share = |need: &Need, part: u32, whole: u32| match need.alone {
            true => need.seconds,
            false => need.seconds * f64::from(part) / f64::from(whole.max(1)),
        };
        let of_gpus: f64 = needs.iter().map(|need| share(need, need.gpus, self.gpus)).sum();
        let of_groups: f64 = needs.iter().map(|need| share(need, 1, self.groups)).sum();
        seconds.fold(of_gpus.max(of_groups), f64::max)
    }
}

/// The state of groups that run in virtual time.
pub(super) struct VirtualGroups<'n> {
    capacity: Capacity,
    needs: &'n [Need],
    /// Groups that have not begun, in order.
    waiting: Vec<usize>,
    /// Groups that have begun, in order.
    pub placed: Vec<GroupSpan>,
    /// Indices in `placed` of the groups that have not ended.
    under_way: Vec<usize>,
    free: u32,
}

impl<'n> VirtualGroups<'n> {
    pub fn new(capacity: Capacity, needs: &'n [Need], order: &[usize]) -> VirtualGroups<'n> {
        VirtualGroups {
            capacity,
            needs,
            waiting: order.to_vec(),
            placed: Vec::with_capacity(order.len()),
            under_way: Vec::new(),
            free: capacity.gpus,
        }
    }

    /// Begins each group that fits now, after the end of the group `after`. Each ends after its expected duration, unless
    /// [`VirtualGroups::end`] reports another time.
    pub fn begin(&mut self, now: f64, after: Option<usize>) {
        let needs = self.needs;
        self.waiting.retain(|&group| {
            let Need { gpus, seconds, .. } = needs[group];
            let is_shared = self.under_way.iter().all(|at| !needs[self.placed[*at].group].alone);
            let fits = is_shared && self.capacity.has(self.free, self.under_way.len(), &needs[group]);
            if fits {
                self.free -= gpus;
                self.under_way.push(self.placed.len());
                let (from, to) = (now, now + seconds);
                self.placed.push(GroupSpan { group, from, to, after });
            }
            !fits
        });
    }

    /// Ends the group at the index `place` of `placed`, and returns its index in the needs.
    pub fn end(&mut self, place: usize, now: f64) -> usize {
        self.under_way.retain(|at| *at != place);
        self.placed[place].to = now;
        let group = self.placed[place].group;
        self.free += self.needs[group].gpus;
        group
    }
}

/// Returns the end of the last group, in seconds.
pub fn length(placed: &[GroupSpan]) -> f64 {
    placed.iter().map(|group| group.to).fold(0.0, f64::max)
}

/// Returns the chain of groups that decides the length of the list. It ends with the group that ends last, and each of its groups begins
/// at the end of the one before.
pub fn longest_chain(placed: &[GroupSpan]) -> Vec<usize> {
    let mut chain = Vec::new();
    let mut next = placed.iter().max_by(|one, other| compare(one.to, other.to));
    while let Some(last) = next {
        chain.push(last.group);
        next = placed.iter().find(|before| Some(before.group) == last.after);
    }
    chain.reverse();
    chain
}

/// Chooses GPUs among the free ones. If possible they are neighbours, and the index of the first is a multiple of `count`, because such
/// GPUs are probably best connected.
pub fn choose(free: &[u32], count: usize) -> Vec<u32> {
    let is_free = |gpu: &u32| free.contains(gpu);
    let aligned = free
        .iter()
        .filter(|first| (**first as usize).is_multiple_of(count.max(1)));
    let mut blocks = aligned.map(|first| *first..first + count as u32);
    match blocks.find(|block| block.clone().all(|gpu| is_free(&gpu))) {
        Some(block) => block.collect(),
        None => free.iter().copied().take(count).collect(),
    }
}

/// Key by which groups are sorted; the greatest comes first.
type SortKey = fn(&Need) -> (f64, f64);

/// The rules: keys by which groups are sorted, the greatest first. If wide and long groups come first, narrow and short ones fill the gaps.
const RULES: [SortKey; 3] = [
    |need| (f64::from(need.gpus), need.seconds),
    |need| (need.seconds, f64::from(need.gpus)),
    |need| (need.seconds * f64::from(need.gpus), need.seconds),
];

fn compare<T: PartialOrd>(one: T, other: T) -> std::cmp::Ordering {
    one.partial_cmp(&other).unwrap_or(std::cmp::Ordering::Equal)
}

// Plays groups in virtual time. Their servers do not start while another server is measured. A start waits for the runs that are under way,
// and later runs wait for the start. So starts cost more than their own time. Real sweeps follow the rule in `Activity::goes_with` too.

/// The work of a group: its starts at equal distances, and runs of equal length between them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Number of starts of its server.
    pub starts: u64,
    /// Total time of all starts, in seconds.
    pub starting_s: f64,
    /// Number of runs.
    pub runs: u64,
    /// Total time of all runs, in seconds.
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
    /// Returns true if two groups may do these activities at the same time.
    pub fn goes_with(self, other: Activity) -> bool {
        !matches!(
            (self, other),
            (Activity::Run, Activity::StartApart) | (Activity::StartApart, Activity::Run)
        )
    }
}

/// An activity of a group that is under way or waits.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// Index of the group in [`VirtualGroups::placed`].
    place: usize,
    activity: Activity,
    seconds: f64,
}

/// Plays the groups with starts apart from runs, and returns them in the order in which they begin. A group that takes longer than its work
/// has waited.
pub fn play_apart(capacity: Capacity, needs: &[Need], works: &[Work], order: &[usize]) -> Vec<GroupSpan> {
    let mut groups = VirtualGroups::new(capacity, needs, order);
    let mut turns = Vec::new();
    let (mut waiting, mut active): (Vec<Turn>, Vec<(f64, Turn)>) = Default::default();
    let (mut now, mut after) = (0.0, None);
    loop {
        groups.begin(now, after);
        for place in turns.len()..groups.placed.len() {
            let mut of_group = turns_of(works[groups.placed[place].group], place);
            waiting.extend(of_group.next());
            turns.push(of_group);
        }
        admit(&mut waiting, &mut active, now);
        let Some(first) = (0..active.len()).min_by(|a, b| active[*a].0.total_cmp(&active[*b].0)) else {
            return groups.placed;
        };
        let (ended_at, Turn { place, .. }) = active.remove(first);
        now = ended_at;
        match turns[place].next() {
            Some(next) => waiting.push(next),
            None => after = Some(groups.end(place, now)),
        }
    }
}

/// Begins the activities that may begin now. An activity that must wait also holds back later activities that may not run at the same time.
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

/// Returns the turns of a group, in order. There is at least one, so that the group ends.
fn turns_of(work: Work, place: usize) -> impl Iterator<Item = Turn> {
    let starts = work.starts.max(1);
    let turn = move |activity: Activity, seconds: f64| Turn {
        place,
        activity,
        seconds,
    };
    // A server that is up already needs no start, so no run waits for it.
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
    use super::*;
    use proptest::prelude::*;

    const NODE: Capacity = Capacity { gpus: 8, groups: 8 };

    fn need(gpus: u32, seconds: f64) -> Need {
        Need {
            gpus,
            seconds,
            alone: false,
        }
    }

    #[test]
    fn a_group_that_must_be_alone_is() {
        let shy = Need {
            alone: true,
            ..need(1, 5.0)
        };
        let needs = [need(1, 10.0), shy, need(2, 10.0)];
        for capacity in [NODE, Capacity { gpus: 0, groups: 3 }] {
            let needs = needs.map(|need| Need {
                gpus: need.gpus.min(capacity.gpus),
                ..need
            });
            let placed = capacity.play(&needs, &capacity.order(&needs));
            let alone = placed.iter().find(|placed| placed.group == 1).expect("each runs");
            let meets = |other: &&GroupSpan| other.group != 1 && other.from < alone.to && alone.from < other.to;
            assert_eq!(placed.iter().filter(meets).count(), 0);
            assert_eq!((length(&placed), placed.len()), (15.0, 3));
        }
    }

    proptest! {
        #[test]
        fn every_group_runs_once_and_never_more_than_there_is_room_for(
            drawn in proptest::collection::vec((0u32..4, 1u32..100), 0..30),
            groups in 1u32..10,
        ) {
            let needs: Vec<Need> = drawn.iter().map(|(power, seconds)| need(1 << power, f64::from(*seconds))).collect();
            let capacity = Capacity { gpus: 8, groups };
            let order = capacity.order(&needs);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..needs.len()).collect::<Vec<_>>());
            let placed = capacity.play(&needs, &order);
            prop_assert_eq!(placed.len(), needs.len());
            for moment in placed.iter().map(|group| group.from) {
                let runs = placed.iter().filter(|group| group.from <= moment && moment < group.to);
                let gpus: u32 = runs.clone().map(|group| needs[group.group].gpus).sum();
                prop_assert!(gpus <= 8 && runs.count() <= groups as usize);
            }
            prop_assert!(length(&placed) >= capacity.bound(&needs) - 1e-9);
            let chain: f64 = longest_chain(&placed).into_iter().map(|group| needs[group].seconds).sum();
            prop_assert!((chain - length(&placed)).abs() < 1e-6, "a chain has no gaps");
        }
    }

    #[test]
    fn one_that_needs_every_gpu_runs_alone_and_others_fill_the_node() {
        let needs = [need(1, 10.0), need(8, 5.0), need(4, 10.0), need(2, 10.0), need(1, 10.0)];
        let placed = NODE.play(&needs, &NODE.order(&needs));
        assert_eq!((placed[0].group, placed[0].to), (1, 5.0));
        assert!(placed[1..].iter().all(|group| group.from == 5.0));
        assert_eq!(length(&placed), 15.0);
    }

    #[test]
    fn long_ones_come_first() {
        let needs = [need(4, 1.0), need(4, 1.0), need(4, 1.0), need(4, 3.0)];
        assert_eq!(length(&NODE.play(&needs, &NODE.order(&needs))), 3.0);
    }

    #[test]
    fn neighbours_are_preferred() {
        assert_eq!(choose(&[1, 2, 3, 4, 5, 6, 7], 2), [2, 3]);
        assert_eq!(choose(&[1, 2, 5, 6], 2), [1, 2]);
        assert_eq!(choose(&[0, 3, 4, 5, 6, 7], 4), [4, 5, 6, 7]);
        assert_eq!(choose(&[3], 0), [0; 0]);
    }
}

#[cfg(test)]
mod apart_tests {
    use super::length;
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
                    // Whole seconds for each start and run: no sum is rounded, so no order of ends depends on rounding.
                    let starting_s = f64::from(*starting) * *starts as f64;
                    let running_s = f64::from(*running) * *runs as f64;
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
