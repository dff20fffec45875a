//! Checks another program's result for contradictions within it, and compares it with the requested load. A result that contradicts itself
//! is rejected. A result of another load gets a doubt, because it does not measure its point.

use crate::plan::{Params, number_or_text, spelling};
use crate::units::show_count;
use crate::validity::{Code, Doubt};
use serde_json::Value;
use std::collections::BTreeMap;
use std::slice;

/// Counts and rates that are numbers of at least 0 in every result.
const NUMBERS: [&str; 9] = [
    "duration",
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "request_goodput",
];
/// Most figures of a result. Each is several columns of the tables, which a larger number would make too large to be read.
const MOST_FIGURES: usize = 2000;
/// Rates, each with the counts whose sum, divided by the duration, it equals.
const RATES: [(&str, &[&str]); 3] = [
    ("request_throughput", &["completed"]),
    ("output_throughput", &["total_output_tokens"]),
    ("total_token_throughput", &["total_input_tokens", "total_output_tokens"]),
];
/// Rates of a part, each with the rate of all.
const PARTS: [(&str, &str); 2] = [
    ("output_throughput", "total_token_throughput"),
    ("request_goodput", "request_throughput"),
];
/// Greatest accepted ratio between figures that should be equal, such as a rate and its count divided by the duration.
const TOLERANCE: f64 = 1.1;
/// Greatest accepted ratio for rates of other clients, which may leave out the ramp of the load.
const TOLERANCE_OF_CLIENTS: f64 = 2.0;

/// Load that a program was asked for.
#[derive(Debug, Clone, Copy)]
pub struct LoadSpec<'a> {
    /// Its parameters, as far as they are known.
    pub params: &'a Params,
    /// Names that the model may have; empty if any name is accepted.
    pub models: &'a [&'a str],
}

/// Returns the contradiction within a result, if there is one, as the end of a sentence whose subject is the result.
pub fn self_contradiction(result: &Params) -> Option<String> {
    too_many_figures(result)
        .or_else(|| invalid_number(result))
        .or_else(|| falling_percentiles(result))
        .or_else(|| impossible_count(result))
        .or_else(|| wrong_rate(result))
        .or_else(|| too_long(result))
        .or_else(|| part_above_whole(result))
        .or_else(|| other_median(result))
        .or_else(|| impossible_concurrency(result))
        .or_else(|| more_ended_than_sent(result, number(result, "num_prompts")?))
}

/// Returns a doubt if the result is of another load than the one that was asked for.
pub fn load_contradiction(result: &Params, asked: LoadSpec<'_>) -> Option<Doubt> {
    let param = |name: &str| spelling::find(asked.params, name);
    let load = ["max_concurrency", "request_rate", "num_prompts", "burstiness"].into_iter();
    let differs = |name: &str| {
        let should = text_of(param(name)?)?;
        let is = match result.get(name)? {
            // vLLM's client writes null for no limit.
            Value::Null if name == "max_concurrency" && should.parse::<f64>().is_ok() => "inf".to_owned(),
            value => text_of(value)?,
        };
        let is_every_row = name == "num_prompts" && should == "0";
        (!is_every_row && !are_equal(&is, &should))
            .then(|| format!("it says {name} = {is}, and {should} was asked for"))
    };
    let sent = || {
        let found = more_ended_than_sent(result, number_or_text(param("num_prompts")?)?)?;
        Some(format!("it {found}"))
    };
    let model = || {
        let is = result.get("model_id")?.as_str()?;
        let short = |name: &str| {
            name.trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or(name)
                .to_lowercase()
        };
        let is_right = asked.models.iter().any(|name| short(name) == short(is));
        (!asked.models.is_empty() && !is_right)
            .then(|| format!("it is of the model {is}, and {} was asked for", asked.models[0]))
    };
    let found = load.filter_map(differs).next().or_else(sent).or_else(model)?;
    Some(Doubt::new(Code::OtherLoad, found))
}

/// Returns the doubt about requests that were `asked` for and have no result, if the result does not say how many were sent.
pub fn vanished(result: &Params, asked: Option<f64>) -> Option<Doubt> {
    let figure = |name: &str| match name {
        "num_prompts" => asked,
        name => number(result, name),
    };
    Doubt::of_vanished_requests(figure).filter(|_| !result.contains_key("num_prompts"))
}

