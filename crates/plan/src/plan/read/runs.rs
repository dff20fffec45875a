//! The keys `starts` and `runs`: how often everything is measured.

use super::Reader;
use crate::plan::node::{Kind, Node};
use crate::plan::problem::suggest;
use crate::plan::schema;
use crate::plan::{Runs, Serve, Target};
use vsweep_strategy::stats::Repeats;

/// What a plan without `runs` asks for.
const USUAL: u32 = 3;
/// The most repetitions of a point on one start.
const MOST: u32 = 10_000;

impl Reader<'_> {
    /// Whether a plan with several starts can have them.
    pub(super) fn check_starts(&mut self, node: &Node, serve: &Serve) {
        if let Target::Attach(_) = serve.target {
            let message = "`starts` needs a server that vsweep starts, and this plan has a `url`";
            let remedy = "remove `starts`, or give `serve.command`";
            self.object(node.span, message, remedy);
        }
    }

    /// Whether a plan can repeat first points.
    pub(super) fn check_repeat_first(&mut self, node: &Node) {
        let message = "[sla] and [explore] find their loads, so there is no first point to repeat";
        let remedy = "remove `repeat_first`; to learn whether a server drifts, list loads in a plan of their own";
        self.object(node.span, message, remedy);
    }

    pub(super) fn runs(&mut self, node: Option<&Node>) -> Runs {
        let usual = Runs::Exactly(USUAL);
        match node {
            None => usual,
            Some(node) if matches!(node.kind, Kind::Table(_)) => self.runs_until(node).unwrap_or(usual),
            Some(node) => self.whole(node, "runs", 1..=MOST).map_or(usual, Runs::Exactly),
        }
    }

    fn runs_until(&mut self, node: &Node) -> Option<Runs> {
        let mut fields = self.open::<schema::RunsTable>(node, "runs")?;
        let min = fields.whole(self, "min").unwrap_or(2);
        let max = fields.whole(self, "max").unwrap_or(10.max(min));
        if let (Some(node), true) = (fields.get("max"), max < min) {
            let message = format!("`runs.max` is {max}, which is less than `runs.min`, {min}");
            let remedy = format!("write {min} or more");
            self.object(node.span, message, remedy);
        }
        let metric = fields.with("metric", |node, what| self.metric(node, what));
        if fields.get("until").is_none() {
            let message = "`runs` does not say how narrow the interval must be";
            let remedy = "add until = \"3 %\", or write a plain number of runs";
            self.object(node.span, message, remedy);
        }
        let until = fields.with("until", |node, what| self.percent(node, what, 0.1..=100.0));
        fields.close(&mut self.found);
        Some(Runs::Until {
            metric: metric.unwrap_or_else(|| "output_throughput".to_owned()),
            rule: Repeats {
                min: min as usize,
                max: max.max(min) as usize,
                until: until? / 100.0,
            },
        })
    }

    /// The name of a metric of the result.
    pub(super) fn metric(&mut self, node: &Node, what: &str) -> Option<String> {
        let name = self.text(node, what)?;
        if super::sla::is_metric(&name) {
            return Some(name);
        }
        let known = super::sla::known_metrics();
        let remedy = suggest(&name, known.iter().map(String::as_str));
        let message = format!("no metric is called `{name}`");
        self.object(node.span, message, remedy);
        None
    }

    /// A text such as `3 %`.
    pub(super) fn percent(&mut self, node: &Node, what: &str, range: std::ops::RangeInclusive<f64>) -> Option<f64> {
        let text = match &node.kind {
            Kind::Text(text) => self.expand(text, node.span),
            _ => String::new(),
        };
        let number = text.trim().strip_suffix('%').map(str::trim);
        let percent = number.and_then(|number| number.parse::<f64>().ok());
        let percent = percent.filter(|percent| range.contains(percent));
        if percent.is_none() {
            let message = format!(
                "`{what}` must be a percentage from {} to {}",
                range.start(),
                range.end()
            );
            self.object(node.span, message, "write \"3 %\"");
        }
        percent
    }
}
