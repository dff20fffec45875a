//! The work that one invocation has before it, and how long that will take: learned from what was measured, most from
//! runs of the same server and load, then from runs of the same load, then from all. Server starts, the time between runs
//! and searches count too.
//!
//! Knows nothing of the plan: whoever drives the sweep says what is to be done.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use vsweep_plan::cause::Outcome;
use vsweep_plan::ids::{PointId, SearchId, ServerId};
use vsweep_record::journal::{Entry, Event, FIRST_SLOT, RunRecord, ServerRecord, State};
use vsweep_strategy::selection::packed::{Need, Room, length};
use vsweep_strategy::stats::Finding;

/// Runs that a search takes, as long as none has ended.
const USUAL_PROBES: f64 = 8.0;

/// What is to be done on one start of a server: runs by the name of their load, and searches.
#[derive(Debug, Clone, Default)]
struct Share {
    runs: BTreeMap<String, u64>,
    searches: BTreeSet<SearchId>,
}

impl Share {
    fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.searches.is_empty()
    }
}

/// A mean that grows with every value.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        if value.is_finite() && value >= 0.0 {
            self.sum += value;
            self.count += 1;
        }
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// What lies ahead of one invocation.
#[derive(Debug, Clone, Default)]
pub struct Ahead {
    shares: BTreeMap<(ServerId, u32), Share>,
    total: u64,
    done: u64,
    up: BTreeSet<(ServerId, u32)>,
    /// The starts that this invocation has made or given up.
    begun: BTreeSet<(ServerId, u32)>,
    /// How many servers run at once, and the GPUs that each needs; one after the other without.
    shared: Option<(Room, BTreeMap<ServerId, Need>)>,
    /// What a start takes by a forecast, in seconds.
    predicted_start: Option<f64>,
    /// Whether the runs load the engine themselves.
    without_server: bool,
    by_server_and_load: BTreeMap<(ServerId, String), Mean>,
    by_load: BTreeMap<String, Mean>,
    run: Mean,
    start: Mean,
    /// Between the end of one run or start and the end of the next run, without the run itself.
    pause: Mean,
    /// Between the last run on a server and its end.
    stop: Mean,
    probe: Mean,
    probes_of_ended: Mean,
    probes: BTreeMap<(SearchId, u32), u32>,
    /// When something last ended on a server that is up.
    last: BTreeMap<ServerId, jiff::Timestamp>,
}

impl Ahead {
    /// What a journal alone tells of the work that is left: the repetitions that its points lack, and how many servers and
    /// points there are that it does not know yet. `None` where searches decide on their runs.
    pub fn of_journal(state: &State) -> Option<Ahead> {
        let planned = state
            .planned()
            .filter(|planned| planned.searches == 0 && planned.points > 0 && state.compared().is_none())?;
        type Known<'s> = (&'s ServerId, &'s str, BTreeMap<u32, u64>);
        let mut known: BTreeMap<&PointId, Known<'_>> = BTreeMap::new();
        for run in state.measured() {
            let (_, _, done) = known
                .entry(&run.point)
                .or_insert((&run.server, &run.name, BTreeMap::new()));
            *done.entry(run.slot).or_default() += 1;
        }
        let mut ahead = Ahead::default();
        let slots = FIRST_SLOT..planned.starts;
        let repetitions = planned.runs / planned.points / u64::from(planned.starts);
        for (server, load, done) in known.values() {
            for slot in slots.clone() {
                let done = done.get(&slot).copied().unwrap_or(0);
                if let left @ 1.. = repetitions.saturating_sub(done) {
                    ahead.add_runs(server, slot, load, left);
                }
            }
        }
        let last = state.measured().last().map(|run| run.server.clone());
        let servers: BTreeSet<&ServerId> = known.values().map(|(server, ..)| *server).collect();
        let missing = (planned.servers as usize).saturating_sub(servers.len());
        let unknown = (servers.len() as u64..planned.servers).map(|i| ServerId(format!("unknown {i}")));
        // Each takes its starts; whose the unknown runs are makes no difference.
        let unknown: Vec<ServerId> = unknown.chain(last).collect();
        let unknown_runs = repetitions * planned.points.saturating_sub(known.len() as u64);
        for slot in slots {
            for server in unknown.iter().take(missing) {
                ahead.add_runs(server, slot, "", 0);
            }
            if let (Some(server), 1..) = (unknown.first(), unknown_runs) {
                ahead.add_runs(server, slot, "", unknown_runs);
            }
        }
        let is_open = |server: &ServerRecord| server.starts.last().is_some_and(|start| start.exited_at.is_none());
        let open = state.servers.iter().filter(|(_, server)| is_open(server));
        let slot_of = |server: &ServerRecord| server.starts.last().map_or(FIRST_SLOT, |start| start.slot);
        ahead.up = open.map(|(id, server)| (id.clone(), slot_of(server))).collect();
        // As many at once as in the last session, whatever they need.
        let groups = most_at_once(state);
        ahead.shared = (groups > 1).then(|| (Room { gpus: 0, groups }, BTreeMap::new()));
        ahead.learn(state);
        Some(ahead)
    }

