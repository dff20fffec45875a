//! Probes and answers of the earlier algorithms on known curves, from `tests/data/vectors/search.json`.

use super::history::{
    INFINITE, Outcome, ProbeFigures, adaptive_concurrency, double_and_bisect, generation1, generation1b, generation2,
    workload_levels,
};
use serde_json::Value;
use vsweep::report::compare::{Speed, valid_loads};

fn vectors(kind: &str) -> Vec<Value> {
    let text = include_str!("../../data/vectors/search.json");
    let all: Vec<Value> = serde_json::from_str(text).expect("valid in this test");
    let chosen: Vec<Value> = all.into_iter().filter(|vector| vector["kind"] == kind).collect();
    assert!(!chosen.is_empty(), "{kind}");
    chosen
}

fn numbers(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .expect("valid in this test")
        .iter()
        .map(|number| number.as_u64().expect("valid in this test"))
        .collect()
}

fn curve(name: &str, value: u64) -> ProbeFigures {
    let load = value as f64;
    let (p99_ms, reached) = match name.split(':').next().expect("valid in this test") {
        "lin" => (100.0 + 10.0 * load, load.min(1000.0)),
        "mm1" => (
            if load < 40.0 {
                100.0 / (1.0 - load / 40.0)
            } else {
                60_000.0
            },
            40.0,
        ),
        "step" => (if value <= 17 { 50.0 } else { 5000.0 }, 20.0),
        "always_fail" => (9999.0, 10.0),
        "always_pass" => (1.0, 10.0),
        other => panic!("unknown curve {other}"),
    };
    ProbeFigures { p99_ms, reached }
}

#[test]
fn each_generation_probes_and_answers_as_it_did() {
    for vector in vectors("sla_search") {
        let (input, expected) = (&vector["input"], &vector["expected"]);
        let limit_ms: f64 = input["criterion"]["p99_ms"]
            .as_str()
            .expect("valid in this test")
            .trim_start_matches("<=")
            .parse()
            .expect("valid in this test");
        let name = input["curve"].as_str().expect("valid in this test");
        let mut measure = |value| curve(name, value);
        let outcome = match input["algorithm"].as_str().expect("valid in this test") {
            "gen1_doubling_bisect" => generation1(limit_ms, &mut measure),
            "gen1b_margin" => generation1b(limit_ms, &mut measure),
            "gen2a_pchip_65536" => generation2(INFINITE, limit_ms, &mut measure),
            "gen2b_pchip_8192" => generation2(8192, limit_ms, &mut measure),
            other => panic!("unknown algorithm {other}"),
        };
        let expected = Outcome {
            probes: numbers(&expected["probes"]),
            answer: expected["answer"].as_u64().expect("valid in this test"),
        };
        assert_eq!(outcome, expected, "{}", vector["id"]);
    }
}

#[test]
fn the_dashboards_refinement_probes_as_it_did() {
    for vector in vectors("adaptive_concurrency") {
        let (input, expected) = (&vector["input"], &vector["expected"]);
        let case = input["case"].as_str().expect("valid in this test");
        let passes = |value: u64| match case.strip_prefix("limit ") {
            Some(limit) => value <= limit.parse().expect("valid in this test"),
            None => value == 16 || value == 64,
        };
        let mut measure = |value| ProbeFigures {
            p99_ms: if passes(value) { 1.0 } else { 1000.0 },
            reached: 0.0,
        };
        let limits = [&input["ADAPTIVE_MAX_PROBES"], &input["ADAPTIVE_MAX_CONCURRENCY"]]
            .map(|n| n.as_u64().expect("valid in this test"));
        let list = numbers(&input["static_list"]);
        let (bounds, probes) = adaptive_concurrency(&list, limits[0] as usize, limits[1], 500.0, &mut measure);
        let keys = [
            "static_last_pass",
            "static_first_fail",
            "final_last_pass",
            "final_first_fail",
        ];
        assert_eq!(bounds, keys.map(|key| expected[key].as_u64()), "{}", vector["id"]);
        assert_eq!(probes, numbers(&expected["extra_probes"]), "{}", vector["id"]);
    }
}

#[test]
fn the_current_exploration_chooses_its_levels() {
    for vector in vectors("workload_explore") {
        let (input, probes) = (
            &vector["input"],
            vector["expected"]["ok"]["probes"]
                .as_array()
                .expect("valid in this test"),
        );
        let variable = input["workload_var"].as_str().expect("valid in this test");
        let (serial, batch) = if input["model"]
            .as_str()
            .expect("valid in this test")
            .starts_with("serial 0.21")
        {
            (0.21, 0.425)
        } else {
            let [serial, batch] = [&probes[0], &probes[1]].map(|anchor| {
                let concurrency = anchor["overrides"]["max_concurrency"]
                    .as_f64()
                    .expect("valid in this test");
                let rate = anchor["overrides"]["request_rate"].as_f64().unwrap_or(f64::INFINITY);
                let latency_s = 0.1 + 0.01 * concurrency;
                let throughput = (concurrency / latency_s).min(rate);
                if variable == "request_rate" {
                    throughput
                } else {
                    throughput * (latency_s * 1000.0) / 1000.0
                }
            });
            (serial, batch)
        };
        let levels = workload_levels(
            serial,
            batch,
            input["iters"].as_u64().expect("valid in this test") as usize,
        );
        let expected: Vec<i64> = probes[2..]
            .iter()
            .map(|p| p["overrides"][variable].as_i64().expect("valid in this test"))
            .collect();
        assert_eq!(levels, expected, "{}", vector["id"]);
    }
}

#[test]
fn the_valid_concurrency_is_the_highest_within_its_limits() {
    for vector in vectors("valid_concurrency") {
        let (input, expected) = (&vector["input"], &vector["expected"]);
        let limit = |key: &str| input[key].as_f64().expect("valid in this test");
        let at = |key: &str, row: usize| input[key][row].as_f64().expect("valid in this test");
        let count = input["concurrency"].as_array().expect("valid in this test").len();
        let rows: Vec<[f64; 4]> = (0..count)
            .map(|row| ["concurrency", "ttft_ms", "tpot_ms", "output_tput"].map(|key| at(key, row)))
            .collect();
        let slack = 1.0 + limit("slack_pct") / 100.0;
        let speed = Speed {
            statistic: "p99".into(),
            ttft_ms: limit("ttft_max_ms") * slack,
            tpot_ms: limit("tpot_max_ms") * slack,
        };
        assert_eq!(
            valid_loads(&rows, &speed),
            ["ttft_max", "tpot_max", "both"].map(|key| expected[key].as_f64()),
            "{}",
            vector["id"]
        );
    }
}

#[test]
fn double_and_bisect_finds_the_last_pass_from_either_side() {
    for start in [1, 8, 100, 900] {
        let outcome = double_and_bisect(start, 1.0, 500.0, &mut |value| curve("lin", value));
        assert_eq!(outcome.answer, 40, "from {start}");
    }
}
