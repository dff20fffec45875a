//! Common parts of `plot` and `plot pareto`: reading lists of names, reading the runs of several directories, and writing pictures.

use crate::answer::Answer;
use crate::cli::experiment::{Owner, named_or_newest, options, print_damage};
use crate::cli::flags::number;
use crate::cli::output::say;
use crate::cli::results;
use crate::error::{Error, Exit, Result};
use crate::files::{create_folder_in, write_atomic};
use crate::journal::{Directory, State};
use crate::plan::ReportOptions;
use crate::report::chart::{Chart, Series, Style};
use crate::report::picture::{Form, Size, render_at};
use crate::report::{answer_by_table, estimate_by_table};
use crate::table::{Filter, Points, Table};
use crate::units::show_many;
use itertools::Itertools;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The directories of one picture.
#[derive(Debug, clap::Args)]
pub struct Directories {
    /// The directories that `vsweep run` or `vllm bench sweep` wrote, or files of results; with several, the column `experiment`
    /// names them [default: the newest below results/]
    #[arg(value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Price per GPU-hour, for the cost of tokens (cost_per_million_output_tokens) [default: the plan's]
    #[arg(long, value_name = "PRICE", allow_negative_numbers = true, value_parser = price)]
    price_per_gpu_hour: Option<f64>,
    #[command(flatten)]
    owner: Owner,
}

impl Directories {
    /// Adds the newest experiment if no directory is named.
    pub fn settle(mut self) -> Result<Directories> {
        if self.directories.is_empty() {
            self.directories.push(named_or_newest(None)?);
        }
        Ok(self)
    }

    /// Reads the runs of all directories as one table. `prepare` changes the table of each directory before costs are added. With `about`,
    /// the answers have only the estimates of these metrics.
    pub fn read(&self, about: Option<&[&str]>, prepare: impl Fn(&mut Table) -> Result<()>) -> Result<Experiments> {
        let mut twice = self.directories.iter().duplicates_by(|directory| canonical(directory));
        if let Some(twice) = twice.next() {
            return Err(Error::Usage(format!(
                "{} is given twice; name each directory once",
                twice.display()
            )));
        }
        let mut damage = Exit::Done;
        let (mut tables, mut answers) = (Vec::new(), Vec::new());
        for (directory, name) in self.directories.iter().zip(self.names()) {
            let asked = |state: &State| options(&Directory::at(directory), state, self.price_per_gpu_hour);
            let mut recorded = None;
            let runs = results::read(directory, |state| ReportOptions {
                // Costs are added after `prepare`.
                price_per_gpu_hour: None,
                ..recorded.insert(asked(state)).clone()
            })?;
            damage = damage.or(print_damage(&runs.damaged));
            let (mut table, state) = (runs.table, runs.state.unwrap_or_default());
            prepare(&mut table)?;
            let options = recorded.unwrap_or_else(|| asked(&state));
            if let Some(price) = options.price_per_gpu_hour {
                table.add_costs(price);
            }
            let answer = match about {
                None => answer_by_table(&Directory::at(directory), &state, &table, &options),
                Some(names) => {
                    let columns = names.iter().filter_map(|name| table.column(name));
                    estimate_by_table(
                        &state,
                        &table,
                        &columns.map(|column| column.name.as_str()).collect_vec(),
                    )
                }
            };
            answers.push((name.clone(), answer));
            tables.push((name, table));
        }
        let table = match tables.len() {
            1 => tables.remove(0).1,
            _ => Table::stack(tables),
        };
        Ok(Experiments { table, answers, damage })
    }

    /// Returns the names of the directories, or their paths if two of them have the same name.
    fn names(&self) -> Vec<String> {
        let directories = self.directories.iter();
        let name = |directory: &PathBuf| {
            let whole = canonical(directory);
            whole
                .file_name()
                .map_or(whole.display().to_string(), |name| name.to_string_lossy().into_owned())
        };
        let names = directories.clone().map(name).collect_vec();
        match names.iter().all_unique() {
            true => names,
            false => directories.map(|directory| directory.display().to_string()).collect(),
        }
    }

