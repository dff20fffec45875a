//! The report as Markdown for a pull request: the answer, the best points, failures, the environment. Short enough for a
//! comment; the page has the rest.

mod text;

pub(super) use text::{escape, grid};

use super::answer::{Answer, KNEE, mark};
use super::charts::explore::in_words;
use super::clients::side_by_side;
use super::compared;
use super::configs::Config;
use super::effects::Mattered;
use super::environment::facts;
use super::inputs::Inputs;
use super::recommend::{Recommended, recommend};
use super::remarks::remarks;
use super::requirements::Verdict;
use super::sla;
use super::status::unfinished;
use super::variation::{settings, varying};
use super::words::{axis_title, show_number, show_spread};
use super::yardstick::Yardstick;
use itertools::Itertools;
use std::fmt::Write;
use text::{block, code};
use vsweep_plan::units::show_count;
use vsweep_record::table::{Cell, Column, ONE_START, Point};

/// Rows of the table of best points.
const MOST_ROWS: usize = 12;
/// Tied points and details that are named.
const MOST_NAMED: usize = 3;

/// The text.
pub fn render(inputs: &Inputs<'_>, configs: &[Config]) -> String {
    let page = Page {
        inputs,
        varied: varying(inputs.points),
    };
    let mut text = format!("## {}\n\n{}\n\n", escape(inputs.experiment), page.counts());
    if let Some(how) = unfinished(inputs.state) {
        text += &format!("**Not finished**: {how}.\n\n");
    }
    text += &page.requirements();
    for sentence in compared::in_words(inputs.state) {
        let _ = write!(text, "{}.\n\n", escape(&sentence));
    }
    text += &page.searches();
    let explored = in_words(inputs.state).into_iter();
    text += &explored
        .map(|told| format!("Explored {}.\n\n", escape(&told)))
        .collect::<String>();
    text += &page.answers(inputs.answers);
    text += &link(configs);
    text += &page.remarks();
    text += &page.failures();
    text += &page.environment();
    text
}

struct Page<'a> {
    inputs: &'a Inputs<'a>,
    varied: Vec<&'a Column>,
}

