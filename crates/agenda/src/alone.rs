//! The start on which a winner and its ties are measured without neighbours, if they were measured beside other servers.

use super::finals::{Finals, judge};
use vsweep_answer::{Answered, Entrant};
use vsweep_base::ids::{PointId, SearchId, ServerId};
use vsweep_plan::Plan;
use vsweep_plan::matrix::{Matrix, Point, ServerConfig};
use vsweep_record::journal::{ALONE_SLOT, RunRecord, State};

/// Ties that are measured alone as well. Where many servers are equal, a machine for each in turn would cost more than the sweep.
const TIES: usize = 3;

/// The servers and points to measure alone: the recommended ones that had neighbours.
pub(super) fn alone(plan: &Plan, matrix: &Matrix, state: &State) -> Finals {
    let mut alone = Finals {
        slots: ALONE_SLOT..ALONE_SLOT + 1,
        is_alone: true,
        ..Finals::default()
    };
    let found = judge(plan, matrix, state, ALONE_SLOT);
    for answered in found.leading() {
        // A search does not know here by which of several equal servers the report will choose.
        let equals = answered
            .as_good
            .iter()
            .filter(|_| answered.is_load())
            .map(String::as_str);
        for config in answered.finalists().chain(equals).take(1 + TIES) {
            let entrant = answered.entrants.iter().find(|entrant| entrant.config == config);
            let point = entrant.and_then(|entrant| point_of(answered, entrant, state));
            let runs = || state.measured().filter(|run| point.as_ref() == Some(&run.point));
            if runs().any(had_neighbours) {
                alone.servers.insert(ServerId(config.to_owned()));
                alone.points.extend(point);
            }
        }
    }
    alone
}

/// True if some run had neighbours; without one nothing is measured alone.
pub(super) fn is_packed(state: &State) -> bool {
    state.measured().any(had_neighbours)
}

fn had_neighbours(run: &RunRecord) -> bool {
    run.neighbours.is_some_and(|shares| shares.servers > 0.0)
}

/// The point by which an entrant competes; of a search the probe at the load that it found.
fn point_of(answered: &Answered, entrant: &Entrant, state: &State) -> Option<PointId> {
    if let Some(point) = &entrant.point {
        return Some(PointId(point.clone()));
    }
    let is_asked = |search: &SearchId| {
        let record = state.latest_search(search);
        record.is_some_and(|record| record.started.workload() == answered.workload)
    };
    let is_it =
        |run: &&RunRecord| run.is_probe_of(&entrant.config, &entrant.load) && run.search.as_ref().is_some_and(is_asked);
    state.measured().find(is_it).map(|run| run.point.clone())
}

/// The points of a server's searches among those to be measured alone.
pub(super) fn probed_points(finals: &Finals, server: &ServerConfig, matrix: &Matrix, state: &State) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for search in matrix.searches_of(server) {
        let own = state.measured().filter(|run| run.search.as_ref() == Some(&search.id));
        for run in own.filter(|run| finals.points.contains(&run.point)) {
            let is_new = !points.iter().any(|point| point.id == run.point);
            if let Some(probe) = run.probe().filter(|_| is_new) {
                points.push(matrix.point_for(&search, &probe.question));
            }
        }
    }
    points
}
