//! Parameters of a native benchmark as typed values. Flags of vLLM's clients without a counterpart here are refused, with the reason.

use super::api::{Api, SAMPLING};
use super::arrivals::ArrivalParams;
use super::figures::FigureParams;
use super::mix::{MixParams, WholeLoad, dataset_of};
use crate::bench::exact_prompts::VOCABULARY;
use crate::bench::params::{ParamGroup, ServerParams, Table};
use crate::dataset::{Dataset, KINDS, MOST_PROMPTS, Material, Mix, PromptParams, TurnParams};
use crate::load::Backend;
use crate::metrics::{Metric, SteadyRule};
use crate::params::{Bounds, ParamReader};
use crate::plan::Params;
use crate::stats::ClassTag;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Most warm-up requests. All of them are in memory before the run.
const MOST_WARMUPS: usize = 100_000;

/// All parameters of a native benchmark.
#[derive(Debug, Clone)]
pub struct NativeSettings {
    /// Address of the server.
    pub server: ServerParams,
    /// Form of the requests.
    pub api: Api,
    /// Number and choice of the prompts.
    pub prompts: PromptParams,
    /// Source of the prompts.
    pub dataset: Arc<dyn Dataset>,
    /// Source of the prompts by its classes, if it is a mix.
    pub mix: Option<Arc<Mix>>,
    /// Conversations, if they are asked for.
    pub turns: TurnParams,
    /// Source of text, and counter of its tokens.
    pub tokens: Tokens,
    /// Timing of requests.
    pub arrival: ArrivalParams,
    /// Time limits.
    pub limits: Limits,
    /// Requests in addition to the load.
    pub side: SideParams,
    /// Content of the result.
    pub figures: FigureParams,
    /// Destination of the result of a benchmark outside a sweep.
    pub output: Output,
}

/// All parameters of the native benchmark, named as the flags of `vllm bench serve`.
pub const TABLE: Table = Table {
    benchmark: "the native benchmark",
    groups: &[
        ParamGroup::of("Server", ServerParams::PARAMS),
        ParamGroup::of("Requests", Api::PARAMS),
        ParamGroup::of("Requests", SAMPLING),
        ParamGroup::of("Load", ArrivalParams::PARAMS),
        ParamGroup::of("Limits", Limits::PARAMS),
        ParamGroup::of("In addition to the load", SideParams::PARAMS),
        ParamGroup::of("Result", FigureParams::PARAMS),
        ParamGroup::of("Result", Output::PARAMS),
        ParamGroup::of("Prompts", PromptParams::PARAMS),
        ParamGroup::of("Prompts", MixParams::PARAMS),
        ParamGroup::of("Prompts", Tokens::PARAMS),
        ParamGroup::of("Conversations", TurnParams::PARAMS),
    ],
    has_datasets: true,
    remedy: "remove it, or use a command such as \"vllm bench serve\"",
    refused: REFUSED,
};

crate::params! {
    /// Source of text, and counter of its tokens.
    pub struct Tokens {
        /// Tokenizer folder, tokenizer.json or cached hub name.
        tokenizer: Option<String> = param("tokenizer").otherwise("the model"),
        /// Use token ids or common words instead of the tokenizer.
        is_skipped: bool = param("skip_tokenizer_init"),
        /// Limit of token ids in prompts without a tokenizer.
        vocab_size: Option<u32> = param("vocab_size").least(1).bounded(VOCABULARY),
    }
}

crate::params! {
    /// Time limits.
    pub struct Limits {
        /// Seconds to wait for a first request to succeed.
        ready_check: Duration = param("ready_check_timeout_sec").bounded(NOT_NEGATIVE).default("0")
            .otherwise("0: no check"),
        /// Seconds without a byte after which a request counts as failed.
        silence: Duration = param("silence_timeout").bounded(ABOVE_0).default("21600"),
        /// Seconds after which a request counts as failed.
        request: Duration = param("request_timeout").bounded(ABOVE_0).default("21600"),
    }
}

const NOT_NEGATIVE: Bounds = ("a number of seconds of at least 0", |seconds| seconds >= 0.0);
const ABOVE_0: Bounds = ("a number of seconds above 0", |seconds| seconds > 0.0);

crate::params! {
    /// Requests in addition to the load.
    pub struct SideParams {
        /// Requests before the measurement, not counted.
        num_warmups: usize = param("num_warmups").default("0"),
        /// Profile the server during the run.
        profile: bool = param("profile"),
        /// Small requests per second, in addition to the load and outside its limits.
        probe_request_rate: f64 = param("probe_request_rate")
            .within("a rate of at least 0", |rate| (0.0..1e6).contains(&rate))
            .default("0"),
    }
}

