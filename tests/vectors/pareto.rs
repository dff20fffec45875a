//! Golden values of `vllm bench sweep plot_pareto` 0.32 (`tests/data/vectors/sweep_pareto.json`). vsweep gives the same, or the case is
//! listed here with vsweep's result; `docs/differences.md` gives the reasons.

use serde_json::{Value, json};
use vsweep::plan::Params;
use vsweep::table::{Better, RunFigures, RunRow, TableBuilder, count_gpus, frontier, read_scalars};

fn vectors(kind: &str) -> Vec<(String, Value, Value)> {
    let whole: Value = serde_json::from_str(include_str!("../data/vectors/sweep_pareto.json")).expect("valid JSON");
    let all = whole["vectors"].as_array().expect("a list").clone();
    let of_kind = all.into_iter().filter(|vector| vector["kind"] == kind);
    let found = of_kind.map(|vector| {
        let id = vector["id"].as_str().expect("a name").to_owned();
        (id, vector["input"].clone(), vector["expected"].clone())
    });
    let found: Vec<_> = found.collect();
    assert!(!found.is_empty(), "no vector of {kind}");
    found
}

#[track_caller]
fn check(id: &str, found: &Value, expected: &Value, different: &[(&str, Value)]) {
    match different.iter().find(|(other, _)| *other == id) {
        Some((_, ours)) => {
            assert_eq!(found, ours, "{id}");
            assert_ne!(found, expected, "{id} does not differ; take it off the list");
        }
        None => assert_eq!(found, expected, "{id}"),
    }
}

#[test]
fn frontiers() {
    let different = [
        ("pareto_frontier-01", json!([2, 0, 1, 4, 6])),
        ("pareto_frontier-02", json!([0])),
    ];
    for (id, input, expected) in vectors("pareto_frontier") {
        let points: Vec<(f64, f64)> = serde_json::from_value(input).expect("pairs");
        let found = frontier(&points, (Better::Higher, Better::Higher));
        check(&id, &json!(found), &expected["ok"], &different);
    }
}

#[test]
fn users_gpus_and_shares() {
    let different = [
        ("pareto_metrics-04", json!([20.0, 100.0, 5.0, 1.0])),
        ("pareto_metrics-11", json!([100.0, 100.0, 8.0, 8.0])),
        ("pareto_metrics-16", json!([null, 800.0, null, 1.0])),
        ("pareto_metrics-17", json!([null, null, 8.0, 1.0])),
    ];
    let names = ["tokens_per_user", "tokens_per_gpu", "user_count_estimate", "gpu_count"];
    for (id, input, expected) in vectors("pareto_metrics") {
        let record = &input["record"];
        let params: Params = record.as_object().expect("an object").clone();
        let metrics = read_scalars(record.to_string().as_bytes(), &RunFigures::default()).expect("an object");
        let mut builder = TableBuilder::new();
        builder.push(RunRow {
            point: "p",
            run: 0,
            gpus: count_gpus(&params, &[]).or(Some(1.0)),
            metrics: Some(&metrics),
            ..RunRow::default()
        });
        let mut table = builder.finish();
        let users = input["user_count_var"]
            .as_str()
            .filter(|name| *name != "max_concurrency");
        let counted = table.recount(users, input["gpu_count_var"].as_str());
        assert_eq!(counted, Ok(()), "{id}");
        let found: Vec<Option<f64>> = names.iter().map(|name| table.cell(name, 0).number()).collect();
        let theirs = match expected["ok"]["records"].get(0) {
            Some(record) => json!(names.map(|name| record[name].clone())),
            None if expected.get("error").is_some() => json!("error"),
            // vLLM skips a record without users. vsweep keeps it, with an unknown number of users.
            None => json!([null, 100.0, null, 1.0]),
        };
        check(&id, &json!(found), &theirs, &different);
    }
}
