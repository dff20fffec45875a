//! The server process, as a supervisor sees `vllm serve`: arguments, port, start-up in phases with log lines, the engine process, serving,
//! signals, and every way to end.

use super::api::{self, App};
use super::child::{EngineProcess, Role};
use super::config_file;
use super::driver::{EngineEvent, EngineHandle, TimedFault, Truth};
use super::fault::{self, Fault};
use super::flags::{self, Flags, Refusal};
use super::log;
use super::neighbours::Neighbour;
use super::settings::ServerSettings;
use super::start::{self, fail};
use super::tokenizer::Tokenizer;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

/// Time for which a server still answers after its engine has died, then time until it ends (measured: 3.4 s, and 5.5 s in all).
const AFTER_ENGINE_DEATH: (Duration, Duration) = (Duration::from_millis(3400), Duration::from_millis(2100));
/// Time limit for sending the last bytes of open connections.
const LAST_BYTES: Duration = Duration::from_millis(500);

const HELP: &str = "\
usage: vsweep sim serve [model_tag] [options]

Serves a simulated model. Takes every flag of `vllm serve`, and its own:
";

const EXAMPLE: &str = "\
Example:
  vsweep sim serve demo-8b --port 8000 --tensor-parallel-size 2 --sim-speed 10";

/// Number of faults in a line of the help.
const FAULTS_IN_A_LINE: usize = 4;

/// Runs the server until it ends, and returns its exit code.
pub fn serve(args: &[String]) -> u8 {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        let faults = fault::forms();
        let faults: Vec<String> = faults.chunks(FAULTS_IN_A_LINE).map(|line| line.join(", ")).collect();
        let (flags, faults) = (flags::help(), faults.join(",\n  "));
        let _ = writeln!(std::io::stdout(), "{HELP}\n{flags}\nFaults:\n  {faults}\n\n{EXAMPLE}");
        return 0;
    }
    let settings = config_file::expand(args).and_then(|args| {
        let flags = Flags::parse(&args)?;
        banner(&flags);
        ServerSettings::resolve(&flags, &|name| std::env::var(name).ok())
    });
    let settings = match settings {
        Ok(settings) => settings,
        Err(Refusal::Usage(text)) => {
            log::error(text);
            return 2;
        }
        Err(Refusal::Exception(file, exception)) => return fail(file, &exception),
    };
    raise_file_limit();
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(1, 4));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail("vllm/entrypoints/cli/main.py", &format!("OSError: {error}")),
    };
    let code = runtime.block_on(run_server(settings)).unwrap_or_else(|code| code);
    // Open connections must not delay the end.
    runtime.shutdown_background();
    code
}

/// Raises the limit of open files, as vLLM does, because every connection is an open file.
fn raise_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn banner(flags: &Flags) {
    let (version, model) = (api::VERSION, flags.model().unwrap_or_default());
    let art = format!(
        "\n       █     █     █▄   ▄█\n ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version} (vsweep simulator)\n  █▄█▀ █     █     █     \
         █  model   {model}\n   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀\n"
    );
    log::api("api_utils.py:347", &art);
    let message = format!("non-default args: {}", flags.non_default());
    log::api("api_utils.py:286", &message);
}

fn os_error(error: std::io::Error) -> u8 {
    fail("vllm/entrypoints/launchers/launcher.py", &format!("OSError: {error}"))
}

/// Runs the server and returns its exit code; as `Err`, if its start failed or was stopped.
async fn run_server(settings: ServerSettings) -> Result<u8, u8> {
    let stops = Stops::listen(settings.has(Fault::IgnoreTerm)).map_err(os_error)?;
    let socket = match settings.is_headless {
        true => None,
        false => Some(start::bind(&settings)?),
    };
    let mut engine = EngineProcess::spawn(Role::Engine).map_err(os_error)?;
    let code = run_with_engine(&mut engine, settings, socket, stops).await;
    engine.stop().await;
    code
}

