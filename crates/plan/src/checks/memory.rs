//! Compares the GPU memory that two command lines of vLLM need, as far as their flags alone show it. Command lines that differ in settings
//! other than those listed here are not compared. The absolute need is not estimated.

use crate::{Flag, Program, ServeCommand};
use std::cmp::Ordering;
use vsweep_base::cause::Cause;

/// Settings with a known effect on memory. Each has the directions in which a change surely does not lower the need for memory: first for
/// loading the model, then for the KV cache. A lower `gpu_memory_utilization` leaves less room for the cache.
const SETTINGS: [(&str, Ordering, Ordering); 6] = [
    ("max_model_len", Ordering::Greater, Ordering::Greater),
    ("max_num_seqs", Ordering::Greater, Ordering::Greater),
    ("max_num_batched_tokens", Ordering::Greater, Ordering::Greater),
    ("tensor_parallel_size", Ordering::Less, Ordering::Less),
    ("pipeline_parallel_size", Ordering::Less, Ordering::Less),
    ("gpu_memory_utilization", Ordering::Greater, Ordering::Less),
];

/// Compares the memory that a server needs with the need of a server whose start failed for `cause`. If the first server certainly needs at
/// least as much, returns each setting in which they differ, such as `max_model_len`, with both values, such as `8192 > 4096`. Returns
/// `None` if the cause is not a lack of memory, if a program is unknown, if some setting may need less, if other settings differ, or if
/// none differs.
pub fn needs_as_much(server: &[String], failed: &[String], cause: Cause) -> Option<Vec<(String, String)>> {
    let is_loading = match cause {
        Cause::OomAtLoad => true,
        Cause::KvCacheTooSmall => false,
        _ => return None,
    };
    let (server, failed) = (ServeCommand::of(server), ServeCommand::of(failed));
    let is_known = |command: ServeCommand<'_>| matches!(command.program(), Program::Vllm | Program::Simulator);
    // Each of these settings takes one value.
    let is_setting = |flag: &Flag<'_>| SETTINGS.iter().any(|(name, ..)| flag.is(name)).then_some(1);
    let rest = |command: ServeCommand<'_>| [command.before(), &command.without(is_setting)].concat();
    if !is_known(server) || !is_known(failed) || rest(server) != rest(failed) {
        return None;
    }
    let mut differences = Vec::new();
    for (name, at_load, for_cache) in SETTINGS {
        let (mine, theirs) = (server.value(name), failed.value(name));
        if mine == theirs {
            continue;
        }
        let number = |text: Option<&str>| text?.parse().ok().filter(|value: &f64| *value > 0.0);
        // vLLM's default without the flag depends on the model and the version.
        let (mine, theirs): (f64, f64) = (number(mine)?, number(theirs)?);
        let wanted = if is_loading { at_load } else { for_cache };
        let sign = match mine.total_cmp(&theirs) {
            Ordering::Equal => continue,
            order if order != wanted => return None,
            Ordering::Greater => '>',
            Ordering::Less => '<',
        };
        differences.push((name.to_owned(), format!("{mine} {sign} {theirs}")));
    }
    Some(differences).filter(|differences| !differences.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(server: &str, failed: &str, cause: Cause) -> Option<String> {
        let argv = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let settings = needs_as_much(&argv(server), &argv(failed), cause)?.into_iter();
        Some(
            settings
                .map(|(name, values)| format!("{name} {values}"))
                .collect::<Vec<_>>()
                .join(", "),
        )
    }

    #[test]
    fn only_what_needs_as_much_by_every_setting_counts() {
        let small = "vllm serve m -tp 2 --max-model-len 4096 --gpu-memory-utilization 0.9";
        let kv = |server: &str| why(server, small, Cause::KvCacheTooSmall);
        let longer = "vllm serve m --tensor-parallel-size=2 --max_model_len 8192 --gpu-memory-utilization 0.9";
        assert_eq!(kv(longer).as_deref(), Some("max_model_len 8192 > 4096"));
        let both = "vllm serve m -tp 1 --max-model-len 8192 --gpu-memory-utilization 0.8";
        let said = "max_model_len 8192 > 4096, tensor_parallel_size 1 < 2, gpu_memory_utilization 0.8 < 0.9";
        assert_eq!(kv(both).as_deref(), Some(said));
        for other in [
            "vllm serve m -tp 4 --max-model-len 8192 --gpu-memory-utilization 0.9",
            "vllm serve m -tp 2 --max-model-len 8192 --gpu-memory-utilization 0.95",
            "vllm serve m -tp 2 --max-model-len 8k --gpu-memory-utilization 0.9",
            "vllm serve m -tp 2 --max-model-len 8192",
            "vllm serve m -tp 2 --max-model-len 8192 --gpu-memory-utilization 0.9 --quantization fp8",
            "vllm serve -tp 2 n --max-model-len 8192 --gpu-memory-utilization 0.9",
            small,
        ] {
            assert_eq!(kv(other), None, "{other}");
        }
    }

    #[test]
    fn the_share_of_memory_counts_by_cause() {
        let (less, more) = (
            "vllm serve m --gpu-memory-utilization 0.7",
            "vllm serve m --gpu-memory-utilization 0.9",
        );
        assert!(why(less, more, Cause::KvCacheTooSmall).is_some());
        assert!(why(more, less, Cause::KvCacheTooSmall).is_none());
        assert!(why(more, less, Cause::OomAtLoad).is_some());
        assert!(why(less, more, Cause::OomAtLoad).is_none());
        assert!(why(less, more, Cause::CrashedStarting).is_none());
    }

    #[test]
    fn flags_of_other_programs_mean_other_things() {
        let (one, other) = ("./serve.sh --max-model-len 4096", "./serve.sh --max-model-len 8192");
        assert_eq!(why(other, one, Cause::KvCacheTooSmall), None);
    }
}
