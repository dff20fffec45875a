//! Reads GPUs under load through NVIDIA's management library (NVML). The library is loaded when it is first needed. Without a driver there
//! are no GPUs. A figure that a GPU does not offer is unknown.

use super::{gpu, host};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};
use std::collections::{BTreeMap, BTreeSet};

/// One GPU at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuReading {
    /// Its number in NVML's order, which is that of the PCI bus.
    pub index: u32,
    /// Power drawn, in watts.
    pub power_watts: Option<f64>,
    /// Energy used since the driver was loaded, in joules (Volta and later).
    pub energy_joules: Option<f64>,
    /// Share of the last sampling period in which a kernel ran, from 0 to 1. A GPU at 1 may still have idle multiprocessors.
    pub utilization: Option<f64>,
    /// Memory in use, in GiB.
    pub memory_gib: Option<f64>,
    /// Clock of the multiprocessors, in MHz.
    pub sm_clock_mhz: Option<f64>,
    /// Clock of the memory, in MHz.
    pub memory_clock_mhz: Option<f64>,
    /// Temperature of the die, in °C.
    pub temperature_celsius: Option<f64>,
    /// Reasons why it is slowed down; empty if it is not. Idling and clocks set by the user do not count.
    pub throttle: Option<Vec<&'static str>>,
    /// Number of processes that compute on it and do not belong to the server.
    pub other_processes: Option<f64>,
}

impl GpuReading {
    /// Returns 1 if the reasons for slowing it down meet a condition, else 0; `None` if the reasons are unknown.
    pub(super) fn slowed_by(&self, holds: impl Fn(&[&'static str]) -> bool) -> Option<f64> {
        Some(f64::from(u8::from(holds(self.throttle.as_ref()?))))
    }
}

/// Reasons for slowing a GPU down, by NVML's names.
const REASONS: [(ThrottleReasons, &str); 6] = [
    (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync_boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake_slowdown"),
];

const GIB: f64 = (1u64 << 30) as f64;

/// Minimum GPU memory, in bytes, of a process with a context. A process with less, such as a server of CUDA's MPS, has no context in which
/// it could compute.
const LEAST_CONTEXT: u64 = 64 << 20;

/// The GPUs of one server.
#[derive(Debug, Default)]
pub struct Gpus {
    driver: Option<Nvml>,
    indices: Vec<u32>,
    /// Processes of the server that are not below vsweep, such as those in a container.
    own: BTreeSet<u32>,
}

impl Gpus {
    /// Returns the GPUs that are visible to a server with this environment. If `count` is known, only the first `count` are returned,
    /// because vLLM takes GPUs in order.
    pub fn of_server(env: &BTreeMap<String, String>, count: Option<usize>) -> Gpus {
        let Ok(driver) = Nvml::init() else {
            return Gpus::default();
        };
        let all: Vec<(u32, String)> = (0..driver.device_count().unwrap_or(0))
            .filter_map(|index| Some((index, driver.device_by_index(index).ok()?.uuid().ok()?)))
            .collect();
        let mut indices = gpu::choose(&all, gpu::visible_devices(env).as_deref());
        indices.truncate(count.unwrap_or(usize::MAX));
        Gpus {
            driver: Some(driver),
            indices,
            own: BTreeSet::new(),
        }
    }

    /// Treats the processes that now compute on the GPUs as the server's, except those in `before`, which ran before the server started.
    pub fn owned_since(self, before: &BTreeSet<u32>) -> Gpus {
        let own = self.processes().difference(before).copied().collect();
        Gpus { own, ..self }
    }

    /// Returns the processes that now compute on the GPUs, by the driver's ids.
    pub fn processes(&self) -> BTreeSet<u32> {
        let devices = self.indices.iter().filter_map(|index| self.device(*index));
        devices.filter_map(|device| processes(&device)).flatten().collect()
    }

    fn device(&self, index: u32) -> Option<Device<'_>> {
        self.driver.as_ref()?.device_by_index(index).ok()
    }

    /// Reads each GPU.
    pub fn read(&self) -> Vec<GpuReading> {
        self.indices.iter().map(|index| self.read_one(*index)).collect()
    }

    fn read_one(&self, index: u32) -> GpuReading {
        let nothing = GpuReading {
            index,
            ..GpuReading::default()
        };
        let Some(gpu) = self.device(index) else {
            return nothing;
        };
        let is_strange = |pid: &u32| !self.own.contains(pid) && !host::is_below_us(*pid);
        let milli = 1e-3;
        let clock = |clock| gpu.clock_info(clock).ok().map(f64::from);
        GpuReading {
            power_watts: gpu.power_usage().ok().map(|power| f64::from(power) * milli),
            energy_joules: gpu.total_energy_consumption().ok().map(|energy| energy as f64 * milli),
            utilization: gpu.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0),
            memory_gib: gpu.memory_info().ok().map(|memory| memory.used as f64 / GIB),
            sm_clock_mhz: clock(Clock::SM),
            memory_clock_mhz: clock(Clock::Memory),
            temperature_celsius: gpu.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            throttle: gpu.current_throttle_reasons().ok().map(name_reasons),
            other_processes: processes(&gpu).map(|all| all.into_iter().filter(is_strange).count() as f64),
            ..nothing
        }
    }
}

/// Returns the processes that compute on a GPU; `None` if they are unknown.
fn processes(gpu: &Device<'_>) -> Option<Vec<u32>> {
    let all = gpu.running_compute_processes().ok()?;
    let has_context = |memory: &UsedGpuMemory| !matches!(memory, UsedGpuMemory::Used(bytes) if *bytes < LEAST_CONTEXT);
    let with_context = all.iter().filter(|process| has_context(&process.used_gpu_memory));
    Some(with_context.map(|process| process.pid).collect())
}

fn name_reasons(reasons: ThrottleReasons) -> Vec<&'static str> {
    let found = REASONS.iter().filter(|(reason, _)| reasons.contains(*reason));
    found.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_gpu_is_not_slowed_down() {
        let idle = ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert_eq!(name_reasons(idle), [""; 0]);
        let hot = idle | ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(name_reasons(hot), ["sw_power_cap", "hw_thermal_slowdown"]);
    }

    #[test]
    fn no_gpus_have_no_readings() {
        assert_eq!(Gpus::default().read(), []);
    }
}
