//! The readings of one run in order of time, and their summary, under the names of the columns of a run's row.

use super::host::HostUsage;
use super::nvml::GpuReading;
use super::prometheus::Scrape;
use crate::plan::Params;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Instant;

/// Everything read at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Time of the reading.
    pub at: Instant,
    /// Readings of the server; `None` if it gave no answer.
    pub server: Option<Scrape>,
    /// The server's GPUs; none without a driver.
    pub gpus: Vec<GpuReading>,
    /// Utilisation of the machine since the previous reading.
    pub host: HostUsage,
}

/// The measured part of a run: from its start (t0) to the end of the last answer, unless the benchmark measures only a part of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
}

/// Readings in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series(pub Vec<Reading>);

/// The course of a run, by which its validity is judged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// Generated tokens a second from each reading to the next.
    pub rates: Vec<f64>,
    /// Requests at the server at each reading.
    pub in_flight: Vec<f64>,
    /// Generated tokens a second for each request in the batch, from each reading to the next, if requests were running.
    pub speeds: Vec<f64>,
    /// Share of the readings of GPUs that found the GPU slowed down for its heat or its power supply; `None` without GPUs. A power cap does
    /// not count, because a busy GPU usually reaches it.
    pub slowed_share: Option<f64>,
    /// Share of the readings of GPUs that found a process on the GPU that is not the server's; `None` if unknown.
    pub shared_share: Option<f64>,
    /// Share of the draft tokens that were accepted, from each reading to the next, if there were any between them.
    pub acceptance: Vec<f64>,
}

/// Reasons that slow a GPU down for its heat or its power supply, and not only by its power cap.
const SLOWED: [&str; 4] = [
    "hw_slowdown",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
];

impl Series {
    /// Returns the time to summarise: the one that the benchmark measured, else from the first to the last reading that found requests at
    /// the server, else from the first reading to the last. `None` without readings.
    pub fn window(&self, measured: Option<Window>) -> Option<Window> {
        let is_busy = |reading: &&Reading| {
            let scrape = reading.server.unwrap_or_default();
            scrape.running.unwrap_or(0.0) + scrape.waiting.unwrap_or(0.0) > 0.0
        };
        let all = self.0.first().zip(self.0.last())?;
        let busy = self.0.iter().find(is_busy).zip(self.0.iter().rfind(is_busy));
        let between = |(first, last): (&Reading, &Reading)| Window {
            from: first.at,
            to: last.at,
        };
        Some(measured.unwrap_or_else(|| between(busy.unwrap_or(all))))
    }

    /// Summarises the readings of a window. Gauges come from the readings within it, counters from the nearest ones around it. Unknown
    /// figures are null.
    pub fn summarize(&self, window: Window) -> Params {
        let inside: Vec<&Reading> = self.0.iter().filter(|reading| window.contains(reading.at)).collect();
        let mut figures = Params::new();
        figures.insert("telemetry_samples".into(), inside.len().into());
        if self.0.iter().any(|reading| reading.server.is_some()) {
            sum_up(
                &OF_SERVER,
                inside.iter().filter_map(|reading| reading.server.as_ref()),
                &mut figures,
            );
            let growth = |of: fn(&Scrape) -> Option<f64>| self.growth(window, |reading| of(reading.server.as_ref()?));
            let preemptions = growth(|scrape| scrape.preemptions);
            figures.insert("preemptions".into(), json!(preemptions.map(|count| count as u64)));
            let queries = growth(|scrape| scrape.prefix_cache_queries).filter(|queries| *queries > 0.0);
            if let Some((queries, hits)) = queries.zip(growth(|scrape| scrape.prefix_cache_hits)) {
                figures.insert("prefix_cache_hit_rate".into(), json!(hits / queries));
            }
        }
        let sampled = self.0.iter().map(|reading| reading.gpus.len()).max();
        if let Some(sampled @ 1..) = sampled {
            let energy = self.energy_joules(window);
            let seconds = (window.to - window.from).as_secs_f64();
            let power = energy.filter(|_| seconds > 0.0).map(|joules| joules / seconds);
            figures.insert("gpus_sampled".into(), sampled.into());
            figures.insert("gpu_energy_joules".into(), json!(energy));
            figures.insert("gpu_power_watts_mean".into(), json!(power));
            sum_up(&OF_ALL_GPUS, inside.iter().copied(), &mut figures);
            let gpus = inside.iter().flat_map(|reading| &reading.gpus);
            sum_up(&OF_EACH_GPU, gpus.clone(), &mut figures);
            let reasons: BTreeSet<&str> = gpus.flat_map(|gpu| gpu.throttle.iter().flatten().copied()).collect();
            if !reasons.is_empty() {
                let reasons = reasons.into_iter().collect::<Vec<_>>().join("+");
                figures.insert("gpu_throttle_reasons".into(), reasons.into());
            }
        }
        sum_up(&OF_HOST, inside.iter().map(|reading| &reading.host), &mut figures);
        figures
    }

