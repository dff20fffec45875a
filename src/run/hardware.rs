//! The GPUs and the model of a server, from its command line, and the shares of their limits that a run reached. Without a known GPU and
//! model there are no shares. The formulas are in `sim::engine::roofline`.

use crate::plan::{Params, Program, ServeCommand};
use crate::server::address::placed;
use crate::sim::engine::cost::CostModel;
use crate::sim::engine::gpu::Gpu;
use crate::sim::engine::model::Model;
use crate::sim::engine::roofline::{Shares, Totals};
use crate::sim::flags::Flags;
use crate::sim::settings::ServerSettings;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Returns true if a command line is the simulator's, and the arguments after `serve`.
pub fn command(argv: &[String]) -> Result<(bool, &[String]), String> {
    if argv.is_empty() {
        return Err("the plan attaches to a running server, whose settings are not known".to_owned());
    }
    let command = ServeCommand::of(argv);
    match command.program() {
        Program::Simulator => Ok((true, command.args())),
        Program::Vllm => Ok((false, command.args())),
        Program::Other | Program::Sglang => Err(format!(
            "`{}` is neither `vllm serve` nor `vsweep sim serve`, so nothing is known of its speed",
            argv[0]
        )),
    }
}

/// Returns the flags with which the simulator imitates a real server on this GPU. `model_config` is the model's `config.json`, or its
/// folder.
pub fn on_gpu(mut flags: Flags, gpu: &Gpu, model_config: Option<&Path>) -> Result<Flags, String> {
    flags.set("sim_gpu", Value::from(gpu.name));
    flags.set("sim_start", Value::from("modelled"));
    if let Some(file) = model_config {
        let folder = model_folder(file);
        // A bare relative name could be taken for the name of a model on the hub.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
        flags.model_tag = Some(folder.display().to_string());
        return Ok(flags);
    }
    match flags.model() {
        Some(model) if Path::new(model).join("config.json").is_file() => Ok(flags),
        Some(model) if Model::states_its_size(model) => {
            // A folder that is on another machine is recognised by its name.
            let path = Path::new(model);
            let name = path.file_name().filter(|_| path.is_absolute() && !path.is_dir());
            if let Some(name) = name.map(|name| name.to_string_lossy().into_owned()) {
                flags.model_tag = Some(name);
            }
            Ok(flags)
        }
        Some(model) => Err(format!(
            "nothing is known of the model `{model}`: name its config.json with `vsweep plan --model-config FILE`"
        )),
        None => {
            Err("the command names no model: name its config.json with `vsweep plan --model-config FILE`".to_owned())
        }
    }
}

/// Returns the folder of a model that is named by its `config.json`, or by the folder itself.
pub fn model_folder(config: &Path) -> &Path {
    match config.file_name() {
        Some(name) if name == "config.json" => config.parent().unwrap_or(Path::new(".")),
        _ => config,
    }
}

/// Model and GPUs of a server.
#[derive(Debug, Clone)]
pub struct Hardware {
    cost: CostModel,
    max_num_seqs: usize,
}

/// Occupancy of the KV cache from which on its blocks are the bottleneck, if requests wait or are preempted.
const FULL: f64 = 0.95;
/// Share of the time that a limit of the hardware takes, from which on more requests at once cannot help.
const NEAR: f64 = 0.8;
/// Minimum share of the time that the limits explain together. Below it, the bottleneck is the load.
const LEAST_EXPLAINED: f64 = 0.5;

impl Hardware {
    /// Returns the hardware of a server on GPUs with this device name; `None` if it is unknown.
    pub fn of(argv: &[String], env: &BTreeMap<String, String>, device: Option<&str>) -> Option<Hardware> {
        let (is_simulator, args) = command(argv).ok()?;
        // The file of `--config` is not read. It may set the sizes that the shares depend on.
        if ServeCommand::of(argv).has("config") {
            return None;
        }
        let mut flags = Flags::parse(&placed(args)).ok()?;
        if !is_simulator {
            flags = on_gpu(flags, &Gpu::of_device(device?)?, None).ok()?;
        }
        let settings = ServerSettings::resolve(&flags, &|name| env.get(name).cloned()).ok()?;
        Some(Hardware {
            max_num_seqs: settings.limits.max_num_seqs * settings.cost.data_parallel,
            cost: settings.cost,
        })
    }

