//! `vsweep report`: rebuilds every table and chart of an experiment from its journal.

use super::charts::price;
use super::live;
use crate::cli::experiment::{Owner, named_or_newest, options, print_damage};
use crate::cli::output::{self, finish, inform, print_note};
use crate::error::{Error, Exit, Result};
use crate::files::write_named;
use crate::journal::{self, Check, Directory, State};
use crate::report::{self, ReportOutput};
use crate::units::show_many;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Rebuild tables, charts and report of an experiment
///
/// `vsweep compare` makes a page of several.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote [default: the newest below results/]
    #[arg(value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Price per GPU-hour, for the cost of tokens (cost_per_million_output_tokens) [default: the plan's]
    #[arg(long, value_name = "PRICE", allow_negative_numbers = true, value_parser = price)]
    price_per_gpu_hour: Option<f64>,
    #[command(flatten)]
    owner: Owner,
    /// Write only the timeline of one run's requests: the point's id, or its first digits, and the run's number, such as 3f2a/0
    #[arg(long, value_name = "POINT/K", conflicts_with = "price_per_gpu_hour")]
    timeline: Option<String>,
    /// Write the report into this file instead, and nothing else: Markdown if it ends in .md, else the page; - for standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "timeline")]
    output: Option<PathBuf>,
    /// Serve the report while the sweep goes on, at an address that is printed, until Ctrl-C
    #[arg(long, conflicts_with_all = ["timeline", "output"])]
    live: bool,
    /// Address to serve it at; everybody who can reach it and knows the URL can read the report
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", requires = "live")]
    listen: SocketAddr,
}

pub fn run(args: Args) -> Result<Exit> {
    if let [base, new, ..] = args.directories.as_slice() {
        return Err(Error::Usage(format!(
            "a report is of one directory; `vsweep compare {} {} --format html` makes a page of several",
            base.display(),
            new.display()
        )));
    }
    let directory = Directory::open(&named_or_newest(args.directories.first().cloned())?)?;
    if args.live {
        live::serve(&directory, args.listen, args.price_per_gpu_hour)?;
        return Ok(Exit::Done);
    }
    let load = || journal::load(&directory, Check::Hashes);
    let written = args.output.as_deref().unwrap_or(directory.root());
    if written != Path::new("-") {
        args.owner.check(written)?;
    }
    if let Some(wanted) = &args.timeline {
        let state = load()?;
        let path = report::write_timeline(&directory, &state, wanted)?;
        finish(writeln!(output::text(), "wrote {}", path.display()))?;
        return Ok(print_damage(&state.damage));
    }
    let options = |state: &State| options(&directory, state, args.price_per_gpu_hour);
    if let Some(file) = &args.output {
        let state = load()?;
        let options = options(&state);
        let pages = report::make_pages(&directory, &state, &options, None);
        let is_markdown = file.extension().is_some_and(|extension| extension == "md");
        write_one(if is_markdown { &pages.markdown } else { &pages.page }, file)?;
        let judged = report::judge(&directory, &state, &options);
        // If the page goes to standard output, the requirements are not printed there: the page has them.
        let is_shown = file != Path::new("-");
        return Ok(output::print_requirements(&judged, is_shown).or(print_damage(&state.damage)));
    }
    let (state, written) = report::rewrite_all(&directory, options)?;
    let damage = print_damage(&state.damage);
    written.problems.iter().for_each(print_note);
    written.notes.iter().for_each(inform);
    finish(show(&written))?;
    Ok(output::print_requirements(&written.requirements, true).or(damage))
}

fn write_one(text: &str, file: &Path) -> Result<()> {
    if file == Path::new("-") {
        return finish(output::file().write_all(text.as_bytes())).map(|_| ());
    }
    write_named(file, |to| to.write_all(text.as_bytes()))?;
    finish(writeln!(output::text(), "wrote {}", file.display())).map(|_| ())
}

fn show(written: &ReportOutput) -> io::Result<()> {
    let mut out = output::text();
    write!(out, "{}", written.summary)?;
    let count = show_many(written.files.len() as u64, "file");
    let page = written.files.iter().find(|file| file.ends_with("report.html"));
    page.map_or(Ok(()), |page| {
        writeln!(out, "wrote {count}; the report is {}", page.display())
    })
}
