//! On which start of its server a run was measured, as the table keeps it for each row.

use super::{Cell, Column, Section};

/// Where a run was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Origin {
    /// The planned start that it belongs to.
    pub slot: u32,
    /// The launch, numbered within the table; none where that is not known.
    pub launch: Option<u32>,
    /// Its place in the order of the launch's runs.
    pub order: u64,
}

/// The column that says which planned start each run belongs to, if any belongs to a later one than the first.
pub(super) fn column(origins: &[Origin]) -> Option<Column> {
    let has_later = origins.iter().any(|origin| origin.slot > 0);
    let slots = origins.iter().map(|origin| Cell::Integer(origin.slot.into()));
    has_later.then(|| Column::of("start", Section::Identity, slots))
}
