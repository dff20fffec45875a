//! The start of a server, as far as it can fail: the port, the phases of loading a model that is not there, the memory
//! it would need, and vLLM's words for what goes wrong.

use super::api;
use super::engine::memory::{Memory, Misfit};
use super::fault::Fault;
use super::log::{self, Source};
use super::settings::Settings;
use std::net::ToSocketAddrs;
use tokio::net::TcpSocket;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Prints an exception as Python does and gives the exit code it ends in.
pub fn fail(file: &str, exception: &str) -> u8 {
    log::traceback(file, exception);
    1
}

/// Takes the port without listening yet, as vLLM does: until the server is ready, connections are refused.
pub fn bind(settings: &Settings) -> Result<TcpSocket, u8> {
    let taken = |error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::AddrInUse => "OSError: [Errno 98] Address already in use".to_string(),
        _ => format!("OSError: {error}"),
    };
    let bind = || {
        if settings.has(Fault::PortTaken) {
            return Err(std::io::ErrorKind::AddrInUse.into());
        }
        let mut addresses = (settings.host.as_str(), settings.port).to_socket_addrs()?;
        let address = addresses.next().ok_or(std::io::ErrorKind::AddrNotAvailable)?;
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error: std::io::Error| fail("vllm/entrypoints/launchers/launcher.py", &taken(&error)))
}

pub fn initialization_failed() -> u8 {
    fail(
        "vllm/v1/engine/utils.py",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}",
    )
}

/// The engine's exception, on stderr as vLLM logs it, and then the API server's.
fn engine_failed(pid: u32, exception: &str) -> u8 {
    log::line(
        Source::Engine(pid),
        "ERROR",
        "core.py:1240",
        &format!("EngineCore failed to start.\n{exception}"),
    );
    eprintln!("(EngineCore pid={pid}) {exception}");
    initialization_failed()
}

/// Loads the model that is not there: phases of the stated duration, and the failures that belong to them.
pub async fn load(settings: &mut Settings, pid: u32) -> Result<(), u8> {
    let total = settings.start;
    let engine = |place: &str, message: &str| log::line(Source::Engine(pid), "INFO", place, message);
    log::api(
        "model.py:2152",
        &format!("Using max model len {}", settings.limits.max_model_len),
    );
    if settings.data_parallel > 1 {
        log::line(
            Source::Api,
            "WARNING",
            "simulator",
            "data_parallel_size is accepted and has no effect here",
        );
    }
    tokio::time::sleep(total.mul_f64(0.3)).await;
    let (model, gpu) = (&settings.model, settings.cost.gpu.device);
    engine(
        "core.py:133",
        &format!(
            "Initializing a V1 LLM engine (v{}) with config: model='{model}'",
            api::VERSION
        ),
    );
    engine(
        "gpu_model_runner.py:5080",
        &format!("Starting to load model {model} on simulated {gpu}..."),
    );
    tokio::time::sleep(total.mul_f64(0.3)).await;

    let (mut cost, mut budget) = (settings.cost.clone(), settings.budget());
    for fault in &settings.faults {
        match fault {
            Fault::BadExit(code) => return Err(*code),
            Fault::CrashAtStart => {
                return Err(engine_failed(
                    pid,
                    "RuntimeError: the simulator was told to crash at start",
                ));
            }
            Fault::OomAtLoad => cost.model.parameters *= 1e6,
            Fault::KvTooSmall => budget.num_gpu_blocks_override = Some(1),
            _ => {}
        }
    }
    let memory = Memory::plan(&cost, &budget);
    let memory = memory.map_err(|misfit| {
        engine_failed(
            pid,
            &match misfit {
                Misfit::OutOfMemory(message) => format!("torch.OutOfMemoryError: {message}"),
                Misfit::KvCache(message) => format!("ValueError: {message}"),
            },
        )
    })?;
    let weights = memory.weights / GIB;
    let seconds = total.mul_f64(0.3).as_secs_f64();
    engine(
        "gpu_model_runner.py:5150",
        &format!("Model loading took {weights:.2} GiB memory and {seconds:.6} seconds"),
    );
    tokio::time::sleep(total.mul_f64(0.2)).await;
    engine(
        "gpu_worker.py:760",
        &format!("Available KV cache memory: {:.2} GiB", memory.kv / GIB),
    );
    let tokens = memory.blocks * settings.limits.block_size;
    let longest = settings.limits.max_model_len;
    let (size, length) = (thousands(tokens), thousands(longest));
    let concurrency = tokens as f64 / longest as f64;
    engine(
        "kv_cache_utils.py:2327",
        &format!(
            "GPU KV cache size: {size} tokens, Maximum concurrency for {length} tokens per request: {concurrency:.2}x"
        ),
    );
    tokio::time::sleep(total.mul_f64(0.2)).await;
    if settings.has(Fault::NeverReady) {
        std::future::pending::<()>().await;
    }
    let seconds = total.mul_f64(0.4).as_secs_f64();
    engine(
        "core.py:402",
        &format!("init engine (profile, create kv cache, warmup model) took {seconds:.2} s"),
    );
    settings.limits.num_blocks = memory.blocks;
    if settings.has(Fault::WrongModel) {
        settings.served_names = vec!["another-model".into()];
    }
    Ok(())
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let groups = digits.as_bytes()[first..]
        .chunks(3)
        .map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (first > 0).then(|| digits[..first].to_string());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}
