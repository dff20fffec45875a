//! Criteria of targets in words.

use super::words::{axis_title, name, show_number, split_title};
use itertools::Itertools;
use vsweep_strategy::search::{Criterion, Operator, Quantity, RequestLimit, Target};

/// The words for a target's criterion that is called `name` in records; `name` itself if the target has no such criterion.
pub fn phrase_of(target: &Target, name: &str) -> String {
    let found = target.criteria.iter().find(|criterion| criterion.to_string() == name);
    found.map_or_else(|| name.to_owned(), phrase)
}

/// A criterion in a sentence: `p99 TTFT <= 500 ms`, `E2EL < 500 ms for 95 % of requests`.
pub fn phrase(criterion: &Criterion) -> String {
    match &criterion.quantity {
        Quantity::Metric(_) => limited(&criterion.figure(), criterion.operator, criterion.limit),
        Quantity::Attainment(limits) => {
            let limits = limits.iter().map(RequestLimit::in_words).join(" and ");
            format!("{limits} for {}", requests(criterion))
        }
    }
}

/// A bound of a figure by its name, which may be that of an attainment: `p99 TTFT <= 500 ms`, `E2EL < 500 ms for 95 % of requests`.
pub fn bound(figure: &str, operator: Operator, limit: f64) -> String {
    let criterion = Criterion::try_from(format!("{figure}{operator}{limit}"));
    criterion.map_or_else(|_| limited(figure, operator, limit), |criterion| phrase(&criterion))
}

/// A bound of a metric with its unit.
fn limited(figure: &str, operator: Operator, limit: f64) -> String {
    let title = axis_title(figure);
    let unit = split_title(&title).1.unwrap_or_default();
    format!("{} {operator} {} {unit}", name(figure), show_number(limit))
        .trim_end()
        .to_owned()
}

/// The share of requests that an attainment asks for: `95 % of requests of chat`.
pub fn requests(criterion: &Criterion) -> String {
    let class = criterion
        .class
        .as_ref()
        .map_or(String::new(), |class| format!(" of {class}"));
    format!("{} % of requests{class}", show_number(criterion.limit * 100.0))
}
