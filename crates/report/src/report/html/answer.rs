//! The answer as HTML: the highest load that meets each target, a card for each best point, and the frontier.

use super::lead::Part;
use super::text::{code, escape, table};
use super::{Page, lead};
use crate::report::answer::{Answer, Best, FRONTIER, KNEE, mark};
use crate::report::sla;
use crate::report::variation::{settings, varying_within};
use crate::report::words::{axis_title, show_number, show_of};
use crate::report::yardstick::Yardstick;
use itertools::Itertools;
use std::fmt::Write;
use vsweep_plan::shell::{shell_command, shell_line};
use vsweep_record::table::{Column, ONE_START, Point, Spread};

/// Tied points that are named.
const MOST_TIED: usize = 3;
/// Frontier points that are listed.
const MOST_FRONTIER: usize = 12;
/// Figures shown beside the one a point is best at, after those that its workload is judged by.
const COSTS: [&str; 2] = ["cost_per_million_output_tokens", "joules_per_output_token"];

/// The highest load that meets each target, for every server; empty if the plan has no targets.
pub fn targets(page: &Page<'_>) -> String {
    let Some(vary) = sla::varied(page.inputs.state) else {
        return String::new();
    };
    let row = |answer: sla::Shown| {
        let notes = match answer.notes.as_str() {
            "" => String::new(),
            notes => format!("<br><span class=\"remark\">{}</span>", escape(notes)),
        };
        vec![
            format!("{}: {}{notes}", escape(&answer.target), escape(&answer.settings)),
            format!("<b>{}</b>", escape(&answer.value)),
            escape(&answer.interval),
            answer.answer.to_string(),
            escape(&answer.binding),
            answer.probes.to_string(),
        ]
    };
    let heads = [
        "Target: settings",
        "Highest",
        "Limit between",
        "Answer",
        "Limited by",
        "Runs",
    ];
    let table = table(
        "Targets",
        &heads.map(str::to_owned),
        sla::shown(page.inputs.state).into_iter().map(row),
    );
    format!(
        "<h3>Highest {vary} that meets each target</h3>{table}<p \
         class=\"note\">Met: the highest load measured as meeting the target, the limit lies in the interval beside it. None: \
         no load allowed meets it. Beyond: the highest load allowed still meets it. Undecided: the runs allowed \
         were too few to tell. Skipped: another server is known to hold more than this one can. Given up: an error, not a load, \
         ended the search. Not finished: it goes on when the plan is run again. On the interval: {interval}; {coarse}.</p>",
        interval = sla::explain_interval(),
        coarse = sla::COARSE,
    )
}

/// What to run, then the answer of each workload below its name; a workload that was not measured is left out.
pub fn of_workloads(page: &Page<'_>, answers: &[Answer]) -> String {
    let workloads = page.inputs.points.workloads();
    let pictures = lead::pictures(page);
    let told = workloads.iter().zip(answers).zip(pictures.iter().enumerate());
    let measured = told.filter(|((_, answer), _)| answer.is_measured());
    let parts = measured.map(|((workload, answer), (place, [families, effects]))| Part {
        place,
        answer,
        told: varying_within(page.inputs.points, workload),
        is_single: workload.points.len() == 1,
        families,
        effects,
    });
    let parts: Vec<Part<'_>> = parts.collect();
    if parts.is_empty() {
        return lead::nothing_measured(page).into();
    }
    let (mut html, charted) = lead::front(page, &parts);
    if page.inputs.points.have_one_start() {
        let _ = write!(html, "<p class=\"note\">Each server has {ONE_START}.</p>");
    }
    if answers.len() > 1 {
        html += "<p class=\"note\">Points compete within their workload only: what long prompts allow is no match for what \
                 short ones do.</p>";
    }
    for (i, part) in parts.iter().enumerate() {
        let is_new = i >= lead::MOST_PICTURES;
        html += &part.heading(if is_new { "Workload" } else { "Best points" });
        if is_new {
            html += &lead::recommended(page, part.answer, &part.told);
        }
        if charted != Some(part.place) {
            html += part.families;
        }
        html += &cards_and_frontier(page, part);
    }
    html
}

