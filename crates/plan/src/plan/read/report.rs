//! The `[report]` table.

use super::Reader;
use crate::plan::fields::Fields;
use crate::plan::node::Node;
use crate::plan::{Plot, ReportOptions, schema};
use serde_json::Value;

impl Reader<'_> {
    pub(super) fn report(&mut self, node: &Node) -> ReportOptions {
        let mut report = ReportOptions::default();
        let Some(mut fields) = Fields::open::<schema::ReportTable>(node, "report", &mut self.found) else {
            return report;
        };
        if let Some(mut pareto) = fields.get("pareto").and_then(|node| self.open_pareto(node)) {
            report.pareto_label_by = pareto
                .get("label_by")
                .map(|node| self.texts(node, "label_by"))
                .unwrap_or_default();
            pareto.close(&mut self.found);
        }
        if let Some(node) = fields.get("plot") {
            let plots = self.list(node, "report.plot", "write each chart below its own [[report.plot]]");
            report.plots = plots
                .unwrap_or_default()
                .iter()
                .filter_map(|node| self.plot(node))
                .collect();
        }
        report.price_per_gpu_hour = fields.get("price_per_gpu_hour").and_then(|node| self.price(node));
        fields.close(&mut self.found);
        report
    }

    fn price(&mut self, node: &Node) -> Option<f64> {
        let value = self.scalar(node, "price_per_gpu_hour");
        let price = value
            .as_ref()
            .and_then(Value::as_f64)
            .filter(|price| price.is_finite() && *price > 0.0);
        if value.is_some() && price.is_none() {
            let message = "`price_per_gpu_hour` must be a positive number".to_owned();
            self.object(node.span, message, "write what one GPU costs an hour, as in 2.5");
        }
        price
    }

    fn open_pareto<'n>(&mut self, node: &'n Node) -> Option<Fields<'n>> {
        Fields::open::<schema::ParetoTable>(node, "report.pareto", &mut self.found)
    }

    fn plot(&mut self, node: &Node) -> Option<Plot> {
        let mut fields = Fields::open::<schema::PlotTable>(node, "report.plot", &mut self.found)?;
        let mut column = |key| match fields.get(key) {
            Some(node) => self.text(node, key),
            None => {
                let message = format!("this chart has no `{key}`");
                self.object(node.span, message, format!("add {key} = \"a column's name\""));
                None
            }
        };
        let (x, y) = (column("x"), column("y"));
        let curve_by = fields
            .get("curve_by")
            .map(|node| self.texts(node, "curve_by"))
            .unwrap_or_default();
        fields.close(&mut self.found);
        Some(Plot { x: x?, y: y?, curve_by })
    }
}
