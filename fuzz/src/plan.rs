//! Fuzzes a plan: it is read and expanded, or all its problems are shown. The first byte selects TOML or JSON.

use crate::files::Folder;
use vsweep::matrix::Matrix;
use vsweep::plan::{self, Draft};

pub fn check(data: &[u8]) {
    let Some((format, text)) = data.split_first() else {
        return;
    };
    let folder = Folder::new();
    let name = if format % 2 == 0 { "plan.toml" } else { "plan.json" };
    folder.write(name, text);
    let problems = plan::draft(&folder.path(name), &[], None).and_then(|Draft { plan, mut found }| {
        plan.redacted_text();
        if let Some(matrix) = Matrix::draft(&plan, &mut found) {
            drop(matrix.points().take(3).collect::<Vec<_>>());
        }
        Err::<(), _>(found.into_problems(&plan.origin.sources, &plan.secrets))
    });
    problems.expect_err("made so").render(true);
}
