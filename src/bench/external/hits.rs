//! Judges how much of an external benchmark's prompts the server found in its prefix cache, which its telemetry shows.

use super::{params_of, warmups};
use crate::bench::judge::cached;
use crate::bench::native::settings::NativeSettings;
use crate::bench::result::add_objections;
use crate::bench::{Job, Measurement};
use serde_json::Value;

/// Adds a doubt if a program was answered from the prefix cache. It is only a warning if it is unknown how much its prompts have in common.
pub fn judge_hits(job: &Job, measurement: &mut Measurement) {
    let Some(argv) = &job.argv else { return };
    let rate = measurement.result.values.get("prefix_cache_hit_rate");
    let Some(rate) = rate.and_then(Value::as_f64) else {
        return;
    };
    let settings = params_of(argv).and_then(|params| NativeSettings::read(&params).ok());
    let by_design = settings
        .filter(NativeSettings::shares_by_design_only)
        .and_then(|settings| {
            let requests = settings.requests().filter(|requests| *requests > 0)? as f64;
            // The first prompt is also that of the warm-up, and of the request that checks if the server answers.
            let copies = warmups(job, argv).max(settings.side.num_warmups) as f64 + 1.0;
            Some(settings.dataset.traits().shared_share + copies / (copies + requests))
        });
    let Some(doubt) = cached(rate, by_design.unwrap_or(0.0)) else {
        return;
    };
    match by_design {
        Some(_) => measurement.doubts.push(doubt),
        None => add_objections(&mut measurement.result.values, [doubt.detail].into_iter()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Params;
    use crate::validity::Code;
    use serde_json::json;

    fn judged(argv: &str, rate: f64) -> Measurement {
        let job = Job {
            argv: Some(argv.split(' ').map(str::to_owned).collect()),
            ..Job::new("http://127.0.0.1:8000", "tiny", "/models/tiny", Params::new())
        };
        let result = json!({"prefix_cache_hit_rate": rate})
            .as_object()
            .cloned()
            .expect("an object");
        let mut measurement = Measurement {
            result: result.into(),
            ..Measurement::default()
        };
        judge_hits(&job, &mut measurement);
        measurement
    }

    #[test]
    fn a_run_from_the_prefix_cache_is_doubted() {
        let vllm = "vllm bench serve --dataset-name random --num-prompts 100 --num-warmups 50";
        let doubts = judged(vllm, 0.9).doubts;
        assert_eq!(
            doubts.iter().map(|doubt| doubt.code).collect::<Vec<_>>(),
            [Code::PrefixCacheHits]
        );
        // Each copy of the first prompt is expected to be a hit.
        assert!(judged(vllm, 0.4).doubts.is_empty());
        let other = judged("guidellm run", 0.99);
        assert!(other.doubts.is_empty());
        assert!(
            other.result.values["warnings"][0]
                .as_str()
                .is_some_and(|said| said.contains("99 %"))
        );
    }
}