    /// Returns the columns `mfu`, `mbu`, `host_share` and `bound_by` of a result; empty if it lacks the figures from which they are
    /// computed.
    pub fn columns(&self, result: &Params) -> Params {
        let number = |name: &str| {
            result
                .get(name)
                .and_then(Value::as_f64)
                .filter(|value| value.is_finite())
        };
        let shares = self.totals(&number).and_then(|totals| self.cost.shares(&totals));
        let columns = shares.map(|shares| {
            let bound_by = self.bound_by(&shares, &number);
            [
                ("mfu", shares.mfu.into()),
                ("mbu", shares.mbu.into()),
                ("host_share", shares.host_time.min(1.0).into()),
                ("bound_by", bound_by.into()),
            ]
        });
        let columns = columns.into_iter().flatten();
        columns
            .map(|(name, value): (&str, Value)| (name.to_owned(), value))
            .collect()
    }

    fn totals(&self, number: &dyn Fn(&str) -> Option<f64>) -> Option<Totals> {
        let (seconds, output_tokens) = (number("duration")?, number("total_output_tokens")?);
        // A stage of a pipeline counts steps of a part of the batch, so its counter is not used.
        let counted = number("engine_steps").filter(|_| self.cost.pipeline_parallel == 1);
        let estimated = || {
            // A token follows the previous one after a step. There are at most as many steps as tokens: if no two sequences run together,
            // each token takes a step of its own.
            let step_ms = number("mean_itl_ms").or_else(|| number("mean_tpot_ms"))?;
            let replicas = self.cost.data_parallel as f64;
            Some((replicas * seconds / (step_ms / 1e3)).min(output_tokens))
        };
        Some(Totals {
            requests: number("completed")?,
            prompt_tokens: number("total_input_tokens")?,
            cached: number("prefix_cache_hit_rate").unwrap_or(0.0).clamp(0.0, 1.0),
            output_tokens,
            steps: counted.or_else(estimated)?,
            seconds,
        })
    }