    /// Servers run side by side, and each needs so much; how long they take is not taken from there.
    pub fn share_out(&mut self, room: Room, needs: BTreeMap<ServerId, Need>) {
        self.shared = Some((room, needs));
    }

    /// The runs need no server: nothing is started or stopped for them.
    pub fn need_no_server(&mut self) {
        self.without_server = true;
    }

    /// Whether they need none.
    pub fn is_without_server(&self) -> bool {
        self.without_server
    }

    /// What one config is called.
    pub fn noun(&self) -> &'static str {
        if self.without_server { "engine" } else { "server" }
    }

    /// Adds runs of one load on one start of a server; `load` is the name of their point.
    pub fn add_runs(&mut self, server: &ServerId, slot: u32, load: &str, runs: u64) {
        *self.share(server, slot).runs.entry(load.to_owned()).or_default() += runs;
        self.total += runs;
    }

    /// Adds a search on one start of a server.
    pub fn add_search(&mut self, server: &ServerId, slot: u32, search: &SearchId) {
        self.share(server, slot).searches.insert(search.clone());
    }

    fn share(&mut self, server: &ServerId, slot: u32) -> &mut Share {
        self.shares.entry((server.clone(), slot)).or_default()
    }

    /// Learns from what earlier sessions recorded.
    pub fn learn(&mut self, state: &State) {
        for run in state.runs() {
            self.learn_run(run);
        }
        let starts = state.servers.values().flat_map(|server| &server.starts);
        starts
            .filter_map(|start| start.ready_seconds)
            .for_each(|seconds| self.start.add(seconds));
        for search in state.searches().filter(|search| search.ended.is_some()) {
            self.learn_ended(&search.started.search, search.started.slot);
        }
    }

    fn learn_run(&mut self, run: &RunRecord) {
        if let Some(searched) = &run.search {
            self.probe.add(run.seconds);
            *self.probes.entry((searched.id.clone(), run.slot)).or_default() += 1;
        }
        // What failed at once says nothing about what will be measured.
        if run.outcome == Outcome::Failed {
            return;
        }
        let key = (run.server.clone(), run.name.clone());
        self.by_server_and_load.entry(key).or_default().add(run.seconds);
        self.by_load.entry(run.name.clone()).or_default().add(run.seconds);
        self.run.add(run.seconds);
    }

    fn learn_ended(&mut self, search: &SearchId, slot: u32) {
        let probes = self.probes_of(search, slot);
        self.probes_of_ended.add(probes);
    }

    fn probes_of(&self, search: &SearchId, slot: u32) -> f64 {
        self.probes.get(&(search.clone(), slot)).copied().unwrap_or(0).into()
    }

    /// Takes note of an event.
    pub fn note(&mut self, entry: &Entry, state: &State) {
        let at = entry.at.parse::<jiff::Timestamp>().ok();
        match &entry.event {
            Event::ServerStarting { server, slot, .. } => {
                self.up.insert((server.clone(), *slot));
                self.begun.insert((server.clone(), *slot));
            }
            Event::ServerReady { server, seconds, .. } => {
                self.start.add(*seconds);
                self.pass(server, at);
            }
            Event::ServerExited { server, cause, .. } => {
                if let (Some(since), None) = (self.pass(server, at), cause) {
                    self.stop.add(since);
                }
                self.up.retain(|(up, _)| up != server);
                self.last.remove(server);
            }
            Event::RunFinished(finished) => {
                if let Some(run) = state.run_of(entry) {
                    if let Some(since) = self.pass(&run.server, at) {
                        self.pause.add(since - finished.seconds);
                    }
                    self.learn_run(run);
                    if run.search.is_none() {
                        self.finish(&run.server, run.slot, &run.name);
                    }
                }
            }
            Event::GroupGivenUp(given_up) => {
                self.begun.insert((given_up.server.clone(), given_up.slot));
                for point in given_up.points.iter().filter(|point| point.search.is_none()) {
                    point
                        .runs
                        .iter()
                        .for_each(|_| self.finish(&given_up.server, given_up.slot, &point.name));
                }
                for (search, _) in &given_up.searches {
                    self.end_search(search, given_up.slot);
                }
            }
            Event::InterferenceSampled(sample) => {
                _ = self.pass(&sample.server, at);
                if let (Some((room, _)), Finding::Slows) = (&mut self.shared, state.interference().servers.finding) {
                    room.groups = 1;
                }
            }
            Event::ResultsRetired { server, .. } => {
                for run in state.retired_at(entry.place.line) {
                    match &run.search {
                        None => self.add_runs(server, run.slot, &run.name, 1),
                        Some(searched) => self.add_search(server, run.slot, &searched.id),
                    }
                }
            }
            Event::SearchFinished { search, .. } => {
                let slot = state
                    .latest_search(search)
                    .map_or(FIRST_SLOT, |record| record.started.slot);
                self.learn_ended(search, slot);
                self.end_search(search, slot);
            }
            _ => {}
        }
    }

    /// Something has ended on a server; the seconds since the time before.
    fn pass(&mut self, server: &ServerId, at: Option<jiff::Timestamp>) -> Option<f64> {
        let at = at?;
        let last = self.last.insert(server.clone(), at)?;
        Some(at.duration_since(last).as_secs_f64())
    }

    fn end_search(&mut self, search: &SearchId, slot: u32) {
        let of_slot = self.shares.iter_mut().filter(|((_, at), _)| *at == slot);
        of_slot.for_each(|(_, share)| _ = share.searches.remove(search));
        self.shares.retain(|_, share| !share.is_empty());
    }

    /// Takes off a run that was done. One that was not foreseen (intervals may ask for more, and finals) counts as well, but only on
    /// a start that this invocation works on.
    fn finish(&mut self, server: &ServerId, slot: u32, load: &str) {
        let key = (server.clone(), slot);
        let left = self.shares.get_mut(&key).and_then(|share| share.runs.get_mut(load));
        let Some(left) = left else {
            if self.up.contains(&key) {
                self.total += 1;
                self.done += 1;
            }
            return;
        };
        *left -= 1;
        self.done += 1;
        let share = self.shares.get_mut(&key).expect("it was found");
        share.runs.retain(|_, left| *left > 0);
        if share.is_empty() {
            self.shares.remove(&key);
        }
    }

    /// Runs that this invocation has to do in all, without those of searches.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many of them are done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// How many starts of servers were begun or given up, and how many there are in all.
    pub fn servers(&self) -> (u64, u64) {
        let begun = self.begun.len() as u64;
        let to_come = self.shares.keys().filter(|start| !self.begun.contains(start));
        (begun, begun + to_come.count() as u64)
    }

    /// What a start takes by a forecast, in seconds; told as long as none was measured.
    pub fn predict_start(&mut self, seconds: Option<f64>) {
        self.predicted_start = seconds;
    }

    /// What a server's start will take, in seconds, and how that is known.
    pub fn expected_start(&self) -> Option<(&'static str, f64)> {
        let measured = self.start.value().map(|seconds| ("usually", seconds));
        measured.or(self.predicted_start.map(|seconds| ("predicted", seconds)))
    }

    /// Time that the rest will take, in seconds; `None` before anything was measured.
    pub fn seconds_left(&self) -> Option<f64> {
        let usual = self.run.value()?;
        let pause = self.pause.value().unwrap_or(0.0);
        let mut needs: Vec<(bool, Need)> = Vec::new();
        for (start, share) in &self.shares {
            let (server, _) = start;
            let is_up = self.up.contains(start);
            let mut seconds = 0.0;
            if !is_up {
                seconds += self.start.value().unwrap_or(0.0) + self.stop.value().unwrap_or(0.0);
            }
            for (load, runs) in &share.runs {
                let own = self.by_server_and_load.get(&(server.clone(), load.clone()));
                let own = own.or_else(|| self.by_load.get(load)).and_then(|mean| mean.value());
                seconds += *runs as f64 * (own.unwrap_or(usual) + pause);
            }
            let probe = self.probe.value().unwrap_or(usual) + pause;
            let whole = self.probes_of_ended.value().unwrap_or(USUAL_PROBES);
            for search in &share.searches {
                seconds += (whole - self.probes_of(search, start.1)).max(1.0) * probe;
            }
            let known = self.shared.as_ref().and_then(|(_, needs)| needs.get(server));
            let need = known.copied().unwrap_or_default();
            needs.push((is_up, Need { seconds, ..need }));
        }
        Some(match &self.shared {
            None => needs.iter().map(|(_, need)| need.seconds).sum(),
            Some((room, _)) => side_by_side(*room, needs),
        })
    }
}

