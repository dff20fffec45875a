//! Words that several sentences share.

use crate::texts::changes::change_within;
use crate::texts::criteria::bound;
use crate::texts::words::{show_number, with_range};
use vsweep_answer::{Answer, Entrant, Estimate, Goal, QuestionAnswer, Target, Winner};

/// A figure, and its interval: `7,915` and ` (7,700 to 8,130)`. An interval without extent is empty.
pub fn estimate(estimate: &Estimate) -> (String, String) {
    with_range(estimate.value, estimate.low, estimate.high)
}

/// Describes a server by its differences from another one: `the same with KV cache fp8`, compared with `TP 2, KV cache auto`. Returns its
/// name if the two have nothing in common, or no difference.
pub fn apart(name: &str, from: &str) -> String {
    let (same, differing) = split(name, from);
    match same.is_empty() || differing.is_empty() {
        true => name.to_owned(),
        false => format!("the same with {}", differing.join(", ")),
    }
}

/// Describes a server that may be as good as the winner: `the same with KV cache fp8 (undecided, up to 64)`.
pub fn tie(answer: &Answer, answered: &QuestionAnswer, winner: &Winner, id: &str) -> String {
    apart(answer.name_of(id), answer.name_of(&winner.config)) + &undecided(answered, id)
}

/// The highest load that a server may hold, if its search ended undecided: ` (undecided, up to 64)`; else empty.
pub fn undecided(answered: &QuestionAnswer, id: &str) -> String {
    let limit = |entrant: &Entrant| match &answered.goal {
        Goal::Load { parameter, .. } if parameter == "max_concurrency" => whole(entrant.value.high, entrant.replicas),
        _ => entrant.value.high,
    };
    let entrant = answered.undecided(id);
    entrant.map_or(String::new(), |entrant| {
        format!(" (undecided, up to {})", show_number(limit(entrant)))
    })
}

/// Rounds the number of users of several servers down to a whole number for each. The tolerance allows for rounding in the logarithms from
/// which an interval is computed.
pub fn whole(users: f64, replicas: u32) -> f64 {
    let replicas = f64::from(replicas.max(1));
    (users / replicas * (1.0 + 1e-9)).floor() * replicas
}

/// The settings of a server that another one has too, and those in which it differs.
pub fn split<'a>(name: &'a str, from: &str) -> (Vec<&'a str>, Vec<&'a str>) {
    let theirs: Vec<&str> = from.split(", ").collect();
    name.split(", ").partition(|part| theirs.contains(part))
}

/// The name of a server whose varied settings are all left out.
pub const DEFAULT_SETTINGS: &str = "default settings";

/// The name of a server that is the only one of its plan.
pub const ONLY_SERVER: &str = "the only server";

/// Names the server with the default settings: `the default settings (TP 2)`; `the default settings` if the server has no other name.
pub fn defaults(name: &str) -> String {
    match name {
        DEFAULT_SETTINGS => format!("the {DEFAULT_SETTINGS}"),
        name => format!("the {DEFAULT_SETTINGS} ({name})"),
    }
}

/// A probability or a share: `97 %`, `over 99 %`, `under 1 %`. A number below 95 % is never rounded up to 95 %, because an answer counts as
/// sure from there on.
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        percent if percent > 99.0 => "over 99 %".to_owned(),
        percent if percent > 0.0 && percent < 1.0 => "under 1 %".to_owned(),
        percent if percent < 95.0 => format!("{:.0} %", percent.min(94.0)),
        percent => format!("{percent:.0} %"),
    }
}

/// An estimated ratio as a change with its interval: `+5.1 % (+2.0 to +8.3 %)`.
pub fn change(ratio: Estimate) -> String {
    change_within(ratio.value, Some((ratio.low, ratio.high)))
}

/// A margin: `1 %`, `0.5 %`.
pub fn margin(part: f64) -> String {
    let percent = (part * 1e4).round() / 100.0;
    format!("{percent} %")
}

/// A load after a figure: ` at concurrency 8`; empty without a load.
pub fn at_load(load: &str) -> String {
    match load {
        "" => String::new(),
        load => format!(" at {load}"),
    }
}

