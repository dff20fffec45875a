//! The last lines of `vsweep run`, at most about ten for a sweep of any size: what to run, how sure that is, why, and what to doubt. The
//! text is in `ending.txt.jinja`, between the line of `counts.txt.jinja` and those of `brief.txt.jinja`.

use super::brief;
use super::template::plain;
use crate::findings::cautions::short_runs;
use crate::findings::compared;
use crate::findings::failures::{Group, group_recorded};
use crate::inputs::Inputs;
use crate::sentences::optimization;
use minijinja::{Value, context};
use vsweep_record::journal::{Directory, State};

const TEMPLATE: &str = include_str!("ending.txt.jinja");

/// Writes the lines from the document and the answer.
pub fn render(inputs: &Inputs<'_>, document: Value, reasons: &[Group]) -> String {
    let brief = brief::parts(Some(&inputs.answers.document), reasons, short_runs(inputs.state));
    let before = include_str!("counts.txt.jinja").to_owned() + TEMPLATE;
    let parts = context! { compared => compared::in_brief(inputs.state), ..context! { ..brief, ..document } };
    plain(&(before + brief::TEMPLATE), parts)
}

/// The lines of a `vsweep run` that finds everything done and its report current. They lack what only the files of the runs contain.
pub fn of_record(directory: &Directory, state: &State) -> String {
    let (answer, reasons) = (brief::read_answer(directory), group_recorded(state));
    let parts = context! {
        compared => compared::in_brief(state),
        optimized => answer.as_ref().map(optimization),
        ..brief::parts(answer.as_ref(), &reasons, short_runs(state))
    };
    plain(&(TEMPLATE.to_owned() + brief::TEMPLATE), parts)
}