/// Like `self_contradiction`, for a record of vLLM's sweep. Only the figures are checked, not the parameters that follow them. The order
/// of the keys tells them apart, so a record whose keys were sorted contradicts itself.
pub fn figures_contradiction(record: &Params) -> Option<String> {
    let mut behind = record.keys().skip_while(|name| *name != "run_number");
    if let Some(name) = behind.find(|name| is_figure(name)) {
        return Some(format!(
            "has {name} after run_number, so something put its keys in another order; give the file as the sweep wrote it"
        ));
    }
    let measured = measured(record).map(|(name, value)| (name.clone(), value.clone()));
    self_contradiction(&measured.collect())
}

/// Returns what a record of vLLM's sweep measured: all keys before `run_number`. The parameters follow it.
pub fn measured(record: &Params) -> impl Iterator<Item = (&String, &Value)> {
    record.iter().take_while(|(name, _)| *name != "run_number")
}

fn is_figure(name: &str) -> bool {
    NUMBERS.contains(&name) || latency(name).is_some()
}

/// Splits `p99_ttft_ms` into the statistic and the latency.
fn latency(name: &str) -> Option<(&str, &str)> {
    let (statistic, latency) = name.strip_suffix("_ms")?.split_once('_')?;
    let is_percentile = || {
        statistic
            .strip_prefix('p')
            .is_some_and(|percent| percent.parse::<f64>().is_ok())
    };
    (["mean", "median", "std"].contains(&statistic) || is_percentile()).then_some((statistic, latency))
}

fn too_many_figures(result: &Params) -> Option<String> {
    let is_figure = |value: &&Value| !value.is_array() && !value.is_object();
    let (count, most) = (
        result.values().filter(is_figure).count(),
        show_count(MOST_FIGURES as u64),
    );
    (count > MOST_FIGURES).then(|| {
        let count = show_count(count as u64);
        format!("has {count} figures, and at most {most} are read; write fewer")
    })
}

fn invalid_number(result: &Params) -> Option<String> {
    let figures = result
        .iter()
        .filter(|(name, value)| is_figure(name) && !value.is_null());
    let wrong = |(name, value): (&String, &Value)| match value.as_f64() {
        Some(number) if number < 0.0 => Some(format!("has a negative {name} ({value})")),
        Some(_) => None,
        None if value.is_object() => Some(format!(
            "has an object as {name}; run the program as bench.command, and name the places of its figures in [bench.result]"
        )),
        None => Some(format!("has no finite number as {name} ({value})")),
    };
    figures.into_iter().find_map(wrong)
}

/// Looks for percentiles that are not in ascending order.
fn falling_percentiles(result: &Params) -> Option<String> {
    let mut percentiles: BTreeMap<&str, Vec<(f64, &str, f64)>> = BTreeMap::new();
    for (name, value) in result {
        let Some(((statistic, latency), value)) = latency(name).zip(value.as_f64()) else {
            continue;
        };
        let percent = match statistic {
            "median" => Some(50.0),
            _ => statistic.strip_prefix('p').and_then(|percent| percent.parse().ok()),
        };
        let Some(percent) = percent else { continue };
        percentiles.entry(latency).or_default().push((percent, name, value));
    }
    percentiles.into_values().find_map(|mut of_latency| {
        of_latency.sort_by(|a, b| a.0.total_cmp(&b.0));
        let is_falling = |pair: &&[(f64, &str, f64)]| pair[0].0 < pair[1].0 && pair[1].2 < pair[0].2 * (1.0 - 1e-9);
        let pair = of_latency.windows(2).find(is_falling)?;
        let ((_, low, below), (_, high, above)) = (pair[0], pair[1]);
        Some(format!("has {high} = {above} below {low} = {below}"))
    })
}

/// Smallest number of requests that is impossible; larger doubles are no longer exact.
pub(super) const IMPOSSIBLE_COUNT: f64 = (1_u64 << 53) as f64;

