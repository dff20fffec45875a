//! Log lines in vLLM's format, on standard output, and tracebacks, on standard error. Write errors are ignored.

use std::io::Write;

/// Writes `(APIServer pid=1) INFO 11-20 10:06:33 [file.py:1] message`, one such line for each line of the message. The origin is the engine
/// process with the pid `engine`; without one, it is the API server, which is this process.
pub fn line(engine: Option<u32>, level: &str, location: &str, message: &str) {
    let now = jiff::Zoned::now().strftime("%m-%d %H:%M:%S").to_string();
    let (name, pid) = match engine {
        None => ("APIServer", std::process::id()),
        Some(pid) => ("EngineCore", pid),
    };
    let mut out = std::io::stdout().lock();
    for text in message.split('\n') {
        let _ = writeln!(out, "({name} pid={pid}) {level} {now} [{location}] {text}");
    }
}

/// Writes an INFO line of the API server.
pub fn api(location: &str, message: &str) {
    line(None, "INFO", location, message);
}

/// Writes a line of uvicorn, which has no prefix.
pub fn uvicorn(message: &str) {
    let _ = writeln!(std::io::stdout().lock(), "INFO:     {message}");
}

/// Writes a text to standard error, unchanged.
pub fn error(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Writes a short form of Python's output for an uncaught exception: the last frame and the exception.
pub fn traceback(file: &str, exception: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(
        err,
        "Traceback (most recent call last):\n  File \"{file}\", line 1, in <module>\n{exception}"
    );
}
