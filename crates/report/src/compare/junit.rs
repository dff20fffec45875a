//! A comparison as JUnit XML, which CI systems show as tests: one case for each limit at each point.

use super::words::{HEADS, cells, grounds, show_limit, show_p, tally};
use super::{Comparison, Figure, LimitVerdict};
use crate::html::text;
use crate::texts::changes::change_within;
use crate::texts::template::{fill, line_environment};
use crate::texts::words::show_number;
use minijinja::{Value, context};
use vsweep_base::printable::printable;
use vsweep_strategy::stats::RequirementVerdict::{self, Broken, Met, Undecided};

/// Returns the XML, with a suite for each comparison. A broken limit is a failure, and an undecided one is skipped. Without limits, each
/// figure is a case that passes and shows its verdict.
pub fn to_junit(comparisons: &[Comparison]) -> String {
    let failures: usize = comparisons.iter().map(|own| count(own, Broken)).sum();
    let (counts, suites): (Vec<usize>, Vec<Value>) = comparisons.iter().map(suite).unzip();
    let tests: usize = counts.iter().sum();
    fill(
        &line_environment(escape),
        include_str!("junit.xml.jinja"),
        context! { suites, tests, failures },
    )
}

/// Returns the number of cases of a comparison, and its suite.
fn suite(comparison: &Comparison) -> (usize, Value) {
    let limits = comparison.limits.iter().map(of_limit);
    let limits = limits.chain(
        comparison
            .lone()
            .map(|(settings, why, requirement)| of_lone(settings, why, requirement)),
    );
    let figures = comparison.points.iter();
    let figures = figures.flat_map(|pair| pair.figures.iter().map(|figure| of_figure(figure, &pair.settings)));
    let cases: Vec<Value> = match comparison.is_limited {
        false => figures.collect(),
        true => limits.collect(),
    };
    let tests = cases.len();
    let suite = context! {
        name => format!("{} against {}", comparison.new, comparison.base),
        tests,
        failures => count(comparison, Broken),
        skipped => count(comparison, Undecided),
        cases,
        tally => tally(comparison),
        notes => comparison.notes(),
    };
    (tests, suite)
}

fn count(comparison: &Comparison, requirement: RequirementVerdict) -> usize {
    comparison.requirements().filter(|found| *found == requirement).count()
}

/// The case of a limit at a point: the change with its interval, both values and the p-value, and the reason if there is another.
fn of_limit(judged: &LimitVerdict) -> Value {
    let change = judged.measured.as_ref().map(|measured| {
        format!(
            "{}, {} -> {}, p {}",
            change_within(measured.ratio, Some(measured.interval)),
            show_number(measured.base),
            show_number(measured.new),
            show_p(measured.p_value)
        )
    });
    let text = grounds(judged, change);
    let remedy = if judged.reason.is_none() {
        "; measure more starts"
    } else {
        ""
    };
    let is = |requirement: RequirementVerdict| judged.requirement == requirement;
    context! {
        name => format!("{} at {}", show_limit(&judged.limit), judged.settings),
        class => "limit",
        failed => is(Broken).then(|| text.clone()),
        skipped => is(Undecided).then(|| format!("undecided: {text}{remedy}")),
        lines => is(Met).then(|| vec![text]),
    }
}

/// The case of a point at which every limit has one result.
fn of_lone(settings: &str, why: &str, requirement: RequirementVerdict) -> Value {
    context! {
        name => format!("(all) at {settings}"),
        class => "limit",
        failed => (requirement == Broken).then_some(why),
        skipped => (requirement == Undecided).then(|| format!("undecided: {why}")),
    }
}

fn of_figure(figure: &Figure, settings: &str) -> Value {
    let lines = HEADS.iter().zip(cells(figure)).filter(|(_, cell)| !cell.is_empty());
    context! {
        name => format!("{} at {settings}", figure.metric),
        class => "figure",
        lines => lines.map(|(head, cell)| format!("{head}: {cell}")).collect::<Vec<_>>(),
    }
}

/// Escapes a text for elements and quoted attributes of XML. The result is one line.
fn escape(text: &str) -> String {
    // XML cannot represent these two characters.
    let text = printable(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    text::escape(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reader_gets_every_text(text in "(?s)[&<>'\"\\]\n\t\u{0}\u{1b}\u{85}\u{fffe}\u{ffff}]{0,6}.{0,12}") {
            let escaped = escape(&text);
            let xml = format!("<a b=\"{escaped}\">-{escaped}-</a>");
            let read = roxmltree::Document::parse(&xml).expect("XML");
            let wanted = printable(&text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
            prop_assert_eq!(read.root_element().attribute("b"), Some(&*wanted));
            prop_assert_eq!(read.root_element().text(), Some(&*format!("-{wanted}-")));
        }
    }
}
