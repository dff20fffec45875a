//! Selects the figures in a native benchmark's result: the metrics and percentiles, the definition of good requests, and the steady state
//! of a closed loop.

use crate::metrics::{Goodput, Metric};
use crate::params::{FromParam, Param, ParamReader, Takes};
use serde_json::Value;

/// Metrics in a plan's result by default.
pub(crate) const PLAN_METRICS: &str = "ttft,tpot,itl,e2el";
/// Percentiles in a plan's result by default.
pub(in crate::bench) const PLAN_PERCENTILES: &str = "50,90,95,99";

crate::params! {
    /// Content of the result.
    pub struct FigureParams {
        /// Metrics in the result: ttft,tpot,itl,e2el,client_queue_time,e2el_including_client_queue.
        metrics: Metrics = param("percentile_metrics").default(PLAN_METRICS).otherwise("ttft,tpot,itl; in a plan also e2el"),
        /// Percentiles of each metric.
        percentiles: Percentiles = param("metric_percentiles").default(PLAN_PERCENTILES)
            .otherwise("99; in a plan 50,90,95,99"),
        /// Targets in ms, each ttft:N, tpot:N or e2el:N.
        targets: Vec<String> = param("goodput"),
        /// Share of max_concurrency that counts as full.
        steady_threshold: f64 = param("steady_state_threshold")
            .within("a share above 0, at most 1", |share| 0.0 < share && share <= 1.0)
            .default("0.95"),
        /// Seconds below which a steady state is doubtful.
        steady_min_window_s: Option<f64> = param("steady_state_min_window")
            .within("a number of seconds of at least 0", |seconds| seconds >= 0.0)
            .otherwise("10, or a tenth of the run"),
        /// Do not look for a steady state.
        no_steady_state: bool = param("no_steady_state"),
        /// Pairs for the result, each KEY=VALUE.
        metadata: Vec<(String, String)> = param("metadata"),
        /// Label in the result and its file name.
        label: Option<String> = param("label"),
        /// Keep each request's figures in the result.
        save_detailed: bool = param("save_detailed"),
    }
}

impl FigureParams {
    /// Reads the values, and reports invalid targets. With several choices in an answer there are no times per token, because the events of
    /// the choices are mixed.
    pub(super) fn checked(reader: &mut ParamReader<'_>, choices: u64) -> FigureParams {
        let mut figures = FigureParams::read(reader);
        for pair in figures.target_pairs() {
            if let Err(problem) = Goodput::parse(&[pair]) {
                reader.problem(problem);
            }
        }
        if choices > 1 {
            let metrics = &mut figures.metrics.0;
            metrics.retain(|metric| !matches!(metric, Metric::Tpot | Metric::Itl));
            if figures.goodput().is_some_and(|targets| targets.tpot_ms.is_some()) {
                reader.problem("goodput tpot is unknown for answers of several choices (n in extra_body); remove one");
            }
        }
        figures
    }

    /// Returns the definition of good requests, if there is one.
    pub fn goodput(&self) -> Option<Goodput> {
        let pairs: Vec<String> = self.target_pairs().collect();
        Goodput::parse(&pairs).ok().flatten()
    }

    fn target_pairs(&self) -> impl Iterator<Item = String> {
        self.targets.iter().flat_map(|text| text.split(',')).map(str::to_owned)
    }
}

/// Metrics in the order of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics(pub Vec<Metric>);

impl FromParam for Metrics {
    const TAKES: Takes = Takes::Text;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let text = String::from_param(param, value)?;
        let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let known = Metric::ALL.map(|metric| metric.name());
        match names.iter().all(|name| known.contains(name)) {
            true => {
                let asked = Metric::ALL.into_iter().filter(|metric| names.contains(&metric.name()));
                Ok(Metrics(asked.collect()))
            }
            false => Err(param.wrong(value, &format!("a list of {}", known.join(",")))),
        }
    }
}

/// Percentiles from 0 to 100.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles(pub Vec<f64>);

impl FromParam for Percentiles {
    const TAKES: Takes = Takes::Text;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let text = String::from_param(param, value)?;
        let percent = |text: &str| {
            let percent = text.trim().parse().ok();
            percent.filter(|percent| (0.0..=100.0).contains(percent))
        };
        let percents: Option<Vec<f64>> = text.split(',').map(percent).collect();
        percents
            .map(Percentiles)
            .ok_or_else(|| param.wrong(value, "a list of numbers from 0 to 100, e.g. 50,99"))
    }
}
