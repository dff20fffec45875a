//! The clients that are compared: their arguments for a workload, and the reader of their result files.

use super::process::{Cost, Server, cost};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

/// The load of one run.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    pub requests: usize,
    pub streams: usize,
    /// Tokens of each answer.
    pub tokens: usize,
}

/// A program that can send the load.
#[derive(Debug, Clone)]
pub enum Client {
    /// The minimal client in `floor.rs`.
    Floor,
    /// This package's `vsweep bench`.
    Vsweep,
    /// `vllm bench serve`: the Rust program or the Python one.
    Vllm { name: &'static str, program: PathBuf },
    /// A client that is not part of vLLM.
    Foreign { client: Foreign, program: PathBuf },
}

/// Cost and result of a run.
pub struct Figures {
    pub cost: Cost,
    /// The result, with the keys of `vllm bench serve`.
    pub result: Value,
    /// The server's own measurements of the run.
    pub truth: Value,
}

impl Client {
    pub fn name(&self) -> &'static str {
        match self {
            Client::Floor => "floor",
            Client::Vsweep => "vsweep",
            Client::Vllm { name, .. } => name,
            Client::Foreign { client, .. } => client.name(),
        }
    }

    /// Performs the workload once. Returns `None` if the client failed or did not complete all requests.
    pub fn run(&self, server: &Server, workload: Workload) -> io::Result<Option<Figures>> {
        let file = std::env::temp_dir().join(format!("vsweep-bench-{}.json", std::process::id()));
        let _ = std::fs::remove_file(&file);
        server.truth()?;
        let Some(cost) = cost(&self.command(server, workload, &file)?)? else {
            return Ok(None);
        };
        let truth = server.truth()?;
        let text = std::fs::read_to_string(&file)?;
        let _ = std::fs::remove_file(&file);
        let mut result: Value = serde_json::from_str(&text).map_err(io::Error::other)?;
        if let Client::Foreign { client, .. } = self {
            result = client.figures(&result);
        }
        let is_complete = result["completed"] == workload.requests;
        Ok(is_complete.then_some(Figures { cost, result, truth }))
    }

    fn command(&self, server: &Server, workload: Workload, file: &PathBuf) -> io::Result<Vec<String>> {
        let Workload {
            requests,
            streams,
            tokens,
        } = workload;
        let own = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let path = |path: &PathBuf| path.display().to_string();
        let mut command = match self {
            Client::Floor => {
                let numbers = [requests, streams, tokens].map(|number| number.to_string());
                let program = path(&std::env::current_exe()?);
                return Ok([&own(&[&program, "floor", &server.address])[..], &numbers, &[path(file)]].concat());
            }
            Client::Foreign { client, program } => {
                let arguments = client.arguments(&server.address, &tokenizer()?, workload, file);
                return Ok([&[path(program)][..], &arguments].concat());
            }
            Client::Vsweep => own(&[env!("CARGO_BIN_EXE_vsweep"), "bench"]),
            Client::Vllm { name, program } => {
                let mut command = own(&[&path(program), "bench", "serve", "--disable-tqdm", "--tokenizer"]);
                command.push(path(&tokenizer()?));
                // The Python client can only send texts.
                command.extend((*name == "vllm-rs").then(|| "--prompt-token-ids".to_owned()));
                command
            }
        };
        let flags = [
            ("--backend", "openai".to_owned()),
            ("--base-url", format!("http://{}", server.address)),
            ("--model", "m".to_owned()),
            ("--dataset-name", "random".to_owned()),
            ("--random-input-len", "8".to_owned()),
            ("--random-output-len", tokens.to_string()),
            ("--num-prompts", requests.to_string()),
            ("--max-concurrency", streams.to_string()),
            ("--percentile-metrics", "ttft,tpot,itl".to_owned()),
            ("--metric-percentiles", "50,99".to_owned()),
            ("--result-dir", path(&std::env::temp_dir())),
            (
                "--result-filename",
                file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            ),
        ];
        command.extend(flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
        command.extend(own(&["--ignore-eos", "--save-result"]));
        Ok(command)
    }
}

/// A client with its own flags and result files.
#[derive(Debug, Clone, Copy)]
pub enum Foreign {
    /// `guidellm run` of guidellm 0.8.
    Guidellm,
    /// `aiperf profile` of aiperf 0.13.
    Aiperf,
}

impl Foreign {
    pub fn name(self) -> &'static str {
        match self {
            Foreign::Guidellm => "guidellm",
            Foreign::Aiperf => "aiperf",
        }
    }

