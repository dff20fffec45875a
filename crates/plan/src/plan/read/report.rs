//! The `[report]` table.

use super::Reader;
use crate::plan::fields::Fields;
use crate::plan::node::Node;
use crate::plan::{Plot, ReportOptions, schema};

impl Reader<'_> {
    pub(super) fn report(&mut self, node: &Node) -> ReportOptions {
        let mut report = ReportOptions::default();
        let Some(fields) = self.open::<schema::ReportTable>(node, "report") else {
            return report;
        };
        let mut fields = fields.by_own_names();
        let pareto = fields
            .get("pareto")
            .and_then(|node| self.open::<schema::ParetoTable>(node, "report.pareto"));
        if let Some(mut pareto) = pareto.map(Fields::by_own_names) {
            report.pareto_label_by = pareto.texts(self, "label_by");
            pareto.close(&mut self.found);
        }
        let plots = fields.with("plot", |node, _| {
            self.list(node, "report.plot", "write each chart below its own [[report.plot]]")
        });
        report.plots = plots
            .unwrap_or_default()
            .iter()
            .filter_map(|node| self.plot(node))
            .collect();
        report.price_per_gpu_hour = fields.with("price_per_gpu_hour", |node, what| self.price(node, what));
        fields.close(&mut self.found);
        report
    }

    fn price(&mut self, node: &Node, what: &str) -> Option<f64> {
        let value = self.scalar(node, what)?;
        let price = value.as_f64().filter(|price| price.is_finite() && *price > 0.0);
        if price.is_none() {
            let message = format!("`{what}` must be a positive number");
            self.object(node.span, message, "write what one GPU costs an hour, as in 2.5");
        }
        price
    }

    fn plot(&mut self, node: &Node) -> Option<Plot> {
        let mut fields = self.open::<Plot>(node, "report.plot")?.by_own_names();
        let mut column = |key| {
            if fields.get(key).is_none() {
                let message = format!("this chart has no `{key}`");
                self.object(node.span, message, format!("add {key} = \"a column's name\""));
            }
            fields.text(self, key)
        };
        let (x, y) = (column("x"), column("y"));
        let curve_by = fields.texts(self, "curve_by");
        fields.close(&mut self.found);
        Some(Plot { x: x?, y: y?, curve_by })
    }
}
