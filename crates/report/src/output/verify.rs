//! Checks the tables and pages of an experiment against its journals and run files: makes each anew in memory, and names every figure that
//! differs. Pictures are not checked.

use super::basis::is_of_earlier_record;
use super::files::written;
use super::pages::Pages;
use super::write::{Content, make_tables};
use crate::inputs::Inputs;
use crate::rows::{Runs, load};
use crate::{findings::answer, html};
use itertools::{EitherOrBoth, Itertools};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use vsweep_base::error::Result;
use vsweep_base::files::{MOST_RESULT, MOST_TEXT, REFUSED, open, read, read_text};
use vsweep_base::threads;
use vsweep_base::units::{show_count, show_many};
use vsweep_plan::{Format, ReportOptions};
use vsweep_record::journal::{Directory, Manifest, State, holders};
use vsweep_record::table::Points;

/// Most differences of one file that are named.
const MOST_NAMED: usize = 20;
/// A file is compared if it is at most this many bytes longer than twice its correct length.
const LONGER: u64 = 1 << 16;
/// Most characters of a line that are shown.
const MOST_CHARACTERS: usize = 100;

/// Difference of a file whose bytes differ and whose figures do not.
const OTHER_FORM: &str = "has the recomputed figures in another form (quotes, line ends, order or empty members)";

/// Result of the check.
#[derive(Debug, Default)]
pub struct Verification {
    /// Process that works on the directory now. Its tables and pages follow later, so they were not compared.
    pub running: Option<u32>,
    /// True if the report was not made from this record, so that figures differ for that reason.
    is_outdated: bool,
    /// Names of the files that differ for that reason.
    outdated: Vec<String>,
    /// Names of the text files that were compared, without the copy of the plan.
    pub files: Vec<String>,
    /// Number of runs in them.
    pub runs: usize,
    /// One sentence, with its remedy, for each missing or changed file that `vsweep report` cannot make again.
    pub lost: Vec<String>,
    /// One sentence for each figure that differs (at most `MOST_NAMED` of a file), for each file that is missing, superfluous or damaged,
    /// and for all files of another record together.
    pub differences: Vec<String>,
}

/// Compares every table, both reports, `answer.json`, the files of `best/` and the copy of the plan with the record. Returns the record and
/// the result.
pub fn verify(directory: &Directory, options: impl FnOnce(&State) -> ReportOptions) -> Result<(State, Verification)> {
    let (state, runs, options) = load(directory, options)?;
    let verified = compare_files(directory, &state, &runs, &options);
    Ok((state, verified))
}

