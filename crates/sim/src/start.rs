//! The simulated start of a server: its port, the phases of loading a model, the memory that the model would need, and vLLM's messages for
//! failures. No model is loaded.

use super::api;
use super::engine::gpu::GIB;
use super::engine::memory::{Misfit, kv_blocks, out_of_memory};
use super::fault::Fault;
use super::gpus::{self, Holding};
use super::log;
use super::phases::StartPhases;
use super::settings::ServerSettings;
use std::net::ToSocketAddrs;
use std::path::Path;
use tokio::net::TcpSocket;
use tokio::time::sleep;
use vsweep_base::files::process_started;
use vsweep_base::units::show_count;

/// Prints an exception as Python does, and returns the exit code 1.
pub fn fail(file: &str, exception: &str) -> u8 {
    log::traceback(file, exception);
    1
}

/// Binds the port without listening yet, as vLLM does, so connections are refused until the server is ready. `Err` is the exit code.
pub fn bind(settings: &ServerSettings) -> Result<TcpSocket, u8> {
    let message = |error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::AddrInUse => "OSError: [Errno 98] Address already in use".to_string(),
        _ => format!("OSError: {error}"),
    };
    let bind = || {
        if settings.has(Fault::PortTaken) {
            return Err(std::io::ErrorKind::AddrInUse.into());
        }
        let mut addresses = (settings.host.as_str(), settings.port).to_socket_addrs()?;
        let address = addresses.next().ok_or(std::io::ErrorKind::AddrNotAvailable)?;
        let socket = match address.is_ipv4() {
            true => TcpSocket::new_v4()?,
            false => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error: std::io::Error| fail("vllm/entrypoints/launchers/launcher.py", &message(&error)))
}

/// Prints the API server's exception after its engine failed to start, and returns the exit code.
pub fn initialization_failed() -> u8 {
    fail(
        "vllm/v1/engine/utils.py",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}",
    )
}

/// Prints the engine's exception as vLLM logs it, then the API server's, and returns the exit code.
fn engine_failed(pid: u32, exception: &str) -> u8 {
    let message = format!("EngineCore failed to start.\n{exception}");
    log::line(Some(pid), "ERROR", "core.py:1240", &message);
    log::error(format_args!("(EngineCore pid={pid}) {exception}"));
    initialization_failed()
}

/// Simulates loading the model: the phases with their durations, log lines and failures. `Err` is the exit code.
pub async fn load(settings: &mut ServerSettings, pid: u32) -> Result<(), u8> {
    let (cache, phases) = (settings.graph_cache(), settings.phases());
    let info = |place: &str, message: &str| log::line(Some(pid), "INFO", place, message);
    let failed = |exception: String| engine_failed(pid, &exception);

    sleep(phases.import).await;
    let (model, gpu) = (&settings.model, settings.cost.gpu.device);
    let version = api::VERSION;
    let message = format!("Initializing a V1 LLM engine (v{version}) with config: model='{model}'");
    info("core.py:133", &message);
    check_free_memory(settings, pid).map_err(failed)?;
    let message = format!("Starting to load model {model} on simulated {gpu}...");
    info("gpu_model_runner.py:5080", &message);
    sleep(phases.weights).await;
    for fault in &settings.faults {
        match fault {
            Fault::BadExit(code) => return Err(*code),
            Fault::CrashAtStart => return Err(failed("RuntimeError: the simulator was set to crash at start".into())),
            _ => {}
        }
    }
    let blocks = plan_memory(settings).map_err(failed)?;
    let weights = settings.cost.weights_per_gpu();
    let (gib, seconds) = (weights / GIB, phases.weights.as_secs_f64());
    let message = format!("Loading weights took {seconds:.2} seconds");
    info("default_loader.py:501", &message);
    let message = format!("Model loading took {gib:.2} GiB memory and {seconds:.6} seconds");
    info("gpu_model_runner.py:5150", &message);
    hold_memory(settings, pid);

    if !settings.cost.eager {
        compile(settings, &phases, cache.as_deref(), &info).await;
    }
    sleep(phases.profile).await;
    if settings.has(Fault::OomAtProfile) {
        let why = out_of_memory("the weights need", weights, settings.cost.gpu.memory);
        return Err(failed(format!("torch.OutOfMemoryError: {why}")));
    }
    let tokens = blocks * settings.limits.block_size;
    let longest = settings.limits.max_model_len;
    let (size, length) = (show_count(tokens as u64), show_count(longest as u64));
    let concurrency = tokens as f64 / longest as f64;
    let message = format!(
        "GPU KV cache size: {size} tokens, Maximum concurrency for {length} tokens per request: {concurrency:.2}x"
    );
    info("kv_cache_utils.py:2327", &message);
    if settings.has(Fault::NeverReady) {
        std::future::pending::<()>().await;
    }
    sleep(phases.capture).await;
    if !settings.cost.eager {
        let seconds = phases.capture.as_secs_f64();
        let message = format!("Graph capturing finished in {seconds:.0} secs, took 0.55 GiB");
        info("gpu_model_runner.py:6582", &message);
    }
    let seconds = (phases.compile + phases.profile + phases.capture).as_secs_f64();
    let message = format!("init engine (profile, create kv cache, warmup model) took {seconds:.2} s");
    info("core.py:402", &message);
    settings.limits.num_blocks = blocks;
    if settings.has(Fault::WrongModel) {
        settings.model = "another-model".to_owned();
        settings.served_names = vec![settings.model.clone()];
    }
    Ok(())
}

