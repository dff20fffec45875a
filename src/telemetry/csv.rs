//! The readings of one run as CSV, one row per reading: `runs/<point>/<k>.telemetry.csv`.

use super::nvml::GpuReading;
use super::prometheus::Scrape;
use super::series::{Reading, Series, Window};
use std::collections::BTreeMap;

/// Name of a column, and the figure of a server that it holds.
type ServerColumn = (&'static str, fn(&Scrape) -> Option<f64>);

const GAUGES: [ServerColumn; 3] = [
    ("running", |server| server.running),
    ("waiting", |server| server.waiting),
    ("kv_cache_usage", |server| server.kv_cache_usage),
];
const COUNTERS: [ServerColumn; 7] = [
    ("preemptions", |server| server.preemptions),
    ("prefix_cache_queries", |server| server.prefix_cache_queries),
    ("prefix_cache_hits", |server| server.prefix_cache_hits),
    ("prompt_tokens", |server| server.prompt_tokens),
    ("generation_tokens", |server| server.generation_tokens),
    ("draft_tokens", |server| server.draft_tokens),
    ("accepted_tokens", |server| server.accepted_tokens),
];
const GPU_COLUMNS: &str = "power_watts energy_joules utilization memory_gib sm_clock_mhz memory_clock_mhz \
    temperature_celsius throttle other_processes";

/// The columns of a series, and the first readings, from which its counters count.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// First reading of the energy of each GPU, in joules, by the GPU's number.
    first_energies: BTreeMap<u32, Option<f64>>,
    /// First reading of the server.
    first: Scrape,
}

impl Columns {
    /// Returns the columns of these readings.
    pub fn of(readings: &[Reading]) -> Columns {
        let mut columns = Columns::default();
        for gpu in readings.iter().flat_map(|reading| &reading.gpus) {
            columns.first_energies.entry(gpu.index).or_insert(gpu.energy_joules);
        }
        columns.first = readings.iter().find_map(|reading| reading.server).unwrap_or_default();
        columns
    }

    /// Returns the header line.
    pub fn head(&self) -> String {
        let mut text = "seconds".to_owned();
        for (name, _) in GAUGES.iter().chain(&COUNTERS) {
            text += &format!(",{name}");
        }
        for index in self.first_energies.keys() {
            for name in GPU_COLUMNS.split(' ') {
                text += &format!(",gpu{index}_{name}");
            }
        }
        text + ",host_cpu_share,host_load,vsweep_cpu_cores\n"
    }

    /// Returns the line of one reading, with `seconds` as its time.
    pub fn row(&self, reading: &Reading, seconds: f64) -> String {
        let mut row: Vec<String> = vec![number(Some(seconds))];
        let (server, first) = (reading.server.unwrap_or_default(), self.first);
        row.extend(GAUGES.map(|(_, of)| number(of(&server))));
        row.extend(COUNTERS.map(|(_, of)| number(since(of(&server), of(&first)))));
        for (index, first_energy) in &self.first_energies {
            let gpu = reading.gpus.iter().find(|gpu| gpu.index == *index);
            row.extend(gpu_cells(gpu.unwrap_or(&GpuReading::default()), *first_energy));
        }
        row.extend([reading.host.cpu_share, reading.host.load, reading.host.own_cores].map(number));
        row.join(",") + "\n"
    }
}

impl Series {
    /// Writes one row per reading. Seconds count from the window's beginning, counters from the first reading; unknown values are empty.
    pub fn to_csv(&self, window: Window) -> String {
        let columns = Columns::of(&self.0);
        let rows = self
            .0
            .iter()
            .map(|reading| columns.row(reading, window.seconds_of(reading.at)));
        columns.head() + &rows.collect::<String>()
    }
}

fn gpu_cells(gpu: &GpuReading, first_energy: Option<f64>) -> [String; 9] {
    let throttle = gpu.throttle.as_ref().map(|reasons| match reasons.is_empty() {
        true => "none".to_owned(),
        false => reasons.join("+"),
    });
    [
        number(gpu.power_watts),
        number(since(gpu.energy_joules, first_energy)),
        number(gpu.utilization),
        number(gpu.memory_gib),
        number(gpu.sm_clock_mhz),
        number(gpu.memory_clock_mhz),
        number(gpu.temperature_celsius),
        throttle.unwrap_or_default(),
        number(gpu.other_processes),
    ]
}

fn since(now: Option<f64>, first: Option<f64>) -> Option<f64> {
    Some(now? - first?)
}

/// Returns a figure with at most four decimals; an empty text if it is unknown.
fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| ((value * 1e4).round() / 1e4).to_string())
}

#[cfg(test)]
mod tests {
    use crate::telemetry::host::HostUsage;
    use crate::telemetry::nvml::GpuReading;
    use crate::telemetry::prometheus::Scrape;
    use crate::telemetry::series::{Reading, Series, Window};
    use std::time::{Duration, Instant};

    #[test]
    fn seconds_count_from_t0_and_counters_from_the_first_reading() {
        let zero = Instant::now();
        let reading = |second: u64, server, throttle| Reading {
            at: zero + Duration::from_secs(second),
            server,
            gpus: vec![GpuReading {
                index: 3,
                power_watts: Some(412.5),
                energy_joules: Some(1e6 + 300.0 * second as f64),
                memory_gib: Some(1.5),
                throttle: Some(throttle),
                ..GpuReading::default()
            }],
            host: HostUsage {
                cpu_share: Some(1.0 / 3.0),
                load: None,
                own_cores: Some(0.5),
            },
        };
        let scrape = |tokens| Scrape {
            running: Some(8.0),
            generation_tokens: Some(tokens),
            ..Scrape::default()
        };
        let series = Series(vec![
            reading(0, Some(scrape(1000.0)), vec![]),
            reading(1, None, vec!["sw_power_cap", "sync_boost"]),
            reading(2, Some(scrape(1500.0)), vec![]),
        ]);
        let from = zero + Duration::from_millis(500);
        let to = zero + Duration::from_secs(2);
        insta::assert_snapshot!(series.to_csv(Window { from, to }), @"
        seconds,running,waiting,kv_cache_usage,preemptions,prefix_cache_queries,prefix_cache_hits,prompt_tokens,generation_tokens,draft_tokens,accepted_tokens,gpu3_power_watts,gpu3_energy_joules,gpu3_utilization,gpu3_memory_gib,gpu3_sm_clock_mhz,gpu3_memory_clock_mhz,gpu3_temperature_celsius,gpu3_throttle,gpu3_other_processes,host_cpu_share,host_load,vsweep_cpu_cores
        -0.5,8,,,,,,,0,,,412.5,0,,1.5,,,,none,,0.3333,,0.5
        0.5,,,,,,,,,,,412.5,300,,1.5,,,,sw_power_cap+sync_boost,,0.3333,,0.5
        1.5,8,,,,,,,500,,,412.5,600,,1.5,,,,none,,0.3333,,0.5
        ");
    }
}
