//! Collects everything that is wrong with a plan. Each problem has its places in the text and a remedy, and is rendered like a compiler's
//! message.

use crate::secrets::replace;
use crate::{HIDDEN, Secrets, Side, Source, Sources, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use itertools::Itertools;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use vsweep_base::error::Error;
use vsweep_base::printable::printable;
use vsweep_base::units::show_many;

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The problem, as a lower-case fragment that names the setting.
    pub message: String,
    /// The places that the problem is about, the decisive place first, each with a short note or nothing.
    pub places: Vec<(Span, String)>,
    /// Remedy for the user.
    pub remedy: String,
    /// Places at which a problem would explain this one. If there is one, this problem is left out.
    pub explained_at: Vec<Span>,
}

impl Problem {
    /// Returns a problem without a place.
    pub fn of(message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            places: Vec::new(),
            remedy: remedy.into(),
            explained_at: Vec::new(),
        }
    }

    /// Returns a problem at one place.
    pub fn new(span: Span, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
        Problem::of(message, remedy).at(span)
    }

    /// Adds a place without a note.
    pub fn at(self, span: Span) -> Problem {
        self.and(span, "")
    }

    /// Adds a place, with a note about its part in the problem.
    pub fn and(mut self, span: Span, note: impl Into<String>) -> Problem {
        self.places.push((span, note.into()));
        self
    }
}

/// Converts a span of a text to a span of the same text with these parts hidden. A span that begins or ends within a hidden part is
/// extended to the whole part.
fn moved(span: Span, hidden: &[Range<usize>]) -> Span {
    let around = |at: usize| hidden.iter().find(|part| part.start < at && at < part.end);
    let shifted = |at: usize| {
        let before = hidden.iter().filter(|part| part.end <= at);
        before.fold(at, |at, part| at + HIDDEN.len() - part.len())
    };
    let start = around(span.start).map_or(span.start, |part| part.start);
    let end = around(span.end).map_or(span.end, |part| part.end).max(start);
    Span {
        start: shifted(start),
        end: shifted(end),
        ..span
    }
}

/// Joins problems with the same text, which have one cause.
fn merged(list: Vec<Problem>) -> Vec<Problem> {
    let mut found: Vec<Problem> = Vec::new();
    for problem in list {
        let is_same = |known: &&mut Problem| known.message == problem.message && known.remedy == problem.remedy;
        match found.iter_mut().find(is_same) {
            Some(known) => known.places.extend(problem.places),
            None => found.push(problem),
        }
    }
    for problem in &mut found {
        problem.places = problem.places.iter().unique().cloned().collect();
    }
    found
}

/// All problems of a plan, at least one, with the texts they point into.
#[derive(Debug, Clone)]
pub struct Problems {
    /// The problems, in the order of the text.
    pub list: Vec<Problem>,
    /// The texts, without secrets.
    pub sources: Sources,
    /// True if the plan is valid all the same.
    pub are_warnings: bool,
}

impl Problems {
    /// Collects problems in the order of the text, each once with all its places. Hides the plan's secrets, and values in the text that
    /// look like secrets, because a plan may be too broken to be read.
    pub fn new(mut list: Vec<Problem>, sources: &Sources, secrets: &Secrets) -> Problems {
        let mut sources = sources.clone();
        let mut known = secrets.clone();
        let hide = |Source { text, .. }: &mut Source| {
            let hidden = secrets.places_in_plan(text);
            hidden.iter().for_each(|part| known.note_value(&text[part.clone()]));
            *text = replace(text, &hidden);
            hidden
        };
        let hidden: Vec<Vec<Range<usize>>> = sources.0.iter_mut().map(hide).collect();
        for problem in &mut list {
            problem.message = known.redact(&problem.message);
            problem.remedy = known.redact(&problem.remedy);
            for (span, note) in &mut problem.places {
                *note = known.redact(note);
                *span = hidden.get(span.source).map_or(*span, |hidden| moved(*span, hidden));
            }
        }
        list.sort_by_key(|problem| problem.places.first().map(|(span, _)| *span));
        Problems {
            list: merged(list),
            sources,
            are_warnings: false,
        }
    }