crate::params! {
    /// Destination of the result of a benchmark outside a sweep.
    pub struct Output {
        /// Write the result to a JSON file.
        save_result: bool = param("save_result"),
        /// Append the result to the file.
        append_result: bool = param("append_result"),
        /// Folder of the result file.
        result_dir: Option<PathBuf> = param("result_dir"),
        /// Name of the result file.
        result_filename: Option<String> = param("result_filename"),
        /// Show no progress.
        is_quiet: bool = param("disable_tqdm"),
    }
}

impl Limits {
    /// Time to wait for a first request to succeed; `None` without that check.
    pub fn ready(&self) -> Option<Duration> {
        Some(self.ready_check).filter(|limit| !limit.is_zero())
    }
}

impl SideParams {
    /// Probes a second, if there are any.
    pub fn probe_rate(&self) -> Option<f64> {
        Some(self.probe_request_rate).filter(|rate| *rate > 0.0)
    }
}

impl Output {
    /// Returns true if a file is written.
    pub fn is_wanted(&self) -> bool {
        self.save_result || self.append_result
    }
}

impl NativeSettings {
    /// Reads parameters; every problem is a sentence that names the parameter and the remedy.
    pub fn read(params: &Params) -> Result<NativeSettings, Vec<String>> {
        let mut reader = TABLE.reader(params);
        let settings = NativeSettings::checked(params, &mut reader);
        reader.finish(settings)
    }

    fn checked(params: &Params, reader: &mut ParamReader<'_>) -> NativeSettings {
        let api = Api::checked(reader);
        let prompts = PromptParams::read(reader);
        let turns = TurnParams::read(reader);
        let asked = MixParams::read(reader);
        let load = WholeLoad {
            params,
            prompts: &prompts,
            turns: &turns,
            backend: api.backend(),
            table: &TABLE,
        };
        let mix = load.mix(&asked, reader);
        let dataset: Arc<dyn Dataset> = match &mix {
            Some(mix) => mix.clone(),
            // The problems of the mix are reported already, so any dataset will do.
            None if reader.has("mix") => (KINDS[0].read)(reader),
            None => dataset_of(&prompts, &turns, api.backend(), reader),
        };
        let settings = NativeSettings {
            server: ServerParams::checked(reader),
            figures: FigureParams::checked(reader, api.choices()),
            arrival: ArrivalParams::checked(reader, dataset.traits().is_timed),
            tokens: Tokens::read(reader),
            limits: Limits::read(reader),
            side: SideParams::read(reader),
            output: Output::read(reader),
            api,
            prompts,
            turns,
            dataset,
            mix,
        };
        if reader.is_sound() {
            settings.check_end(reader);
        }
        if settings.side.num_warmups > MOST_WARMUPS {
            reader.wrong("num_warmups", &format!("at most {MOST_WARMUPS}"));
        }
        let at_once = (settings.arrival.max_concurrency, settings.turns.concurrency);
        if matches!(at_once, (Some(requests), Some(conversations)) if requests != conversations) {
            reader.problem("multi_turn_concurrency and max_concurrency both limit the conversations at once; keep one");
        }
        settings
    }

    /// Reports if a run would send no requests, or requests that cannot be drawn.
    fn check_end(&self, reader: &mut ParamReader<'_>) {
        let (given, least) = (self.prompts.num_prompts(), self.dataset.traits().least);
        let is_open_end = self.prompts.given.is_none() && !self.is_self_timed();
        match self.count() {
            Some(0) if self.prompts.given != Some(0) => reader.problem(
                "at this rate no request comes within duration; raise request_rate or duration",
            ),
            Some(count) if count.max(self.arrival.ramp_len(0)) > MOST_PROMPTS => reader.problem(format!(
                "more than {MOST_PROMPTS} prompts come within duration, which is the most that can be sent; lower request_rate or duration"
            )),
            Some(_) if self.prompts.given.is_some() && given < least => reader.problem(format!(
                "num_prompts {given} is less than prefix_repetition_num_prefixes {least}; raise num_prompts, or lower prefix_repetition_num_prefixes"
            )),
            None if is_open_end && self.dataset.traits().has_turns => reader.problem(
                "conversations are drawn before the run, and duration does not say how many; add num_prompts, the most that can begin",
            ),
            None if is_open_end && self.concurrency().is_none() => reader.problem(
                "duration alone would send all requests there are at once; add max_concurrency or request_rate",
            ),
            _ => {}
        }
    }