/// How many servers were up at once in the last session.
fn most_at_once(state: &State) -> u32 {
    let session = state.last_session().map(|session| session.nonce());
    let starts = state.servers.values().flat_map(|server| &server.starts);
    let mut changes: Vec<(&str, i32)> = Vec::new();
    for start in starts.filter(|start| Some(start.launch.session) == session) {
        changes.push((&start.started_at, 1));
        changes.extend(start.exited_at.as_deref().map(|at| (at, -1)));
    }
    // In the moment in which one ends the next begins.
    changes.sort_unstable();
    let (mut up, mut most) = (0, 0);
    for (_, change) in changes {
        up += change;
        most = most.max(up);
    }
    most as u32
}

/// When the last of several servers ends, those that are up among them, in seconds.
fn side_by_side(room: Room, mut needs: Vec<(bool, Need)>) -> f64 {
    needs.sort_by(|(is_up, one), (other_is_up, other)| {
        let longest = (other.gpus, other.seconds).partial_cmp(&(one.gpus, one.seconds));
        other_is_up.cmp(is_up).then(longest.unwrap_or(Ordering::Equal))
    });
    let needs: Vec<Need> = needs.into_iter().map(|(_, need)| need).collect();
    let order: Vec<usize> = (0..needs.len()).collect();
    length(&room.play(&needs, &order))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vsweep_plan::plan::Params;
    use vsweep_plan::validity::Validity;
    use vsweep_record::journal::{Hex64, LineId, PlanContent, RecordedPlan, RunFinished, RunStarted, SessionStarted};

    fn server(name: &str) -> ServerId {
        ServerId(name.into())
    }

    /// Takes an event of some second into account.
    fn note(ahead: &mut Ahead, state: &mut State, second: u32, event: Event) {
        let mut entry = state.imagine(event);
        entry.at = format!("2026-11-20T10:{:02}:{:02}Z", second / 60, second % 60);
        ahead.note(&entry, state);
    }

    fn start(ahead: &mut Ahead, state: &mut State, name: &str, from: u32, seconds: f64) {
        let (server, slot, launch) = (server(name), FIRST_SLOT, 1);
        let starting = Event::ServerStarting {
            server: server.clone(),
            slot,
            launch,
            gpus: Vec::new(),
        };
        note(ahead, state, from, starting);
        let (model, version, simulated) = (String::new(), None, true);
        let ready = Event::ServerReady {
            server,
            launch,
            seconds,
            model,
            version,
            simulated,
            identity: None,
            answers: None,
        };
        note(ahead, state, from + seconds as u32, ready);
    }

    /// A run that ended.
    fn run(state: &mut State, name: &str, load: &str, seconds: f64) -> Event {
        let started = state.imagine(Event::RunStarted(Box::new(RunStarted {
            point: PointId(load.into()),
            server: server(name),
            slot: FIRST_SLOT,
            run: 0,
            launch: 1,
            name: load.into(),
            params: Params::new(),
            combo: None,
            search: None,
            anew: None,
        })));
        Event::RunFinished(Box::new(RunFinished {
            started: started.place.line.seq,
            outcome: Outcome::Ok,
            validity: Validity::Valid,
            doubts: Vec::new(),
            cause: None,
            detail: String::new(),
            seconds,
            file: None,
            learned: None,
            beside: None,
        }))
    }

    #[test]
    fn the_rest_is_counted_by_load_with_starts_and_pauses() {
        let (mut ahead, mut state) = (Ahead::default(), State::default());
        for name in ["a", "b"] {
            ahead.add_runs(&server(name), FIRST_SLOT, "users=1", 2);
            ahead.add_runs(&server(name), FIRST_SLOT, "users=64", 1);
        }
        assert_eq!((ahead.total(), ahead.seconds_left()), (6, None));
        start(&mut ahead, &mut state, "a", 0, 10.0);
        for (second, load, seconds) in [(42, "users=1", 30.0), (49, "users=64", 5.0)] {
            let finished = run(&mut state, "a", load, seconds);
            note(&mut ahead, &mut state, second, finished);
        }
        // Left: one slow run here; on the other server a start, two slow runs and a quick one; a pause of 2 s for each.
        assert_eq!(ahead.seconds_left(), Some(32.0 + 10.0 + 64.0 + 7.0));
        assert_eq!((ahead.done(), ahead.total()), (2, 6));
    }

    #[test]
    fn a_journal_alone_tells_what_its_points_lack_and_counts_the_rest() {
        let mut state = State::default();
        state.imagine(Event::SessionStarted(Box::new(SessionStarted {
            host: String::new(),
            boot: String::new(),
            pid: 1,
            started: 0,
            machine: None,
            joined: false,
            // The points of this test have no ids of 16 digits; without a plan all count.
            plan: RecordedPlan {
                name: String::new(),
                sha256: String::new(),
                content: PlanContent::In(Hex64(0)),
            },
            servers: 2,
            points: 4,
            starts: 1,
            runs: 8,
            searches: 0,
            compare: None,
            seen: Default::default(),
            interference: None,
        })));
        for (load, seconds) in [("users=1", 30.0), ("users=64", 6.0)] {
            let finished = run(&mut state, "a", load, seconds);
            state.imagine(finished);
        }
        let ahead = Ahead::of_journal(&state).expect("no searches");
        // One more of each known load, and four runs of which only the mean is known.
        assert_eq!(ahead.total(), 6);
        assert_eq!(ahead.seconds_left(), Some(30.0 + 6.0 + 4.0 * 18.0));
    }

    #[test]
    fn servers_that_run_side_by_side_take_as_long_as_the_longest() {
        let (mut ahead, mut state) = (Ahead::default(), State::default());
        for (name, runs) in [("a", 3), ("b", 1), ("c", 1), ("d", 1)] {
            ahead.add_runs(&server(name), FIRST_SLOT, "users=1", runs);
        }
        let need = Need {
            gpus: 1,
            ..Need::default()
        };
        ahead.share_out(
            Room { gpus: 2, groups: 2 },
            ["a", "b", "c", "d"].map(|name| (server(name), need)).into(),
        );
        start(&mut ahead, &mut state, "a", 0, 10.0);
        start(&mut ahead, &mut state, "b", 0, 10.0);
        let finished = run(&mut state, "a", "users=1", 30.0);
        note(&mut ahead, &mut state, 40, finished);
        let finished = run(&mut state, "b", "users=1", 30.0);
        note(&mut ahead, &mut state, 40, finished);
        // On one GPU two more runs of what is up; on the other two starts with a run each.
        assert_eq!(ahead.seconds_left(), Some(80.0));
        let mut alone = ahead.clone();
        alone.shared = None;
        assert_eq!(alone.seconds_left(), Some(60.0 + 80.0));
    }

    #[test]
    fn runs_of_others_are_learned_from_and_not_counted() {
        let (mut ahead, mut state) = (Ahead::default(), State::default());
        ahead.add_runs(&server("a"), FIRST_SLOT, "users=1", 1);
        let finished = run(&mut state, "b", "users=1", 4.0);
        note(&mut ahead, &mut state, 5, finished);
        assert_eq!((ahead.done(), ahead.seconds_left()), (0, Some(4.0)));
    }

    #[test]
    fn a_search_is_as_long_as_those_before() {
        let (mut ahead, mut state) = (Ahead::default(), State::default());
        let search = SearchId("s".into());
        ahead.add_search(&server("a"), FIRST_SLOT, &search);
        let finished = run(&mut state, "a", "users=1", 4.0);
        note(&mut ahead, &mut state, 5, finished);
        assert_eq!(ahead.seconds_left(), Some(8.0 * 4.0));
        let (answers, cause, detail) = (Vec::new(), None, String::new());
        let after = LineId {
            journal: Hex64(0),
            seq: 0,
        };
        let ended = Event::SearchFinished {
            search,
            after,
            answers,
            cause,
            detail,
        };
        note(&mut ahead, &mut state, 9, ended);
        assert_eq!(ahead.seconds_left(), Some(0.0));
    }
}