    /// The directory, if there is only one.
    pub fn only(&self) -> Option<&Path> {
        match self.directories.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The names of all directories, separated by commas.
    pub fn name(&self) -> String {
        self.names().join(", ")
    }

    /// Default folder of pictures: the folder of charts of the only directory, if it is an experiment; otherwise [`Self::folder`].
    pub fn pictures(&self) -> PathBuf {
        let folder = self.folder();
        match self.only().is_some() && Directory::at(&folder).is_experiment() {
            true => folder.join("charts"),
            false => folder,
        }
    }

    /// The directory, or the folder of the file; the current folder if there are several directories.
    pub fn folder(&self) -> PathBuf {
        let only = self.only().unwrap_or(Path::new("."));
        match only.parent().filter(|_| only.is_file()) {
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            folder => folder.unwrap_or(only).to_path_buf(),
        }
    }

    /// Draws each chart, writes it into the folder, and prints its path. A dry run only prints the paths. Further
    /// charts of the same name get a number.
    pub fn deliver<'a>(
        &self,
        folder: &Path,
        charts: impl Iterator<Item = (&'a str, &'a Chart)>,
        (size, form): (&Size, Form),
        dry_run: bool,
    ) -> Result<()> {
        if !dry_run {
            self.owner.check(folder)?;
        }
        let mut uses: HashMap<&str, usize> = HashMap::new();
        for (group, chart) in charts {
            let used = uses.entry(&chart.name).or_default();
            *used += 1;
            let extension = form.extension();
            let path = folder.join(match *used {
                1 => format!("{}.{extension}", chart.name),
                number => format!("{}-{number}.{extension}", chart.name),
            });
            if !dry_run {
                let image = render_at(chart, size, form)
                    .map_err(|error| Error::Fatal(format!("cannot draw {}: {error}", chart.name)))?;
                create_folder_in(&self.folder(), folder)?;
                write_atomic(&path, &image)?;
            }
            let done = if dry_run { "would write" } else { "wrote" };
            let separator = if group.is_empty() { "" } else { "; " };
            say(format_args!(
                "{done} {} ({}{separator}{group})",
                path.display(),
                content(chart)
            ));
        }
        Ok(())
    }
}

/// The runs of the directories.
#[derive(Debug)]
pub struct Experiments {
    /// The runs of all directories.
    pub table: Table,
    /// The answer of each directory, with its name.
    answers: Vec<(String, Answer)>,
    /// The exit code for damaged results.
    pub damage: Exit,
}

impl Experiments {
    /// Sets the estimates of points of the table, by the answers of the directories.
    pub fn estimate(&self, points: &mut Points<'_>) {
        match self.answers.as_slice() {
            [(_, only)] => points.adopt(only),
            several => several
                .iter()
                .for_each(|(name, answer)| points.adopt_stacked(name, answer)),
        }
    }
}

/// Returns the names in a comma-separated list.
pub fn list(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Parses the price of a GPU per hour.
pub fn price(text: &str) -> Result<f64, String> {
    let wants = "must be a positive number: the price per GPU-hour";
    number(text, wants, |price| price > 0.0 && price.is_finite())
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Describes the contents of a chart: `2 rows x 1 column, 8 points`.
fn content(chart: &Chart) -> String {
    let columns = chart.columns.max(1);
    let rows = chart.panels.len().div_ceil(columns);
    // The points of rings are also points of other series, and limits are not measured.
    let is_measured = |series: &&Series| !matches!(series.style, Style::Ring | Style::Limit);
    let series = chart.panels.iter().flat_map(|panel| &panel.series);
    let marks = series.filter(is_measured).map(|series| series.points.len());
    let [rows, columns, points] =
        [(rows, "row"), (columns, "column"), (marks.sum(), "point")].map(|(count, what)| show_many(count as u64, what));
    format!("{rows} x {columns}, {points}")
}

/// Returns the rows whose figures count and that pass every filter. It is an error if there are none.
pub fn choose(table: &Table, filters: &[Filter]) -> Result<Vec<usize>> {
    let points = Points::of(table).points;
    let rows = points.iter().flat_map(|point| point.used.iter().copied());
    let mut rows = rows.sorted_unstable().collect_vec();
    if rows.is_empty() {
        return Err(Error::Usage(
            "no run was measured to its end, or all are invalid, so there is nothing to draw; see its causes in summary.csv"
                .into(),
        ));
    }
    for filter in filters {
        let before = rows.len();
        rows = filter.keep(table, &rows).map_err(Error::Usage)?;
        if rows.is_empty() {
            return Err(Error::Usage(format!(
                "`{filter}` holds for none of {before} runs, so there is nothing to draw; loosen it"
            )));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::{Axis, Mark, Panel, Scale};

    #[test]
    fn a_point_with_a_ring_is_one_point() {
        let axis = Axis {
            title: String::new(),
            scale: Scale::Linear,
            ticks: Vec::new(),
            covers: None,
            may_leave_out_zero: false,
        };
        let series = |style, count| Series {
            name: String::new(),
            style,
            points: vec![
                Mark {
                    x: 1.0,
                    y: 1.0,
                    bar: None,
                    label: Vec::new(),
                    suspect: false,
                };
                count
            ],
        };
        let styles = [
            (Style::Background, 3),
            (Style::Frontier, 2),
            (Style::Ring, 1),
            (Style::Limit, 2),
        ];
        let chart = Chart {
            name: String::new(),
            title: String::new(),
            note: String::new(),
            footer: String::new(),
            simulated: false,
            columns: 1,
            panels: vec![Panel {
                title: String::new(),
                x: axis.clone(),
                y: axis,
                series: styles.map(|(style, count)| series(style, count)).to_vec(),
            }],
        };
        assert_eq!(content(&chart), "1 row x 1 column, 5 points");
    }
}
