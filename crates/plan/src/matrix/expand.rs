//! Expands a plan to its matrix: lays out both sides' spaces, turns links and exclusions into filters, and checks everything that needs the
//! whole plan.

use super::filter::Agreement;
use super::identity::SharedLoad;
use super::space::Sides;
use super::template::LoadTemplate;
use super::{FilterKind, Matrix, PairFilter, Removed, check, starved};
use crate::{Diagnostics, Link, ParamRef, Plan};
use itertools::Itertools;

/// Expands a plan; see [`Matrix::draft`]. `tied` are the links as written, which the plan lacks if it was read in part.
pub(super) fn expand(plan: &Plan, tied: &Link, found: &mut Diagnostics) -> Option<Matrix> {
    let is_whole = found.is_empty();
    let sides = Sides::of_plan(plan);
    if !check::size(plan, &sides, found) {
        return None;
    }
    let (load, secrets) = (SharedLoad::of_plan(plan), plan.secrets.of_plan());
    let mut matrix = Matrix {
        template: LoadTemplate::of(plan, &sides.bench, &load, &secrets),
        load,
        starts: fewest_starts(plan, sides.serve.len()),
        filters: filters(plan, &sides),
        sides,
        points_of_server: Vec::new(),
        secrets,
        plan: plan.clone(),
    };
    check::exclusions(plan, &matrix, is_whole, found);
    check::duplicates(plan, &matrix, tied, found);
    matrix.count();
    if is_whole {
        check::leftovers(plan, &matrix, found);
        check::searches(plan, &matrix, found);
        check::comparison(plan, &matrix, found);
        check::optimization(plan, &matrix, found);
        starved::warn(plan, &matrix, found);
    }
    Some(matrix)
}

/// Starts of each server that the plan takes in any case. A comparison looks first after four pairs, an axis after two starts of
/// either end.
fn fewest_starts(plan: &Plan, servers: usize) -> u32 {
    match (&plan.compare, servers) {
        (None, _) => plan.starts,
        (Some(_), 2) => 4,
        (Some(_), _) => 1,
    }
}

/// The links of a plan, those of equal values first, then its exclusions.
fn filters(plan: &Plan, sides: &Sides) -> Vec<PairFilter> {
    let filter = |kind: FilterKind, pairs: Agreement, text: String| PairFilter {
        kind,
        pairs,
        removed: Removed { text, pairs: 0 },
    };
    let link = |word: &str, group: &[ParamRef], pairs: Agreement| {
        filter(FilterKind::Link, pairs, format!("{word} {}", group.iter().join(", ")))
    };
    let equal = plan.link.equal.iter();
    let equal = equal.map(|group| link("equal", group, Agreement::of_values(group, sides)));
    let zipped = plan.link.zip.iter();
    let zipped = zipped.filter_map(|group| Some(link("zip", group, Agreement::of_positions(group, sides)?)));
    let exclusions = plan.exclude.iter().filter(|block| !block.is_empty()).map(|block| {
        let text = format!("exclude {}", block.iter().join(" and "));
        filter(FilterKind::Exclusion, Agreement::of_conditions(block, sides), text)
    });
    equal.chain(zipped).chain(exclusions).collect()
}