impl Page<'_> {
    fn counts(&self) -> String {
        let points = self.inputs.points;
        let sum = |count: fn(&Point) -> usize| points.points.iter().map(count).sum::<usize>() as u64;
        let counts = [
            (points.points.len() as u64, "points"),
            (sum(|point| point.ok), "runs ok"),
            (sum(|point| point.suspect), "in doubt"),
            (sum(|point| point.failed), "failed"),
        ];
        let told = counts.iter().filter(|(count, _)| *count > 0);
        let told: Vec<String> = told
            .map(|(count, word)| format!("{} {word}", show_count(*count)))
            .collect();
        let simulated = |point: &Point| points.param(point, "simulated") == &Cell::Bool(true);
        if points.points.iter().any(simulated) {
            return format!(
                "**Simulated**: the figures are no measurement of a GPU. {}",
                told.join(", ")
            );
        }
        told.join(", ")
    }

    fn requirements(&self) -> String {
        let told = self.inputs.requirements.iter().map(|judged| match judged.verdict {
            Verdict::Met => format!("- {}\n", escape(&judged.to_string())),
            Verdict::Undecided | Verdict::Unmet => format!("- **{}**\n", escape(&judged.to_string())),
        });
        let told: String = told.collect();
        if told.is_empty() { told } else { told + "\n" }
    }

    fn searches(&self) -> String {
        match sla::to_text(self.inputs.state) {
            text if text.is_empty() => text,
            text => block(&text),
        }
    }

    /// The answer of each workload that was measured, below its name.
    fn answers(&self, answers: &[Answer]) -> String {
        if !answers.iter().any(Answer::is_measured) {
            let cut = self.inputs.points.points.iter().any(|point| !point.cut.is_empty());
            return match cut {
                true => {
                    "Every run was cut short as soon as its verdict was certain, so no point has figures to compare.\n\n".into()
                }
                false => "No run was measured.\n\n".into(),
            };
        }
        let mut text = String::new();
        let measured = answers.iter().enumerate().filter(|(_, answer)| answer.is_measured());
        for (place, answer) in measured {
            if !answer.workload.is_empty() {
                let _ = write!(text, "### Workload: {}\n\n", escape(&answer.workload));
            }
            text += &self.answer(answer);
            text += &self.best_points(answer);
            text += &mattered(self.inputs.mattered.of_workload(place));
        }
        text
    }

    fn answer(&self, answer: &Answer) -> String {
        let mut text = String::new();
        if let Some(none) = answer.none() {
            let _ = write!(text, "**{}.**\n\n", escape(&none));
        }
        for recommended in recommend(
            self.inputs.points,
            self.inputs.goals,
            answer,
            &varying(self.inputs.points),
        ) {
            let Recommended { server, why, .. } = &recommended;
            let lead = escape(&recommended.lead());
            let _ = write!(text, "{lead} **{}**: {}\n\n", escape(server), escape(why));
        }
        if answer.doubtful {
            text += "No point is free of doubt; see what is said of each.\n\n";
        }
        for best in &answer.bests {
            let settings = self.settings(best.point);
            let figure = show_spread(&best.spread);
            let _ = write!(
                text,
                "- **{}**: {settings}: {} {figure}",
                best.question,
                axis_title(best.metric)
            );
            let tied = best.tied.iter().take(MOST_NAMED);
            let tied: Vec<String> = tied.map(|i| self.settings(*i)).collect();
            if !tied.is_empty() {
                let _ = write!(text, "; tied {}: {}", best.why_tied(), tied.join("; "));
            }
            if let more @ 1.. = best.tied.len().saturating_sub(MOST_NAMED) {
                let _ = write!(text, " and {more} more");
            }
            text += &self.marks(best.point);
            text.push('\n');
        }
        if let Some(knee) = answer.knee {
            let _ = writeln!(
                text,
                "- **{KNEE}** (knee of the Pareto frontier): {}{}",
                self.settings(knee),
                self.marks(knee)
            );
        }
        for left_out in answer.left_out() {
            let _ = writeln!(text, "\n{}.", escape(&left_out));
        }
        if self.inputs.points.have_one_start() {
            let _ = writeln!(text, "\nEach point has {ONE_START}.");
        }
        if !answer.repeated {
            text += "\nEvery point is a single run: small differences may be noise.\n";
        }
        text.push('\n');
        text
    }

    fn remarks(&self) -> String {
        let clients = side_by_side(self.inputs.points);
        let all = remarks(self.inputs.state, self.inputs.points, clients.as_ref()).into_iter();
        let all: String = all
            .map(|remark| format!("Note: {}\n\n", escape(&remark.text)))
            .collect();
        let mut rows = clients
            .iter()
            .flat_map(|clients| &clients.table)
            .map(|row| row.iter().map(|cell| escape(cell)).collect());
        let table = rows
            .next()
            .map_or(String::new(), |heads: Vec<String>| grid(&heads, rows));
        table + &all
    }

    fn best_points(&self, answer: &Answer) -> String {
        let points = self.inputs.points;
        let winners = answer.bests.iter().map(|best| best.point);
        let goals = self.inputs.goals;
        let mut listed: Vec<(usize, usize)> = answer.distinct.clone();
        for winner in winners {
            if !listed.iter().any(|(point, _)| *point == winner) {
                listed.push((winner, 0));
            }
        }
        let Some((first, _)) = listed.first() else {
            return String::new();
        };
        let judged = Yardstick::of_point(points, &points.points[*first]).shown.iter();
        let figures = judged
            .map(|shown| shown.metric)
            .filter(|name| points.runs.column(name).is_some());
        let figures: Vec<&str> = figures.collect();
        let heads: String = figures.iter().map(|name| format!(" {} |", axis_title(name))).collect();
        let (meets, rule) = match goals.is_empty() {
            true => ("", ""),
            false => (" Meets |", " --- |"),
        };
        let rule = format!("| --- |{rule}{}", " ---: |".repeat(figures.len()));
        let mut text = format!("| Settings |{meets}{heads}\n{rule}\n");
        for (i, others) in listed.iter().take(MOST_ROWS) {
            let cells = figures.iter().map(|name| {
                let spread = points.spread(&points.points[*i], name);
                format!(" {} |", spread.map_or("–".into(), |spread| show_number(spread.median)))
            });
            let others = match others {
                0 => String::new(),
                count => format!(" (and {count} as good)"),
            };
            let (settings, mark) = (self.settings(*i), self.mark(*i));
            let meets = match goals.is_empty() {
                true => String::new(),
                false => format!(" {} |", escape(&goals.met_by(*i))),
            };
            let _ = writeln!(text, "| {settings}{others}{mark} |{meets}{}", cells.collect::<String>());
        }
        let more = match listed.len().saturating_sub(MOST_ROWS) {
            0 => String::new(),
            more => format!(" {more} more are in report.html."),
        };
        let of = match answer.missing {
            0 => String::new(),
            _ => format!(", of the points that meet {}", escape(&answer.wanted)),
        };
        let legend = goals.legend().into_iter();
        let legend: String = legend.map(|line| format!(" {}.", code(&line))).collect();
        text + &format!(
            "\nThe Pareto frontier of throughput per GPU against speed per user, and the best of all{of}.{more}{legend}\n\n"
        )
    }

    fn failures(&self) -> String {
        let mut text = String::new();
        for group in self.inputs.failures {
            let (name, verb) = (group.reason.name(), group.reason.verb());
            let runs = if group.runs == 1 { "run" } else { "runs" };
            let _ = writeln!(
                text,
                "- **{}**: {} {runs} {verb}; {}",
                name,
                show_count(group.runs as u64),
                escape(&group.advice())
            );
            for (detail, _) in group.details.iter().take(1) {
                let _ = writeln!(text, "  - {}", code(detail));
            }
        }
        if text.is_empty() {
            text
        } else {
            format!("### Failures and doubts\n\n{text}\n")
        }
    }

    fn environment(&self) -> String {
        let facts = facts(self.inputs.manifest, self.inputs.state).into_iter();
        let lines = facts.map(|(name, value)| format!("- {}: {}\n", escape(&name), escape(&value)));
        let lines: String = lines.collect();
        format!("<details><summary>Environment</summary>\n\n{lines}\n</details>\n")
    }

    /// Which goals a point meets, and what makes it suspect.
    fn marks(&self, point: usize) -> String {
        let goals = self.inputs.goals;
        match goals.is_empty() {
            true => self.mark(point),
            false => format!(" (meets {}){}", escape(&goals.met_by(point)), self.mark(point)),
        }
    }

    /// What makes a point suspect.
    fn mark(&self, point: usize) -> String {
        let mark = mark(&self.inputs.points.points[point]);
        mark.map_or(String::new(), |mark| format!(" ({})", escape(&mark)))
    }

    fn settings(&self, point: usize) -> String {
        escape(&settings(&self.varied, self.inputs.points.points[point].row))
    }
}

/// Which setting of the server mattered.
fn mattered(found: &[Mattered<'_>]) -> String {
    let mut text = String::new();
    for found in found {
        let _ = write!(text, "Which setting mattered for {}:\n\n", escape(&found.subject()));
        for sentence in found.sentences() {
            let _ = writeln!(text, "- {}", escape(&sentence));
        }
        text.push('\n');
    }
    text
}

/// The winners' configuration files, to be read with the directory at hand.
fn link(configs: &[Config]) -> String {
    let path = |config: &Config| format!("[{}](best/{})", escape(&config.file), config.file);
    match configs.iter().map(path).join(", ") {
        files if files.is_empty() => files,
        files => format!("Ready for `vllm serve --config`: {files}.\n\n"),
    }
}