async fn compile(settings: &ServerSettings, phases: &StartPhases, cache: Option<&Path>, info: &impl Fn(&str, &str)) {
    let warm = cache.is_some_and(Path::is_file);
    let largest = settings.limits.max_num_batched_tokens;
    let seconds = phases.compile.as_secs_f64();
    let (dynamo, rest) = (0.3 * seconds, 0.7 * seconds);
    sleep(phases.compile).await;
    let message = format!("Dynamo bytecode transform time: {dynamo:.2} s");
    info("backends.py:1167", &message);
    let done = match warm {
        true => format!(
            "Directly load the compiled graph(s) for compile range (1, {largest}) from the cache, took {rest:.3} s"
        ),
        false => format!("Compiling a graph for compile range (1, {largest}) takes {rest:.2} s"),
    };
    info("backends.py:399", &done);
    if let Some(path) = cache.filter(|_| !warm) {
        // If the file cannot be written, the next start compiles again.
        let _ = path.parent().map(std::fs::create_dir_all).transpose();
        let _ = std::fs::write(path, &settings.model);
    }
}

/// Returns the number of KV blocks, or vLLM's exception if the model does not fit.
fn plan_memory(settings: &ServerSettings) -> Result<usize, String> {
    let (mut cost, mut limits) = (settings.cost.clone(), settings.limits.clone());
    if settings.has(Fault::OomAtLoad) {
        while !matches!(kv_blocks(&cost, &limits), Err(Misfit::OutOfMemory(_))) {
            cost.model.parameters *= 2.0;
        }
    }
    if settings.has(Fault::KvTooSmall) {
        limits.num_gpu_blocks_override = Some(1);
    }
    kv_blocks(&cost, &limits).map_err(|misfit| match misfit {
        Misfit::OutOfMemory(message) => format!("torch.OutOfMemoryError: {message}"),
        Misfit::KvCache(message) => format!("ValueError: {message}"),
    })
}

/// Checks, as vLLM does at first, that other processes leave enough GPU memory free.
fn check_free_memory(settings: &ServerSettings, pid: u32) -> Result<(), String> {
    let Some(folder) = &settings.node else { return Ok(()) };
    let devices = gpus::devices(settings.devices.as_deref(), settings.gpus());
    let total = settings.cost.gpu.memory;
    let free = total - gpus::taken(folder, &devices, pid);
    let wanted = total * settings.limits.gpu_memory_utilization;
    if free >= wanted {
        return Ok(());
    }
    Err(format!(
        "ValueError: Free memory on device cuda:0 ({:.2}/{:.1} GiB) on startup is less than desired GPU memory utilization \
         ({}, {:.2} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        free / GIB,
        total / GIB,
        settings.limits.gpu_memory_utilization,
        wanted / GIB,
    ))
}

/// Records that the engine holds its share of GPU memory from now on.
fn hold_memory(settings: &ServerSettings, pid: u32) {
    let Some(folder) = &settings.node else { return };
    let late = settings.faults.iter().find_map(|fault| match fault {
        Fault::LateRelease(time) => Some(time.as_millis() as u64),
        _ => None,
    });
    let holding = Holding {
        pid,
        started: process_started(pid),
        gpu: settings.cost.gpu.name.to_owned(),
        devices: gpus::devices(settings.devices.as_deref(), settings.gpus()),
        mib: (settings.cost.gpu.memory * settings.limits.gpu_memory_utilization / (1024.0 * 1024.0)) as u64,
        late_ms: late.unwrap_or_default(),
    };
    if let Err(error) = holding.write(folder) {
        let folder = folder.display();
        let message = format!("cannot note GPU memory in {folder}: {error}: make the folder writable");
        log::line(None, "WARNING", "simulator", &message);
    }
}
