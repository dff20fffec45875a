//! The size and the response times of pages. `cargo test --test report speed -- --ignored --nocapture` prints them. Only sizes are
//! asserted; the times are for people to read.

use super::browser::Browser;
use super::{large, realistic, set_width, write};
use crate::experiment::{Experiment, times};
use serde_json::json;
use std::fs;

/// 1000 points in two workloads.
fn thousand() -> Experiment {
    let servers = times(
        &[json!({"gpu_memory_utilization": 0.9})],
        "tensor_parallel_size",
        &[1, 2, 4, 8, 16].map(|size| json!(size)),
    );
    let loads = times(
        &[json!({"random_input_len": 1024})],
        "max_concurrency",
        &(1..=10).map(|i| json!(1 << i)).collect::<Vec<_>>(),
    );
    Experiment {
        servers: times(
            &servers,
            "max_num_seqs",
            &[16, 32, 64, 128, 256, 384, 512, 768, 1024, 2048].map(|seqs| json!(seqs)),
        ),
        loads: times(&loads, "random_output_len", &[json!(64), json!(256)]),
        fails: |_, _| None,
        doubts: |_, _| None,
        runs: 1,
        ..realistic()
    }
}

/// Median time in milliseconds from an action to the picture that shows its effect.
fn answer_ms(browser: &Browser, prepare: &str, act: &str) -> f64 {
    let script = format!(
        "{prepare}
         return (async () => {{
           const took = [];
           for (let turn = 0; turn < 9; turn += 1) {{
             await new Promise((done) => setTimeout(done, 50));
             const began = performance.now();
             {act}
             await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
             took.push(performance.now() - began);
           }}
           return took.sort((a, b) => a - b)[4];
         }})()"
    );
    browser.run(&script).as_f64().expect("a number")
}

#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn the_speed_of_large_pages_is_told() {
    let browser = Browser::start();
    set_width(&browser, 1400, false);
    for (name, experiment) in [("1,000 points", thousand()), ("10,000 runs", large())] {
        let (_folder, directory) = write(&experiment);
        let page = directory.report_html();
        let size = fs::metadata(&page).expect("there").len();
        assert!(size < 3_000_000, "{name}: {size} bytes");
        let mut opened: Vec<f64> = Vec::new();
        for _ in 0..5 {
            browser.open(&page);
            let until = "return Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd)";
            opened.push(browser.run(until).as_f64().expect("a number"));
        }
        opened.sort_by(f64::total_cmp);
        browser.wait("return vsweep.panels.pareto.chart.marks?.length > 0");
        let sight = "document.getElementById('filters').scrollIntoView({behavior: 'instant'});";
        let menu = "const box = document.querySelector('#filters .choices input');";
        let filter = answer_ms(&browser, &format!("{sight} {menu}"), "box.click();");
        let chart = "const chart = vsweep.panels.pareto.chart; chart.picture.scrollIntoView({block: 'center', behavior: 'instant'});";
        let hover = answer_ms(
            &browser,
            chart,
            "const mark = chart.marks[(turn * 101) % chart.marks.length], frame = chart.picture.getBoundingClientRect();
             chart.picture.dispatchEvent(new PointerEvent('pointermove', {clientX: frame.left + mark.left, clientY: frame.top + mark.top}));",
        );
        println!(
            "{name}: {:.2} MB, opens in {} ms ({} to {}), filter {filter:.0} ms, hover {hover:.0} ms",
            size as f64 / 1e6,
            opened[2],
            opened[0],
            opened[4]
        );
    }
}