    /// Returns the course of the run within a window.
    pub fn course(&self, window: Window) -> Course {
        let inside = || self.0.iter().filter(|reading| window.contains(reading.at));
        let servers: Vec<(Instant, Scrape)> = inside()
            .filter_map(|reading| Some((reading.at, reading.server?)))
            .collect();
        let rate = |pair: &[(Instant, Scrape)]| {
            let tokens = pair[1].1.generation_tokens? - pair[0].1.generation_tokens?;
            Some(tokens / (pair[1].0 - pair[0].0).as_secs_f64()).filter(|rate| rate.is_finite())
        };
        let speed = |pair: &[(Instant, Scrape)]| {
            let running = (pair[0].1.running? + pair[1].1.running?) / 2.0;
            Some(rate(pair)? / running).filter(|_| running > 0.0)
        };
        let share = |of: fn(&GpuReading) -> Option<f64>| {
            let gpus = inside().flat_map(|reading| &reading.gpus);
            mean(&gpus.filter_map(of).collect::<Vec<f64>>())
        };
        let accepted = |pair: &[(Instant, Scrape)]| {
            let drafted = pair[1].1.draft_tokens? - pair[0].1.draft_tokens?;
            let accepted = pair[1].1.accepted_tokens? - pair[0].1.accepted_tokens?;
            (drafted > 0.0).then_some(accepted / drafted)
        };
        let in_flight = |server: &Scrape| Some(server.running? + server.waiting.unwrap_or(0.0));
        Course {
            in_flight: servers.iter().filter_map(|(_, server)| in_flight(server)).collect(),
            rates: servers.windows(2).filter_map(rate).collect(),
            speeds: servers.windows(2).filter_map(speed).collect(),
            slowed_share: share(|gpu| gpu.slowed_by(|reasons| reasons.iter().any(|reason| SLOWED.contains(reason)))),
            shared_share: share(|gpu| Some(f64::from(u8::from(gpu.other_processes? > 0.0)))),
            acceptance: servers.windows(2).filter_map(accepted).collect(),
        }
    }

    /// Growth of a counter from its last reading before a window to its first one after the window; `None` if either is missing or the
    /// counter was reset.
    fn growth(&self, window: Window, of: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
        let mut before = self.0.iter().rev().filter(|reading| reading.at <= window.from);
        let mut after = self.0.iter().filter(|reading| reading.at >= window.to);
        Some(after.find_map(&of)? - before.find_map(&of)?).filter(|growth| *growth >= 0.0)
    }

    /// Energy of all GPUs within a window, in joules: from their counters, else from their power over time.
    fn energy_joules(&self, window: Window) -> Option<f64> {
        let sum = |of: fn(&GpuReading) -> Option<f64>| {
            let at = move |reading: &Reading| Some((reading.at, reading.of_all_gpus(of)?));
            let with_gpus = self.0.iter().filter(|reading| !reading.gpus.is_empty());
            with_gpus.filter_map(at).collect::<Vec<(Instant, f64)>>()
        };
        let counted = sum(|gpu| gpu.energy_joules);
        let between = |curve: &[(Instant, f64)]| Some(value_at(curve, window.to)? - value_at(curve, window.from)?);
        between(&counted)
            .or_else(|| between(&integrate(&sum(|gpu| gpu.power_watts))))
            .filter(|joules| *joules >= 0.0)
    }
}

impl Reading {
    /// Returns the sum of a figure over all GPUs; `None` if one of them does not report it.
    fn of_all_gpus(&self, of: fn(&GpuReading) -> Option<f64>) -> Option<f64> {
        self.gpus.iter().map(of).sum()
    }
}

impl Window {
    fn contains(&self, moment: Instant) -> bool {
        (self.from..=self.to).contains(&moment)
    }

