//! Conversations: every turn is sent after the answer to the turn before, and repeats the messages so far.

use crate::scripted::{HttpRequest, Server, chat, refusal, run};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use vsweep::bench;
use vsweep::plan::BenchRunner;
use vsweep::validity::Code;

/// Answers with words that identify the request.
async fn server() -> Server {
    Server::start(|seen| chat(&answer(seen), 10)).await
}

fn answer(seen: &HttpRequest) -> Vec<String> {
    let said = seen.body["messages"].as_array().map_or(0, Vec::len);
    vec![format!("{} after", header(seen, "x-session-id")), format!(" {said}")]
}

fn header(seen: &HttpRequest, name: &str) -> String {
    let line = seen
        .head
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_default().to_owned()
}

/// Number of a conversation, from the end of its id.
fn conversation(seen: &HttpRequest) -> usize {
    let id = header(seen, "x-session-id");
    id.rsplit('-')
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

fn chats(more: Value) -> Value {
    let mut params = json!({
        "backend": "openai-chat", "multi_turn": true, "random_input_len": 6, "random_output_len": 2, "seed": 5,
        "request_id_prefix": "run-",
    });
    params
        .as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    params
}

#[tokio::test]
async fn turns_wait_for_answers_and_repeat_them() {
    let server = server().await;
    let params = chats(
        json!({"num_prompts": 5, "multi_turn_concurrency": 2, "per_turn_input_len": 3, "multi_turn_delay_ms": 5}),
    );
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    let seen = server.seen.lock().expect("no panic");
    let mut asked: BTreeMap<usize, Vec<&HttpRequest>> = BTreeMap::new();
    seen.iter()
        .for_each(|seen| asked.entry(conversation(seen)).or_default().push(seen));
    assert_eq!(asked.len(), 5);
    for (number, turns) in asked {
        let mut said: Vec<Value> = vec![];
        for (turn, seen) in turns.iter().enumerate() {
            assert_eq!(header(seen, "x-request-id"), format!("run-conv-{number}-turn{turn}"));
            let messages = seen.body["messages"].as_array().expect("messages");
            assert_eq!(messages[..messages.len() - 1], said);
            assert_eq!(
                (&seen.body["min_tokens"], &seen.body["max_completion_tokens"]),
                (&json!(2), &json!(2))
            );
            said = messages.clone();
            said.push(json!({"role": "assistant", "content": answer(seen).concat()}));
        }
        assert_eq!(turns.len(), 3);
        let words = |turn: usize| {
            let text = turns[turn].body["messages"][2 * turn]["content"][0]["text"]
                .as_str()
                .expect("a text");
            text.split(' ').count()
        };
        assert_eq!((words(0), words(1), words(2)), (6, 3, 3));
    }
    assert_eq!((&result["completed"], &result["num_prompts"]), (&json!(15), &json!(5)));
    assert_eq!(result["mode"], "multi_turn");
    assert_eq!(
        (&result["num_conversations"], &result["turns_per_conversation"]),
        (&json!(5), &json!(3.0))
    );
    assert_eq!(
        (&result["conversations_completed"], &result["conversations_failed"]),
        (&json!(5), &json!(0))
    );
    assert_eq!(
        (&result["multi_turn_concurrency"], &result["inter_turn_delay_ms"]),
        (&json!(2), &json!(5.0))
    );
    assert!(
        result["peak_concurrent_requests"]
            .as_u64()
            .is_some_and(|peak| peak <= 2)
    );
    // Every conversation has two pauses of 5 ms.
    assert!(
        result["avg_conversation_duration_ms"]
            .as_f64()
            .is_some_and(|ms| ms >= 10.0)
    );
    let turns = result["per_turn_metrics"].as_array().expect("turns");
    assert_eq!(turns.len(), 3);
    for (index, turn) in turns.iter().enumerate() {
        assert_eq!((&turn["turn_index"], &turn["num_samples"]), (&json!(index), &json!(5)));
        assert_eq!(
            (&turn["completed"], &turn["total_output_tokens"]),
            (&json!(5), &json!(10))
        );
        assert!(turn["mean_ttft_ms"].as_f64().is_some_and(|ms| ms > 0.0));
    }
}

#[tokio::test]
async fn answers_shorter_than_a_turn_asks_for_are_doubted() {
    let server = server().await;
    let is_doubted = async |output_len: u64| {
        let params = chats(json!({"num_prompts": 2, "random_output_len": output_len}));
        let measured = run(&server.url, params).await.expect("measured");
        measured
            .doubts
            .iter()
            .any(|doubt| doubt.code == Code::OutputLengthsDiffer)
    };
    assert!(is_doubted(9).await);
    assert!(!is_doubted(2).await);
}

#[tokio::test]
async fn a_conversation_keeps_its_slot_until_it_ends() {
    let server = server().await;
    let params =
        chats(json!({"num_prompts": 4, "max_concurrency": 1, "multi_turn_min_turns": 2, "multi_turn_max_turns": 4}));
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    let seen = server.seen.lock().expect("no panic");
    let order: Vec<usize> = seen.iter().map(conversation).collect();
    assert!(order.is_sorted(), "{order:?}");
    let lengths = (0..4).map(|number| order.iter().filter(|other| **other == number).count());
    assert!(lengths.clone().all(|turns| (2..=4).contains(&turns)), "{order:?}");
    assert_eq!(result["per_turn_metrics"].as_array().map(Vec::len), lengths.max());
    assert_eq!(result["generator_late_connections"], 0);
}

#[tokio::test]
async fn nothing_follows_a_failed_turn_and_nothing_is_lost() {
    let asked: Arc<Mutex<HashMap<usize, usize>>> = Arc::default();
    let count = asked.clone();
    let server = Server::start(move |seen| {
        let mut asked = count.lock().expect("no panic");
        let turns = asked.entry(conversation(seen)).or_default();
        *turns += 1;
        match (conversation(seen), *turns) {
            (1, 2) => refusal("500 Internal Server Error", "no"),
            _ => chat(&answer(seen), 10),
        }
    })
    .await;
    let params = chats(json!({"num_prompts": 3, "multi_turn_num_turns": 4, "save_detailed": true}));
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    assert_eq!(asked.lock().expect("no panic")[&1], 2);
    assert_eq!((&result["completed"], &result["failed"]), (&json!(9), &json!(3)));
    assert_eq!(
        (&result["conversations_completed"], &result["conversations_failed"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(result["avg_turns_completed"], 3.0);
    let unsent = "not sent: an earlier turn of its conversation failed";
    assert_eq!(result["failure_reasons"], json!({"HTTP 500: no": 1, unsent: 2}));
    let errors = result["errors"].as_array().expect("a list");
    assert_eq!(errors[5..8], [json!("HTTP 500: no"), json!(unsent), json!(unsent)]);
    let failed: Vec<&Value> = result["per_turn_metrics"]
        .as_array()
        .expect("turns")
        .iter()
        .map(|turn| &turn["failed"])
        .collect();
    assert_eq!(failed, [0, 1, 1, 1]);
}

#[tokio::test]
async fn a_turn_that_nobody_answered_has_no_latency() {
    let server = Server::start(|seen| match seen.body["messages"].as_array().map(Vec::len) {
        Some(1) => chat(&answer(seen), 10),
        _ => refusal("500 Internal Server Error", "no"),
    })
    .await;
    let params = chats(json!({"num_prompts": 2, "multi_turn_num_turns": 2}));
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    let turns = &result["per_turn_metrics"];
    assert!(turns[0]["mean_ttft_ms"].as_f64().expect("a number") > 0.0);
    assert_eq!((&turns[1]["failed"], turns[1].get("mean_ttft_ms")), (&json!(2), None));
}

#[tokio::test]
async fn turns_with_shared_parts_stand_alone() {
    let server = server().await;
    let params = chats(
        json!({"num_prompts": 2, "random_input_len": 10, "multi_turn_prefix_global_ratio": 0.3,
                              "multi_turn_prefix_conversation_ratio": 0.25, "max_concurrency": 1}),
    );
    run(&server.url, params).await.expect("measured");
    let seen = server.seen.lock().expect("no panic");
    let texts: Vec<Vec<&str>> = seen
        .iter()
        .map(|seen| {
            assert_eq!(seen.body["messages"].as_array().map(Vec::len), Some(1));
            let text = seen.body["messages"][0]["content"][0]["text"].as_str().expect("a text");
            text.split(' ').collect()
        })
        .collect();
    assert!(
        texts.len() == 6
            && texts
                .iter()
                .all(|words| words.len() == 10 && words[..3] == texts[0][..3])
    );
    assert!(texts[1][..5] == texts[0][..5] && texts[3][..5] == texts[4][..5] && texts[0][3..5] != texts[3][3..5]);
}

#[tokio::test]
async fn recorded_conversations_are_asked_whole() {
    let server = server().await;
    let folder = tempfile::tempdir().expect("a folder");
    let talk = |name: &str, turns: usize| {
        let turns: Vec<Value> = (0..turns)
            .map(|i| json!({"value": format!("{name} says {i} of {turns}")}))
            .collect();
        json!({"conversations": turns})
    };
    let file = folder.path().join("talks.json");
    std::fs::write(&file, json!([talk("a", 2), talk("b", 6), talk("c", 5)]).to_string()).expect("written");
    let params = json!({"backend": "openai-chat", "multi_turn": true, "dataset_name": "sharegpt", "dataset_path": file,
                        "num_prompts": 2, "disable_shuffle": true, "max_concurrency": 1, "sharegpt_output_len": 9});
    let result = run(&server.url, params).await.expect("measured").result.to_values();
    let seen = server.seen.lock().expect("no panic");
    let last = |seen: &HttpRequest| {
        seen.body["messages"]
            .as_array()
            .and_then(|said| said.last().cloned())
            .expect("a message")
    };
    let texts: Vec<Value> = seen
        .iter()
        .map(|seen| last(seen)["content"][0]["text"].clone())
        .collect();
    let expected = [
        "b says 0 of 6",
        "b says 2 of 6",
        "b says 4 of 6",
        "c says 0 of 5",
        "c says 2 of 5",
    ];
    assert_eq!(
        json!(texts),
        json!(expected),
        "conversations of fewer than two questions are left out"
    );
    assert_eq!(
        (&result["prompt_source"], &seen[0].body["min_tokens"]),
        (&json!("text"), &json!(9))
    );
    assert_eq!(result["turns_per_conversation"], 2.5);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let problems =
        |params: Value| bench::check(&BenchRunner::Native, params.as_object().expect("an object")).join("\n");
    insta::assert_snapshot!(
        [
            problems(json!({"multi_turn": true})),
            problems(json!({"multi_turn_num_turns": 3})),
            problems(chats(json!({"multi_turn_min_turns": 5, "multi_turn_max_turns": 4}))),
            problems(chats(json!({"multi_turn_max_turns": 2}))),
            problems(chats(json!({"max_concurrency": 2, "multi_turn_concurrency": 3}))),
            problems(chats(json!({"multi_turn_prefix_global_ratio": 0.5, "multi_turn_prefix_conversation_ratio": 0.5}))),
            problems(chats(json!({"dataset_name": "prefix_repetition"}))),
        ]
        .join("\n"),
        @r#"
    multi_turn repeats what was said in a chat; set backend to openai-chat
    multi_turn_num_turns has no meaning without multi_turn; set that, or remove it
    multi_turn_min_turns is 5; it must be at most multi_turn_max_turns or multi_turn_num_turns (4)
    multi_turn_max_turns is 2; it must be at least 3, unless multi_turn_min_turns is lower
    multi_turn_concurrency and max_concurrency both limit the conversations at once; keep one
    multi_turn_prefix_global_ratio and multi_turn_prefix_conversation_ratio leave nothing for a turn's own text; lower one
    multi_turn takes dataset_name random, or sharegpt without shared prefixes; change it
    "#
    );
}