/// The best points of a workload, what is tied with them, which setting mattered, and the frontier.
fn cards_and_frontier(page: &Page<'_>, part: &Part<'_>) -> String {
    let (answer, told) = (part.answer, part.told.as_slice());
    let mut html = String::new();
    for left_out in answer.left_out() {
        let _ = write!(html, "<p class=\"caution\">{}.</p>", escape(&left_out));
    }
    html += "<div class=\"cards\">";
    // Of a single point, every card would say the same.
    let most = if part.is_single { 1 } else { answer.bests.len() };
    for best in answer.bests.iter().take(most) {
        let title = if part.is_single {
            "The only point"
        } else {
            best.question
        };
        html += &best_card(page, part, title, best);
    }
    if let Some(knee) = answer.knee {
        html += &knee_card(page, answer, told, knee);
    }
    html += "</div>";
    let has_intervals = answer.bests.iter().any(|best| best.standing.is_some());
    html += if has_intervals {
        "<p class=\"note\">Figures are medians over runs with 95 % intervals over starts of the server. Tied: the intervals overlap, so \
         these starts cannot tell them apart; of equals the one with the fewest settings is shown.</p>"
    } else if is_searched(page) && !answer.repeated {
        "<p class=\"note\">Every point is a single run: a search repeats a load only where its verdict is in doubt, so small \
         differences may be noise.</p>"
    } else if answer.repeated {
        "<p class=\"note\">Figures are medians over runs with the lowest and the highest run. Tied: the runs reach into \
         the range of the best one's runs, so this sweep cannot tell them apart.</p>"
    } else {
        "<p class=\"note\">Every point is a single run, so ties cannot be told: small differences may be noise. Set \
         <code>runs = 3</code> in the plan to know.</p>"
    };
    html += &lead::mattered(page.inputs.mattered.of_workload(part.place), part.effects);
    html + &frontier(page, answer, told)
}

/// Whether searches chose the points, which `runs` does not repeat.
fn is_searched(page: &Page<'_>) -> bool {
    sla::varied(page.inputs.state).is_some()
}

fn best_card(page: &Page<'_>, part: &Part<'_>, title: &str, best: &Best) -> String {
    let (answer, told) = (part.answer, part.told.as_slice());
    let name = |i: &usize| settings(told, page.inputs.points.points[*i].row);
    let names: Vec<String> = best.tied.iter().map(name).collect();
    let tied = list_tied(&format!("{}:", best.why_tied()), &names);
    let card = Card {
        title,
        question: &answer.ask(best.question),
        told,
        at: best.point,
        metric: best.metric,
        shown: None,
        more: &tied,
    };
    card.render(page)
}

/// What cannot be told apart from the best, some of it by name; nothing if all can.
pub(super) fn list_tied(reason: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let named = names.iter().take(MOST_TIED);
    let mut list: String = named.map(|name| format!("<li>{}</li>", escape(name))).collect();
    if names.len() > MOST_TIED {
        let _ = write!(list, "<li>and {} more</li>", names.len() - MOST_TIED);
    }
    format!("<div class=\"tied\"><strong>Tied</strong> {reason}<ul>{list}</ul></div>")
}

fn knee_card(page: &Page<'_>, answer: &Answer, told: &[&Column], knee: usize) -> String {
    let why = "<p class=\"why\">The knee of the Pareto frontier: from here on, speed per user costs throughput fast, \
               and the other way round.</p>";
    let card = Card {
        title: KNEE,
        question: &answer.ask(KNEE),
        told,
        at: knee,
        metric: FRONTIER[1],
        shown: None,
        more: why,
    };
    card.render(page)
}

