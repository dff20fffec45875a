//! A comparison as JUnit XML, which CI systems show as tests: one case for each limit at each point.

use super::{Comparison, HEADS, cells, percent, show_limit, tally};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite, XmlString};
use vsweep_strategy::stats::Requirement;

/// A broken limit is a failure, an undecided one is skipped. Where nothing is limited, each figure is a case that passes and tells
/// its verdict.
pub fn to_junit(comparison: &Comparison) -> String {
    let mut suite = TestSuite::new(format!("{} against {}", comparison.new, comparison.base));
    let limits = comparison.limits.iter().map(|judged| {
        let text = format!("{}, p = {:.3}", percent(judged.ratio), judged.p_value);
        let status = match judged.requirement {
            Requirement::Met => TestCaseStatus::success(),
            Requirement::Broken => failed(&text),
            Requirement::Undecided => {
                let mut status = TestCaseStatus::skipped();
                status.set_message(format!("undecided: {text}; measure more starts"));
                status
            }
        };
        let mut case = TestCase::new(format!("{} at {}", show_limit(&judged.limit), judged.settings), status);
        case.set_classname("limit");
        case
    });
    suite.add_test_cases(limits);
    if comparison.limits.is_empty() {
        for pair in &comparison.points {
            suite.add_test_cases(pair.figures.iter().map(|figure| {
                let name = format!("{} at {}", figure.metric, pair.settings);
                let mut case = TestCase::new(name, TestCaseStatus::success());
                let lines = HEADS
                    .iter()
                    .zip(cells(figure))
                    .map(|(head, cell)| format!("{head}: {cell}\n"));
                case.set_classname("figure").set_system_out(lines.collect::<String>());
                case
            }));
        }
    }
    suite.set_system_out(XmlString::new(tally(comparison)));
    let mut report = Report::new("vsweep compare");
    report.add_test_suite(suite);
    report.to_string().expect("a report is text")
}

fn failed(message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(message.to_owned());
    status
}