/// Starts and runs the server next to its engine process.
async fn run_with_engine(
    engine: &mut EngineProcess,
    mut settings: ServerSettings,
    socket: Option<TcpSocket>,
    mut stops: Stops,
) -> Result<u8, u8> {
    let tokenizer = Tokenizer::of(&settings.model);
    let tokenizer = tokenizer.map_err(|error| fail("vllm/tokenizers/hf.py", &format!("ValueError: {error}")))?;
    if settings.has(Fault::LeakChild) {
        EngineProcess::spawn(Role::Stray).map_err(os_error)?;
    }
    let neighbour = Neighbour::starting(settings.node.as_deref(), settings.cross_talk);
    tokio::select! {
        started = start::load(&mut settings, engine.pid()) => started?,
        () = stops.recv() => return Err(0),
        () = engine.ended() => return Err(start::initialization_failed()),
    }
    let Some(socket) = socket else {
        return tokio::select! {
            () = stops.recv() => Ok(0),
            () = engine.ended() => Ok(1),
        };
    };
    let (driver, due_faults) = start_driver(&settings, tokenizer.vocabulary()).map_err(os_error)?;
    let listener = socket.listen(4096).map_err(os_error)?;
    let contention = settings.contention.clone();
    let app = Arc::new(app(settings, driver, tokenizer));
    if let Some(neighbour) = neighbour {
        let app = app.clone();
        let is_busy = move || app.in_flight.load(Ordering::Relaxed) > 0;
        tokio::spawn(neighbour.live(contention, is_busy));
    }
    Ok(run(app, listener, engine, stops, due_faults).await)
}

fn start_driver(
    settings: &ServerSettings,
    vocabulary: u32,
) -> std::io::Result<(EngineHandle, UnboundedReceiver<TimedFault>)> {
    let truth = settings.truth.as_deref().map(Truth::create).transpose()?;
    let (sender, due_faults) = unbounded_channel();
    let mut pending_faults = Vec::new();
    for fault in &settings.faults {
        match *fault {
            Fault::AfterRequests(timed, after) => pending_faults.push((after, timed)),
            Fault::AfterTime(timed, time) => {
                let sender = sender.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    let _ = sender.send(timed);
                });
            }
            _ => {}
        }
    }
    let replicas = 0..settings.cost.data_parallel as u64;
    let engines = replicas.map(|replica| settings.engine(vocabulary, replica)).collect();
    Ok((EngineHandle::start(engines, truth, pending_faults, sender)?, due_faults))
}

fn app(settings: ServerSettings, driver: EngineHandle, tokenizer: Tokenizer) -> App {
    App {
        fingerprint: format!("vllm-{}-{:08x}", api::VERSION, settings.server as u32),
        settings,
        tokenizer,
        driver,
        is_engine_dead: AtomicBool::new(false),
        is_mute: AtomicBool::new(false),
        is_paused: AtomicBool::new(false),
        is_draining: watch::Sender::new(false),
        requests: AtomicU64::new(0),
        in_flight: AtomicU64::new(0),
        resets: AtomicU64::new(0),
        started: (api::unix_seconds() * 100.0).round() / 100.0,
    }
}

/// The signals that stop the server.
struct Stops {
    terminate: Signal,
    interrupt: Signal,
    ignored: bool,
}

impl Stops {
    /// Receives the signals from now on. If `ignored` is true, they have no effect.
    fn listen(ignored: bool) -> std::io::Result<Stops> {
        Ok(Stops {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            ignored,
        })
    }

    /// Waits for the first signal; for ever if signals are ignored.
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        if self.ignored {
            std::future::pending().await
        }
    }
}

