//! Reads all outputs of an experiment, or of a comparison, and finds what contradicts the document that they are made of.

#![allow(dead_code, reason = "every test binary uses its own part")]

use crate::harness::Harness;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use vsweep::answer::{self, Answer, Estimate, Goal, PairedFinding, QuestionAnswer, Warning, Winner};
use vsweep::evidence::{JournalSources, MARGIN};
use vsweep::ids::ServerId;
use vsweep::journal::{self, Check, Directory};
use vsweep::plan::{Format, Params, World};
use vsweep::report::texts::words::{axis_title, show_figure, show_number, show_together};
use vsweep::table::used_gpus;

/// Panics if an output of an experiment contradicts its answer. `said` is the text of `vsweep report`.
pub fn assert_agreed(root: &Path, said: &str) {
    let answer: Answer = serde_json::from_str(&read(root, "answer.json")).expect("the document");
    let mut outputs = Outputs {
        root,
        answer: &answer,
        found: Vec::new(),
    };
    outputs.tables();
    outputs.page();
    outputs.sentences(said);
    outputs.configs();
    outputs.searches();
    outputs.optimization();
    outputs.journal();
    outputs.comparison(said);
    assert_eq!(outputs.found, Vec::<String>::new(), "{said}");
}

/// Panics if an output of a sweep in a folder of the harness contradicts its answer.
pub fn assert_sweep_agreed(harness: &Harness, name: &str) {
    let root = harness.folder.path().join(name);
    let report = harness.run(&["report", name]);
    assert_agreed(&root, &String::from_utf8_lossy(&report.stdout));
    let status = harness.run(&["status", name, "--format", "json"]);
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let answer: Value = serde_json::from_str(&read(&root, "answer.json")).expect("JSON");
    assert_eq!(status["answer"], answer);
}

