//! The `[compare]` table.

use super::Reader;
use crate::plan::node::{Kind, Node};
use crate::plan::{Compare, Limit, Runs, Serve, Target};
use vsweep_strategy::stats::Margins;

/// Starts of a plan that does not say how many.
const USUAL_STARTS: u32 = 40;

impl Reader<'_> {
    pub(super) fn compare(&mut self, node: &Node) -> Option<Compare> {
        let mut fields = self.open::<Compare>(node, "compare")?;
        let metrics = fields.with("metrics", |node, what| {
            let nodes = self.list(node, what, METRICS)?;
            Some(nodes.iter().filter_map(|node| self.metric(node, what)).collect())
        });
        let metrics: Vec<String> = metrics.unwrap_or_default();
        let stated = fields.with("margin", |node, what| self.percent(node, what, 0.1..=100.0));
        let max_starts = fields.whole(self, "max_starts").unwrap_or(USUAL_STARTS);
        let max_time = fields.duration(self, "max_time");
        let limits = fields.with("fail_on", |node, what| self.list(node, what, LIMITS));
        let fail_on: Vec<Limit> = limits
            .unwrap_or_default()
            .iter()
            .filter_map(|node| self.limit(node))
            .collect();
        fields.close(&mut self.found);
        let usual = (metrics.is_empty() && fail_on.is_empty()).then(|| "output_throughput".to_owned());
        Some(Compare {
            metrics: metrics.into_iter().chain(usual).collect(),
            margins: Margins {
                stated,
                ..Margins::default()
            },
            max_starts,
            max_time,
            fail_on,
        })
    }

    /// Whether the rest of the plan goes with a comparison.
    pub(super) fn check_compare(&mut self, node: &Node, serve: &Serve, runs: &Runs, others: [(&str, bool); 3]) {
        let mut refuse = |message: String, remedy: &str| self.object(node.span, message, remedy);
        if let Target::Attach(_) = serve.target {
            let message = "[compare] starts the servers that it compares, and this plan has a `url`";
            refuse(message.to_owned(), "give `serve.command`");
        }
        if let Runs::Until { .. } = runs {
            let message = "[compare] needs the same number of runs on every start";
            refuse(message.to_owned(), "write a plain number, such as runs = 2");
        }
        for (name, _) in others.into_iter().filter(|(_, is_there)| *is_there) {
            let message = format!("[compare] decides itself what is started, so it does not go with {name}");
            refuse(message, &format!("remove {name}, or write two plans"));
        }
    }

    /// `p99_ttft_ms:+5%`.
    fn limit(&mut self, node: &Node) -> Option<Limit> {
        let text = self.text(node, "compare.fail_on")?;
        let Ok(Limit { metric, percent }) = Limit::parse(&text) else {
            let message = format!("`{text}` is no limit of a change");
            self.object(node.span, message, LIMITS);
            return None;
        };
        let named = Node {
            span: node.span,
            kind: Kind::Text(metric),
        };
        let metric = self.metric(&named, "compare.fail_on")?;
        Some(Limit { metric, percent })
    }
}

const METRICS: &str = "write a list of metrics, such as [\"output_throughput\"]";
const LIMITS: &str = "write a metric and a signed change, such as [\"p99_ttft_ms:+5%\"]";