/// Serves until a signal, the engine's death or a fault ends it; returns the exit code.
async fn run(
    app: Arc<App>,
    listener: TcpListener,
    engine: &mut EngineProcess,
    mut stops: Stops,
    mut due_faults: UnboundedReceiver<TimedFault>,
) -> u8 {
    if let Ok(address) = listener.local_addr() {
        log::api("entry.py:140", &format!("Starting vLLM server on http://{address}"));
    }
    log::uvicorn(&format!("Started server process [{}]", std::process::id()));
    log::uvicorn("Waiting for application startup.");
    log::uvicorn("Application startup complete.");
    let mut watched = true;
    let (close, closed) = watch::channel(false);
    let server = tokio::spawn(serve_http(app.clone(), listener, closed));
    let code = loop {
        tokio::select! {
            () = stops.recv() => {
                stop(&app, engine).await;
                break 0;
            }
            () = engine.ended(), if watched => {
                fail_after_engine_death(&app).await;
                break 0;
            }
            Some(timed) = due_faults.recv() => match timed {
                TimedFault::Crash => {
                    engine.kill().await;
                    return fail("vllm/entrypoints/cli/main.py", "RuntimeError: the simulator was set to crash");
                }
                TimedFault::OutOfMemory => {
                    let exception = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has 1.12 GiB \
                                     of memory that is free.";
                    log::line(Some(engine.pid()), "ERROR", "core.py:1249", &format!("EngineCore encountered a fatal error.\n{exception}"));
                    log::error(format_args!("(EngineCore pid={}) {exception}", engine.pid()));
                    engine.kill().await;
                }
                TimedFault::EngineDeath => engine.kill().await,
                TimedFault::EngineLost => {
                    watched = false;
                    app.driver.hang();
                    engine.kill().await;
                }
                TimedFault::Hang => app.driver.hang(),
                TimedFault::Mute => app.is_mute.store(true, Ordering::Relaxed),
            },
        }
    };
    log::uvicorn("Shutting down");
    let _ = close.send(true);
    let _ = tokio::time::timeout(LAST_BYTES, server).await;
    if app.is_engine_dead.load(Ordering::Relaxed) {
        tokio::time::sleep(AFTER_ENGINE_DEATH.1).await;
    }
    log::uvicorn("Application shutdown complete.");
    code
}

async fn serve_http(app: Arc<App>, listener: TcpListener, mut closed: watch::Receiver<bool>) {
    use axum::serve::ListenerExt;
    let listener = listener.tap_io(|stream| {
        // With Nagle's algorithm, a token would wait for the acknowledgement of the previous one.
        let _ = stream.set_nodelay(true);
    });
    let service = api::router(app).into_make_service_with_connect_info::<SocketAddr>();
    let shutdown = async move {
        let _ = closed.wait_for(|closed| *closed).await;
    };
    let _ = axum::serve(listener, service).with_graceful_shutdown(shutdown).await;
}

/// Stops the server: requests in flight get their grace period and are then aborted, and the engine process is ended.
async fn stop(app: &App, engine: &mut EngineProcess) {
    let grace = app.settings.shutdown_timeout;
    log::api("launcher.py:254", "[shutdown] API server: shutdown triggered");
    let mode = if grace.is_zero() { "abort" } else { "drain" };
    let timeout = grace.as_secs();
    let message = format!("[shutdown] API server: stopping engine client mode={mode} timeout={timeout}s");
    log::api("launcher.py:270", &message);
    let idle = async {
        while app.in_flight.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(grace, idle).await;
    if app.settings.has(Fault::HangOnTerm) && app.in_flight.load(Ordering::Relaxed) > 0 {
        app.driver.pause(true);
        engine.kill().await;
        log::uvicorn("Shutting down");
        log::uvicorn("Waiting for connections to close. (CTRL+C to force quit)");
        std::future::pending::<()>().await;
    }
    app.driver.end(EngineEvent::Aborted);
    log::api(
        "utils.py:628",
        "[shutdown] Process manager: send sigterm to process EngineCore",
    );
    engine.stop().await;
}

/// Imitates vLLM after its engine has died: answers every request with an error, and `/health` with 503, for some seconds.
async fn fail_after_engine_death(app: &App) {
    app.is_engine_dead.store(true, Ordering::Relaxed);
    app.driver.end(EngineEvent::EngineDead);
    log::line(
        None,
        "WARNING",
        "core_client.py:817",
        "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
    );
    log::line(
        None,
        "ERROR",
        "async_llm.py:906",
        "AsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See \
         stack trace (above) for the root cause.",
    );
    tokio::time::sleep(AFTER_ENGINE_DEATH.0).await;
}
