//! The `[report]` table: further charts, and the price, the GPUs and the margin by which the answer compares configs.

use crate::{FromNode, Node, Reader, Requirement, Runs, table};

table! {
    /// Options of the report and of the answer.
    #[derive(Debug, Clone)]
    pub struct ReportOptions("ReportTable", "") {
        /// Options of the Pareto chart.
        pub pareto_label_by as "pareto": Vec<String> = by::<ParetoTable, _>(pareto),
        /// Further line charts.
        pub plots as "plot": Vec<Plot> = by::<Vec<Plot>, _>(|reader, node, _| Vec::from_node(reader, node, "report.plot")),
        /// Price of one GPU-hour in dollars, such as `2.5`. The tables, charts and the answer then show the cost of a million tokens.
        pub price_per_gpu_hour: Option<f64> = maybe::<f64, _>(price),
        /// GPUs that the server is to run on. Configs are compared by what all servers of them that fit give together. Default: those of
        /// the machine that the plan runs on.
        pub gpus: Option<u32> = whole(1..=1_000_000),
        /// The difference that does not matter, as in `2%`: of configs within it of the best, the one that needs the fewest changes from
        /// the defaults is recommended. Default: 1 %.
        pub margin: Option<f64> = maybe::<String, _>(margin),
    }
    internal {
        /// Requirements on the results: `[[assert]]`, and required targets.
        pub requirements: Vec<Requirement>,
        /// The plan's repetitions, for the warning about intervals that stayed wider than the plan asks.
        pub runs: Option<Runs>,
    }
}

table! {
    /// Options of the Pareto chart.
    #[derive(Debug)]
    pub struct ParetoTable("ParetoTable", "") {
        /// Parameters written next to each point of the frontier. Default: those that vary.
        label_by: Vec<String>,
    }
}

table! {
    /// A line chart.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Plot("PlotTable", "") {
        /// Column on the x axis: a parameter or a metric.
        pub x: String = key().required("this chart has no `x`", "add x = \"a column's name\""),
        /// Column on the y axis.
        pub y: String = key().required("this chart has no `y`", "add y = \"a column's name\""),
        /// One curve for each combination of these columns' values; other columns that vary become a band. Default: a curve for every
        /// combination.
        pub curve_by: Vec<String>,
    }
}

fn pareto(reader: &mut Reader<'_>, node: &Node, _: &str) -> Option<Vec<String>> {
    ParetoTable::from_node(reader, node, "report.pareto").map(|table| table.label_by)
}

fn margin(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<f64> {
    Some(reader.percent(node, what, 0.1..=50.0)? / 100.0)
}

fn price(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<f64> {
    let price = reader.scalar(node, what)?.as_f64();
    price.filter(|price| price.is_finite() && *price > 0.0).or_else(|| {
        let message = format!("`{what}` must be a positive number");
        reader.refuse(node.span, message, "write the price per GPU-hour, such as 2.5")
    })
}