/// A point that is best at something: its figure, its settings, companions, and its command lines, and
/// the file that starts its server.
pub(super) struct Card<'a> {
    /// What it is best at, as the reader needs it at its place on the page.
    pub title: &'a str,
    /// The same, as its configuration file has it.
    pub question: &'a str,
    /// The parameters that tell it from the points around it.
    pub told: &'a [&'a Column],
    /// The point.
    pub at: usize,
    /// The figure that it is best in.
    pub metric: &'a str,
    /// That figure in words, where it is more than a number.
    pub shown: Option<&'a str>,
    /// What else there is to say of it, as HTML.
    pub more: &'a str,
}

impl Card<'_> {
    pub(super) fn render(&self, page: &Page<'_>) -> String {
        let Card {
            title: heading,
            question,
            told,
            at,
            metric,
            more,
            ..
        } = *self;
        let point = &page.inputs.points.points[at];
        let figure = |name: &str| page.inputs.points.spread(point, name);
        // A load is known even where its run was cut short and has no figures.
        let (value, range) = figure(metric).map_or_else(
            || (page.inputs.points.param(point, metric).to_string(), String::new()),
            |spread| (show_of(metric, spread.median), range(metric, &spread)),
        );
        let value = self.shown.map_or(value, str::to_owned);
        let marked = mark(point).map_or(String::new(), |mark| {
            format!("<p class=\"caution\">{}</p>", escape(&mark))
        });
        let meets = meets(page, at);
        let title = axis_title(metric);
        // Titles end in their unit, except where the unit is the figure: `Output tokens/s per GPU`.
        let (name, unit) = title.rsplit_once(" (").unwrap_or((&title, "tokens/s"));
        let mut companions = String::new();
        let judged = Yardstick::of_point(page.inputs.points, point).shown.iter();
        let shown = judged.map(|shown| shown.metric).chain(COSTS);
        for name in shown.filter(|name| *name != metric) {
            if let Some(spread) = figure(name) {
                let (title, median) = (axis_title(name), show_of(name, spread.median));
                let title = escape(title.trim_end_matches(" ($)"));
                let _ = write!(companions, "<div><dt>{title}</dt><dd>{median}</dd></div>");
            }
        }
        format!(
            "<article class=\"card\"><h3>{heading}</h3><p class=\"figure\"><b>{value}</b> {unit}</p>\
         <p class=\"what\">{name}{range}</p><p class=\"settings\">{settings}</p><dl>{companions}</dl>{meets}{marked}{more}\
         <details><summary>Command lines</summary>{commands}</details>{config}</article>",
            heading = escape(heading),
            value = escape(&value),
            // Money has its sign in front.
            unit = escape(unit.trim_end_matches(')').trim_start_matches('$')),
            name = escape(name),
            settings = escape(&if told.is_empty() {
                String::new()
            } else {
                settings(told, point.row)
            }),
            commands = commands(page, point),
            config = config(page, question),
        )
    }
}

/// Which of the plan's goals a point meets, as a line of its card.
fn meets(page: &Page<'_>, point: usize) -> String {
    match page.inputs.goals.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"what\">Meets {}</p>",
            escape(&page.inputs.goals.met_by(point))
        ),
    }
}

/// The configuration file of a winner, with its text: a page that is passed around comes without the folder.
fn config(page: &Page<'_>, question: &str) -> String {
    let Some(config) = page.configs.iter().find(|config| config.question == question) else {
        return String::new();
    };
    let path = escape(&format!("best/{}", config.file));
    format!(
        "<details><summary>Configuration file</summary><p class=\"note\"><a href=\"{path}\">{path}</a> for <code>vllm serve \
         --config</code></p>{}</details>",
        code(&config.text, "the configuration file")
    )
}

