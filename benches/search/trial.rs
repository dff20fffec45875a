//! Compares an answer of a search with the truth, and computes the figures of docs/search.md by which answers are judged.

use crate::truth::Truth;
use std::process::ExitCode;
use vsweep::search::{Answer, Found, Probe, Search, Settings, Vary, wilson};

/// If one run locates a limit at least this precisely, the search must meet the tolerance and the limit on the number of runs.
const SHARP: f64 = 0.035;
/// Below this number of users, an answer that is off by one user is within the tolerance.
const FEW: f64 = 20.0;

/// An answer, and the truth.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Trial {
    /// Name of the search, and its loads with the margins of their runs, for people to read.
    name: String,
    probes: String,
    pub found: Found,
    pub interval: [f64; 2],
    pub runs: usize,
    /// Runs that something disturbed.
    #[serde(default)]
    pub disturbed: usize,
    pub tolerance: f64,
    pub vary: Vary,
    pub truth: Truth,
}

impl Trial {
    pub fn new(name: String, answer: &Answer, search: &Search, settings: &Settings, truth: Truth) -> Trial {
        let asked = |name: &String| *name == answer.target;
        Trial {
            name: format!("{name}, {}", answer.target),
            probes: said(search, settings, &answer.target),
            found: answer.found,
            interval: [answer.low, answer.high],
            runs: search
                .probes()
                .iter()
                .filter(|probe| asked(&probe.question.target))
                .count(),
            disturbed: answer.disturbed,
            tolerance: settings.tolerance,
            vary: settings.vary,
            truth,
        }
    }

    fn is_sharp(&self) -> bool {
        self.truth.one_run <= SHARP
    }

    /// Returns true if the limit lies in the interval.
    fn is_covered(&self) -> bool {
        let [low, high] = self.interval;
        match self.found {
            Found::Beyond(value) => self.truth.high >= value,
            _ => low <= self.truth.high && self.floor(high) >= self.floor(self.truth.low),
        }
    }

    /// Returns true if the answer exceeds the limit by more than the uncertainty of the limit.
    fn is_unsafe(&self) -> bool {
        let limit = self.truth.highest(self.vary).max(self.truth.high);
        self.found.value().is_some_and(|value| value > limit)
    }

    /// Prints an answer that is above the limit, with the probes that led to it.
    pub fn tell_if_unsafe(&self) {
        if self.is_unsafe() {
            let Trial {
                name,
                found,
                truth,
                probes,
                ..
            } = self;
            println!("above the limit: {name}: {found:?}, {truth:.3?}, by {probes}");
        }
    }

    /// Returns true if the answer is within the tolerance below the limit.
    fn is_near(&self) -> bool {
        let limit = self.truth.highest(self.vary);
        let is_near = |value: f64| {
            let few = self.vary == Vary::MaxConcurrency && limit < FEW && value >= limit - 1.0;
            few || value >= limit * (1.0 - self.tolerance)
        };
        self.found.value().is_some_and(is_near)
    }

    fn floor(&self, load: f64) -> f64 {
        if self.vary == Vary::MaxConcurrency {
            load.floor()
        } else {
            load
        }
    }
}

fn said(search: &Search, settings: &Settings, target: &str) -> String {
    let criteria = settings
        .targets
        .iter()
        .filter(|own| own.name == target)
        .flat_map(|own| &own.criteria);
    let texts: Vec<String> = criteria.map(ToString::to_string).collect();
    let of_probe = |probe: &Probe| {
        let margins = texts
            .iter()
            .filter_map(|text| probe.readings.get(text))
            .map(|reading| reading.margin());
        let mark = if probe.is_disturbed() { "~" } else { "" };
        format!(
            "{}{mark} {:+.3}",
            probe.question.value,
            margins.fold(f64::NAN, f64::max)
        )
    };
    let all: Vec<String> = search.probes().iter().map(of_probe).collect();
    format!("{}: {}", texts.join(", "), all.join("; "))
}

/// For each target of a group of servers, the true limit of the server with the highest answer, as a share of the best server's.
pub fn choices(group: &[Vec<Option<Trial>>], truths: &[Vec<Option<Truth>>], vary: Vary) -> Vec<f64> {
    let targets = if group.len() > 1 { group[0].len() } else { 0 };
    let of_target = |target: usize| {
        let limits: Option<Vec<f64>> = truths
            .iter()
            .map(|server| Some(server[target]?.highest(vary)))
            .collect();
        let limits = limits?;
        let answers = group.iter().map(|server| server[target].as_ref()?.found.value());
        let answers: Vec<f64> = answers.map(|value| value.unwrap_or(0.0)).collect();
        let highest = answers.iter().copied().fold(0.0, f64::max);
        let chosen = answers.iter().position(|answer| *answer == highest)?;
        Some(limits[chosen] / limits.iter().copied().fold(0.0, f64::max))
    };
    (0..targets).filter_map(of_target).collect()
}

