//! The file of a run: its result with parameters and the content of its lines, with a checksum of its own. It is a commit by itself: the
//! content of a lost line can be read here.

use super::declared::ServerDeclared;
use super::event::{RunFinished, RunStarted};
use super::line::{sealed, sum_of};
use super::rank::{LineId, Rank};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vsweep_metrics::RunResult;
use vsweep_plan::{Secrets, spelling};

/// The key of what its lines say.
pub(super) const PROVENANCE: &str = "vsweep";

/// The result of a benchmark, and the kind of server.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The result of the benchmark.
    pub result: RunResult,
    /// True if the server was the simulator.
    pub simulated: bool,
}

/// The content of a run's lines.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Provenance {
    /// Its `run_started`.
    pub line: LineId,
    /// The rank of that line.
    pub lamport: u64,
    /// Time of writing.
    pub at: String,
    pub started: RunStarted,
    pub server: ServerDeclared,
    pub finished: RunFinished,
}

impl Provenance {
    /// Rank of the line that began the run.
    pub fn rank(&self) -> Rank {
        Rank {
            lamport: self.lamport,
            line: self.line,
        }
    }

    /// Reads the content of the lines from a run file; `None` if it is damaged.
    pub fn read(content: &[u8]) -> Option<(Provenance, bool)> {
        #[derive(Deserialize)]
        struct Part {
            simulated: bool,
            vsweep: Provenance,
        }
        sum_of(content)?;
        let part: Part = serde_json::from_str(std::str::from_utf8(content).ok()?).ok()?;
        Some((part.vsweep, part.simulated))
    }
}

/// The content of a run's file: the result, then the parameters; one never overwrites a figure of the same name.
/// Whatever holds a secret is written without it.
pub(super) fn encode(provenance: &Provenance, measured: Measured, secrets: &Secrets) -> Vec<u8> {
    let mut result = measured.result;
    result.values = secrets.redact_result(&result.values);
    let file = &mut result.values;
    // Readers take everything before `run_number` for the result, so a result's own key of that name must not stay.
    for key in ["run_number", "simulated", PROVENANCE, "sum"] {
        file.shift_remove(key);
    }
    let started = &provenance.started;
    file.insert("run_number".into(), started.run.into());
    file.insert("simulated".into(), measured.simulated.into());
    let (bench_params, server_params) = (&started.params, &provenance.server.params);
    let mut keep = |key: String, value: &Value| {
        file.entry(key).or_insert_with(|| value.clone());
    };
    for (key, value) in server_params
        .iter()
        .chain(bench_params)
        .filter(|(key, _)| *key != "sum")
    {
        keep(key.clone(), value);
    }
    // The plain name says only one side's value where both have it.
    for (key, value) in server_params {
        if let Some(other) = spelling::find(bench_params, key) {
            keep(format!("serve.{key}"), value);
            keep(format!("bench.{key}"), other);
        }
    }
    let mut content = serde_json::to_vec(&result).expect("a JSON object always serialises");
    content.pop();
    content.extend_from_slice(format!(",\"{PROVENANCE}\":").as_bytes());
    serde_json::to_writer(&mut content, provenance).expect("plain data always serialises");
    // Columns are texts of servers too.
    sealed(secrets.redact_json(content)).0
}