/// The number of servers on the user's GPUs whose common figure the answer gives, if there are several.
pub fn replicas(answered: &QuestionAnswer) -> Option<u32> {
    let replicas = answered.winner.as_ref().map(|winner| winner.replicas);
    replicas.filter(|replicas| *replicas > 1)
}

/// The load of a winner, like `at_load`; for several servers ` at concurrency 4 × 8`, or ` at concurrency 8, rate 60 for each server`.
pub fn at_load_of(winner: &Winner) -> String {
    at_load_of_replicas(&winner.load, winner.replicas)
}

fn at_load_of_replicas(load: &str, replicas: u32) -> String {
    match load.rsplit_once(' ') {
        _ if replicas < 2 => at_load(load),
        Some((name @ ("concurrency" | "rate"), value)) if is_number(value) => {
            format!(" at {name} {replicas} × {value}")
        }
        Some(_) => format!(" at {load} for each server"),
        None => at_load(load),
    }
}

fn is_number(text: &str) -> bool {
    text.replace(',', "").parse::<f64>().is_ok_and(f64::is_finite)
}

/// The GPUs that several servers take: ` on 8 GPUs (scaled from one server)`.
pub fn on_gpus(answer: &Answer, winner: &Winner) -> String {
    let gpus = answer.gpus.filter(|_| winner.replicas > 1);
    gpus.map_or(String::new(), |gpus| {
        format!(" on {gpus} GPUs (scaled from one server)")
    })
}

/// Formats a target: `p99 TTFT <= 500 ms`, `TTFT < 500 ms for 95 % of requests`, `p99 TTFT <= 500 ms where max_concurrency <= 8`.
pub fn target(target: &Target) -> String {
    let text = bound(&target.metric, target.bound, target.limit);
    match target.conditions.as_str() {
        "" => text,
        conditions => format!("{text} where {conditions}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Target, apart, at_load_of_replicas, target};
    use vsweep_answer::Operator;

    #[test]
    fn a_share_of_requests_is_a_target_in_words() {
        let of = |metric: &str, bound: Operator, limit: f64| {
            target(&Target {
                metric: metric.to_owned(),
                bound,
                limit,
                conditions: String::new(),
                about: Vec::new(),
            })
        };
        assert_eq!(
            of("chat.share(ttft_ms<20 & tpot_ms<1.5)", Operator::AtLeast, 0.95),
            "TTFT < 20 ms and TPOT < 1.5 ms for 95 % of requests of chat"
        );
        assert_eq!(of("p99_ttft_ms", Operator::AtMost, 500.0), "p99 TTFT <= 500 ms");
        let at_some = Target {
            metric: "p99_ttft_ms".to_owned(),
            bound: Operator::AtMost,
            limit: 500.0,
            conditions: "max_concurrency <= 8".to_owned(),
            about: Vec::new(),
        };
        assert_eq!(target(&at_some), "p99 TTFT <= 500 ms where max_concurrency <= 8");
    }

    #[test]
    fn only_a_load_of_one_number_is_multiplied() {
        let at = |load: &str| at_load_of_replicas(load, 4);
        assert_eq!(at("concurrency 1,024"), " at concurrency 4 × 1,024");
        assert_eq!(
            at("concurrency 16, rate 60"),
            " at concurrency 16, rate 60 for each server"
        );
        assert_eq!(at("rate inf"), " at rate inf for each server");
        assert_eq!(at("burstiness 0.5"), " at burstiness 0.5 for each server");
        assert_eq!(at(""), "");
    }

    #[test]
    fn a_server_is_named_by_what_differs() {
        let from = "TP 8, seqs 256, KV cache auto";
        assert_eq!(
            apart("TP 8, seqs 256, KV cache fp8", from),
            "the same with KV cache fp8"
        );
        assert_eq!(
            apart("TP 8, seqs 32, KV cache fp8", from),
            "the same with seqs 32, KV cache fp8"
        );
        assert_eq!(
            apart("TP 4, seqs 32, KV cache fp8", from),
            "TP 4, seqs 32, KV cache fp8"
        );
        assert_eq!(apart("base", "new"), "base");
    }
}
