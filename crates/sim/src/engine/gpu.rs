//! The GPUs that can be simulated: peak rates from the vendors' data sheets, dense (without sparsity).

/// One kind of GPU, as one device of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// Its name in `--sim-gpu`.
    pub name: &'static str,
    /// The name that a driver reports.
    pub device: &'static str,
    /// Usable memory in bytes.
    pub memory: f64,
    /// Memory bandwidth in bytes per second.
    pub bandwidth: f64,
    /// Peak rate for 16-bit numbers in floating point operations per second.
    pub flops_16: f64,
    /// Peak rate for 8-bit floating point numbers; equal to `flops_16` if the hardware has no unit for them.
    pub flops_8: f64,
    /// Bandwidth to the other GPUs of the node, one direction, in bytes per second.
    pub link: f64,
    /// Fixed cost of one collective operation in seconds.
    pub link_latency: f64,
    /// Error of the engine model against published throughput on this GPU: root mean square of the ratio's logarithm
    /// (tests/pure/calibration.rs).
    pub model_error: f64,
}

/// Bytes in a GiB.
pub const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

const fn gpu(name: &'static str, device: &'static str, figures: [f64; 7]) -> Gpu {
    let [gib, bandwidth, flops_16, flops_8, link, link_latency, model_error] = figures;
    Gpu {
        name,
        device,
        memory: gib * GIB,
        bandwidth,
        flops_16,
        flops_8,
        link,
        link_latency,
        model_error,
    }
}

/// Declares one GPU on each line: its two names, its memory in GiB, and its other figures in the order of the fields.
macro_rules! gpus {
    ($($name:literal $device:literal $($figure:literal)+;)+) => { [$(gpu($name, $device, [$($figure),+])),+] };
}

/// Every GPU that can be simulated; the first is the default.
pub const GPUS: [Gpu; 5] = gpus! {
    "h100" "NVIDIA H100 80GB HBM3" 79.2  3.35e12  989e12  1979e12 450e9 8e-6  0.17;
    "h200" "NVIDIA H200"           139.8 4.8e12   989e12  1979e12 450e9 8e-6  0.14;
    "a100" "NVIDIA A100-SXM4-80GB" 79.3  2.039e12 312e12  312e12  300e9 10e-6 0.17;
    "l40s" "NVIDIA L40S"           44.5  0.864e12 362e12  733e12  28e9  25e-6 0.08;
    "b200" "NVIDIA B200"           178.4 8.0e12   2250e12 4500e12 900e9 8e-6  0.63;
};

impl Gpu {
    /// Returns the GPU of this name; upper and lower case are the same.
    pub fn named(name: &str) -> Option<Gpu> {
        GPUS.into_iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name))
    }

    /// Returns the GPU that a driver reports by this name.
    pub fn of_device(name: &str) -> Option<Gpu> {
        GPUS.into_iter().find(|gpu| gpu.device == name)
    }
}