fn compare_files(directory: &Directory, state: &State, runs: &Runs, options: &ReportOptions) -> Verification {
    let mut points = Points::of(&runs.table);
    let answer = answer::settle(directory, state, &mut points, options);
    let lost = changed_plan(directory, state).into_iter();
    let mut verified = Verification {
        running: holders(directory).ok().and_then(|pids| pids.first().copied()),
        runs: runs.table.rows(),
        lost: lost.chain(lost_manifest(directory, state)).collect(),
        differences: runs.damaged.clone(),
        ..Verification::default()
    };
    if verified.running.is_some() {
        return verified;
    }
    verified.is_outdated = is_of_earlier_record(directory, state);
    let mut inputs = Inputs::gather(directory, state, &points, options, answer);
    // The folder may have been renamed since the page was made, so the name on the page is used.
    let page = read_text(&directory.report_html(), MOST_RESULT).ok();
    if let Some(name) = page.and_then(|page| html::name_in(&page)) {
        inputs.experiment = name;
    }
    let root = directory.root();
    let compare_tables = || {
        for (path, content) in make_tables(directory, state, runs, &points, &inputs.goals, &inputs.answers.document) {
            verified.compare(root, &path, content.as_ref(), csv_differences);
        }
        let parquet = Content::Parquet(&runs.table);
        let changed = match open(&directory.summary_parquet()) {
            Ok(stored) if has_content(&stored, &parquet) => None,
            Ok(_) if verified.is_outdated => {
                verified.outdated.push("summary.parquet".to_owned());
                None
            }
            Ok(_) => Some("is not what would be made of the runs".to_owned()),
            // The file is optional.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => Some(unread(&error)),
        };
        let changed = changed.map(|changed| format!("summary.parquet: {changed}"));
        verified.differences.extend(changed);
    };
    let ((), pages) = threads::both(compare_tables, || Pages::make(&inputs));
    for (path, made, differences) in [
        (
            directory.answer_json(),
            Content::Answer(&inputs.answers.document),
            line_differences as fn(&str, &str) -> _,
        ),
        (directory.report_html(), text(&pages.page), page_differences),
        (directory.report_markdown(), text(&pages.markdown), line_differences),
    ] {
        verified.compare(root, &path, Some(&made), differences);
    }
    let best = directory.best();
    let stored = written(directory, &best).into_iter().map(|path| (path, None));
    let made = pages.configs.iter();
    let made = made.map(|config| (best.join(&config.file), Some(text(&config.text))));
    let configs: BTreeMap<PathBuf, Option<Content<'_>>> = stored.chain(made).collect();
    for (path, content) in configs {
        verified.compare(root, &path, content.as_ref(), line_differences);
    }
    // One loss changes many figures of these files, so none of the figures is named.
    if !verified.outdated.is_empty() {
        let were = if verified.outdated.len() == 1 { "was" } else { "were" };
        let names = verified.outdated.join(", ");
        verified
            .differences
            .push(format!("{names}: {were} not made from this record"));
    }
    verified
}

/// Describes a copy of the plan that differs from the recorded plan; `None` if it does not, or no plan is recorded.
fn changed_plan(directory: &Directory, state: &State) -> Option<String> {
    let (_, _, recorded) = state.plan_that_counts().filter(|(_, _, text)| !text.is_empty())?;
    let path = directory.plan(Format::of_text(recorded) == Format::Json);
    let name = path.file_name()?.to_string_lossy().into_owned();
    match read_text(&path, MOST_TEXT) {
        Ok(text) if text == recorded => None,
        Ok(_) => Some(format!(
            "{name}: is not the plan that was run, which the record has; restore it from a copy, or run the plan again"
        )),
        Err(_) => Some(format!(
            "{name}: cannot be read; the plan itself is safe in the record; restore the file from a copy, or run the plan again"
        )),
    }
}

/// Describes a manifest that cannot be read; `None` if it can, or if nothing was measured on a known machine.
fn lost_manifest(directory: &Directory, state: &State) -> Option<String> {
    let is_lost = Manifest::plan_of(directory).is_none() && !state.machines().is_empty();
    is_lost.then(|| {
        "manifest.json: is missing or damaged; restore it from a copy before a new report, which would lose what it says of the machine"
            .to_owned()
    })
}

/// Describes a file that cannot be opened or read.
fn unread(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "is missing".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

impl Verification {
    /// Compares a file with its recomputed content `made`; `None` if the file must not exist.
    fn compare(
        &mut self,
        root: &Path,
        path: &Path,
        made: Option<&Content<'_>>,
        differences: fn(&str, &str) -> Vec<String>,
    ) {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let stored = open(path);
        let is_compared = stored.is_ok() && made.is_some();
        let found = match (stored, made) {
            (Ok(stored), Some(made)) if has_content(&stored, made) => Vec::new(),
            (Ok(_), _) if self.is_outdated => {
                self.outdated.push(name.clone());
                Vec::new()
            }
            (Ok(_), Some(made)) => {
                let made = to_text(made);
                match read(path, 2 * made.len() as u64 + LONGER) {
                    Ok(stored) => match differences(&String::from_utf8_lossy(&stored), &made) {
                        none if none.is_empty() => vec![OTHER_FORM.to_owned()],
                        some => some,
                    },
                    Err(error) if error.kind() == REFUSED => {
                        vec!["is more than twice as long as recomputed".to_owned()]
                    }
                    Err(error) => vec![unread(&error)],
                }
            }
            (Ok(_), None) => vec!["nothing of it is recorded".to_owned()],
            (Err(error), Some(_)) => vec![unread(&error)],
            (Err(_), None) => return,
        };
        let more = found.len().saturating_sub(MOST_NAMED);
        let named = found.into_iter().take(MOST_NAMED);
        self.differences
            .extend(named.map(|difference| format!("{name}: {difference}")));
        if more > 0 {
            self.differences.push(format!("{name}: and {more} more"));
        }
        self.files.extend(is_compared.then_some(name));
    }
}

fn text(text: &str) -> Content<'_> {
    Content::Bytes(text.as_bytes().into())
}