/// Looks for counts of requests that are not whole or too large, less than one request in flight, and requests that ended in no time.
fn impossible_count(result: &Params) -> Option<String> {
    let counts = ["completed", "failed"].map(|name| (name, number(result, name)));
    let mut counts = counts.into_iter().filter_map(|(name, count)| Some((name, count?)));
    let part = counts.clone().find(|(_, count)| count.fract() != 0.0);
    let part = part.map(|(name, count)| format!("counts a fraction of a request ({name} = {count})"));
    let too_many = counts.find(|(_, count)| *count >= IMPOSSIBLE_COUNT);
    let too_many = too_many.map(|(name, count)| format!("has more requests than there can be ({name} = {count:e})"));
    let load = number(result, "max_concurrency").filter(|load| *load < 1.0);
    let load = load.map(|load| format!("has less than one request in flight (max_concurrency = {load})"));
    let in_no_time = || {
        let completed = number(result, "completed").filter(|completed| *completed > 0.0)?;
        let duration = number(result, "duration").filter(|duration| *duration <= 0.0)?;
        Some(format!("has {completed} completed requests in {duration} s"))
    };
    part.or(too_many).or(load).or_else(in_no_time)
}

/// Looks for latencies that are longer than the whole run. Other clients are not checked, because they may leave out the ramp of the load.
fn too_long(result: &Params) -> Option<String> {
    let duration_s = number(result, "duration").filter(|_| !result.contains_key("client"))?;
    let mut latencies = result.iter().filter_map(|(name, value)| {
        let (statistic, of) = latency(name)?;
        let is_of_requests = statistic != "std" && ["ttft", "tpot", "itl", "e2el"].contains(&of);
        Some((name, value.as_f64()?)).filter(|_| is_of_requests)
    });
    let (name, value) = latencies.find(|(_, value)| *value > TOLERANCE * duration_s * 1000.0)?;
    Some(format!(
        "has {name} = {value}, longer than the whole run ({duration_s} s)"
    ))
}

/// Looks for times to the first token that are longer than the whole request, and for rates of a part that are above those of all.
fn part_above_whole(result: &Params) -> Option<String> {
    let latencies = result.keys().filter_map(|name| {
        let (statistic, of) = latency(name)?;
        (of == "ttft" && statistic != "std").then(|| (name.clone(), format!("{statistic}_e2el_ms")))
    });
    let rates = PARTS.map(|(part, whole)| (part.to_owned(), whole.to_owned()));
    latencies.chain(rates).find_map(|(of_part, of_whole)| {
        let (part, whole) = (number(result, &of_part)?, number(result, &of_whole)?);
        let is_wrong = whole > 0.0 && part > TOLERANCE * whole;
        is_wrong.then(|| format!("has {of_part} = {part} above {of_whole} = {whole}"))
    })
}

/// Looks for latencies of single requests whose median is not the stated one. Lists that also have failed requests are not checked.
fn other_median(result: &Params) -> Option<String> {
    let completed = number(result, "completed").filter(|_| !result.contains_key("client"))?;
    ["ttft", "itl"].into_iter().find_map(|latency| {
        let list = format!("{latency}s");
        let of_requests = result
            .get(&list)?
            .as_array()
            .filter(|list| list.len() as f64 == completed)?;
        let all = of_requests.iter().flat_map(|of_request| match of_request {
            Value::Array(several) => several.as_slice(),
            one => slice::from_ref(one),
        });
        let mut all_ms: Vec<f64> = all
            .map(|seconds| Some(seconds.as_f64()? * 1000.0))
            .collect::<Option<_>>()?;
        all_ms.sort_by(f64::total_cmp);
        let middle = |at: usize| all_ms.get(at).copied();
        let is = middle(all_ms.len() / 2)?.midpoint(middle((all_ms.len() - 1) / 2)?);
        let name = format!("median_{latency}_ms");
        let stated = number(result, &name)?;
        // Figures may be rounded.
        let is_wrong = is > TOLERANCE * stated + 1.0 || stated > TOLERANCE * is + 1.0;
        is_wrong.then(|| format!("has {name} = {stated}, but the median of {list} is {is:.3} ms"))
    })
}

