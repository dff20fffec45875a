//! The short forms of a comparison, for the terminal and for a pull request: a fixed number of lines at any number of points, metrics and
//! limits. The page has everything.

use super::changes::by_weight;
use super::document::parts;
use super::words::{DROPPED, HEADS, STARTS, cells};
use super::{Comparison, Figure, Pair};
use crate::texts::align::{align, fitting};
use crate::texts::markdown::environment;
use crate::texts::template::{fill, plain};
use itertools::Itertools;
use minijinja::{Value, context};
use vsweep_answer::Verdict;

/// Most lines of a short form.
const MOST_LINES: usize = 30;

/// Formats a comparison for the terminal: limits that are not met, sentences, and a table of each point, or of the largest changes if
/// there are too many points.
pub fn to_text(comparison: &Comparison) -> String {
    let starts = comparison.figures().map(|figure| figure.starts).unique().collect_vec();
    let common = starts.iter().exactly_one().ok().copied();
    let parts = context! { starts => common, ..parts(comparison) };
    let (changed, of_all) = largest(comparison);
    let lengths = lengths(&parts, changed.len());
    let template = include_str!("compare.txt.jinja");
    if comparison.figures().count() < MOST_LINES {
        let rows = |pair: &Pair| pair.figures.iter().map(|figure| Vec::from(cells(figure))).collect_vec();
        let rows = comparison.points.iter().map(rows).collect_vec();
        let tables = aligned(&HEADS, &rows, common.is_some());
        let points = comparison.points.iter().zip(&tables).map(|(pair, table)| {
            context! { settings => pair.settings.clone(), aligned => table.lines().map(str::to_owned).collect_vec() }
        });
        let points = points.collect_vec();
        let text = plain(template, context! { shown => lengths, points, ..parts.clone() });
        if text.lines().count() <= MOST_LINES {
            return text;
        }
    }
    let heads = HEADS.into_iter().chain(["at"]).collect_vec();
    let with_place =
        |(settings, figure): &(&str, &Figure)| cells(figure).into_iter().chain([(*settings).to_owned()]).collect_vec();
    let changed = changed.iter().map(with_place).collect_vec();
    fitted(lengths, |shown| {
        let rows = changed[..shown[2]].to_vec();
        let table = aligned(&heads, &[rows], common.is_some()).concat();
        let lines = table
            .lines()
            .skip(usize::from(shown[2] == 0))
            .map(str::to_owned)
            .collect_vec();
        plain(
            template,
            context! { shown, lines, is_cut => true, more => of_all - shown[2], ..parts.clone() },
        )
    })
}

/// Formats a comparison as Markdown for a pull request's comment or a job's summary.
pub fn to_markdown(comparison: &Comparison) -> String {
    let (changed, of_all) = largest(comparison);
    let changed = changed.into_iter().map(|(settings, figure)| {
        let cells = cells(figure);
        [settings.to_owned()].into_iter().chain(cells).collect_vec()
    });
    let changed = changed.collect_vec();
    let parts = parts(comparison);
    let lengths = lengths(&parts, changed.len());
    let parts = context! { changed, changed_heads => ["at"].into_iter().chain(HEADS).collect_vec(), ..parts };
    fitted(lengths, |shown| {
        let is_cut = shown != lengths || shown[2] < comparison.figures().count();
        let parts = context! { shown, is_cut, more => of_all - shown[2], ..parts.clone() };
        fill(&environment(), include_str!("compare.md.jinja"), parts)
    })
}

/// The weightiest figures that are not the same, at most as many as a short form has lines, and the number of all of them.
fn largest(comparison: &Comparison) -> (Vec<(&str, &Figure)>, usize) {
    let weighed = by_weight(comparison).into_iter();
    let mut changed = weighed
        .filter(|(_, figure)| figure.verdict != Verdict::Same)
        .collect_vec();
    let count = changed.len();
    changed.truncate(MOST_LINES);
    (changed, count)
}

/// The lengths of the lists of which a short form may leave out a part: limits that are not met, sentences, changed figures.
fn lengths(parts: &Value, changed: usize) -> [usize; 3] {
    let length = |list: &str| parts.get_attr(list).ok().and_then(|list| list.len()).unwrap_or(0);
    [length("unmet"), length("sentences"), changed]
}

/// Returns the form with the most rows of these lists that has at most `MOST_LINES` lines. `render` takes the number of rows of each.
fn fitted(lengths: [usize; 3], render: impl Fn([usize; 3]) -> String) -> String {
    let mut forms = (0..=MOST_LINES).rev().map(|room| render(share(lengths, room)));
    let fits = |text: &String| text.lines().count() <= MOST_LINES;
    forms.find(fits).unwrap_or_else(|| render([0; 3]))
}

/// Divides lines among lists: each gets one in turn, until it has all or no line is left.
fn share(lengths: [usize; 3], room: usize) -> [usize; 3] {
    let mut given = [0; 3];
    let mut left = room;
    while left > 0 && given != lengths {
        for (given, length) in given.iter_mut().zip(lengths) {
            if *given < length && left > 0 {
                *given += 1;
                left -= 1;
            }
        }
    }
    given
}

/// Tables with one head, each as aligned lines. Columns are left out until the lines fit the terminal, and so is a common number of starts.
fn aligned(heads: &[&str], tables: &[Vec<Vec<String>>], has_common_starts: bool) -> Vec<String> {
    let head = heads.iter().map(|&head| head.to_owned()).collect_vec();
    let without = |dropped: &[&str]| {
        let is_shown = |head: &str| !(dropped.contains(&head) || has_common_starts && head == STARTS);
        let shown = |row: &Vec<String>| {
            let kept = heads.iter().zip(row).filter(|(head, _)| is_shown(head));
            kept.map(|(_, cell)| cell.clone()).collect_vec()
        };
        let table = |rows: &Vec<Vec<String>>| align(&[&head].into_iter().chain(rows).map(shown).collect_vec());
        tables.iter().map(table).collect_vec()
    };
    let forms = DROPPED.iter().map(|dropped| without(dropped));
    let tables = fitting(forms, |tables| tables.iter().flat_map(|table| table.lines()).collect());
    tables.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_gets_lines_until_none_are_left() {
        assert_eq!(share([100, 2, 50], 12), [5, 2, 5]);
        assert_eq!(share([1, 2, 3], 30), [1, 2, 3]);
        assert_eq!(share([9, 9, 9], 2), [1, 1, 0]);
    }
}
