//! Derives from earlier results the load with which a search starts, and its rivals: servers so good that the search can end early once it
//! cannot beat them. Both are recorded when the search begins, so that an interrupted search continues from the same values.

use std::collections::BTreeMap;
use vsweep_answer::replicas_on;
use vsweep_base::ids::{SearchId, ServerId};
use vsweep_plan::Plan;
use vsweep_plan::matrix::{LoadFinder, LoadSearch, Matrix};
use vsweep_record::journal::{FIRST_SLOT, SearchRecord, SearchStarted, ServerRecord, State};
use vsweep_record::table::{used_gpus, whole_gpus};
use vsweep_strategy::search::{Question, Rival, Seed, SeedBasis, Vary};

/// External knowledge about a search before it begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hint {
    /// The loads that the search is expected to find, by the name of the target.
    pub forecast: Option<BTreeMap<String, f64>>,
    /// Mean lengths of input and output of its requests, in tokens.
    pub lengths: Option<(f64, f64)>,
}

/// External knowledge about searches. Searches without an entry have none.
pub type Hints = BTreeMap<SearchId, Hint>;

impl Hint {
    /// Returns the lengths of a search's requests, if its starting load must be derived from them and the size of the server's KV cache.
    /// This is so if the search varies the requests in flight, and neither a forecast nor an earlier answer is known.
    pub(super) fn lengths_for(&self, started: &SearchStarted) -> Option<(f64, f64)> {
        let is_unknown = started.seed.basis == SeedBasis::Nothing;
        self.lengths
            .filter(|_| is_unknown && started.vary == Vary::MaxConcurrency)
    }
}

/// Returns the point of a search's lowest load. The lengths of the search's requests follow from the parameters of the point.
pub fn first_point(matrix: &Matrix, planned: &LoadSearch) -> vsweep_plan::matrix::Point {
    let settings = &planned.settings;
    let question = Question {
        value: settings.lower,
        requests: settings.requests.at(settings.lower),
        ..Question::default()
    };
    matrix.point_for(planned, &question)
}

/// Builds the definition of a search, with its rivals and the best starting load that is known without the server.
pub(super) fn search_started(
    planned: &LoadSearch,
    slot: u32,
    plan: &Plan,
    state: &State,
    forecast: Option<&BTreeMap<String, f64>>,
) -> SearchStarted {
    let targets = &planned.settings.targets;
    let predicted = |target: &str| forecast.and_then(|forecast| forecast.get(target)).copied();
    let forecast = targets.iter().find_map(|target| predicted(&target.name));
    let started = SearchStarted {
        targets: targets.clone(),
        seed: forecast.map_or(Seed::UNKNOWN, Seed::forecast),
        ..definition(planned, planned.settings.vary, slot, plan)
    };
    let alike: Vec<&SearchRecord> = state
        .searches()
        .filter(|record| is_alike(&record.started, &started))
        .collect();
    // The server's own answers on earlier starts come first, then the latest answer about another server.
    let before = (FIRST_SLOT..slot).rev();
    let own = before.filter_map(|slot| state.search(&planned.id, slot));
    let answered = own.chain(alike.iter().rev().copied()).flat_map(SearchRecord::answers);
    let earlier = answered.filter_map(|answer| answer.found.value()).next();
    let rivals = targets
        .iter()
        .filter_map(|target| rival(&target.name, &alike, &started, (plan, state), predicted(&target.name)));
    SearchStarted {
        seed: earlier.map_or(started.seed, Seed::neighbour),
        rivals: rivals.collect(),
        ..started
    }
}

/// Returns the definition of a search or exploration, without targets, rivals and a starting load.
pub(super) fn definition<S>(planned: &LoadFinder<S>, vary: Vary, slot: u32, plan: &Plan) -> SearchStarted {
    SearchStarted {
        search: planned.id.clone(),
        server: planned.server.clone(),
        slot,
        name: planned.name.clone(),
        params: plan.secrets.redact_params(&planned.params),
        vary,
        targets: Vec::new(),
        seed: Seed::UNKNOWN,
        rivals: Vec::new(),
    }
}

/// Returns true if a search has not begun on the first start, and a forecast would help it. A forecast helps if rivals may rule the server
/// out, or if no earlier answer gives a starting load.
pub fn wants_forecast(planned: &LoadSearch, plan: &Plan, state: &State) -> bool {
    let is_new = state.search(&planned.id, FIRST_SLOT).is_none();
    let has_neighbour = || search_started(planned, FIRST_SLOT, plan, state, None).seed.basis == SeedBasis::Neighbour;
    is_new && (planned.settings.skip_beaten || !has_neighbour())
}