fn to_text(made: &Content<'_>) -> String {
    let mut text = Vec::new();
    made.write_to(&mut text).expect("writing to memory cannot fail");
    String::from_utf8(text).expect("what is made is text")
}

/// Returns true if a file has exactly the content that it must have.
fn has_content(stored: &File, made: &Content<'_>) -> bool {
    let mut stored = FileComparer(BufReader::new(stored));
    made.write_to(&mut stored).is_ok() && stored.0.fill_buf().is_ok_and(<[u8]>::is_empty)
}

/// Compares what is written to it with a file, and fails at the first difference.
struct FileComparer<'f>(BufReader<&'f File>);

impl Write for FileComparer<'_> {
    fn write(&mut self, made: &[u8]) -> io::Result<usize> {
        let stored = self.0.fill_buf()?;
        let length = stored.len().min(made.len());
        if length == 0 || stored[..length] != made[..length] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.0.consume(length);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Differences of two tables, cell by cell.
fn csv_differences(stored: &str, made: &str) -> Vec<String> {
    let rows = |text: &str| {
        let mut reader = csv::ReaderBuilder::new();
        let reader = reader.has_headers(false).flexible(true).from_reader(text.as_bytes());
        // No row is dropped: this reader takes any text for a table.
        reader.into_records().filter_map(Result::ok).collect_vec()
    };
    let (stored, made) = (rows(stored), rows(made));
    let mut differences = Vec::new();
    if stored.len() != made.len() {
        let rows = |records: &[csv::StringRecord]| records.len().saturating_sub(1) as u64;
        let (has, recomputed) = (show_many(rows(&stored), "row"), show_count(rows(&made)));
        differences.push(format!("has {has}, recomputed {recomputed}"));
    }
    for (row, (stored_row, made_row)) in stored.iter().zip(&made).enumerate() {
        for (column, cells) in stored_row.iter().zip_longest(made_row).enumerate() {
            let (stored, cell) = cells.left_and_right();
            if stored != cell {
                let title = made[0].get(column).unwrap_or("?");
                differences.push(format!("row {row}, {title}: {}", both(stored, cell)));
            }
        }
    }
    differences
}

fn both(stored: Option<&str>, made: Option<&str>) -> String {
    let show = |cell: Option<&str>| cell.map_or("nothing".to_owned(), |cell| format!("`{}`", short(cell)));
    format!("{}, recomputed {}", show(stored), show(made))
}

/// Differences of two texts, line by line.
fn line_differences(stored: &str, made: &str) -> Vec<String> {
    let pairs = stored.lines().zip_longest(made.lines());
    let pairs = (1..).zip(pairs.map(EitherOrBoth::left_and_right));
    let different = pairs.filter(|(_, (stored, made))| stored != made);
    let differences = different.map(|(line, (stored, made))| {
        let shown_from = stored.zip(made).map_or(0, |(stored, made)| shown_from(stored, made));
        let rest = |text: &'_ str| text.chars().skip(shown_from).collect::<String>();
        let (stored, made) = (stored.map(rest), made.map(rest));
        format!("line {line}: {}", both(stored.as_deref(), made.as_deref()))
    });
    differences.collect()
}

/// Position, in characters, from which two lines are shown: a few words before they begin to differ.
fn shown_from(one: &str, other: &str) -> usize {
    const BEFORE: usize = 30;
    let pairs = one.chars().zip(other.chars());
    pairs
        .take_while(|(one, other)| one == other)
        .count()
        .saturating_sub(BEFORE)
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text.to_owned(),
    }
}