    /// The problems as JSON: `message`, `remedy`, `severity`, and `places` with file, line and column (from 1, in bytes) and a note.
    pub fn to_json(&self) -> Value {
        let severity = if self.are_warnings { "warning" } else { "error" };
        let place = |(span, note): &(Span, String)| {
            let source = self.sources.0.get(span.source)?;
            let (line, column) = position(&source.text, within(&source.text, *span).start);
            Some(json!({"file": source.name.to_string_lossy(), "line": line, "column": column, "note": note}))
        };
        let problems = self.list.iter().map(|problem| {
            let places: Vec<Value> = problem.places.iter().filter_map(place).collect();
            json!({"severity": severity, "message": problem.message, "remedy": problem.remedy, "places": places})
        });
        problems.collect()
    }

    /// Removes the problems that are in `known`, because another plan has them too, and adds the remaining ones to `known`.
    pub fn leave_out(&mut self, known: &mut BTreeSet<String>) {
        let each = |problem: &Problem| {
            Problems {
                list: vec![problem.clone()],
                ..self.clone()
            }
            .to_json()
            .to_string()
        };
        let texts: Vec<String> = self.list.iter().map(each).collect();
        let mut texts = texts.into_iter();
        self.list
            .retain(|_| texts.next().is_some_and(|text| known.insert(text)));
    }

    /// Returns the problems as text for people, with colours if wanted.
    pub fn render(&self, colours: bool) -> String {
        let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
        let mut shown: Vec<String> = self
            .list
            .iter()
            .map(|problem| self.render_one(problem, &renderer))
            .collect();
        if !self.are_warnings {
            let count = show_many(self.list.len() as u64, "problem");
            shown.push(format!("{count} found"));
        }
        shown.join("\n\n")
    }

    fn render_one(&self, problem: &Problem, renderer: &Renderer) -> String {
        let level = match self.are_warnings {
            true => Level::WARNING,
            false => Level::ERROR,
        };
        let mut group = Group::with_title(level.primary_title(printable(&problem.message)));
        let places = || problem.places.iter().enumerate();
        for index in places().map(|(_, (span, _))| span.source).unique() {
            let Some(source) = self.sources.0.get(index) else {
                continue;
            };
            let marks = places().filter(|(_, (span, _))| span.source == index);
            let marks = marks.map(|(rank, (span, note))| {
                let kind = match rank {
                    0 => AnnotationKind::Primary,
                    _ => AnnotationKind::Context,
                };
                let note = (!note.is_empty()).then(|| printable(note));
                kind.span(within(&source.text, *span)).label(note)
            });
            let name = printable(&source.name.to_string_lossy()).into_owned();
            group = group.element(Snippet::source(&source.text).path(name).annotations(marks));
        }
        if !problem.remedy.is_empty() {
            group = group.element(Level::HELP.message(printable(&problem.remedy)));
        }
        renderer.render(&[group])
    }
}

/// Line and column of a byte, both from 1.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..byte];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, byte - line_start + 1)
}

/// Returns a span within the text, on character boundaries.
fn within(text: &str, span: Span) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    let end = text.ceil_char_boundary(span.end.max(start));
    start..end
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Problems {}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Error {
        Error::Usage(problems.to_string())
    }
}

/// Collects problems while a plan is read, so that none hides another.
#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Diagnostics {
    /// Adds a problem at one place.
    pub fn object(&mut self, span: Span, message: impl Into<String>, remedy: impl Into<String>) {
        self.add(Problem::new(span, message, remedy));
    }

    /// Adds a problem.
    pub fn add(&mut self, problem: Problem) {
        self.list.push(problem);
    }

    /// Returns the errors and the warnings. An error that another problem explains is left out. A warning that explains an error becomes an
    /// error.
    fn settled(&self) -> (Vec<Problem>, Vec<Problem>) {
        let is_at =
            |places: &[Span], other: &Problem| other.places.first().is_some_and(|(span, _)| places.contains(span));
        let explained: Vec<Span> = self
            .list
            .iter()
            .flat_map(|problem| problem.explained_at.iter().copied())
            .collect();
        let (raised, warnings): (Vec<Problem>, Vec<Problem>) = self
            .warnings
            .iter()
            .cloned()
            .partition(|warning| is_at(&explained, warning));
        let all = || self.list.iter().chain(&raised);
        let is_unexplained = |problem: &&Problem| !all().any(|other| is_at(&problem.explained_at, other));
        (all().filter(is_unexplained).cloned().collect(), warnings)
    }

    /// Adds a warning about something that is valid, but will not give what the user wants.
    pub fn warn(&mut self, warning: Problem) {
        self.warnings.push(warning);
    }

    /// The warnings, if there are any.
    pub fn warnings(&self, sources: &Sources, secrets: &Secrets) -> Option<Problems> {
        let (_, warnings) = self.settled();
        (!warnings.is_empty()).then(|| Problems {
            are_warnings: true,
            ..Problems::new(warnings, sources, secrets)
        })
    }

    /// Returns the number of errors so far; warnings do not count.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are no errors so far.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the errors. Warnings are left out, unless they explain an error.
    pub fn into_problems(self, sources: &Sources, secrets: &Secrets) -> Problems {
        Problems::new(self.settled().0, sources, secrets)
    }
}