    /// Most prompts that a run sends: the lower of the number that is asked for and the number that is due within its duration. `None` if
    /// the run is ended only by time, or by the end of a trace; 0 for every row of a file.
    pub fn count(&self) -> Option<usize> {
        let given = self.prompts.given.filter(|given| *given > 0);
        let Some(sending) = self.arrival.sending() else {
            return Some(self.prompts.num_prompts());
        };
        let arrivals = self.arrival.arrivals();
        let by_rate = arrivals.count_within(sending.lasts.as_secs_f64());
        let in_prompts = |requests: f64| (requests as usize).saturating_mul(self.dataset.prompts_a_request());
        let by_rate = by_rate.filter(|_| !self.is_self_timed()).map(in_prompts);
        given.into_iter().chain(by_rate).min()
    }

    /// Like `count`, once the requests are drawn. Returns `drawn` if every row of a file is asked for.
    pub fn count_of(&self, drawn: usize) -> Option<usize> {
        match self.prompts.given {
            Some(0) => Some(drawn),
            _ => self.count(),
        }
    }

    /// Most requests that a run sends, of which each may carry several prompts. Otherwise like `count`.
    pub fn requests(&self) -> Option<usize> {
        Some(self.count()?.div_ceil(self.dataset.prompts_a_request()))
    }

    /// Like `requests`, once the requests are drawn. Returns `drawn` if every row of a file is asked for.
    pub fn requests_of(&self, drawn: usize) -> Option<usize> {
        match self.prompts.given {
            Some(0) => Some(drawn),
            _ => self.requests(),
        }
    }

    /// Returns true if requests are drawn while others are sent. A given number of requests is drawn before the run.
    pub fn draws_during_run(&self) -> bool {
        let is_drawn_before = self.prompts.given.is_some() || self.is_self_timed() || self.dataset.traits().has_turns;
        self.arrival.duration.is_some() && !is_drawn_before
    }

    /// Most requests, or conversations, at once.
    pub fn concurrency(&self) -> Option<usize> {
        self.turns.concurrency.or(self.arrival.max_concurrency)
    }

    /// Returns true if the dataset gives the due times.
    pub fn is_self_timed(&self) -> bool {
        self.dataset.traits().is_timed && !self.arrival.no_self_timed
    }

    /// Returns true if requests have their own due times, false if all are due at once.
    pub fn is_open_loop(&self) -> bool {
        self.is_self_timed() || self.arrival.arrivals().is_open()
    }

    /// Returns true if answers continue after the end of sequence: as the user set it, else as the dataset wants it.
    pub fn ignores_eos(&self) -> bool {
        let wanted = self.writes_text() && self.dataset.traits().fixes_outputs;
        let in_body = self.api.extra_body.get("ignore_eos").and_then(Value::as_bool);
        in_body.or(self.api.ignore_eos).unwrap_or(wanted)
    }

    /// Returns true if the API answers with text that the model writes. Such answers can be made to continue after the end of sequence.
    pub(super) fn writes_text(&self) -> bool {
        let backend = self.api.backend();
        matches!(backend, Backend::Completions | Backend::Chat | Backend::Responses)
    }

    /// Additional keys of the body for requests of a class: `ignore_eos`, if its answers must continue after the end of sequence, but not
    /// those of every class.
    pub fn keys_of_class(&self, class: u8) -> Option<Params> {
        let class = self.mix.as_ref()?.classes.get(usize::from(class))?;
        let is_given = self.api.ignore_eos.is_some() || self.api.extra_body.contains_key("ignore_eos");
        let continues = self.writes_text() && class.dataset.traits().fixes_outputs;
        let is_own = continues && !is_given && !self.ignores_eos();
        is_own.then(|| Params::from_iter([("ignore_eos".to_owned(), json!(true))]))
    }

    /// Tags of the classes of a mix, in their order.
    pub fn class_tags(&self) -> Vec<ClassTag> {
        let classes = self.mix.iter().flat_map(|mix| &mix.classes);
        classes.map(|class| ClassTag::of(&class.name)).collect()
    }