    /// The arguments after the program's name. The result is written to `file`.
    pub fn arguments(self, address: &str, tokenizer: &Path, workload: Workload, file: &Path) -> Vec<String> {
        let Workload {
            requests,
            streams,
            tokens,
        } = workload;
        let (tokenizer, file_name) = (tokenizer.display(), file.display());
        let line = match self {
            Foreign::Guidellm => format!(
                "run --backend kind=openai_http,target=http://{address},model=m,validate_backend=false,\
                 request_format=/v1/completions --profile kind=concurrent,streams={streams} --constraint \
                 kind=max_requests,count={requests} --data kind=synthetic_text,prompt_tokens=8,output_tokens={tokens} \
                 --tokenizer kind=hf_auto,model={tokenizer} --output kind=json,path={file_name} --disable-console"
            ),
            Foreign::Aiperf => format!(
                "profile --model m --url http://{address} --endpoint-type completions --streaming --concurrency {streams} \
                 --request-count {requests} --synthetic-input-tokens-mean 8 --synthetic-input-tokens-stddev 0 \
                 --output-tokens-mean {tokens} --output-tokens-stddev 0 --extra-inputs ignore_eos:true \
                 --use-server-token-count --tokenizer {tokenizer} --ui none --artifact-dir {} --profile-export-file {}",
                file.parent().unwrap_or(Path::new(".")).display(),
                file.file_stem().unwrap_or_default().display(),
            ),
        };
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// Returns the figures in its result file, with the keys of `vllm bench serve`.
    pub fn figures(self, file: &Value) -> Value {
        match self {
            Foreign::Guidellm => {
                let metrics = &file["benchmarks"][0]["metrics"];
                let percentile = |metric: &str, key: &str| metrics[metric]["successful"]["percentiles"][key].clone();
                json!({
                    "completed": metrics["request_totals"]["successful"],
                    "output_throughput": metrics["output_tokens_per_second"]["successful"]["mean"],
                    "p50_ttft_ms": percentile("time_to_first_token_ms", "p50"),
                    "p99_ttft_ms": percentile("time_to_first_token_ms", "p99"),
                    "p50_itl_ms": percentile("inter_token_latency_ms", "p50"),
                    "p99_itl_ms": percentile("inter_token_latency_ms", "p99"),
                })
            }
            // The inter-token latency of aiperf is a mean for each request, so the inter-chunk latency is used.
            Foreign::Aiperf => json!({
                "completed": file["request_count"]["avg"].as_f64().map(|count| count as u64),
                "output_throughput": file["output_token_throughput"]["avg"],
                "p50_ttft_ms": file["time_to_first_token"]["p50"],
                "p99_ttft_ms": file["time_to_first_token"]["p99"],
                "p50_itl_ms": file["inter_chunk_latency"]["p50"],
                "p99_itl_ms": file["inter_chunk_latency"]["p99"],
            }),
        }
    }
}

/// Returns a folder with the smallest tokenizer that the clients accept. `vsweep bench` needs none.
fn tokenizer() -> io::Result<PathBuf> {
    let folder = std::env::temp_dir().join("vsweep-bench-tokenizer");
    std::fs::create_dir_all(&folder)?;
    // Each letter is a token, because some clients make prompts of words that they choose.
    let letters = (' '..='~')
        .enumerate()
        .map(|(id, letter)| (letter.to_string(), json!(id)));
    let vocabulary: serde_json::Map<String, Value> = letters.collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": false},
        "post_processor": null, "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "?"},
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string())?;
    let class = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "?", "clean_up_tokenization_spaces": false,
    });
    std::fs::write(folder.join("tokenizer_config.json"), class.to_string())?;
    Ok(folder)
}
