//! The `[explore]` table.

use super::Reader;
use crate::plan::fields::Fields;
use crate::plan::node::Node;
use crate::plan::schema;
use vsweep_strategy::search::{ExploreSettings, Spacing, Vary};

impl Reader<'_> {
    pub(super) fn explore(&mut self, node: &Node, runs: u32) -> Option<ExploreSettings> {
        let mut fields = self.open::<schema::ExploreTable>(node, "explore")?;
        let vary = self.vary(&mut fields, node, "explore");
        let mut settings = ExploreSettings::new(vary.unwrap_or(Vary::MaxConcurrency), runs);
        let levels = fields.whole(self, "levels");
        settings.levels = levels.map_or(settings.levels, |levels| levels as usize);
        let choices = [("log", Spacing::Log), ("linear", Spacing::Linear)];
        let spacing = fields.with("spacing", |node, what| self.choice(node, what, &choices));
        settings.spacing = spacing.unwrap_or(settings.spacing);
        let most = fields.whole(self, "max_concurrency");
        settings.max_concurrency = most.map_or(settings.max_concurrency, u64::from);
        fields.close(&mut self.found);
        vary.map(|_| settings)
    }

    /// The load parameter that `[sla]` and `[explore]` vary.
    pub(super) fn vary(&mut self, fields: &mut Fields<'_>, table: &Node, name: &str) -> Option<Vary> {
        let choices = [
            ("max_concurrency", Vary::MaxConcurrency),
            ("request_rate", Vary::RequestRate),
        ];
        match fields.get("vary") {
            Some(node) => self.choice(node, &format!("{name}.vary"), &choices),
            None => {
                let remedy = "add vary = \"max_concurrency\" or \"request_rate\"";
                let message = format!("[{name}] does not say what to vary");
                self.object(table.span, message, remedy);
                None
            }
        }
    }
}