/// Panics if an output of `vsweep compare` contradicts its JSON. `page` is given without its HTML tags. In the text, the rows of a point
/// follow a line with its settings, unless it names the page for the rest; it may then leave out rows, as the Markdown may.
pub fn assert_comparison_agreed(json: &Value, (text, page, markdown): (&str, &str, &str)) {
    let markdown = bare(markdown);
    let mut wrong = Vec::new();
    let verdict_of = |figure: &Value| own_text(&figure["verdict"]).to_owned();
    for verdict in ["improved", "regressed", "same", "undecided"] {
        let count = figures(json)
            .filter(|(_, figure)| verdict_of(figure) == verdict)
            .count();
        let said = format!("{count} {verdict}");
        for (name, output) in [("text", text), ("page", page), ("markdown", &markdown)] {
            if count > 0 && !output.contains(&said) {
                wrong.push(format!("{name}: {said}"));
            }
        }
    }
    let rows: Vec<(&str, Vec<String>)> = figures(json)
        .map(|(settings, figure)| {
            let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
            let ends = [0, 1].map(|end| number(&figure["interval"][end]));
            let ratio = number(&figure["ratio"]);
            let is_multiple = ratio > 2.0;
            let cells = vec![
                own_text(&figure["metric"]).to_owned(),
                show_figure(number(&figure["base"])),
                show_figure(number(&figure["new"])),
                percent(ratio, is_multiple),
                percents(ends, is_multiple),
                verdict_of(figure),
            ];
            (settings, cells)
        })
        .collect();
    let is_cut = text.contains("--format html -o compare.html");
    for (settings, cells) in &rows {
        let below = text.split_once(&format!("\n{settings}\n")).map_or("", |(_, rest)| rest);
        let below = below.split("\n\n").next().unwrap_or_default();
        if !is_cut && !below.lines().any(|line| in_order(line, cells)) {
            wrong.push(format!("text: {settings}: {cells:?}"));
        }
        // The page shows the metric's title instead of its name.
        let titled: Vec<String> = [axis_title(&cells[0])].into_iter().chain(cells[1..].to_vec()).collect();
        if !page
            .lines()
            .any(|line| line.contains(settings) && in_order(line, &titled))
        {
            wrong.push(format!("page: {settings}: {cells:?}"));
        }
    }
    let of_table = |line: &&str| line.starts_with("| ") && !line.contains("---") && line.matches(" | ").count() >= 7;
    let in_text = text.split_once("verdict  at\n").map_or("", |(_, rest)| rest);
    let in_text = in_text.split("\n\n").next().unwrap_or_default();
    for line in in_text.lines().chain(markdown.lines().filter(of_table).skip(1)) {
        let is_it = |(settings, cells): &(&str, Vec<String>)| line.contains(settings) && in_order(line, cells);
        if !rows.iter().any(is_it) {
            wrong.push(format!("not in the JSON: {line}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "{text}");
}

fn figures(json: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let points = json["points"].as_array().expect("points").iter();
    points.flat_map(|point| {
        let figures = point["figures"].as_array().expect("figures").iter();
        figures.map(move |figure| (own_text(&point["settings"]), figure))
    })
}

fn own_text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// A change as every output of a comparison shows it.
fn percent(ratio: f64, is_multiple: bool) -> String {
    match is_multiple {
        true => format!("x {}", show_number(ratio)),
        false => format!("{:+.1} %", ((ratio - 1.0) * 1000.0).round() / 10.0 + 0.0),
    }
}

/// The figure of a winner as sentences show it: users are whole.
fn shown(answered: &QuestionAnswer, winner: &Winner) -> Estimate {
    let Estimate { value, low, high } = winner.value;
    match &answered.goal {
        Goal::Load { parameter, .. } if parameter == "max_concurrency" => {
            let [low, high] = [low, high].map(|end| (end * (1.0 + 1e-9)).floor());
            Estimate { value, low, high }
        }
        _ => winner.value,
    }
}

/// An interval of changes as every output shows it.
fn percents([low, high]: [f64; 2], is_multiple: bool) -> String {
    match is_multiple {
        _ if percent(low, is_multiple) == percent(high, is_multiple) => percent(low, is_multiple),
        true => format!("x {} to {}", show_number(low), show_number(high)),
        false => format!(
            "{} to {}",
            percent(low, false).trim_end_matches(" %"),
            percent(high, false)
        ),
    }
}

/// Returns the name of a server as sentences show it next to another server: only the parts that differ.
fn apart(name: &str, from: &str) -> String {
    let own: Vec<&str> = from.split(", ").collect();
    let differing: Vec<&str> = name.split(", ").filter(|part| !own.contains(part)).collect();
    match differing.len() {
        0 => name.to_owned(),
        _ => differing.join(", "),
    }
}

/// True if `line` contains all `words` in this order.
fn in_order(line: &str, words: &[String]) -> bool {
    let mut rest = line;
    words.iter().all(|word| match rest.split_once(word.as_str()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

fn read(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

type Row = BTreeMap<String, String>;

fn rows(root: &Path, name: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_path(root.join(name)).expect("a CSV file");
    let rows: Result<Vec<Row>, csv::Error> = reader.deserialize().collect();
    rows.expect("rows")
}

/// Returns the text of some HTML, without its tags and entities.
pub fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for letter in html.chars() {
        match letter {
            '<' => is_tag = true,
            '>' => is_tag = false,
            letter if !is_tag => text.push(letter),
            _ => {}
        }
    }
    decoded(&text)
}

/// A text without the entities of HTML.
fn decoded(text: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#x27;", "'"),
        ("&#39;", "'"),
        ("&#x2f;", "/"),
        ("&amp;", "&"),
    ];
    let replace = |text: String, (entity, letter): &(&str, &str)| text.replace(entity, letter);
    entities.iter().fold(text.to_owned(), replace)
}

/// A text as it is in every output: without the marks of Markdown and the entities of HTML.
fn bare(text: &str) -> String {
    decoded(text).replace('\\', "").replace("**", "")
}

struct Outputs<'a> {
    root: &'a Path,
    answer: &'a Answer,
    found: Vec<String>,
}

impl Outputs<'_> {
    fn object(&mut self, what: impl Into<String>) {
        self.found.push(what.into());
    }

    /// Returns the questions that have a winner, each with its winner.
    fn won(&self) -> impl Iterator<Item = (&QuestionAnswer, &Winner)> {
        let questions = self.answer.questions.iter();
        questions.filter_map(|answered| Some((answered, answered.winner.as_ref()?)))
    }

    /// Checks that every figure in points.csv that the answer judges equals its estimate, and that no other figure has an interval.
    fn tables(&mut self) {
        let rows = rows(self.root, "points.csv");
        let of_point: BTreeMap<&str, &Row> = rows.iter().map(|row| (row["point"].as_str(), row)).collect();
        let mut judged: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut wrong = Vec::new();
        for estimates in &self.answer.estimates {
            let Some(row) = of_point.get(&*estimates.point) else {
                wrong.push(format!("points.csv lacks the point {}", estimates.point));
                continue;
            };
            for (noise, estimate) in self.answer.noise.iter().zip(&estimates.figures) {
                let Some(estimate) = estimate else { continue };
                judged.entry(&estimates.point).or_default().insert(&noise.metric);
                let ends = [("", estimate.value), ("_low", estimate.low), ("_high", estimate.high)];
                for (suffix, value) in ends {
                    let cell = row.get(&format!("{}{suffix}", noise.metric)).map_or("", String::as_str);
                    if !cell.parse::<f64>().is_ok_and(|cell| is_near(cell, value, 1e-9)) {
                        wrong.push(format!(
                            "points.csv: {} {}{suffix}: {cell} and not {value}",
                            estimates.point, noise.metric
                        ));
                    }
                }
            }
        }
        for row in &rows {
            for (name, cell) in row.iter().filter(|(_, cell)| !cell.is_empty()) {
                let Some(metric) = name.strip_suffix("_low") else {
                    continue;
                };
                let has_one = judged
                    .get(row["point"].as_str())
                    .is_some_and(|metrics| metrics.contains(metric));
                if !has_one {
                    wrong.push(format!(
                        "points.csv: {} has {name} {cell}, which the answer lacks",
                        row["point"]
                    ));
                }
            }
        }
        self.found.extend(wrong);
    }

    /// Checks that the estimates and frontiers in the page's data are those of the document.
    fn page(&mut self) {
        let page = read(self.root, "report.html");
        let (_, data) = page
            .split_once("<script type=\"application/json\" id=\"data\">")
            .expect("data");
        let (data, _) = data.split_once("</script>").expect("an end");
        let data: Value = serde_json::from_str(data).expect("JSON");
        let ids: Vec<&str> = data["points"]
            .as_array()
            .expect("points")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let mut wrong = Vec::new();
        for (number, noise) in self.answer.noise.iter().enumerate() {
            for (at, id) in ids.iter().enumerate() {
                let own = self.answer.estimates.iter().find(|own| own.point == **id);
                let own = own.and_then(|own| own.figures[number]);
                let shown = &data["estimates"][&noise.metric][at];
                let ends = |estimate: Estimate| [estimate.value, estimate.low, estimate.high];
                let is_same = match own.map(ends) {
                    None => shown.is_null(),
                    Some(ends) => {
                        (0..3).all(|end| shown[end].as_f64().is_some_and(|shown| is_near(shown, ends[end], 1e-4)))
                    }
                };
                if !is_same {
                    wrong.push(format!("report.html: {id} {}: {shown} and not {own:?}", noise.metric));
                }
            }
        }
        for workload in data["workloads"].as_array().expect("workloads") {
            let name = own_text(&workload["name"]);
            let frontier = self.answer.frontiers.iter().find(|frontier| frontier.workload == name);
            let own = frontier.into_iter().flat_map(|frontier| &frontier.points);
            let own: Vec<&str> = own.map(|point| point.point.as_str()).collect();
            let shown = workload["frontier"].as_array().expect("places").iter();
            let shown: Vec<&str> = shown.filter_map(|at| Some(ids[at.as_u64()? as usize])).collect();
            if own != shown {
                wrong.push(format!("report.html: frontier of {name}: {shown:?} and not {own:?}"));
            }
        }
        self.found.extend(wrong);
    }

    /// Checks that the sentences of the page are those of report.md, that each winner has one with the document's figures, and that the
    /// terminal names the winner of each leading question with its figure.
    fn sentences(&mut self, said: &str) {
        let (page, markdown) = (read(self.root, "report.html"), bare(&read(self.root, "report.md")));
        let leads = page.split("<p class=\"lead\">").skip(1);
        let leads: Vec<String> = leads
            .filter_map(|rest| Some(plain(rest.split_once("</p>")?.0)))
            .collect();
        let is_line = |text: &str, lead: &str| text.lines().any(|line| bare(line).trim() == bare(lead).trim());
        let mut wrong = Vec::new();
        for lead in &leads {
            if !is_line(&markdown, lead) {
                wrong.push(format!("report.md lacks: {lead}"));
            }
        }
        // The terminal shows at most four recommendations, and writes `the same` for a server that it has just named.
        let mut before = None;
        for answered in self.answer.leading().into_iter().take(4) {
            let Some(winner) = &answered.winner else { continue };
            let mut facts = self.facts(answered, winner);
            // With several recommendations the terminal omits the intervals of figures other than loads.
            let is_short = self.answer.leading().len() > 1 && !answered.is_load();
            let shown = shown(answered, winner);
            let has_range = shown.high > shown.low && !winner.at_ceiling && !is_short;
            facts.truncate(usize::from(self.answer.configs.len() > 1) + 1 + usize::from(has_range));
            if before.replace(&winner.config) == Some(&winner.config) && self.answer.configs.len() > 1 {
                facts[0] = "the same".into();
            }
            let mut lines = said
                .lines()
                .filter(|line| line.starts_with("Run: ") || line.starts_with("Measured: "));
            if !lines.any(|line| in_order(line, &facts)) {
                wrong.push(format!("terminal lacks: {facts:?}"));
            }
        }
        let bold = read(self.root, "report.md");
        let bold = bold
            .lines()
            .filter(|line| line.contains("**: ") && !line.starts_with(['*', '-', '#']));
        for line in bold.map(bare) {
            if !leads.iter().any(|lead| bare(lead).trim() == line.trim()) {
                wrong.push(format!("report.html lacks: {line}"));
            }
        }
        for (answered, winner) in self.won() {
            let facts = self.facts(answered, winner);
            if !leads
                .iter()
                .any(|lead| in_order(&lead.replace("Over ", "over "), &facts))
            {
                wrong.push(format!("no sentence says {facts:?}: {leads:#?}"));
            }
        }
        let winners = self.won().count() + self.answer.together.iter().filter(|own| own.config.is_some()).count();
        let naming = leads
            .iter()
            .filter(|lead| !lead.contains("no server") && !lead.contains("no answer"))
            .count();
        // A question without a winner may have a sentence, too.
        if naming < winners {
            wrong.push(format!("{naming} sentences for {winners} winners: {leads:#?}"));
        }
        self.found.extend(wrong);
    }

    /// The words of every sentence about a winner, in their order.
    fn facts(&self, answered: &QuestionAnswer, winner: &Winner) -> Vec<String> {
        let mut facts = Vec::new();
        if self.answer.configs.len() > 1 {
            facts.push(self.answer.name_of(&winner.config).to_owned());
        }
        let Estimate { value, low, high } = shown(answered, winner);
        let has_range = high > low;
        let [value, low, high] = match has_range && !answered.is_load() {
            true => show_together([value, low, high]),
            false => [value, low, high].map(show_number),
        };
        facts.push(value);
        if has_range && !winner.at_ceiling {
            facts.push(format!("{low} to {high}"));
        }
        let next = answered
            .entrants
            .iter()
            .filter(|other| other.config != winner.config && other.meets);
        let next = next
            .filter(|other| other.winner_over.is_some())
            .map(|other| &other.config)
            .next();
        if let Some(next) = next.filter(|next| !answered.ties.contains(next)) {
            facts.push(self.answer.name_of(next).to_owned());
        }
        if answered.entrants.len() > 1 {
            let sure = match winner.probability * 100.0 {
                percent if percent > 99.0 => "over 99 % sure".to_owned(),
                percent if percent > 0.0 && percent < 1.0 => "under 1 % sure".to_owned(),
                // A certainty that is not enough is not shown as the 95 % that would be.
                percent if percent < 95.0 => format!("{:.0} % sure", percent.min(94.0)),
                percent => format!("{percent:.0} % sure"),
            };
            facts.push(sure);
        }
        for tie in answered.ties.iter().take(1) {
            facts.push(apart(self.answer.name_of(tie), self.answer.name_of(&winner.config)));
        }
        facts
    }

    /// Checks that each file of `best/` belongs to the winner of a question: its first line says so, and its settings are the winner's.
    fn configs(&mut self) {
        let files = fs::read_dir(self.root.join("best")).into_iter().flatten().flatten();
        let texts: Vec<String> = files
            .map(|file| fs::read_to_string(file.path()).expect("readable"))
            .collect();
        let mut wrong = Vec::new();
        for text in &texts {
            let first = text.lines().next().unwrap_or_default().replace("Over ", "over ");
            let is_about = |(answered, winner): &(&QuestionAnswer, &Winner)| {
                let question = answered.question.to_lowercase();
                let workload = answered.workload.as_str();
                let names = first.to_lowercase().contains(&question) && first.contains(workload);
                (names || first.contains("Run ")) && in_order(&first, &self.facts(answered, winner))
            };
            let Some((_, winner)) = self.won().find(is_about) else {
                wrong.push(format!("a file of best/ is of no winner: {first}"));
                continue;
            };
            let config = self.answer.configs.iter().find(|config| config.id == winner.config);
            for (name, value) in config.into_iter().flat_map(|config| &config.settings) {
                let begin = format!("{}: ", name.replace('_', "-"));
                let written = text.lines().find_map(|line| line.strip_prefix(&*begin));
                if written.is_some_and(|written| written.trim_matches(['\'', '"']) != value) {
                    wrong.push(format!("best/: {begin}{} and not {value}", written.unwrap_or_default()));
                }
            }
        }
        self.found.extend(wrong);
    }

    /// Checks the loads in sla.csv, and for winners also the number of disturbed probes, against the document.
    fn searches(&mut self) {
        let questions: Vec<&QuestionAnswer> = self
            .answer
            .questions
            .iter()
            .filter(|answered| answered.is_load())
            .collect();
        if questions.is_empty() {
            return;
        }
        let rows = rows(self.root, "sla.csv");
        let mut wrong = Vec::new();
        let mut seen = 0;
        for answered in questions {
            let Goal::Load { target, .. } = &answered.goal else {
                continue;
            };
            for entrant in &answered.entrants {
                let own = |row: &&Row| row["target"] == *target && row["server"] == entrant.config;
                let own: Vec<&Row> = rows.iter().filter(own).collect();
                if !own.iter().any(|row| row["value"] == entrant.load) {
                    wrong.push(format!("sla.csv: {target} of {}: not {}", entrant.config, entrant.load));
                }
                seen += 1;
                if entrant.load.is_empty() {
                    if !own.iter().any(|row| row["answer"] == "undecided") {
                        wrong.push(format!("sla.csv: {target} of {}: not undecided", entrant.config));
                    }
                    continue;
                }
                let load: f64 = entrant.load.parse().expect("a number");
                if !is_near(entrant.value.value, load * f64::from(entrant.replicas), 1e-9) {
                    wrong.push(format!("{target} of {}: {:?} of {load}", entrant.config, entrant.value));
                }
            }
            let Some(winner) = &answered.winner else { continue };
            let disturbed = answered.warnings.iter().find_map(|warning| match warning {
                Warning::Disturbed { disturbed, of } => Some((disturbed.to_string(), of.to_string())),
                _ => None,
            });
            let own =
                |row: &&Row| row["target"] == *target && row["server"] == winner.config && row["value"] == winner.load;
            let counts = rows
                .iter()
                .filter(own)
                .map(|row| (row["disturbed"].clone(), row["probes"].clone()));
            let counts: Vec<(String, String)> = counts.collect();
            let is_said = match &disturbed {
                Some(disturbed) => counts.contains(disturbed),
                None => counts.iter().any(|(disturbed, _)| disturbed == "0"),
            };
            if !is_said {
                wrong.push(format!(
                    "sla.csv: disturbed {counts:?}, the answer warns of {disturbed:?}"
                ));
            }
        }
        let found = rows.iter().filter(|row| !row["value"].is_empty()).count();
        let too_large = self
            .answer
            .questions
            .iter()
            .any(|answered| !answered.too_large.is_empty());
        if seen < found && !too_large {
            wrong.push(format!("sla.csv has {found} loads, the document {seen}"));
        }
        self.found.extend(wrong);
    }

    /// Checks that an optimisation found the answer's winner, and that its probability among all servers is no higher than among the
    /// measured ones.
    fn optimization(&mut self) {
        let Some(found) = self.answer.optimization.as_deref() else {
            return;
        };
        // Several workloads are judged together.
        let together = self.answer.together.first();
        let together = together.and_then(|own| Some((own.config.as_ref()?, own.probability)));
        let first = self.answer.questions.first().and_then(|own| own.winner.as_ref());
        let Some((winner, measured)) = together.or(first.map(|winner| (&winner.config, winner.probability))) else {
            return;
        };
        if found.best.as_ref() != Some(winner) {
            self.object(format!("optimization: {:?} instead of {winner}", found.best));
        }
        if found.probability > measured {
            let all = found.probability;
            self.object(format!("optimization: {all} among all, {measured} among the measured"));
        }
    }

    /// Checks that the figures in the journal, by which the sweep decides, give the same winners with the same probabilities as the run
    /// files.
    fn journal(&mut self) {
        let directory = Directory::open(self.root).expect("an experiment");
        let state = journal::load(&directory, Check::Hashes).expect("readable");
        let plan = fs::read_to_string(self.root.join("plan.toml")).unwrap_or_default();
        let Ok(plan) = vsweep::plan::parse(&plan, Format::Toml, Path::new("plan.toml"), &World::empty()) else {
            return;
        };
        let servers = state.servers.iter();
        let servers: BTreeMap<ServerId, (Params, Option<f64>)> = servers
            .map(|(id, server)| {
                (
                    id.clone(),
                    (
                        server.params.clone(),
                        used_gpus(&server.params, &server.argv, &server.launches),
                    ),
                )
            })
            .collect();
        let recorded = JournalSources {
            state: &state,
            servers: &servers,
            starts: u32::MAX,
            requirements: &plan.report.requirements,
            margin: plan.report.margin.unwrap_or(MARGIN),
            gpus: self.answer.gpus,
            objective: state.optimization().and_then(|own| own.objective.as_ref()),
        };
        let found = answer::answer(recorded.experiment(|_| true));
        let winners = |answer: &Answer| -> Vec<Option<(String, f64)>> {
            let winners = answer.questions.iter().map(|own| own.winner.as_ref());
            let winner = |own: &Winner| (own.config.clone(), own.probability);
            winners.map(|own| own.map(winner)).collect()
        };
        let (by_journal, by_files) = (winners(&found), winners(self.answer));
        if by_journal != by_files {
            self.object(format!("the journal says {by_journal:?}, the files {by_files:?}"));
        }
    }

    /// Checks that the findings of the plan's own comparison are in the terminal, on the page and in report.md.
    fn comparison(&mut self, said: &str) {
        let Some(comparison) = &self.answer.comparison else {
            return;
        };
        let (page, markdown) = (
            plain(&read(self.root, "report.html")),
            bare(&read(self.root, "report.md")),
        );
        let mut wrong = Vec::new();
        for finding in &comparison.findings {
            let facts = of_finding(finding);
            for (name, text) in [("terminal", said), ("report.html", &*page), ("report.md", &*markdown)] {
                // A sentence may begin with the metric.
                let is_said = |line: &str| in_order(line, &facts) || in_order(line, &capital(&facts));
                if !text.lines().any(is_said) {
                    wrong.push(format!("{name} lacks {facts:?}"));
                }
            }
        }
        if !self.answer.questions.is_empty() {
            wrong.push("a comparison has no other answer beside it".to_owned());
        }
        self.found.extend(wrong);
    }
}

/// The words of every sentence about a finding, in their order.
fn of_finding(finding: &PairedFinding) -> Vec<String> {
    let verdict = serde_json::to_value(finding.verdict).expect("a word");
    let words = finding
        .metric
        .trim_end_matches("_ms")
        .split('_')
        .map(|word| match word {
            "ttft" | "tpot" | "itl" | "e2el" => word.to_uppercase(),
            _ => word.to_owned(),
        });
    let metric = words.collect::<Vec<_>>().join(" ");
    let mut facts = vec![metric, format!(": {}, ", own_text(&verdict))];
    let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
    facts.extend(finding.ratio.map(|ratio| {
        format!(
            "{} % ({} to {} %) in {} pair",
            percent(ratio.value),
            percent(ratio.low),
            percent(ratio.high),
            finding.pairs
        )
    }));
    facts
}

/// The facts with a capital letter at their beginning.
fn capital(facts: &[String]) -> Vec<String> {
    let mut facts = facts.to_vec();
    if let Some(first) = facts.first_mut().and_then(|fact| fact.get_mut(..1)) {
        first.make_ascii_uppercase();
    }
    facts
}

fn is_near(one: f64, other: f64, part: f64) -> bool {
    (one - other).abs() <= part * one.abs().max(other.abs())
}
