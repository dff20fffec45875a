//! A sentence about the limit that a recommended server reaches first, such as memory bandwidth, and what to try next. There is
//! no sentence if the runs record no limit.

use crate::sentences::{parts::percent, picks};
use crate::texts::words::lower_first;
use itertools::Itertools;
use vsweep_answer::{Answer, Winner};
use vsweep_plan::ServeCommand;
use vsweep_record::journal::State;
use vsweep_record::table::{Point, Points};

/// The sentence about each recommendation, in their order, without its full stop. Other workloads may reach other limits.
pub fn sentences(answer: &Answer, state: &State, points: &Points<'_>) -> Vec<Option<String>> {
    let leading = answer.leading().into_iter().zip(picks(answer));
    leading
        .map(|(answered, pick)| sentence(answered.winner.as_ref()?, pick.largest.as_deref(), state, points))
        .collect()
}

fn sentence(winner: &Winner, largest: Option<&str>, state: &State, points: &Points<'_>) -> Option<String> {
    let mut all = points.points.iter();
    let point = all.find(|point| winner.point.as_deref() == Some(&*point.id))?;
    let mut servers = state.servers.iter();
    servers.find(|(id, _)| id.to_string() == winner.config)?;
    // What another server of the experiment has was tried, and is not better.
    let commands = || state.servers.values().map(|server| ServeCommand::of(&server.argv));
    let has_fp8_cache = |command: ServeCommand| {
        command
            .value("kv_cache_dtype")
            .is_some_and(|dtype| dtype.starts_with("fp8"))
    };
    let weights = (!commands().any(|command| command.has("quantization"))).then_some(WEIGHTS);
    let cache = (!commands().any(has_fp8_cache)).then_some(CACHE);
    say(&limit(points, point)?, [weights, cache], largest, |name| {
        Some(points.spread(point, name)?.value)
    })
}

/// Shortens a sentence to its first and last clause, which are the limit and what to try next, for a place after a label.
pub fn briefly(sentence: &str) -> String {
    let parts = sentence.split("; ").collect_vec();
    let mut shown = parts.iter().take(1).chain(parts.iter().skip(1).last());
    let shown = shown.join("; ");
    // `KV` keeps its capitals.
    match shown.chars().nth(1) {
        Some(second) if second.is_lowercase() => lower_first(&shown),
        _ => shown,
    }
}

/// The limit that the runs of a point record most often; of two, a limit of the hardware.
fn limit(points: &Points<'_>, point: &Point) -> Option<String> {
    let cells = point.used.iter().map(|row| points.runs.cell("bound_by", *row));
    let named = cells.map(|cell| cell.to_string()).filter(|name| !name.is_empty());
    let counts = named.counts().into_iter().sorted();
    counts
        .max_by_key(|(name, count)| (*count, name != "max_num_seqs"))
        .map(|(name, _)| name)
}

/// Share of the peak memory bandwidth that kernels reach.
const REACHED_BANDWIDTH: f64 = 0.8;
/// Share of the peak arithmetic that kernels reach.
const REACHED_ARITHMETIC: f64 = 0.6;
/// Share of the reachable part of a peak from which the limit binds.
const NEAR: f64 = 0.8;

/// Settings to try, unless some server of the experiment has them.
const WEIGHTS: &str = "8-bit weights";
const CACHE: &str = "an fp8 KV cache (kv_cache_dtype)";

