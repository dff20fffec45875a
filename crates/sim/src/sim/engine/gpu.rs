//! The GPUs that can be stated: peak rates from the vendors' data sheets, dense (without sparsity).

/// One kind of GPU, as one device of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// The name for `--sim-gpu`.
    pub name: &'static str,
    /// The name that a driver reports.
    pub device: &'static str,
    /// Usable memory in bytes.
    pub memory: f64,
    /// Memory bandwidth in bytes per second.
    pub bandwidth: f64,
    /// Peak rate for 16-bit numbers in floating point operations per second.
    pub flops_16: f64,
    /// Peak rate for 8-bit numbers; equal to `flops_16` where the hardware has no such unit.
    pub flops_8: f64,
    /// Bandwidth to the other GPUs of the node, one direction, in bytes per second.
    pub link: f64,
    /// Fixed cost of one collective operation in seconds.
    pub link_latency: f64,
    /// How far the model is off published throughput on it: root mean square of the ratio's logarithm (tests/pure/calibration.rs).
    pub model_error: f64,
}

/// Bytes in a GiB.
pub const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Every GPU that can be stated; the first is the default.
pub const GPUS: [Gpu; 5] = [
    Gpu {
        name: "h100",
        device: "NVIDIA H100 80GB HBM3",
        memory: 79.2 * GIB,
        bandwidth: 3.35e12,
        flops_16: 989e12,
        flops_8: 1979e12,
        link: 450e9,
        link_latency: 8e-6,
        model_error: 0.17,
    },
    Gpu {
        name: "h200",
        device: "NVIDIA H200",
        memory: 139.8 * GIB,
        bandwidth: 4.8e12,
        flops_16: 989e12,
        flops_8: 1979e12,
        link: 450e9,
        link_latency: 8e-6,
        model_error: 0.14,
    },
    Gpu {
        name: "a100",
        device: "NVIDIA A100-SXM4-80GB",
        memory: 79.3 * GIB,
        bandwidth: 2.039e12,
        flops_16: 312e12,
        flops_8: 312e12,
        link: 300e9,
        link_latency: 10e-6,
        model_error: 0.17,
    },
    Gpu {
        name: "l40s",
        device: "NVIDIA L40S",
        memory: 44.5 * GIB,
        bandwidth: 0.864e12,
        flops_16: 362e12,
        flops_8: 733e12,
        link: 28e9,
        link_latency: 25e-6,
        model_error: 0.08,
    },
    Gpu {
        name: "b200",
        device: "NVIDIA B200",
        memory: 178.4 * GIB,
        bandwidth: 8.0e12,
        flops_16: 2250e12,
        flops_8: 4500e12,
        link: 900e9,
        link_latency: 8e-6,
        model_error: 0.63,
    },
];

impl Gpu {
    /// The GPU of this name, in any case.
    pub fn named(name: &str) -> Option<Gpu> {
        GPUS.into_iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name))
    }

    /// The GPU that a driver reports by this name.
    pub fn of_device(name: &str) -> Option<Gpu> {
        GPUS.into_iter().find(|gpu| gpu.device == name)
    }
}