/// Prints the figures with their requirements. Fails if one is missed.
pub fn report(trials: &[Trial], chosen: &[f64]) -> ExitCode {
    let share = |of: &[&Trial], is: &dyn Fn(&Trial) -> bool| {
        if of.is_empty() {
            return (100.0, "no such answer".to_owned());
        }
        let hits = of.iter().filter(|trial| is(trial)).count() as u64;
        let (low, high) = wilson(hits as f64 / of.len().max(1) as f64, of.len() as f64, 1.96);
        let percent = 100.0 * hits as f64 / of.len() as f64;
        (
            percent,
            format!("{percent:.1} % ({:.1}-{:.1})", 100.0 * low, 100.0 * high),
        )
    };
    let all: Vec<&Trial> = trials.iter().collect();
    let sharp: Vec<&Trial> = trials.iter().filter(|trial| trial.is_sharp()).collect();
    let mut runs: Vec<f64> = sharp.iter().map(|trial| trial.runs as f64).collect();
    let (median, most) = (quantile(&mut runs, 0.5), quantile(&mut runs, 0.9));
    let covered = share(&all, &Trial::is_covered);
    let above = share(&all, &Trial::is_unsafe);
    let near = share(&sharp, &Trial::is_near);
    let mut chosen = chosen.to_vec();
    let (usual, worst) = (quantile(&mut chosen, 0.05), quantile(&mut chosen, 0.0));
    let elsewhere: Vec<&Trial> = trials.iter().filter(|trial| !trial.is_sharp()).collect();
    let honest = share(&elsewhere, &Trial::is_covered);
    let rows = [
        ("limits in the interval, 90 % wanted", covered.1, covered.0 >= 90.0),
        ("answers above the limit, at most 1 %", above.1, above.0 <= 1.0),
        ("sharp: within the tolerance, 80 % wanted", near.1, near.0 >= 80.0),
        ("sharp: runs, median at most 8", median.to_string(), median <= 8.0),
        ("sharp: runs, 90 % quantile at most 12", most.to_string(), most <= 12.0),
        (
            "elsewhere: limits in the interval, 90 % wanted",
            honest.1,
            honest.0 >= 90.0,
        ),
        (
            "chosen server holds of the best, 5 % quantile",
            format!("{usual:.3} (lowest {worst:.3})"),
            usual >= 0.97,
        ),
    ];
    println!("{} answers, {} sharp, {} choices", all.len(), sharp.len(), chosen.len());
    for (what, figure, is_kept) in &rows {
        println!("{what:<50} {figure:<24} {}", if *is_kept { "kept" } else { "MISSED" });
    }
    ExitCode::from(u8::from(!rows.iter().all(|(.., is_kept)| *is_kept)))
}

/// Prints the figures for a generator that stalls now and then. Fails if one is missed.
pub fn report_stalled(trials: &[Trial]) -> ExitCode {
    let count = |is: &dyn Fn(&Trial) -> bool| trials.iter().filter(|trial| is(trial)).count();
    let has_interval = |trial: &Trial| matches!(trial.found, Found::Met(_));
    let (found, covered) = (
        count(&has_interval),
        count(&|trial| has_interval(trial) && trial.is_covered()),
    );
    let (disturbed, above) = (count(&|trial| trial.disturbed > 0), count(&Trial::is_unsafe));
    let rows = [
        (
            "searches with an interval, half wanted",
            found,
            trials.len(),
            2 * found >= trials.len(),
        ),
        (
            "limits in the interval, 90 % wanted",
            covered,
            found,
            10 * covered >= 9 * found,
        ),
        ("answers above the limit, none wanted", above, trials.len(), above == 0),
    ];
    println!("{} answers, {disturbed} of them with disturbed runs", trials.len());
    for (what, hits, of, is_kept) in &rows {
        let percent = 100.0 * *hits as f64 / (*of).max(1) as f64;
        let figure = format!("{percent:.1} % ({hits} of {of})");
        println!("{what:<50} {figure:<24} {}", if *is_kept { "kept" } else { "MISSED" });
    }
    ExitCode::from(u8::from(!rows.iter().all(|(.., is_kept)| *is_kept)))
}

fn quantile(values: &mut [f64], p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len().max(1) - 1) as f64 * p).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}