/// Returns true if two searches ask the same questions about two servers.
fn is_alike(one: &SearchStarted, other: &SearchStarted) -> bool {
    (one.vary, &one.params, &one.targets) == (other.vary, &other.params, &other.targets) && one.search != other.search
}

/// Returns the rival for a target: the server whose replicas together hold the highest load found so far; the first of equal ones. The
/// rival's total load is divided by the number of replicas of the server of `own`, giving the load that each replica must hold to match it.
/// Servers whose answers to the fixed questions are in doubt, and those that need more GPUs than the user has, are left out.
fn rival(
    target: &str,
    alike: &[&SearchRecord],
    own: &SearchStarted,
    (plan, state): (&Plan, &State),
    forecast: Option<f64>,
) -> Option<Rival> {
    let gpus = shared_gpus(plan, state);
    let held = |record: &&SearchRecord| {
        let server = record.started.server.clone();
        let replicas = replicas(&server, gpus, state).filter(|_| state.doubted_server(&server).is_none())?;
        let load = record.answer(target)?.found.value()?;
        Some((server, replicas, load * f64::from(replicas)))
    };
    let (server, replicas_of_rival, load) = alike
        .iter()
        .filter_map(held)
        .reduce(|best, other| if other.2 > best.2 { other } else { best })?;
    let own_replicas = replicas(&own.server, gpus, state)?;
    let each = load / f64::from(own_replicas);
    let known = state.servers.get(&server);
    let name = known.map_or_else(|| server.to_string(), |known| known.name.clone());
    Some(Rival {
        target: target.to_owned(),
        server: name_of_part(name, replicas_of_rival, own_replicas),
        // Rounded down to a load that can be asked for, but never raised to the lowest of these.
        load: own.vary.floor(each).min(each),
        forecast,
    })
}

/// Returns true if a rival of a search that has begun now holds less than it did then, for example because the user has other GPUs.
pub(super) fn has_lost_rival(planned: &LoadSearch, record: &SearchRecord, plan: &Plan, state: &State) -> bool {
    let now = search_started(planned, record.started.slot, plan, state, None).rivals;
    let holds = |rival: &Rival| now.iter().find(|other| other.target == rival.target);
    let has_lost = |rival: &Rival| holds(rival).is_none_or(|now| now.load < rival.load * (1.0 - 1e-9));
    record.started.rivals.iter().any(has_lost)
}

/// Returns the number of the user's GPUs on which replicas are compared; `None` if single servers are compared, as in the answer, because
/// the GPUs of one of them are not known. Servers that were never ready are not in the answer.
fn shared_gpus(plan: &Plan, state: &State) -> Option<u32> {
    let is_known = |server: &ServerRecord| whole_gpus(used_gpus(&server.params, &server.argv, &server.launches)) > 0;
    let mut ready = state.servers.values().filter(|server| server.was_ready());
    plan.report.gpus.filter(|_| ready.all(is_known))
}

/// Returns the number of servers like this one that fit on these GPUs; `None` if it needs more.
fn replicas(server: &ServerId, gpus: Option<u32>, state: &State) -> Option<u32> {
    let known = state.servers.get(server);
    let own = known.and_then(|known| used_gpus(&known.params, &known.argv, &known.launches));
    Some(replicas_on(gpus, whole_gpus(own))).filter(|replicas| *replicas > 0)
}

