//! The laws of expansion: random small plans are compared with a simple product of their axes. Large plans are refused.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::path::Path;
use vsweep::matrix::Matrix;
use vsweep::plan::{self, Format, Params, Plan, World};

fn plan(text: &Value) -> Result<Plan, String> {
    let plan = plan::parse(&text.to_string(), Format::Json, Path::new("plan.json"), &World::empty());
    plan.map_err(|problems| problems.to_string())
}

fn expand(text: &Value) -> Result<Matrix, String> {
    Matrix::expand(&plan(text)?).map_err(|problems| problems.to_string())
}

/// Returns all pairs of a matrix as (server parameters, load parameters).
fn pairs(matrix: &Matrix) -> Vec<(Params, Params)> {
    let of_server = |server| {
        matrix
            .points_of(&server)
            .map(|point| (server.params.clone(), point.params))
            .collect()
    };
    matrix
        .servers()
        .flat_map(|server| -> Vec<_> { of_server(server) })
        .collect()
}

/// Draws axes by name, each with a few different whole numbers.
fn axes(prefix: &'static str) -> impl Strategy<Value = Map<String, Value>> {
    let values = prop::collection::btree_set(0u8..6, 1..4);
    prop::collection::vec(values, 1..4).prop_map(move |axes| {
        let named = axes.into_iter().enumerate();
        named
            .map(|(position, values)| (format!("{prefix}{position}"), json!(values)))
            .collect()
    })
}