/// Text around the figures of a page.
const DATA: (&str, &str) = ("<script type=\"application/json\" id=\"data\">", "</script>");

/// Differences of two pages: figure by figure in their data, line by line in the rest.
fn page_differences(stored: &str, made: &str) -> Vec<String> {
    let (Some((stored_text, stored_data)), Some((made_text, made_data))) = (split(stored), split(made)) else {
        return vec!["is not a report page".to_owned()];
    };
    let mut differences = line_differences(&stored_text, &made_text);
    if stored_data != made_data {
        match (serde_json::from_str(stored_data), serde_json::from_str(made_data)) {
            (Ok(stored), Ok(made)) => value_differences(&stored, &made, "data", &mut differences),
            _ => differences.push("its data is damaged".to_owned()),
        }
    }
    differences
}

/// A page without its data, and its data.
fn split(page: &str) -> Option<(String, &str)> {
    let (before, rest) = page.split_once(DATA.0)?;
    let (data, after) = rest.split_once(DATA.1)?;
    Some((format!("{before}{after}"), data))
}

fn value_differences(stored: &Value, made: &Value, path: &str, differences: &mut Vec<String>) {
    match (stored, made) {
        (Value::Object(one), Value::Object(other)) => {
            for key in other.keys().chain(one.keys()).unique() {
                value_differences(&stored[key], &made[key], &format!("{path}.{key}"), differences);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                value_differences(one, other, &format!("{path}[{at}]"), differences);
            }
        }
        (one, other) if one == other => {}
        (one, other) => {
            let (one, other) = (one.to_string(), other.to_string());
            differences.push(format!("{path}: {}", both(Some(&one), Some(&other))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_is_where_the_page_has_it() {
        let tag = format!("{}{{{{ data }}}}{}", DATA.0, DATA.1);
        assert!(include_str!("../html/base.html.jinja").contains(&tag));
    }

    #[test]
    fn a_figure_that_differs_is_named_with_its_place() {
        let table = "point,run,output_throughput\na,0,1.5\nb,0,2.5\n";
        assert!(csv_differences(table, table).is_empty());
        let changed = table.replace("2.5", "9.5");
        assert_eq!(
            csv_differences(&changed, table),
            ["row 2, output_throughput: `9.5`, recomputed `2.5`"]
        );
        let shorter = "point,run,output_throughput\na,0,1.5\n";
        assert_eq!(csv_differences(shorter, table), ["has 1 row, recomputed 2"]);
        let said = line_differences("a\nbest: 12 tokens\n", "a\nbest: 13 tokens\nc");
        assert_eq!(
            said,
            [
                "line 2: `best: 12 tokens`, recomputed `best: 13 tokens`",
                "line 3: nothing, recomputed `c`"
            ]
        );
        let page = |data: &str, text: &str| format!("<p>{text}</p>\n{}{data}{}", DATA.0, DATA.1);
        let said = page_differences(&page(r#"{"a":[1,2]}"#, "x"), &page(r#"{"a":[1,3]}"#, "y"));
        assert_eq!(
            said,
            [
                "line 1: `<p>x</p>`, recomputed `<p>y</p>`",
                "data.a[1]: `2`, recomputed `3`"
            ]
        );
        let endless = page(r#"{"a":"inf","b":1}"#, "x");
        assert!(page_differences(&endless, &endless).is_empty());
        let said = page_differences(&page(r#"{"a":"inf","b":2}"#, "x"), &endless);
        assert_eq!(said, ["data.b: `2`, recomputed `1`"]);
    }
}