/// Returns a text for the part of a rival's replicas against which each of `own` replicas competes: `4 × TP 1`.
fn name_of_part(name: String, replicas: u32, own: u32) -> String {
    match replicas {
        _ if replicas == own => name,
        _ if replicas.is_multiple_of(own) => format!("{} × {name}", replicas / own),
        _ => format!("{replicas}/{own} of {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{plan, succeed};
    use crate::{Agenda, Schedule, Step};
    use vsweep_record::journal::{Event, GroupBegun, ReadPositions, ServerDescription, ServerReady, Shard};
    use vsweep_strategy::search::{Answer, Found};

    #[test]
    fn the_part_of_a_rival_is_named() {
        let share = |replicas, own| name_of_part("TP 1".to_owned(), replicas, own);
        assert_eq!(
            [share(2, 2), share(4, 1), share(4, 2), share(1, 4)],
            ["TP 1", "4 × TP 1", "2 × TP 1", "1/4 of TP 1"]
        );
    }

    #[test]
    fn a_search_begins_within_its_range() {
        let text = "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[bench.params]\nnum_prompts = 64\n[sla]\nvary = \"max_concurrency\"\n\
                    max = 64\n[[sla.target]]\nname = \"chat\"\np99_ttft_ms = \"<=500\"\n";
        let (plan, matrix) = plan(text);
        let mut state = State::default();
        let schedule = Schedule::new(&plan, &matrix, Shard::WHOLE, false);
        let group = schedule.starts().find_map(|start| schedule.group(&start, &state));
        let mut planned = matrix.servers().flat_map(|server| matrix.searches_of(&server).next());
        let id = planned.next().expect("one search").id;
        let hint = Hint {
            forecast: Some([("chat".to_owned(), 1000.0)].into()),
            ..Hint::default()
        };
        let mut agenda = Agenda::new(schedule, group.expect("work"), [(id, hint)].into(), &state);
        let seed = loop {
            match agenda.next(&state) {
                Step::Record(event, _) => {
                    if let Event::SearchStarted(started) = &*event {
                        break started.seed.value;
                    }
                    agenda.recorded(&state.apply_hypothetical(*event), &state);
                }
                Step::Act(action) => agenda.settle(succeed(&action)),
                _ => panic!("no search"),
            }
        };
        assert_eq!(seed, 64.0);
    }

    #[test]
    fn a_skipped_search_goes_on_once_its_rival_holds_less() {
        let text = |gpus: u32| {
            format!(
                "version = 1\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\ntensor_parallel_size = [2, 1]\n[bench.params]\n\
                 num_prompts = 64\n[sla]\nvary = \"max_concurrency\"\nmax = 64\nskip_beaten = true\n[[sla.target]]\nname = \"chat\"\n\
                 p99_ttft_ms = \"<=500\"\n[report]\ngpus = {gpus}\n"
            )
        };
        let (recorded, matrix) = plan(&text(4));
        let mut state = State::default();
        for (server, found) in matrix.servers().zip([Found::Beyond(64.0), Found::Skipped]) {
            let planned = matrix.searches_of(&server).next().expect("a search");
            let begun = GroupBegun {
                proposed: None,
                server: server.id.clone(),
                slot: FIRST_SLOT,
                config: ServerDescription::of(&server, &recorded.secrets),
                seen: ReadPositions::new(),
            };
            state.apply_hypothetical(Event::GroupBegun(Box::new(begun)));
            let started = search_started(&planned, FIRST_SLOT, &recorded, &state, None);
            let started = state.apply_hypothetical(Event::SearchStarted(Box::new(started)));
            let answer = Answer {
                target: "chat".to_owned(),
                found,
                low: 1.0,
                high: 32.0,
                probes: 2,
                ..Answer::default()
            };
            state.apply_hypothetical(Event::SearchFinished {
                search: planned.id,
                after: started.rank.line,
                answers: vec![answer],
                cause: None,
                detail: String::new(),
            });
        }
        let open = |gpus: u32| {
            let (plan, matrix) = plan(&text(gpus));
            let schedule = Schedule::new(&plan, &matrix, Shard::WHOLE, false);
            schedule
                .starts()
                .filter(|start| schedule.has_group(start, &state))
                .count()
        };
        assert_eq!([4, 2, 1].map(open), [0, 0, 1]);
    }

    #[test]
    fn single_servers_are_rivals_if_the_gpus_of_one_are_not_known() {
        let mut state = State::default();
        let mut begin = |command: &str| {
            let text = format!(
                "version = 1\n[serve]\ncommand = \"{command}\"\n[bench.params]\nnum_prompts = 9\n[report]\ngpus = 4\n"
            );
            let (plan, matrix) = plan(&text);
            let server = matrix.servers().next().expect("a server");
            let begun = GroupBegun {
                proposed: None,
                config: ServerDescription::of(&server, &plan.secrets),
                server: server.id.clone(),
                slot: FIRST_SLOT,
                seen: ReadPositions::new(),
            };
            let ready = ServerReady {
                server: server.id,
                launch: 1,
                ..ServerReady::default()
            };
            state.apply_hypothetical(Event::GroupBegun(Box::new(begun)));
            let before = shared_gpus(&plan, &state);
            state.apply_hypothetical(Event::ServerReady(Box::new(ready)));
            (before, shared_gpus(&plan, &state))
        };
        assert_eq!(begin("vllm serve m"), (Some(4), Some(4)));
        assert_eq!(begin("./serve.sh"), (Some(4), None));
    }
}