/// Similarity, from 0 to 1, above which a name may be the one that was meant.
const ALIKE: f64 = 0.8;
/// Other names are suggested with the closest one if they are at most this much less similar.
const AS_ALIKE: f64 = 0.01;
/// Maximum number of names in one suggestion.
const MOST_MEANT: usize = 3;

/// Returns the known names that are most similar to an unknown one, closest first; none if no name is similar.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let likeness = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        // A common prefix `serve.` or `bench.` does not make names similar; it only decides between names that are similar otherwise.
        let [(side, name), (other, candidate)] = [name.as_str(), &candidate]
            .map(|name| Side::split(name).map_or((None, name), |(side, bare)| (Some(side), bare)));
        let elsewhere = side.is_some_and(|side| Some(side) != other);
        words_alike(name, candidate).max(strsim::jaro_winkler(name, candidate)) - if elsewhere { 0.02 } else { 0.0 }
    };
    let known = known.into_iter().map(|candidate| (likeness(candidate), candidate));
    let mut alike: Vec<(f64, &str)> = known.filter(|(likeness, _)| *likeness > ALIKE).collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    let closest = alike.first().map_or(0.0, |(likeness, _)| *likeness);
    let alike = alike
        .into_iter()
        .take_while(|(likeness, _)| *likeness >= closest - AS_ALIKE);
    alike.map(|(_, candidate)| candidate).take(MOST_MEANT).collect()
}

/// Similarity of a name to a candidate that has all its words, at least two, in any order (`ttft_p99` means `p99_ttft_ms`); otherwise 0.
fn words_alike(name: &str, candidate: &str) -> f64 {
    let [name, candidate] = [name, candidate].map(|name| name.split(['_', '-', '.']).collect::<BTreeSet<_>>());
    match name.len() > 1 && name.is_subset(&candidate) {
        true => 0.9 + 0.1 * name.len() as f64 / candidate.len() as f64,
        false => 0.0,
    }
}

/// Returns `did you mean …?` for an unknown name or, if no known name is similar, the list of known names.
pub fn suggest<K: AsRef<str>>(name: &str, known: impl IntoIterator<Item = K>) -> String {
    let known: Vec<K> = known.into_iter().collect();
    match nearest(name, known.iter().map(AsRef::as_ref)).as_slice() {
        [] if known.is_empty() => String::from("remove it"),
        [] => format!("known here: {}", known.iter().map(AsRef::as_ref).join(", ")),
        meant => format!("did you mean `{}`?", meant.join("` or `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_without_an_equals_sign_is_hidden() {
        let masked = |text: &str| replace(text, &Secrets::default().places_in_plan(text));
        assert_eq!(masked("x = 1\n hf_token\"hunter2222\""), "x = 1\n hf_token\"***\"");
        assert_eq!(
            masked("{\"api_key\" \"hunter2222\", \"x\": 1}"),
            "{\"api_key\" \"***\", \"x\": 1}"
        );
        for sound in [
            "names = [\"hf_token\", \"api_key\"]",
            "max_tokens \"x\"",
            "the token 'x'",
        ] {
            assert_eq!(masked(sound), sound);
        }
    }

    #[test]
    fn places_move_with_the_text() {
        let text = "a_token = 'hunter2222' x_key=k y = 1";
        let hidden = Secrets::default().places(text);
        let masked = replace(text, &hidden);
        assert_eq!(masked, "a_token = '***' x_key=*** y = 1");
        let shown = |part: &str| {
            let start = text.find(part).expect("a part");
            let span = moved(Span::of(0, start..start + part.len()), &hidden);
            &masked[span.start..span.end]
        };
        for (part, expected) in [
            ("a_token", "a_token"),
            ("'hunter2222'", "'***'"),
            ("hunter2222", "***"),
            ("ter", "***"),
            ("x_key=k", "x_key=***"),
            ("y = 1", "y = 1"),
        ] {
            assert_eq!(shown(part), expected, "{part}");
        }
    }
}
