//! The `[explore]` table: the settings of an exploration, which chooses loads between one request at a time and a saturated server.

use crate::{FromNode, Node, Reader, table};
use vsweep_strategy::search::{ExploreSettings, Spacing, Vary};

table! {
    /// Loads chosen by measuring, instead of an axis over `vary` (docs/search.md): one request at a time, `max_concurrency` in flight, and
    /// levels between them. `num_prompts` works as in `[sla]`, but from 32. Not together with `[sla]`.
    #[derive(Debug)]
    pub struct ExploreTable("ExploreTable", "explore.") {
        /// The load parameter to vary: `max_concurrency` or `request_rate`.
        vary: Option<Vary> = one_of::<Vary, _>().required(
            "[explore] does not say what to vary",
            "add vary = \"max_concurrency\" or \"request_rate\"",
        ),
        /// Number of loads including both ends, 2 to 1000. Default: 10.
        levels: u32 = whole(2..=1000).or(10u32),
        /// Spacing of the first half of the levels: `log` (default) or `linear`.
        spacing: Option<Spacing> = by::<Spacing, _>(spacing),
        /// Requests in flight at the saturated end, from 2. A value above the server's `max_num_seqs` is enough. Default: 1024.
        max_concurrency: u32 = whole(2..=1_000_000).or(1024u32),
    }
}

/// Builds the exploration that the table describes. The number of runs of each level is set by the check of the plan, and the number of
/// requests of each run by the matrix.
impl FromNode for ExploreSettings {
    type Written = ExploreTable;

    fn from_node(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<ExploreSettings> {
        let table = ExploreTable::from_node(reader, node, what)?;
        Some(ExploreSettings {
            levels: table.levels as usize,
            spacing: table.spacing.unwrap_or(Spacing::Log),
            max_concurrency: table.max_concurrency.into(),
            ..ExploreSettings::new(table.vary?, 1)
        })
    }
}

fn spacing(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Option<Spacing>> {
    let word = reader.among(node, what, &["log", "linear"])?;
    Some(Some(if word == "log" { Spacing::Log } else { Spacing::Linear }))
}