    /// Returns the name of the bottleneck.
    fn bound_by(&self, shares: &Shares, number: &dyn Fn(&str) -> Option<f64>) -> &'static str {
        let figure = |name: &str| number(name).unwrap_or(0.0);
        let waits = figure("waiting_mean") >= 1.0;
        let limits = [
            (shares.memory_time, "memory_bandwidth"),
            (shares.arithmetic_time, "arithmetic"),
            (shares.host_time, "host"),
        ];
        let explained: f64 = limits.iter().map(|(share, _)| share).sum();
        let longest = limits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (share, hardware) = longest.expect("there are three");
        let most = self.max_num_seqs as f64;
        // The largest number of running requests is a single sample.
        let is_full = figure("running_max") >= most && figure("running_mean") + figure("waiting_mean") > most;
        if figure("kv_cache_usage_max") >= FULL && (waits || figure("preemptions") > 0.0) {
            "kv_blocks"
        } else if waits && is_full && share < NEAR {
            "max_num_seqs"
        } else if explained >= LEAST_EXPLAINED {
            hardware
        } else {
            "load"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::native::measurement_of;
    use crate::bench::native::settings::NativeSettings;
    use crate::sim::engine::SequenceRequest;
    use crate::sim::virtual_time::{VirtualLoad, VirtualServer};
    use serde_json::json;

    fn hardware(line: &str, device: Option<&str>) -> Option<Hardware> {
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Hardware::of(&argv, &BTreeMap::new(), device)
    }

    fn params(value: Value) -> Params {
        value.as_object().cloned().expect("an object")
    }

    /// A result as a benchmark reports it, its duration, and the engine's own sums of operations and bytes.
    struct Played {
        result: Params,
        seconds: f64,
        sums: (f64, f64),
    }

    /// Plays a closed loop of `users` in virtual time; lengths vary around the means.
    fn play(settings: &ServerSettings, users: usize, prompt: usize, output: usize) -> Played {
        let mut server = VirtualServer::start(settings).expect("fits");
        let varied = |mean: usize, n: usize| (mean * (70 + 60 * (n * 7 % 11) / 10) / 100).max(2);
        let request = |n: usize| SequenceRequest {
            prompt: (0..varied(prompt, n))
                .map(|place| (n * 100_003 + place) as u32)
                .collect(),
            output_len: varied(output, n + 3),
            ..SequenceRequest::default()
        };
        let count = 8 * users;
        let load = server.drive(VirtualLoad {
            requests: (0..count).map(request).collect(),
            due: vec![0; count],
            limit: Some(users),
            every_token: true,
            ..VirtualLoad::default()
        });
        let bench = NativeSettings::read(&params(json!({"dataset_name": "random", "num_prompts": count})));
        let measured = measurement_of(&bench.expect("valid"), &load.samples.into(), load.duration);
        let stats = server.stats();
        let mut result = measured.expect("answers").result.values;
        result.insert("engine_steps".to_owned(), stats.iteration_tokens.count().into());
        Played {
            result,
            seconds: load.duration as f64 / 1e9,
            sums: (stats.flops, stats.read_bytes),
        }
    }

    fn settings(line: &str) -> ServerSettings {
        let line: Vec<String> = line.split(' ').skip(3).map(str::to_owned).collect();
        let flags = Flags::parse(&line).expect("known flags");
        ServerSettings::resolve(&flags, &|_| None).expect("usable")
    }

    fn figure(columns: &Params, name: &str) -> f64 {
        columns[name].as_f64().expect("a number")
    }

    #[test]
    fn the_shares_are_those_that_the_engine_counted_itself() {
        for (line, users, prompt, output, near) in [
            ("vsweep sim serve demo-8b", 1, 256, 64, 0.02),
            ("vsweep sim serve demo-8b", 64, 512, 256, 0.05),
            ("vsweep sim serve demo-8b", 8, 4000, 16, 0.05),
            (
                "vsweep sim serve demo-8b --quantization fp8 --kv-cache-dtype fp8 --sim-speed 4",
                32,
                512,
                128,
                0.05,
            ),
            ("vsweep sim serve demo-70b --tensor-parallel-size 4", 32, 512, 128, 0.05),
            (
                "vsweep sim serve demo-70b --tensor-parallel-size 2 --pipeline-parallel-size 2",
                32,
                512,
                128,
                0.05,
            ),
            ("vsweep sim serve demo-30b-a3b", 16, 512, 128, 0.05),
        ] {
            let (settings, hardware) = (settings(line), hardware(line, None).expect("known"));
            let mut played = play(&settings, users, prompt, output);
            let cost = &settings.cost;
            let stages = played.seconds * cost.speed * cost.pipeline_parallel as f64;
            let peak = if cost.eight_bit {
                cost.gpu.flops_8
            } else {
                cost.gpu.flops_16
            };
            let mfu = played.sums.0 / (stages * cost.tensor_parallel as f64 * peak);
            let mbu = played.sums.1 / (stages * cost.gpu.bandwidth);
            let counted = hardware.columns(&played.result);
            played.result.shift_remove("engine_steps");
            let estimated = hardware.columns(&played.result);
            for (columns, near) in [(counted, near), (estimated, 3.0 * near)] {
                let (own_mfu, own_mbu) = (figure(&columns, "mfu"), figure(&columns, "mbu"));
                assert!((own_mfu / mfu).ln().abs() < near, "{line}: mfu {own_mfu}, truly {mfu}");
                assert!((own_mbu / mbu).ln().abs() < near, "{line}: mbu {own_mbu}, truly {mbu}");
            }
        }
    }

    #[test]
    fn the_host_has_the_share_of_time_that_is_saved_without_it() {
        let line = "vsweep sim serve demo-8b";
        let (mut settings, hardware) = (settings(line), hardware(line, None).expect("known"));
        let with = play(&settings, 128, 64, 128);
        (settings.cost.constants.step_s, settings.cost.constants.sequence_s) = (0.0, 0.0);
        let saved = 1.0 - play(&settings, 128, 64, 128).seconds / with.seconds;
        let share = figure(&hardware.columns(&with.result), "host_share");
        assert!((share / saved).ln().abs() < 0.1, "{share}, truly {saved}");
    }

    /// The runs of `results/h100`, a real vLLM on an H100, by their server's name and load.
    fn on_h100() -> Vec<(String, f64, Params)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/h100/runs");
        let points = std::fs::read_dir(folder)
            .expect("there")
            .map(|entry| entry.expect("readable").path());
        let files = points.flat_map(|point| std::fs::read_dir(point).expect("a folder"));
        let paths = files.map(|file| file.expect("readable").path());
        let runs = paths.filter(|path| path.extension().is_some_and(|is| is == "json"));
        let read = |path| params(serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON"));
        let run = |result: Params| {
            let server = &result["vsweep"]["server"];
            let argv: Vec<String> = serde_json::from_value(server["argv"].clone()).expect("words");
            let device = Some("NVIDIA H100 80GB HBM3");
            let columns = Hardware::of(&argv, &BTreeMap::new(), device)
                .expect("known")
                .columns(&result);
            let name = server["name"].as_str().expect("a name").to_owned();
            (name, result["max_concurrency"].as_f64().expect("a number"), columns)
        };
        runs.map(read)
            .filter(|result| result.contains_key("duration"))
            .map(run)
            .collect()
    }

    #[test]
    fn a_real_server_on_an_h100_is_bound_by_its_memory_bandwidth_or_without_graphs_by_its_host() {
        let runs = on_h100();
        for (name, load, columns) in &runs {
            let (mfu, mbu) = (figure(columns, "mfu"), figure(columns, "mbu"));
            assert!(
                (0.05..0.4).contains(&mfu) && (0.2..0.7).contains(&mbu),
                "{name} at {load}: {columns:?}"
            );
            match name.as_str() {
                // 16.1 GB of weights every 10 to 12 ms, with the keys and values of 70 sequences, are half of 3.35 TB/s.
                "bf16" => assert_eq!(columns["bound_by"], "memory_bandwidth", "{load}: {columns:?}"),
                "eager" => assert_eq!(columns["bound_by"], "host", "{load}: {columns:?}"),
                _ => {}
            }
        }
        assert!(runs.iter().any(|(name, ..)| name == "bf16") && runs.iter().any(|(name, ..)| name == "eager"));
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let h100 = Some("NVIDIA H100 80GB HBM3");
        assert!(hardware("vllm serve llama-8b", h100).is_some());
        for (line, device) in [
            ("vllm serve llama-8b", None),
            ("vllm serve llama-8b", Some("NVIDIA GeForce RTX 9090")),
            ("vllm serve my-model", h100),
            ("other-server llama-8b", h100),
        ] {
            assert!(hardware(line, device).is_none(), "{line} on {device:?}");
        }
        assert!(hardware("vllm serve llama-8b --config sizes.yaml", h100).is_none());
        let known = hardware("vllm serve llama-8b", h100).expect("known");
        assert!(
            known
                .columns(&params(json!({"duration": 1.0, "completed": 2})))
                .is_empty()
        );
    }

    #[test]
    fn requests_that_wait_say_what_they_lack() {
        let known = hardware("vllm serve llama-8b --max-num-seqs 64", Some("NVIDIA H100 80GB HBM3")).expect("known");
        let bound_by = |more: Value| {
            let mut result = params(json!({
                "duration": 10.0, "completed": 100, "total_input_tokens": 25_600, "total_output_tokens": 12_800,
                "mean_tpot_ms": 20.0, "waiting_mean": 20.0, "running_mean": 60.0, "running_max": 64, "kv_cache_usage_max": 0.4
            }));
            result.extend(params(more));
            known.columns(&result)["bound_by"].clone()
        };
        assert_eq!(bound_by(json!({})), "max_num_seqs");
        // No more requests than sequences were in flight, though one sample was full.
        assert_ne!(
            bound_by(json!({"running_mean": 57.0, "waiting_mean": 3.0})),
            "max_num_seqs"
        );
        // The hardware is at its limit.
        assert_eq!(bound_by(json!({"mean_tpot_ms": 5.0})), "memory_bandwidth");
        assert_eq!(
            bound_by(json!({"running_max": 40, "kv_cache_usage_max": 0.99})),
            "kv_blocks"
        );
        assert_eq!(
            bound_by(json!({"waiting_mean": 0.0, "mean_tpot_ms": 5.0, "kv_cache_usage_max": 0.99})),
            "memory_bandwidth"
        );
        assert_eq!(
            bound_by(json!({"waiting_mean": 0.0, "duration": 100.0, "mean_tpot_ms": 80.0})),
            "load"
        );
    }
}
