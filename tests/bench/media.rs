//! Images and audio with prompts, from the dataset's file to the body that a server gets.

use crate::scripted::{Server, chat, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Runs a dataset with one request at a time. Returns the bodies that the server got, in order.
async fn bodies(params: Value) -> Result<Vec<Value>, String> {
    let server = Server::start(|_| chat(&["yes".to_owned()], 7)).await;
    let mut params = params;
    params["max_concurrency"] = json!(1);
    params["disable_shuffle"] = json!(true);
    if params.get("backend").is_none() {
        params["backend"] = json!("openai-chat");
    }
    let measured = run(&server.url, params).await.map_err(|failure| failure.detail)?;
    assert_eq!(measured.result.values["failed"], 0);
    let seen = server.seen.lock().expect("no panic");
    Ok(seen.iter().map(|seen| seen.body.clone()).collect())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a temporary file");
    path
}

fn parts(body: &Value) -> &Vec<Value> {
    body["messages"][0]["content"].as_array().expect("parts")
}

/// One second of silence: 8 samples of one byte.
const WAV: &[u8] = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x08\0\0\0\x08\0\0\0\x01\0\x08\0data\x08\0\0\0\x80\x80\x80\x80\x80\x80\x80\x80";

#[tokio::test]
async fn pictures_of_a_file_stand_beside_its_texts() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = [
        json!({"prompt": "how many?", "image_files": ["/a.png", "http://x/b.png"]}),
        json!({"content": [{"type": "text", "text": "is "}, {"type": "image", "image": "c.png"},
                           {"type": "image_url", "image_url": {"url": "file:///d.png", "detail": "low"}}]}),
    ];
    let text = format!("{}\n{}\n", rows[0], rows[1]);
    let params = json!({"dataset_name": "custom_image", "dataset_path": write(folder.path(), "i.jsonl", text.as_bytes()),
                        "num_prompts": 0, "custom_output_len": 3});
    let bodies = bodies(params).await.expect("measured");
    let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let said = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(bodies.len(), 2, "0 stands for every row");
    assert_eq!(
        parts(&bodies[0]),
        &[said("how many?"), picture("file:///a.png"), picture("http://x/b.png")]
    );
    let mut low = picture("file:///d.png");
    low["image_url"]["detail"] = json!("low");
    assert_eq!(parts(&bodies[1]), &[said("is "), picture("file://c.png"), low]);
    assert_eq!(bodies[0]["max_completion_tokens"], 3);
}

#[tokio::test]
async fn pictures_are_sent_as_data_when_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let picture = write(folder.path(), "p.jpg", b"\xff\xd8\xff\xe0");
    let row = json!({"prompt": "what?", "image_files": [picture]}).to_string();
    let file = write(folder.path(), "i.jsonl", row.as_bytes());
    let params = json!({"dataset_name": "custom_image", "dataset_path": file, "num_prompts": 1,
                        "custom_ensure_client_side_data": true});
    let bodies = bodies(params).await.expect("measured");
    assert_eq!(
        parts(&bodies[0])[1]["image_url"]["url"],
        "data:image/jpeg;base64,/9j/4A=="
    );
}

#[tokio::test]
async fn sounds_go_into_messages_or_forms() {
    let folder = tempfile::tempdir().expect("a folder");
    let sound = write(folder.path(), "s.wav", WAV);
    let row = json!({"prompt": "say it", "audio": sound, "output_tokens": 4}).to_string();
    let file = write(folder.path(), "a.jsonl", row.as_bytes());
    let params =
        json!({"dataset_name": "custom_audio", "dataset_path": file, "num_prompts": 1, "custom_output_len": -1});
    let in_messages = bodies(params.clone()).await.expect("measured");
    let part = &parts(&in_messages[0])[1];
    assert_eq!(
        (&part["type"], &part["input_audio"]["format"]),
        (&json!("input_audio"), &json!("wav"))
    );
    assert!(
        part["input_audio"]["data"]
            .as_str()
            .is_some_and(|data| data.starts_with("UklGRiwAAABXQVZF"))
    );
    assert_eq!(in_messages[0]["max_completion_tokens"], 4);

    let server = Server::start(|_| chat(&["words".to_owned()], 7)).await;
    let mut form = params;
    form["backend"] = json!("openai-audio");
    let result = run(&server.url, form).await.expect("measured").result.to_values();
    let seen = server.seen.lock().expect("no panic");
    assert!(seen[0].head.starts_with("POST /v1/audio/transcriptions ") && seen[0].head.contains("multipart/form-data"));
    assert!(
        result["rtfx"].as_f64().is_some_and(|rtfx| rtfx > 0.0),
        "{}",
        result["rtfx"]
    );
}

