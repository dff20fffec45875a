//! The page of an experiment with little in it: one run of each point, one server, one load.

use super::browser::Browser;
use super::{open_whole, write};
use crate::experiment::{Experiment, times};
use serde_json::json;

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn figures_of_one_run_have_their_intervals() {
    let browser = Browser::start();
    let users = [1, 4, 16, 64].map(|users| json!(users));
    let (_folder, directory) = write(&Experiment {
        loads: times(&[json!({})], "max_concurrency", &users),
        runs: 1,
        ..Experiment::default()
    });
    open_whole(&browser, &directory.report_html());
    browser.wait("return document.querySelectorAll('#curves .bar').length > 0");
    let sides = browser.run("return document.querySelector('#sides').textContent");
    let sides = sides.as_str().expect("text");
    assert!(sides.contains(", 1 run)"), "{sides}");
    let winner = browser.run("return document.querySelector('.winner').textContent");
    let winner = winner.as_str().expect("text");
    assert!(winner.contains("the only server at concurrency 64"), "{winner}");
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn servers_and_loads_without_a_setting_have_names() {
    let browser = Browser::start();
    let servers = [
        json!({}),
        json!({"max_num_seqs": 64}),
        json!({"tensor_parallel_size": 2}),
    ];
    let (_folder, directory) = write(&Experiment {
        servers: servers.to_vec(),
        loads: vec![json!({"max_concurrency": 16})],
        ..Experiment::default()
    });
    open_whole(&browser, &directory.report_html());
    browser.wait("return document.querySelectorAll('#users tbody th').length === 3");
    let told = "return [...document.querySelectorAll('.winner, #users th, #users td, option')].map((part) => part.textContent)";
    let told = browser.run(told).to_string();
    assert!(
        !told.contains("all points") && told.contains("default settings"),
        "{told}"
    );
    let winner = browser.run("return document.querySelector('.winner').textContent");
    let winner = winner.as_str().expect("text");
    assert!(!winner.contains(" at "), "{winner}");
}