/// Looks for an average number of requests in flight, by Little's law, that a closed loop cannot have. Conversations are not checked,
/// because they wait between turns, nor rates that grow. Other clients are not checked, because they may leave out the ramp of the load.
fn impossible_concurrency(result: &Params) -> Option<String> {
    let is_open = number(result, "request_rate").is_some_and(f64::is_finite);
    let is_exempt = ["client", "num_conversations", "ramp_up_strategy"]
        .into_iter()
        .any(|key| result.contains_key(key));
    let slots = number(result, "max_concurrency").filter(|_| !is_open && !is_exempt)?;
    let slots = slots.min(number(result, "completed")?);
    let (mean_ms, rate) = (number(result, "mean_e2el_ms")?, number(result, "request_throughput")?);
    let in_flight = mean_ms / 1000.0 * rate;
    // Fewer may be in flight: the others wait for a last slow request, or have failed.
    (in_flight > TOLERANCE * slots).then(|| {
        format!(
            "has mean_e2el_ms = {mean_ms} at {rate} requests/s: {in_flight:.3} requests in flight, more than the {slots} possible"
        )
    })
}

/// Looks for rates that differ from the counts divided by the duration.
fn wrong_rate(result: &Params) -> Option<String> {
    let duration = number(result, "duration").filter(|duration| *duration > 0.0)?;
    let most = if result.contains_key("client") {
        TOLERANCE_OF_CLIENTS
    } else {
        TOLERANCE
    };
    RATES.into_iter().find_map(|(name, counts)| {
        let rate = number(result, name)?;
        let counted: f64 = counts.iter().map(|count| number(result, count)).sum::<Option<f64>>()?;
        let expected = counted / duration;
        // A difference of one in the count is accepted, because it changes the rate of a small count much.
        let is_wrong = (rate > most * expected || most * rate < expected) && (rate - expected).abs() > 1.0 / duration;
        is_wrong.then(|| format!("has {name} = {rate}, but {counted} in {duration} s are {expected:.3} per second"))
    })
}

/// Looks for more ended requests than were sent. Conversations are not checked, because each of their turns is a request.
fn more_ended_than_sent(result: &Params, sent: f64) -> Option<String> {
    let ended = number(result, "completed")? + number(result, "failed").unwrap_or(0.0);
    let has_turns = result.contains_key("num_conversations");
    // 0 stands for every row of a file.
    (!has_turns && sent > 0.0 && ended > sent)
        .then(|| format!("has {ended} requests that ended, more than the {sent} sent"))
}

fn number(result: &Params, name: &str) -> Option<f64> {
    result.get(name)?.as_f64()
}