#[tokio::test]
async fn recorded_conversations_bring_their_pictures_and_films() {
    let folder = tempfile::tempdir().expect("a folder");
    let talk = json!([{"value": "a question of many words"}, {"value": "an answer"}]);
    let rows = json!([{"conversations": talk, "image": "i.png"}, {"conversations": talk, "video": "/v.mp4"},
                      {"conversations": talk, "image": ""}]);
    let file = write(folder.path(), "s.json", rows.to_string().as_bytes());
    let params = json!({"dataset_name": "sharegpt", "dataset_path": file, "num_prompts": 3, "sharegpt_output_len": 2});
    let bodies = bodies(params).await.expect("measured");
    let urls: Vec<Option<&Value>> = bodies.iter().map(|body| parts(body).get(1)).collect();
    assert_eq!(
        urls[0].map(|part| &part["image_url"]["url"]),
        Some(&json!("file://i.png"))
    );
    assert_eq!(
        urls[1].map(|part| &part["video_url"]["url"]),
        Some(&json!("file:///v.mp4"))
    );
    assert_eq!(urls[2], None);
}

#[tokio::test]
async fn random_pictures_are_pictures() {
    let params = json!({"dataset_name": "random-mm", "num_prompts": 2, "random_input_len": 5, "random_output_len": 2,
                        "random_mm_base_items_per_request": 2, "random_mm_bucket_config": {"(16, 24, 1)": 1.0}});
    let bodies = bodies(params).await.expect("measured");
    for body in &bodies {
        assert_eq!((parts(body).len(), &parts(body)[0]["type"]), (3, &json!("text")));
        let url = parts(body)[2]["image_url"]["url"].as_str().expect("an address");
        // The beginning of a JPEG in base64.
        assert!(url.starts_with("data:image/jpeg;base64,/9j/"), "{url}");
    }
    assert_ne!(parts(&bodies[0])[1], parts(&bodies[0])[2]);
}

#[tokio::test]
async fn messages_of_speed_bench_come_from_their_subset() {
    let folder = tempfile::tempdir().expect("a folder");
    let row =
        |text: &str, category: &str| json!({"messages": [{"role": "user", "content": text}], "category": category});
    let rows = format!("{}\n{}\n", row("one", "qa"), row("two", "coding"));
    write(folder.path(), "throughput_1k.jsonl", rows.as_bytes());
    for length in ["speed_bench_output_len", "output_len"] {
        let params = json!({"dataset_name": "speed_bench", "dataset_path": folder.path(), "num_prompts": 1, "speed_bench_category": "coding",
                            "speed_bench_dataset_subset": "throughput_1k", length: 8});
        let bodies = bodies(params).await.expect("measured");
        assert_eq!(
            (&parts(&bodies[0])[0]["text"], &bodies[0]["max_completion_tokens"]),
            (&json!("two"), &json!(8))
        );
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut complaints = vec![];
    for (name, row) in [
        ("custom_image", json!({"prompt": "x"})),
        ("custom_image", json!({"content": [{"type": "sound"}]})),
        ("custom_image", json!({"content": []})),
        ("custom_audio", json!({"audio": "/nowhere/a.wav"})),
        ("custom_audio", json!({"prompt": "x"})),
    ] {
        let file = write(folder.path(), "x.jsonl", row.to_string().as_bytes());
        let failure = bodies(json!({"dataset_name": name, "dataset_path": file, "num_prompts": 1})).await;
        let failure = failure.expect_err("nothing to send");
        complaints.push(
            failure
                .split_once("x.jsonl, ")
                .map_or(failure.clone(), |(_, said)| said.to_owned()),
        );
    }
    let empty = json!({"dataset_name": "speed_bench", "dataset_path": folder.path(), "num_prompts": 1});
    let failure = bodies(empty).await.expect_err("no file");
    assert!(failure.contains("qualitative.jsonl"), "{failure}");
    insta::assert_snapshot!(complaints.join("\n"), @r#"
    line 1: "image_files" is not a list of paths; add it, or write the message as "content"
    line 1: a part of "content" is {"type":"sound"}; write a text, or a picture with its path
    line 1: "content" is not a list of parts; write [{"type": "text", "text": …}, …]
    line 1: cannot read /nowhere/a.wav: No such file or directory (os error 2); correct the path
    line 1: no column "audio" (there are: prompt); add it, or use another dataset_name
    "#);
}