/// The sentence about a limit. `weights` and `cache` are the settings that are untried, and `largest` is the load and the settings of which
/// the server has the largest tested value, in words.
fn say(
    limit: &str,
    [weights, cache]: [Option<&str>; 2],
    largest: Option<&str>,
    figure: impl Fn(&str) -> Option<f64>,
) -> Option<String> {
    let share = |name: &str| figure(name).map(percent);
    let unreached = || {
        let (compute, bandwidth) = (share("mfu")?, share("mbu")?);
        Some(format!(
            "No limit reached: {compute} of compute and {bandwidth} of memory bandwidth used"
        ))
    };
    // Advice against a limit is given only if it is near. Otherwise more load may help.
    let unless_far = |name: &str, reached: f64, near: String| {
        Some(match figure(name)? >= NEAR * reached {
            true => near,
            false => {
                let more = largest.map(|largest| format!("; try more than {largest}"));
                format!("{}{}", unreached()?, more.unwrap_or_default())
            }
        })
    };
    Some(match limit {
        "memory_bandwidth" => {
            let ways = [weights, cache, Some("more requests at once")];
            let near = format!(
                "Memory bandwidth binds: {} of its peak is used, and kernels rarely exceed {}; to read less for each token, try {}",
                share("mbu")?,
                percent(REACHED_BANDWIDTH),
                ways.into_iter().flatten().join(", ")
            );
            unless_far("mbu", REACHED_BANDWIDTH, near)?
        }
        "arithmetic" => {
            let ways = [weights, Some("more GPUs")];
            let near = format!(
                "Compute binds: {} of its peak is used, and kernels rarely exceed {}; more requests will hardly help: try {}",
                share("mfu")?,
                percent(REACHED_ARITHMETIC),
                ways.into_iter().flatten().join(" or ")
            );
            unless_far("mfu", REACHED_ARITHMETIC, near)?
        }
        "host" => format!(
            "The host binds: its work takes about {} of the time, while {} of the memory bandwidth is used; CUDA graphs (no enforce_eager) or \
             more requests in each step may help, faster GPUs cannot",
            share("host_share")?,
            share("mbu")?
        ),
        "kv_blocks" => format!(
            "KV blocks bind: requests wait while {} of them are in use, so a larger max_num_seqs cannot help{}",
            share("kv_cache_usage_max")?,
            cache.map_or(String::new(), |cache| format!("; {cache} holds about twice the tokens"))
        ),
        "max_num_seqs" => format!(
            "max_num_seqs binds: requests wait while most KV blocks are free (use peaks at {}); raise it",
            share("kv_cache_usage_max")?
        ),
        "load" => unreached()? + "; the server can take more load",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTRIED: [Option<&str>; 2] = [Some(WEIGHTS), Some(CACHE)];

    #[test]
    fn each_limit_says_what_to_try_next() {
        let shares = |name: &str| Some(if name == "mfu" { 0.12 } else { 0.69 });
        let said = |limit| say(limit, UNTRIED, None, shares).expect("a sentence");
        assert_eq!(
            said("memory_bandwidth"),
            "Memory bandwidth binds: 69 % of its peak is used, and kernels rarely exceed 80 %; to read less for each token, try \
             8-bit weights, an fp8 KV cache (kv_cache_dtype), more requests at once"
        );
        assert_eq!(
            said("kv_blocks"),
            "KV blocks bind: requests wait while 69 % of them are in use, so a larger max_num_seqs cannot help; an fp8 KV cache \
             (kv_cache_dtype) holds about twice the tokens"
        );
        let far = "No limit reached: 12 % of compute and 69 % of memory bandwidth used";
        assert_eq!(said("arithmetic"), far, "more requests may help as long as it is far");
        assert_eq!(
            say("arithmetic", UNTRIED, Some("concurrency 32"), shares).expect("a sentence"),
            format!("{far}; try more than concurrency 32")
        );
        let near = say("arithmetic", UNTRIED, None, |_| Some(0.52)).expect("a sentence");
        assert_eq!(
            briefly(&near),
            "compute binds: 52 % of its peak is used, and kernels rarely exceed 60 %; more requests will hardly help: try 8-bit \
             weights or more GPUs"
        );
        assert!(briefly(&said("kv_blocks")).starts_with("KV blocks"));
        for limit in ["arithmetic", "host", "max_num_seqs", "load"] {
            assert!(said(limit).contains('%'), "{limit}");
        }
        let quantised = say("kv_blocks", [None; 2], None, shares).expect("a sentence");
        assert!(quantised.ends_with("cannot help"), "{quantised}");
        assert_eq!(say("mfu", UNTRIED, None, shares), None, "no such limit");
        assert_eq!(say("host", UNTRIED, None, |_| None), None, "nothing is known");
    }
}