/// Returns a setting as a string; `None` if it is not set or has no single value.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn are_equal(one: &str, other: &str) -> bool {
    let numbers = one.trim().parse::<f64>().ok().zip(other.trim().parse::<f64>().ok());
    match numbers {
        Some((one, other)) if one.is_finite() && other.is_finite() => {
            (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
        }
        Some((one, other)) => one == other,
        None => one.trim() == other.trim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sound() -> Params {
        let result = json!({
            "model_id": "org/tiny", "num_prompts": 400, "request_rate": "inf", "max_concurrency": 2, "duration": 20.0, "completed": 400,
            "failed": 0, "total_input_tokens": 6400, "total_output_tokens": 3200, "request_throughput": 20.0, "output_throughput": 160.0,
            "total_token_throughput": 480.0, "request_goodput": null, "mean_ttft_ms": 9.0, "median_ttft_ms": 8.0, "p90_ttft_ms": 12.0,
            "p99_ttft_ms": 20.0, "p99.9_ttft_ms": 20.0,
        });
        result.as_object().cloned().expect("an object")
    }

    fn with(name: &str, value: Value) -> Params {
        let mut result = sound();
        result.insert(name.to_owned(), value);
        result
    }

    #[test]
    fn a_record_with_sorted_keys_is_no_record() {
        let mut record = sound();
        record.insert("run_number".to_owned(), json!(0));
        record.insert("max_num_seqs".to_owned(), json!(64));
        assert_eq!(figures_contradiction(&record), None);
        record.insert("total_output_tokens".to_owned(), json!(3200));
        assert_eq!(
            figures_contradiction(&record),
            None,
            "a value that is overwritten keeps its place"
        );
        record.sort_keys();
        let found = figures_contradiction(&record).expect("sorted");
        assert!(found.starts_with("has total_input_tokens after run_number"), "{found}");
    }

    #[test]
    fn a_sound_result_contradicts_nothing() {
        assert_eq!(self_contradiction(&sound()), None);
        let mut every_row = sound();
        every_row["num_prompts"] = json!(0);
        assert_eq!(self_contradiction(&every_row), None, "its own client writes 0 as well");
        for count in [400, 0] {
            let params = json!({"max-concurrency": "2", "request_rate": "inf", "num_prompts": count});
            let params = params.as_object().cloned().expect("an object");
            let models = ["/models/tiny"];
            assert_eq!(
                load_contradiction(
                    &sound(),
                    LoadSpec {
                        params: &params,
                        models: &models
                    }
                ),
                None
            );
        }
        assert_eq!(
            load_contradiction(
                &sound(),
                LoadSpec {
                    params: &Params::new(),
                    models: &[]
                }
            ),
            None
        );
        assert_eq!(self_contradiction(&Params::new()), None);
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        for (name, value, said) in [
            ("output_throughput", json!(-7), "has a negative output_throughput (-7)"),
            ("p99_ttft_ms", json!(-1.0), "has a negative p99_ttft_ms (-1.0)"),
            (
                "output_throughput",
                json!(true),
                "has no finite number as output_throughput (true)",
            ),
            (
                "output_throughput",
                json!("99999"),
                "has no finite number as output_throughput (\"99999\")",
            ),
            (
                "request_throughput",
                json!({"unit": "requests/sec", "avg": 20.0}),
                "has an object as request_throughput; run the program as bench.command",
            ),
            (
                "p90_ttft_ms",
                json!("inf"),
                "has no finite number as p90_ttft_ms (\"inf\")",
            ),
            ("duration", json!(-3), "has a negative duration (-3)"),
            ("duration", json!(0), "has 400 completed requests in 0 s"),
            (
                "completed",
                json!(99.5),
                "counts a fraction of a request (completed = 99.5)",
            ),
            (
                "completed",
                json!(1e19),
                "has more requests than there can be (completed = 1e19)",
            ),
            (
                "max_concurrency",
                json!(-4),
                "has less than one request in flight (max_concurrency = -4)",
            ),
            (
                "mean_ttft_ms",
                json!(1e6),
                "has mean_ttft_ms = 1000000, longer than the whole run (20 s)",
            ),
            (
                "completed",
                json!(4000),
                "has request_throughput = 20, but 4000 in 20 s are 200.000 per second",
            ),
            (
                "failed",
                json!(10),
                "has 410 requests that ended, more than the 400 sent",
            ),
            ("p99_ttft_ms", json!(3.0), "has p99_ttft_ms = 3 below p90_ttft_ms = 12"),
            (
                "output_throughput",
                json!(1e6),
                "has output_throughput = 1000000, but 3200 in 20 s are 160.000 per second",
            ),
            ("output_throughput", json!(1e308), "has output_throughput = 1"),
            ("p99_e2el_ms", json!(8.0), "has p99_ttft_ms = 20 above p99_e2el_ms = 8"),
            (
                "request_goodput",
                json!(40),
                "has request_goodput = 40 above request_throughput = 20",
            ),
        ] {
            let found = self_contradiction(&with(name, value)).unwrap_or_default();
            assert!(found.starts_with(said), "{name}: {found}");
        }
        let mut uncounted = with("total_token_throughput", json!(100));
        uncounted.remove("total_input_tokens");
        let found = self_contradiction(&uncounted).unwrap_or_default();
        assert_eq!(found, "has output_throughput = 160 above total_token_throughput = 100");
    }

    #[test]
    fn a_result_of_too_many_figures_is_refused() {
        let figures = |count: usize| -> Params { (0..count).map(|figure| (format!("k{figure}"), json!(1))).collect() };
        assert_eq!(self_contradiction(&figures(MOST_FIGURES)), None);
        let found = self_contradiction(&figures(MOST_FIGURES + 1)).unwrap_or_default();
        assert_eq!(found, "has 2,001 figures, and at most 2,000 are read; write fewer");
    }

    #[test]
    fn latencies_that_cannot_be_those_of_the_load_are_named() {
        // Two requests in flight at 20 a second take 100 ms each.
        let sound = with("mean_e2el_ms", json!(99.0));
        assert_eq!(self_contradiction(&sound), None);
        let found = |mean_ms: f64| {
            let mut result = sound.clone();
            result.remove("mean_ttft_ms");
            result.insert("mean_e2el_ms".to_owned(), json!(mean_ms));
            self_contradiction(&result)
        };
        assert_eq!(
            found(0.099),
            None,
            "slots may wait for one slow request, or for failed ones"
        );
        let said = found(199.0).unwrap_or_default();
        assert!(
            said.contains("3.980 requests in flight, more than the 2 possible"),
            "{said}"
        );
        let mut growing = with("mean_e2el_ms", json!(1.0));
        growing.remove("mean_ttft_ms");
        growing.insert("ramp_up_strategy".to_owned(), json!("linear"));
        assert_eq!(self_contradiction(&growing), None);
        let said = self_contradiction(&with("mean_e2el_ms", json!(7.0))).unwrap_or_default();
        assert_eq!(said, "has mean_ttft_ms = 9 above mean_e2el_ms = 7");
    }

    #[test]
    fn latencies_of_requests_have_the_stated_median() {
        let lists = |ttfts: [f64; 3], itls: Value| {
            let mut result = sound();
            let few = json!({"completed": 3, "duration": 0.15, "ttfts": ttfts, "itls": itls, "median_itl_ms": 10.0});
            result.extend(few.as_object().cloned().expect("an object"));
            self_contradiction(
                &result
                    .into_iter()
                    .filter(|(name, _)| !name.contains("output"))
                    .collect(),
            )
        };
        let itls = json!([[0.01, 0.02], [0.01], []]);
        assert_eq!(lists([0.007, 0.008, 9.0], itls.clone()), None);
        let said = lists([9.0, 9.0, 0.008], itls).unwrap_or_default();
        assert_eq!(said, "has median_ttft_ms = 8, but the median of ttfts is 9000.000 ms");
        let said = lists([0.008; 3], json!([[1e308], [1e308], []])).unwrap_or_default();
        assert!(
            said.starts_with("has median_itl_ms = 10, but the median of itls is"),
            "{said}"
        );
    }

    #[test]
    fn a_result_of_another_load_is_no_measurement_of_its_point() {
        let params = json!({"max_concurrency": 2, "request_rate": "inf", "num_prompts": 400, "burstiness": 1.0});
        let params = params.as_object().cloned().expect("an object");
        let models = ["org/tiny", "tiny"];
        let asked = LoadSpec {
            params: &params,
            models: &models,
        };
        for (name, value, said) in [
            (
                "max_concurrency",
                json!(64),
                "it says max_concurrency = 64, and 2 was asked for",
            ),
            (
                "max_concurrency",
                Value::Null,
                "it says max_concurrency = inf, and 2 was asked for",
            ),
            ("burstiness", json!(7), "it says burstiness = 7, and 1.0 was asked for"),
            (
                "request_rate",
                json!(3),
                "it says request_rate = 3, and inf was asked for",
            ),
            (
                "num_prompts",
                json!(40),
                "it says num_prompts = 40, and 400 was asked for",
            ),
            (
                "completed",
                json!(4000),
                "it has 4000 requests that ended, more than the 400 sent",
            ),
            (
                "model_id",
                json!("other"),
                "it is of the model other, and org/tiny was asked for",
            ),
        ] {
            let doubt = load_contradiction(&with(name, value), asked).expect(name);
            assert_eq!((doubt.code, doubt.detail.as_str()), (Code::OtherLoad, said));
        }
        let mut uncounted = sound();
        uncounted.retain(|name, _| !["num_prompts", "failed"].contains(&name.as_str()));
        let doubt = vanished(&uncounted, Some(800.0)).expect("half of them");
        assert_eq!(doubt.detail, "400 of 800 requests have no result");
        assert_eq!(vanished(&sound(), Some(800.0)), None, "it counts them itself");
        let mut silent = sound();
        silent.remove("max_concurrency");
        assert_eq!(load_contradiction(&silent, asked), None, "it does not say");
    }
}
