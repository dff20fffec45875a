//! Remarks that a reader of the figures needs, common to terminal, Markdown and page.

use crate::{findings::nodes, findings::unsteady, output::duplicates};
use itertools::Itertools;
use vsweep_answer::Remark;
use vsweep_base::units::{show_count, show_many};
use vsweep_plan::ReportOptions;
use vsweep_record::journal::{ALONE_SLOT, Launch, MOST_LISTED, State};
use vsweep_record::table::Points;

/// The subject of remarks about points whose runs disagree.
pub const UNSTEADY: &str = "Unsteady";
/// The subject of remarks about servers that changed from run to run.
pub const DRIFTING: &str = "Drifting";

/// All remarks, the gravest first.
pub fn remarks(state: &State, points: &Points<'_>, options: &ReportOptions) -> Vec<Remark> {
    let all = [
        ("Retired", duplicates::retired(state)),
        ("Not listed", unlisted(state).into_iter().collect()),
        ("Started again", started_again(state)),
        ("Several nodes", nodes::remarks(state)),
        ("No final", unconfirmed(state).into_iter().collect()),
        (UNSTEADY, unsteady::disagreements(points)),
        (DRIFTING, unsteady::drifts(points)),
        (
            "Too wide",
            unsteady::wide_intervals(state, points, options.runs.as_ref())
                .into_iter()
                .collect(),
        ),
        ("Side by side", nodes::shared([("", points)]).into_iter().collect()),
    ];
    let remarks = |(about, texts): (&'static str, Vec<String>)| {
        texts.into_iter().map(move |text| Remark {
            about: about.to_owned(),
            text,
        })
    };
    all.into_iter().flat_map(remarks).collect()
}

/// Remark about runs without a row, because too many failed at once with their server.
fn unlisted(state: &State) -> Option<String> {
    let runs = state.unlisted_runs();
    (runs > 0).then(|| {
        format!(
            "no row in the tables for {}, because their server failed before they were tried; the first {} points of each such \
             server have one",
            show_many(runs, "run"),
            show_count(MOST_LISTED as u64)
        )
    })
}

/// Remarks about servers behind a URL that were measured on several starts and do not report all of their settings.
fn started_again(state: &State) -> Vec<String> {
    let attached = state.servers.iter().filter(|(_, server)| server.argv.is_empty());
    let lines = attached.filter_map(|(id, server)| {
        let runs = state.runs().filter(|run| run.server == *id);
        let launches: Vec<Launch> = runs.filter_map(|run| state.launch_of(run)).unique().collect();
        let mut starts = server.launches.iter().filter(|start| launches.contains(&start.launch));
        let hides_settings = starts.any(|start| {
            let identity = start.identity();
            identity.is_some_and(|identity| identity.started.is_some() && !identity.settings.contains_key(HIDDEN))
        });
        (launches.len() > 1 && hides_settings).then(|| {
            format!(
                "{} was restarted between its runs, so its figures come from {} starts, whose {HIDDEN} and similar settings are not \
                 known to be equal; start it with VLLM_SERVER_DEV_MODE=1 so that it reports them, or measure anew with --fresh",
                server.name,
                launches.len()
            )
        })
    });
    lines.collect()
}

/// A scheduler setting. Servers report it, and the scheduler's other settings, only in development mode.
const HIDDEN: &str = "max_num_seqs";

/// Remark if no fresh starts confirm the best points, because each start of the plan chooses its own loads.
fn unconfirmed(state: &State) -> Option<String> {
    let planned = state.planning_session()?;
    let is_fresh = |slot: u32| slot >= planned.starts && slot != ALONE_SLOT;
    let is_confirmed = state.searches().any(|search| is_fresh(search.started.slot));
    (planned.searches > 0 && planned.starts > 1 && !is_confirmed)
        .then(|| "the best points were not confirmed on fresh starts, because each start chose its own loads".into())
}