    /// Returns true if prompts have nothing in common except by the design of the dataset.
    pub fn shares_by_design_only(&self) -> bool {
        let made_of = self.dataset.traits().made_of;
        let is_made_up = matches!(made_of, Material::Vocabulary | Material::TokenIds);
        is_made_up && self.api.backend() == Backend::Completions
    }

    /// Metrics in the result.
    pub fn metrics(&self) -> &[Metric] {
        match self.api.backend().generates() {
            true => &self.figures.metrics.0,
            false => &[Metric::E2el],
        }
    }

    /// Percentiles of each metric.
    pub fn percentiles(&self) -> &[f64] {
        &self.figures.percentiles.0
    }

    /// Condition for the steady state of a closed loop, if it is wanted.
    pub fn steady(&self) -> Option<SteadyRule> {
        let is_looked_at = !self.figures.no_steady_state && !self.is_open_loop() && self.api.backend().generates();
        self.concurrency().filter(|_| is_looked_at).map(|target| SteadyRule {
            target,
            threshold: self.figures.steady_threshold,
        })
    }
}

/// Makes a table of names with reasons, one per line.
macro_rules! reasons {
    ($($name:ident: $reason:literal,)*) => { &[$((stringify!($name), $reason)),*] };
}

/// Flags of `vllm bench serve` and of its Rust client that have no counterpart here, with the reason.
pub const REFUSED: &[(&str, &str)] = reasons! {
    trust_remote_code: "no Python code is run; give a tokenizer.json",
    tokenizer_mode: "tokenizers are read from tokenizer.json; give one",
    hf_name: "columns are found by their names; name one with hf_text_column",
    blazedit_min_distance: "rows are not chosen by content; give a file of those wanted",
    blazedit_max_distance: "rows are not chosen by content; give a file of those wanted",
    asr_min_audio_len_sec: "sounds are not chosen by length; give a file of those wanted",
    asr_max_audio_len_sec: "sounds are not chosen by length; give a file of those wanted",
    bfcl_categories: "tools are not sent; use extra_body",
    use_beam_search: "vllm bench serve ignores it too; use extra_body",
    no_stream: "files are read from disk; download them first",
    plot_timeline: "\"vsweep report --timeline\" shows the requests of a sweep's run; use that",
    timeline_itl_thresholds: "\"vsweep report --timeline\" shows the requests of a sweep's run; use that",
    plot_dataset_stats: "it is not drawn; save_detailed keeps each length",
    // Parameters of the Rust client.
    prompt_token_ids: "set skip_tokenizer_init, which sends token ids",
    max_model_len: "requests are sent as they are; lower the lengths of prompts and outputs",
    random_cache_hit_fraction: "use prefix_repetition, or random_prefix_len",
    random_cache_ratio: "use prefix_repetition, or random_prefix_len",
    speed_bench_max_input_len: "give a file of the messages wanted",
    dry_run: "\"vsweep plan\" shows what would be sent, and about how long it takes",
    num_runs: "write repetitions into a plan; \"vsweep run\" keeps each of them",
    compare: "\"vsweep plot\" and \"vsweep plot pareto\" compare runs",
    reset_prefix_cache: "\"vsweep run\" resets it between runs",
    sweep_max_concurrency: "write the values into a plan for \"vsweep run\"",
    sweep_request_rate: "write the values into a plan for \"vsweep run\"",
    sweep_num_prompts_factor: "write the values into a plan for \"vsweep run\", and link them",
    sweep_summary_percentiles: "set metric_percentiles in a plan for \"vsweep run\"",
    profile_batch_threshold: "profile covers the whole run",
    profile_duration: "profile covers the whole run",
};

/// Returns the reason for which a flag is refused, if the flag has no effect with these values. Command lines that were written for `vllm
/// bench serve` may have flags without an effect here.
pub fn reason_to_ignore(name: &str, values: &[&str]) -> Option<&'static str> {
    let is_usual = |value: &&str| ["auto", "hf", "slow"].contains(value);
    let is_harmless = match name {
        "trust_remote_code" => true,
        "tokenizer_mode" => values.iter().all(is_usual),
        _ => false,
    };
    let (_, reason) = REFUSED.iter().find(|(refused, _)| *refused == name)?;
    is_harmless.then_some(*reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_has_help_and_every_default_is_a_value() {
        let silent = TABLE.all().filter(|(_, param)| param.help().is_empty());
        let silent: Vec<&str> = silent.map(|(_, param)| param.name).collect();
        assert_eq!(silent, [""; 0]);
        assert!(NativeSettings::read(&Params::new()).is_ok());
    }
}
