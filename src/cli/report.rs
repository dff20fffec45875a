//! `vsweep report`: rebuilds every table and chart of an experiment from its journal.

use super::experiment::{options, tell_damage};
use super::output::{self, finish, tell};
use super::{charts, live};
use crate::error::{Exit, Result};
use crate::files::write_atomic;
use crate::journal::{self, Check, Directory};
use crate::report::{self, ReportForm, Written};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Rebuild the tables and charts of an experiment directory from its journal
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that `vsweep run` wrote, such as results/demo
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// What one GPU costs an hour, for what tokens cost; the plan's, if not given
    #[arg(long, value_name = "PRICE", allow_negative_numbers = true, value_parser = charts::price)]
    price_per_gpu_hour: Option<f64>,
    /// Write only the timeline of one run's requests: a point's id or its begin, and the run's number, as in 3f2a/0
    #[arg(long, value_name = "POINT/K")]
    timeline: Option<String>,
    /// Write the report into this file instead, and nothing else: Markdown if it ends in .md, else the page; - for standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "timeline")]
    output: Option<PathBuf>,
    /// Serve the report while the sweep goes on, at an address that is printed, until Ctrl-C
    #[arg(long, conflicts_with_all = ["timeline", "output"])]
    live: bool,
    /// Where to serve it; whoever can reach it and has the address can read the report
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", requires = "live")]
    listen: SocketAddr,
}

pub fn run(args: Args) -> Result<Exit> {
    let directory = Directory::open(args.directory)?;
    if args.live {
        live::serve(&directory, args.listen, args.price_per_gpu_hour)?;
        return Ok(Exit::Done);
    }
    let state = journal::load(&directory, Check::Hashes)?;
    if let Some(wanted) = &args.timeline {
        let path = report::write_timeline(&directory, &state, wanted)?;
        finish(writeln!(output::text(), "wrote {}", path.display()))?;
        return Ok(tell_damage(&state));
    }
    let mut options = options(&directory);
    options.price_per_gpu_hour = args.price_per_gpu_hour.or(options.price_per_gpu_hour);
    if let Some(file) = &args.output {
        write_one(
            &report::render_report(&directory, &state, &options, form_of(file)),
            file,
        )?;
        let judged = report::judge(&directory, &state, &options);
        return Ok(output::tell_requirements(&judged, true).or(tell_damage(&state)));
    }
    let written = report::write_all(&directory, &state, &options)?;
    let damage = tell_damage(&state);
    for problem in &written.problems {
        tell(problem);
    }
    finish(show(&written))?;
    report::history::strange(&directory, &state).iter().for_each(tell);
    Ok(output::tell_requirements(&written.requirements, true).or(damage))
}

fn form_of(file: &Path) -> ReportForm {
    match file.extension().is_some_and(|extension| extension == "md") {
        true => ReportForm::Markdown,
        false => ReportForm::Page,
    }
}

fn write_one(text: &str, file: &Path) -> Result<()> {
    if file == Path::new("-") {
        return finish(output::file().write_all(text.as_bytes())).map(|_| ());
    }
    write_atomic(file, text.as_bytes())?;
    finish(writeln!(output::text(), "wrote {}", file.display())).map(|_| ())
}

fn show(written: &Written) -> io::Result<()> {
    let mut out = output::text();
    writeln!(out, "{}", written.summary)?;
    for file in &written.files {
        writeln!(out, "wrote {}", file.display())?;
    }
    Ok(())
}