fn range(metric: &str, spread: &Spread) -> String {
    let show = |value| show_of(metric, value);
    if let (Some((low, high)), Some(starts)) = (spread.interval, spread.starts) {
        return format!(", 95 %: {} to {} over {starts} starts", show(low), show(high));
    }
    match spread.count {
        1 => String::new(),
        count if spread.max <= spread.min => format!(", in {count} runs"),
        count => format!(", {} to {} in {count} runs", show(spread.min), show(spread.max)),
    }
}

fn frontier(page: &Page<'_>, answer: &Answer, told: &[&Column]) -> String {
    if answer.frontier.len() < 2 {
        return String::new();
    }
    let points = page.inputs.points;
    let (first, _) = answer.distinct[0];
    let judged = Yardstick::of_point(points, &points.points[first]).shown.iter();
    let shown = FRONTIER.into_iter().chain(judged.map(|shown| shown.metric)).unique();
    let shown: Vec<&str> = shown.filter(|name| points.runs.column(name).is_some()).collect();
    let goals = page.inputs.goals;
    let meets = (!goals.is_empty()).then(|| "Meets".to_owned());
    let titles = shown.iter().map(|name| escape(&axis_title(name)));
    let heads: Vec<String> = ["Settings".to_owned()].into_iter().chain(meets).chain(titles).collect();
    let row = |(i, others): &(usize, usize)| {
        let point = &page.inputs.points.points[*i];
        let knee = if answer.knee == Some(*i) {
            " <span class=\"tag\">knee</span>"
        } else {
            ""
        };
        let others = match others {
            0 => String::new(),
            count => format!(" <span class=\"count\">and {count} as good</span>"),
        };
        let mark = mark(point).map_or(String::new(), |mark| {
            format!(" <span class=\"tag suspect\">{}</span>", escape(&mark))
        });
        let name = format!("{}{knee}{others}{mark}", escape(&settings(told, point.row)));
        let meets = (!goals.is_empty()).then(|| escape(&goals.met_by(*i)).replace(' ', "&nbsp;"));
        let figures = shown.iter().map(|name| {
            let spread = page.inputs.points.spread(point, name);
            spread.map_or("–".into(), |spread| show_number(spread.median))
        });
        [name].into_iter().chain(meets).chain(figures).collect()
    };
    let rows = answer.distinct.iter().take(MOST_FRONTIER).map(row);
    let label = match answer.workload.as_str() {
        "" => "Pareto frontier".to_owned(),
        name => format!("Pareto frontier, {name}"),
    };
    let more = answer.distinct.len().saturating_sub(MOST_FRONTIER);
    let more = if more > 0 {
        format!("<p class=\"note\">and {more} more in the chart</p>")
    } else {
        String::new()
    };
    let of = match answer.missing {
        0 => String::new(),
        _ => format!(" that meets {}", escape(&answer.wanted)),
    };
    let legend = goals.legend().into_iter();
    let legend: String = legend
        .map(|line| format!("<p class=\"note\">{}</p>", escape(&line)))
        .collect();
    format!(
        "<details class=\"frontier\" open><summary>Pareto frontier: {} points that no other{of} beats in both speed \
         per user and throughput per GPU</summary>{}{more}{legend}</details>",
        answer.frontier.len(),
        table(&label, &heads, rows)
    )
}

fn commands(page: &Page<'_>, point: &Point) -> String {
    let Some(run) = page.inputs.state.runs().nth(point.row) else {
        return String::new();
    };
    let server = page.inputs.state.servers.get(&run.server);
    let argv = server.map_or(&[][..], |server| &server.argv);
    let bench = page.inputs.bench_command(argv, &run.params);
    let (server, bench) = match (server, page.inputs.bench.offline()) {
        (Some(server), Some(_)) => (String::new(), shell_command(&server.env, &bench)),
        (Some(server), None) => (shell_command(&server.env, &server.argv), shell_line(bench)),
        (None, _) => (String::new(), shell_line(bench)),
    };
    let mut html = String::new();
    if !server.is_empty() {
        html += &code(&server, "the server's command line");
    }
    html + &code(&bench, "the benchmark's command line")
}
