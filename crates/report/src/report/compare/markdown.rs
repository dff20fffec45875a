//! A comparison as Markdown, short enough for a pull request's comment or a job's summary.

use super::super::markdown::{escape, grid};
use super::{Comparison, HEADS, cells, percent, requirement_name, show_limit, tally};
use vsweep_plan::units::show_many;

/// The tally first, then limits, one table a point, and what else changed.
pub fn to_markdown(comparison: &Comparison) -> String {
    let mut text = format!(
        "## {} against {}\n\n**{}**\n\n",
        escape(&comparison.new),
        escape(&comparison.base),
        escape(&tally(comparison))
    );
    for note in comparison.notes() {
        text += &format!("Note: {}.\n\n", escape(&note));
    }
    if !comparison.limits.is_empty() {
        let rows = comparison.limits.iter().map(|judged| {
            vec![
                show_limit(&judged.limit),
                judged.settings.clone(),
                percent(judged.ratio),
                format!("{:.3}", judged.p_value),
                requirement_name(judged.requirement).to_owned(),
            ]
        });
        text += &table(&["limit", "at", "change", "p", "result"], rows);
    }
    for pair in &comparison.points {
        text += &format!("### {}\n\n", escape(&pair.settings));
        text += &table(&HEADS, pair.figures.iter().map(|figure| cells(figure).to_vec()));
    }
    for (settings, side) in [(&comparison.only_base, "base"), (&comparison.only_new, "new")] {
        if !settings.is_empty() {
            let count = show_many(settings.len() as u64, "point");
            text += &format!("{count} without a counterpart, in {side} only.\n\n");
        }
    }
    if !comparison.changes.is_empty() {
        text += "### What else changed\n\n";
        let rows = comparison.changes.iter();
        let rows = rows.map(|change| vec![change.name.clone(), change.base.clone(), change.new.clone()]);
        text += &table(&["", "base", "new"], rows);
    }
    text
}

fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    grid(&heads, rows.map(|row| row.iter().map(|cell| escape(cell)).collect()))
}