    /// Returns the seconds from the beginning of the window to a moment; negative for an earlier moment.
    pub(super) fn seconds_of(&self, moment: Instant) -> f64 {
        match moment.checked_duration_since(self.from) {
            Some(after) => after.as_secs_f64(),
            None => -(self.from - moment).as_secs_f64(),
        }
    }
}

/// A figure of a run's row: its name, its value in one reading, and the function that summarises the values of all readings.
type SummedFigure<R> = (&'static str, fn(&R) -> Option<f64>, fn(&[f64]) -> Option<f64>);

const OF_SERVER: [SummedFigure<Scrape>; 6] = [
    ("kv_cache_usage_mean", |server| server.kv_cache_usage, mean),
    ("kv_cache_usage_max", |server| server.kv_cache_usage, max),
    ("running_mean", |server| server.running, mean),
    ("running_max", |server| server.running, max),
    ("waiting_mean", |server| server.waiting, mean),
    ("waiting_max", |server| server.waiting, max),
];
const OF_ALL_GPUS: [SummedFigure<Reading>; 1] =
    [("gpu_power_watts_max", |all| all.of_all_gpus(|gpu| gpu.power_watts), max)];
const OF_EACH_GPU: [SummedFigure<GpuReading>; 8] = [
    ("gpu_utilization_mean", |gpu| gpu.utilization, mean),
    ("gpu_memory_gib_max", |gpu| gpu.memory_gib, max),
    ("gpu_sm_clock_mhz_mean", |gpu| gpu.sm_clock_mhz, mean),
    ("gpu_sm_clock_mhz_min", |gpu| gpu.sm_clock_mhz, min),
    ("gpu_memory_clock_mhz_mean", |gpu| gpu.memory_clock_mhz, mean),
    ("gpu_temperature_celsius_max", |gpu| gpu.temperature_celsius, max),
    ("gpu_other_processes_max", |gpu| gpu.other_processes, max),
    ("gpu_throttled_share", |gpu| gpu.slowed_by(|all| !all.is_empty()), mean),
];
const OF_HOST: [SummedFigure<HostUsage>; 4] = [
    ("host_cpu_share_mean", |host| host.cpu_share, mean),
    ("host_cpu_share_max", |host| host.cpu_share, max),
    ("host_load_max", |host| host.load, max),
    ("vsweep_cpu_cores_max", |host| host.own_cores, max),
];

/// Adds the figures of a table. Readings are spread evenly over a run, so all have equal weights.
fn sum_up<'r, R: 'r>(table: &[SummedFigure<R>], readings: impl Iterator<Item = &'r R> + Clone, figures: &mut Params) {
    for (name, of, sum) in table {
        let values: Vec<f64> = readings.clone().filter_map(of).collect();
        figures.insert((*name).to_owned(), json!(sum(&values)));
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn max(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

fn min(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

/// Returns the value of a curve at a moment, on the straight line between the readings around it; `None` if the moment is not between
/// readings.
fn value_at(curve: &[(Instant, f64)], moment: Instant) -> Option<f64> {
    let after = curve.iter().position(|(at, _)| *at >= moment)?;
    let (at, value) = curve[after];
    if at == moment {
        return Some(value);
    }
    let (before_at, before) = curve[after.checked_sub(1)?];
    let share = (moment - before_at).as_secs_f64() / (at - before_at).as_secs_f64();
    Some(before + (value - before) * share)
}

/// Integrates a curve over time by the trapezoidal rule: watts become joules.
fn integrate(curve: &[(Instant, f64)]) -> Vec<(Instant, f64)> {
    let mut sum = 0.0;
    let mut integral: Vec<(Instant, f64)> = curve.first().map(|(at, _)| (*at, 0.0)).into_iter().collect();
    for pair in curve.windows(2) {
        let [(from, a), (to, b)] = [pair[0], pair[1]];
        sum += (to - from).as_secs_f64() * (a + b) / 2.0;
        integral.push((to, sum));
    }
    integral
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::time::Duration;

    /// One reading a second: an idle one, busy ones, an idle one.
    fn series(gpu: fn(f64) -> GpuReading) -> (Series, Instant) {
        let zero = Instant::now();
        let reading = |second: u64| {
            let is_busy = (1..=4).contains(&second);
            Reading {
                at: zero + Duration::from_secs(second),
                server: Some(Scrape {
                    running: Some(if is_busy { 8.0 } else { 0.0 }),
                    waiting: Some(if second == 2 { 3.0 } else { 0.0 }),
                    kv_cache_usage: Some(second as f64 / 10.0),
                    preemptions: Some(100.0 + second as f64),
                    prefix_cache_queries: Some(50.0 * second as f64),
                    prefix_cache_hits: Some(10.0 * second as f64),
                    ..Scrape::default()
                }),
                gpus: vec![
                    gpu(second as f64),
                    GpuReading {
                        index: 3,
                        ..gpu(second as f64)
                    },
                ],
                host: HostUsage {
                    cpu_share: Some(0.5),
                    load: Some(2.0),
                    own_cores: None,
                },
            }
        };
        (Series((0..6).map(reading).collect()), zero)
    }

    fn gpu(second: f64) -> GpuReading {
        GpuReading {
            power_watts: Some(400.0),
            energy_joules: Some(1e6 + 300.0 * second),
            throttle: Some(if second == 2.0 { vec!["sw_power_cap"] } else { vec![] }),
            ..GpuReading::default()
        }
    }

    fn window(zero: Instant, from: f64, to: f64) -> Window {
        let at = |seconds| zero + Duration::from_secs_f64(seconds);
        Window {
            from: at(from),
            to: at(to),
        }
    }

    #[test]
    fn a_missed_scrape_leaves_counters_known() {
        let (mut series, zero) = series(gpu);
        series.0[1].server = None;
        let figures = series.summarize(window(zero, 1.5, 4.5));
        assert_eq!(figures["preemptions"], 5, "from second 0 to second 5");
        assert_eq!(figures["prefix_cache_hit_rate"], 0.2);
    }

    #[test]
    fn gauges_come_from_within_and_counters_from_around() {
        let (series, zero) = series(gpu);
        let figures = series.summarize(window(zero, 0.5, 4.5));
        assert_eq!(figures["telemetry_samples"], 4);
        assert_eq!(
            (&figures["running_mean"], &figures["waiting_max"]),
            (&json!(8.0), &json!(3.0))
        );
        assert_eq!(figures["kv_cache_usage_max"], 0.4);
        assert_eq!(figures["preemptions"], 5, "from second 0 to second 5");
        assert_eq!(figures["prefix_cache_hit_rate"], 0.2);
        // The counters of two GPUs grow by 300 J per second each, for four seconds. The energy is not computed from their power.
        assert_eq!(figures["gpu_energy_joules"], 2400.0);
        assert_eq!(
            (&figures["gpu_power_watts_mean"], &figures["gpu_power_watts_max"]),
            (&json!(600.0), &json!(800.0))
        );
        assert_eq!(
            (&figures["gpu_throttled_share"], &figures["gpu_throttle_reasons"]),
            (&json!(0.25), &json!("sw_power_cap"))
        );
        assert_eq!(figures["gpus_sampled"], 2);
        assert_eq!(figures["gpu_memory_gib_max"], Value::Null, "no GPU reported it");
        assert_eq!(figures["vsweep_cpu_cores_max"], Value::Null);
    }

    #[test]
    fn without_counters_energy_is_power_over_time() {
        let (series, zero) = series(|second| GpuReading {
            energy_joules: None,
            ..gpu(second)
        });
        let figures = series.summarize(window(zero, 1.5, 3.5));
        assert_eq!(figures["gpu_energy_joules"], 1600.0);
    }

    #[test]
    fn what_the_readings_do_not_reach_is_unknown() {
        let (series, zero) = series(gpu);
        let figures = series.summarize(window(zero, 4.2, 7.0));
        assert_eq!(
            (&figures["preemptions"], &figures["gpu_energy_joules"]),
            (&Value::Null, &Value::Null)
        );
        let short = series.summarize(window(zero, 2.1, 2.2));
        assert_eq!(
            (&short["running_mean"], &short["preemptions"]),
            (&Value::Null, &json!(1))
        );
    }

    #[test]
    fn a_benchmark_that_does_not_say_when_it_measured_is_seen_by_its_requests() {
        let (series, zero) = series(gpu);
        assert_eq!(series.window(None), Some(window(zero, 1.0, 4.0)));
        let given = window(zero, 0.5, 4.5);
        assert_eq!(series.window(Some(given)), Some(given));
        assert_eq!(Series::default().window(None), None);
    }
}
