//! Whether the load that was asked for was there.

use super::RunFigures;
use crate::validity::{Code, Doubt};

/// Below this share of the requests asked for at once, it was another load.
const ENOUGH: f64 = 0.9;

/// A closed loop that never had as many requests in flight as it is to keep there. The count of `vllm bench serve`, by whole
/// seconds, is never too low, so it shows this too.
pub(super) fn not_reached(seen: RunFigures<'_>) -> Option<Doubt> {
    let slots = seen.slots().filter(|_| seen.is_whole)?;
    let peak = seen
        .number("peak_concurrent_requests")
        .or_else(|| seen.number("max_concurrent_requests"))?;
    (peak < ENOUGH * slots).then(|| {
        let sent = seen.number("num_prompts").filter(|sent| *sent < slots);
        let why = sent.map_or(String::new(), |sent| format!(", for {sent} were sent in all"));
        Doubt::new(
            Code::LoadNotReached,
            format!("at most {peak} of {slots} requests were in flight at once{why}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use serde_json::json;

    #[test]
    fn fewer_requests_than_slots_are_another_load() {
        let told = judge(
            json!({"max_concurrency": 64, "request_rate": "inf", "num_prompts": 4, "peak_concurrent_requests": 4}),
        );
        assert_eq!(
            told,
            ["load_not_reached: at most 4 of 64 requests were in flight at once, for 4 were sent in all"]
        );
        let counted_by_second = json!({"max_concurrency": 64, "request_rate": "inf", "max_concurrent_requests": 5});
        assert_eq!(judge(counted_by_second).len(), 1);
        let nearly = json!({"max_concurrency": 64, "request_rate": "inf", "peak_concurrent_requests": 60});
        assert!(judge(nearly).is_empty());
        let bounded = json!({"max_concurrency": 64, "request_rate": 2.0, "peak_concurrent_requests": 4});
        assert!(judge(bounded).is_empty(), "beside a rate it is a bound");
    }
}