/// Returns the product of axes. The first axis varies slowest.
fn product(axes: &Map<String, Value>) -> Vec<Params> {
    axes.iter().fold(vec![Params::new()], |configs, (name, values)| {
        let with = |config: &Params, value: &Value| {
            let mut config = config.clone();
            config.insert(name.clone(), value.clone());
            config
        };
        let values = values.as_array().expect("an axis");
        configs
            .iter()
            .flat_map(|config| values.iter().map(|value| with(config, value)).collect::<Vec<_>>())
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn expansion_is_the_filtered_product_in_order(
        serve in axes("s"), bench in axes("b"), link in any::<bool>(), limit in 0u8..6, only in 0u8..6,
    ) {
        let mut text = json!({
            "serve": {"command": "vllm serve m", "params": serve},
            "bench": {"params": bench},
            "exclude": [{"serve.s0": format!(">{limit}"), "bench.b0": format!("<={limit}")}],
        });
        if link {
            text["link"] = json!({"equal": [["serve.s0", "bench.b0"]]});
        }
        let excluded = |s: &Params, b: &Params| {
            s["s0"].as_u64() > Some(limit.into()) && b["b0"].as_u64() <= Some(limit.into())
        };
        let all: Vec<(Params, Params)> = product(&serve)
            .into_iter()
            .flat_map(|s| product(&bench).into_iter().map(move |b| (s.clone(), b)))
            .collect();
        let expected: Vec<_> =
            all.iter().filter(|(s, b)| (!link || s["s0"] == b["b0"]) && !excluded(s, b)).cloned().collect();
        let Ok(matrix) = expand(&text) else {
            // The plan is refused if no pair is left or the exclusion matches none.
            let matches = all.iter().any(|(s, b)| excluded(s, b));
            prop_assert!(expected.is_empty() || !matches);
            return Ok(());
        };
        prop_assert_eq!(pairs(&matrix), expected.clone());

        let counts = matrix.counts();
        prop_assert_eq!(counts.points, expected.len() as u64);
        prop_assert_eq!(counts.runs, counts.points * 3);
        prop_assert_eq!(counts.pairs, all.len() as u64);
        let removed: u64 = counts.removed.iter().map(|removed| removed.pairs).sum();
        prop_assert_eq!(counts.points + removed, counts.pairs);
        let ids: HashSet<_> = matrix.points().map(|point| point.id).collect();
        prop_assert_eq!(ids.len() as u64, counts.points);
        let servers: Vec<_> = matrix.servers().collect();
        let load_by_load: HashSet<_> = matrix.point_ids(&servers, 0..matrix.loads()).map(|(.., id)| id).collect();
        prop_assert_eq!(load_by_load, ids);
        for server in &servers {
            let points: Vec<_> = matrix.points_of(server).collect();
            let from = |place: usize| matrix.point_ids_from(server, place).collect::<Vec<_>>();
            let by_place: Vec<_> = from(0).into_iter().map(|(place, _)| matrix.point_of(server, place)).collect();
            prop_assert_eq!(&by_place, &points);
            for (at, (place, id)) in from(0).into_iter().enumerate() {
                prop_assert_eq!(&id, &points[at].id);
                prop_assert_eq!(from(place).len(), points.len() - at);
            }
        }
        prop_assert!(matrix.servers().all(|server| matrix.points_of(&server).next().is_some()));

        let narrowed: Vec<_> = expected.into_iter().filter(|(s, _)| s["s0"].as_u64() >= Some(only.into())).collect();
        let kept = matrix.only(&format!("s0>={only}"));
        if let Ok(part) = &kept {
            let counts = part.counts();
            let removed: u64 = counts.removed.iter().map(|removed| removed.pairs).sum();
            prop_assert_eq!(counts.points + removed, counts.pairs);
        }
        prop_assert_eq!(kept.map(|kept| pairs(&kept)).unwrap_or_default(), narrowed);
    }

    #[test]
    fn zipped_axes_advance_together(length in 1usize..6, other in 1usize..4) {
        let values = |factor: usize| (0..length).map(|value| value * factor).collect::<Vec<_>>();
        let matrix = expand(&json!({
            "serve": {"command": "vllm serve m", "params": {"s": values(3)}},
            "bench": {"params": {"a": values(1), "free": (0..other).collect::<Vec<_>>(), "b": values(2)}},
            "link": {"zip": [["bench.a", "bench.b", "serve.s"]]},
        }));
        let matrix = matrix.expect("a valid plan");
        prop_assert_eq!(matrix.counts().points as usize, length * other);
        for (server, load) in pairs(&matrix) {
            let a = load["a"].as_u64().expect("a number");
            prop_assert_eq!(load["b"].as_u64(), Some(a * 2));
            prop_assert_eq!(server["s"].as_u64(), Some(a * 3));
        }
    }

    #[test]
    fn ranges_step_as_decimals(from in 0i32..100, step in 1i32..50, count in 0i32..40, places in 0usize..4) {
        let decimal = |digits: i32| format!("{:.places$}", f64::from(digits) / 10f64.powi(places as i32));
        let to = from + step * count;
        let range = format!("{{ from = {}, to = {}, step = {} }}", decimal(from), decimal(to), decimal(step));
        let text = format!("[serve]\ncommand = \"v\"\n[serve.params]\nx = {range}\n");
        let plan = plan::parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("valid");
        let matrix = Matrix::expand(&plan).expect("valid");
        let values: Vec<f64> = matrix.servers().map(|server| server.params["x"].as_f64().expect("a number")).collect();
        let expected: Vec<f64> = (0..=count).map(|k| decimal(from + k * step).parse().expect("a number")).collect();
        prop_assert_eq!(values, expected);
    }
}

#[test]
fn a_billion_pairs_are_refused_with_their_count() {
    let axis = json!({"from": 1, "to": 1000, "step": 1});
    let refused = expand(&json!({
        "serve": {"command": "vllm serve m", "params": {"a": axis, "b": axis}},
        "bench": {"params": {"c": axis}},
    }));
    assert!(refused.expect_err("too many").contains("1,000,000,000 pairs"));
}

#[test]
fn derived_values_follow_and_links_see_them() {
    let matrix = expand(&json!({
        "serve": {"command": "vllm serve m", "params": {"max_num_seqs": [8, 40, 80]}},
        "bench": {"params": {
            "max_concurrency": [1, 4, 8],
            "num_prompts": {"per": "max_concurrency", "times": 10, "min": 20, "max": 80},
        }},
        "link": {"equal": [["serve.max_num_seqs", "bench.num_prompts"]]},
    }));
    let pairs = pairs(&matrix.expect("a valid plan"));
    let shown: Vec<_> = pairs
        .iter()
        .map(|(s, b)| (s["max_num_seqs"].clone(), b["max_concurrency"].clone()))
        .collect();
    assert_eq!(shown, [(json!(40), json!(4)), (json!(80), json!(8))]);
}

#[test]
fn combinations_multiply_with_axes_and_win_over_fixed_values() {
    let matrix = expand(&json!({
        "serve": {
            "command": "vllm serve m --dtype auto",
            "params": {"dtype": "bfloat16", "max_num_seqs": [8, 64]},
            "combos": [{"name": "base"}, {"name": "fp8", "quantization": "fp8", "dtype": null}],
        },
    }));
    let shown: Vec<String> = matrix
        .expect("a valid plan")
        .servers()
        .map(|s| format!("{}: {}", s.name, s.argv.join(" ")))
        .collect();
    assert_eq!(
        shown,
        [
            "base max_num_seqs=8: vllm serve m --dtype bfloat16 --max-num-seqs 8",
            "base max_num_seqs=64: vllm serve m --dtype bfloat16 --max-num-seqs 64",
            "fp8 max_num_seqs=8: vllm serve m --max-num-seqs 8 --quantization fp8",
            "fp8 max_num_seqs=64: vllm serve m --max-num-seqs 64 --quantization fp8",
        ]
    );
}

#[test]
fn identity_follows_what_is_measured_and_nothing_else() {
    let text = json!({
        "serve": {"command": "vllm serve m", "env": {"A": "1", "HF_TOKEN": "secret-one"}},
        "bench": {"params": {"max_concurrency": 4}, "command": "vllm bench serve --api-key secret-one"},
    });
    let id = |text: &Value| {
        let matrix = expand(text).expect("valid");
        matrix.points().next().expect("one").id
    };
    let changed = |pointer: &str, value: Value| {
        let mut text = text.clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        text.pointer_mut(parent).expect("there")[key] = value;
        id(&text)
    };
    let before = id(&text);
    assert_eq!(changed("/runs", json!(9)), before);
    assert_eq!(changed("/serve/ready_timeout", json!("1m")), before);
    assert_eq!(changed("/serve/env/HF_TOKEN", json!("secret-two")), before);
    assert_ne!(changed("/serve/env/A", json!("2")), before);
    assert_ne!(changed("/serve/command", json!("vllm serve m --seed 1")), before);
    assert_ne!(changed("/bench/params/max_concurrency", json!(5)), before);
    assert_ne!(changed("/bench/warmup_prompts", json!(5)), before);
    assert_ne!(changed("/bench/command", json!("vllm-rs bench serve")), before);
    // What a run finds in the caches, and the figure that a place holds, are part of what is measured.
    assert_eq!(changed("/serve/reset", json!("caches")), before);
    assert_eq!(changed("/serve/reset", json!("POST /flush")), before);
    assert_ne!(changed("/serve/reset", json!("none")), before);
    assert_ne!(changed("/serve/reset", json!("restart")), before);
    let own = |at: &str| changed("/bench", json!({"command": "./load", "result": {"mean_ttft_ms": at}}));
    assert_ne!(own("/ttft"), own("/first"));
}

#[test]
fn only_names_what_it_does_not_know() {
    let matrix = expand(&json!({
        "serve": {"command": "vllm serve m", "params": {"seed": [1, 2], "dtype": ["half", "float"]}},
        "bench": {"params": {"seed": 3}},
    }));
    let matrix = matrix.expect("a valid plan");
    let refusal = |text: &str| matrix.only(text).map(|_| ()).expect_err("refused").to_string();
    assert!(refusal("sed=1").contains("did you mean `serve.seed` or `bench.seed`?"));
    assert!(refusal("seed=1").contains("write serve.seed or bench.seed"));
    assert!(refusal("serve.seed=7").contains("leaves no point"));
    assert!(refusal("dtype").contains("no comparison"));
    assert!(refusal("serve.seed=>2").contains("write `>=`"));
    assert!(refusal("seed=1 dtype=half").contains("put a comma"));
    assert!(refusal("bench.dtype=half").contains("did you mean `serve.dtype`?"));
    let only = matrix.only("serve.seed=2, dtype=half").expect("one");
    assert_eq!(only.counts().points, 1);
}

#[test]
fn names_on_both_sides_are_shown_with_their_side() {
    let matrix = expand(&json!({
        "serve": {"command": "vllm serve m", "params": {"seed": [1, 2], "dtype": ["half", "float"]}},
        "bench": {"params": {"seed": [3, 4]}},
    }));
    let matrix = matrix.expect("a valid plan");
    let server = matrix.servers().next().expect("one");
    let point = matrix.points_of(&server).next().expect("one");
    assert_eq!(
        (&*server.name, &*point.name),
        ("serve.seed=1, dtype=half", "bench.seed=3")
    );
    assert_eq!((&server.params["seed"], &point.params["seed"]), (&json!(1), &json!(3)));
}

#[test]
fn combinations_spell_a_parameter_in_one_way() {
    let matrix = expand(&json!({
        "serve": {"command": "vllm serve m"},
        "bench": {"combos": [
            {"name": "small", "max_concurrency": 1, "num-prompts": 2},
            {"name": "large", "max-concurrency": 4, "num_prompts": 8},
        ]},
    }));
    let pairs = pairs(&matrix.expect("a valid plan"));
    let names: Vec<Vec<&String>> = pairs.iter().map(|(_, load)| load.keys().collect()).collect();
    assert_eq!(names, [["max_concurrency", "num-prompts"]; 2]);
}

#[test]
fn a_comparison_of_two_servers_is_planned_with_four_starts_each_whatever_excludes_the_others() {
    let starts = |seqs: &[u32]| {
        let matrix = expand(&json!({
            "serve": {"command": "vllm serve m", "params": {"max_num_seqs": seqs}},
            "bench": {"params": {"max_concurrency": 4}},
            "compare": {},
            "exclude": [{"serve.max_num_seqs": 9}],
        }));
        let counts = matrix.expect("a valid plan").counts();
        (counts.servers, counts.starts)
    };
    assert_eq!(starts(&[7, 8, 9]), (2, 8));
    assert_eq!(starts(&[6, 7, 8, 9]), (3, 3));
}

#[test]
fn searches_at_every_load_have_their_remarks() {
    let remarks = |prompts: [u32; 2]| {
        let matrix = expand(&json!({
            "serve": {"command": "vllm serve m", "params": {"max_num_seqs": [1, 2]}},
            "bench": {"timeout": "5m", "params": {"num_prompts": prompts}},
            "link": {"zip": [["serve.max_num_seqs", "bench.num_prompts"]]},
            "sla": {"vary": "request_rate", "min": 0.5, "target": [{"p99_ttft_ms": "<=500"}]},
        }));
        matrix.expect("a valid plan").remarks()
    };
    let raised = remarks([100, 2000]);
    assert!(
        raised.iter().any(|remark| remark.contains("not at sla.min")),
        "{raised:?}"
    );
    assert_eq!(raised.len(), remarks([2000, 100]).len());
}

/// A command may already have one of the values that vary. Its default settings are then one of the servers, not one more.
#[test]
fn default_settings_are_no_server_of_their_own_if_the_command_states_one() {
    let of = |command: &str| {
        let text = json!({
            "serve": {"command": command, "params": {"max_num_seqs": [8, 16, 32], "block_size": [16, 32]}},
            "bench": {"params": {"num_prompts": 8}}, "optimize": {},
        });
        let matrix = expand(&text).expect("a valid plan");
        let servers: Vec<_> = matrix.servers().collect();
        let ids: HashSet<_> = servers.iter().map(|server| server.id.clone()).collect();
        assert_eq!(ids.len(), servers.len(), "{command}");
        let defaults = matrix.default_of(&servers).map(|at| servers[at].name.clone());
        (servers.len(), defaults)
    };
    let own = |name: &str| Some(name.to_owned());
    assert_eq!(of("vllm serve m"), (7, own("default")));
    assert_eq!(of("vllm serve m --max-num-seqs 8"), (7, own("default")));
    let stated = "vllm serve m --max-num-seqs 8 --block-size 32";
    assert_eq!(of(stated), (6, own("max_num_seqs=8, block_size=32")));
}

#[test]
fn servers_that_differ_only_in_a_secret_are_refused_for_that() {
    for secret in ["params", "env"] {
        let mut text = json!({"serve": {"command": "vllm serve m"}, "bench": {"params": {"num_prompts": 8}}});
        text["serve"][secret] = json!({"API_KEY": ["secret-one", "secret-two"]});
        let why = expand(&text).expect_err("one server twice");
        assert!(why.contains("a secret cannot be an axis"), "{why}");
    }
}

#[test]
fn default_settings_that_links_leave_without_a_load_are_counted_as_not_kept() {
    let of = |link: Value| {
        let text = json!({
            "serve": {"command": "vllm serve m", "params": {"max_num_seqs": [8, 16]}},
            "bench": {"params": {"max_concurrency": [8, 16], "num_prompts": 64}}, "optimize": {}, "link": link,
        });
        let counts = expand(&text).expect("a valid plan").counts();
        (counts.servers, counts.keeps_defaults)
    };
    assert_eq!(of(json!({})), (3, Some(true)));
    let tied = [["serve.max_num_seqs", "bench.max_concurrency"]];
    assert_eq!(of(json!({"equal": tied})), (2, Some(false)));
    assert_eq!(of(json!({"zip": tied})), (2, Some(false)));
}

#[test]
fn the_text_of_a_number_meets_conditions_and_links() {
    let text = |more: &str| {
        let serve = json!({"command": "v serve m", "env": {"THREADS": [1, 2]}, "params": {"seqs": ["1", "2"]}});
        let mut plan = json!({"serve": serve, "bench": {"params": {"num_prompts": [1, 2]}}});
        let more: Value = serde_json::from_str(more).expect("an object");
        plan.as_object_mut()
            .expect("an object")
            .extend(more.as_object().cloned().expect("an object"));
        plan
    };
    let count = |more: &str| pairs(&expand(&text(more)).expect("a valid plan")).len();
    assert_eq!(count("{}"), 8);
    for excluded in ["!=2", "=1", "<2"] {
        let more = format!(r#"{{"exclude": [{{"serve.env.THREADS": "{excluded}"}}]}}"#);
        assert_eq!(count(&more), 4, "{excluded}");
    }
    assert_eq!(
        count(r#"{"link": {"equal": [["serve.seqs", "bench.num_prompts"]]}}"#),
        4
    );
    let all = expand(&text("{}")).expect("a valid plan");
    assert_eq!(pairs(&all.only("env.THREADS=2,seqs>1").expect("some points")).len(), 2);
}
