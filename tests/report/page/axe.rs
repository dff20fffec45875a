//! axe-core finds no problems in the pages. `.ci/run` installs it; without it the test reports that it was skipped.

use super::browser::Browser;
use super::{realistic, samples, set_width, write};
use crate::experiment::{Experiment, times};
use crate::harness::{Harness, said, skip};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use vsweep::report::RequestSamples;

/// The script of axe-core, from `AXE_CORE` or from a Python package that contains it.
fn script() -> Option<String> {
    let named = std::env::var_os("AXE_CORE").map(PathBuf::from);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/lib");
    let pythons = fs::read_dir(installed).into_iter().flatten().flatten();
    let bundled = pythons.map(|python| python.path().join("site-packages/axe_playwright_python/axe.min.js"));
    let found = named.into_iter().chain(bundled);
    found.filter_map(|path| fs::read_to_string(path).ok()).next()
}

/// Violations that axe finds in the browser's page: a line for each element that breaks a rule.
fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    let found = browser.run(&format!(
        "{axe}; return axe.run(document, {{ resultTypes: ['violations'] }}).then(({{ violations }}) =>
            violations.flatMap((rule) => rule.nodes.map((node) => `${{rule.id}}: ${{rule.help}}: ${{node.target.join(' ')}}: ${{node.html.slice(0, 160)}}: ${{node.failureSummary.slice(0, 400)}}`)))"
    ));
    let lines = found.as_array().expect("a list").iter();
    lines.map(|line| line.as_str().expect("text").to_owned()).collect()
}

/// Returns all violations in light, in dark and on a phone.
fn broken(browser: &Browser, axe: &str, url: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (look, width) in [("light", 1280), ("dark", 1280), ("light", 390)] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": look}]});
        browser.devtools("Emulation.setEmulatedMedia", &features);
        set_width(browser, width, width < 500);
        browser.visit(url);
        browser.wait("return document.readyState === 'complete'");
        let mut states = vec![
            "document.querySelectorAll('details').forEach((each) => { if (!each.closest('.menu')) each.open = true; })",
        ];
        let is_report = browser.run("return Boolean(window.vsweep?.panels)") == json!(true);
        if is_report && (look, width) == ("light", 1280) {
            states.push(
                "vsweep.panels.curves?.chart.picture.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
                document.querySelector('#filters .menu')?.setAttribute('open', '')",
            );
        }
        if is_report {
            states.push("vsweep.openRun(0)");
            states.push("document.querySelector('#detail p button').click()");
        }
        for state in states {
            browser.run(state);
            all.extend(
                violations(browser, axe)
                    .into_iter()
                    .map(|line| format!("{look} {width} {state:.40}: {line}")),
            );
        }
    }
    all
}

fn file(path: &Path) -> String {
    format!("file://{}", path.display())
}

#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn axe_finds_no_violation() {
    let Some(axe) = script() else {
        skip("pages are not checked for accessibility: axe-core is not installed (see .ci/run)");
        return;
    };
    let browser = Browser::start();
    let (_folder, report) = write(&Experiment {
        simulated: true,
        ..realistic()
    });
    let (_other_folder, several) = write(&Experiment {
        loads: times(&realistic().loads, "random_output_len", &[json!(64), json!(256)]),
        ..realistic()
    });
    let harness = Harness::new();
    let folder = harness.folder.path();
    let seqs = |count: u64| Experiment {
        servers: times(&[json!({})], "max_num_seqs", &[json!(count), json!(2 * count)]),
        loads: times(&[json!({})], "max_concurrency", &[json!(4), json!(32)]),
        journal: count,
        ..Experiment::default()
    };
    seqs(4).write(&folder.join("old"));
    seqs(8).write(&folder.join("new"));
    let refused = harness.run(&["report", "old", "new"]);
    assert!(
        said(&refused).contains("vsweep compare old new --format html"),
        "{}",
        said(&refused)
    );
    let compared = harness.run(&["compare", "old", "new", "--format", "html"]);
    assert!(compared.stdout.starts_with(b"<!"), "{}", said(&compared));
    harness.write("compare.html", &String::from_utf8_lossy(&compared.stdout));
    let requests = RequestSamples::read(samples(200).to_string().as_bytes()).expect("samples");
    fs::write(
        folder.join("timeline.html"),
        requests.render("demo", "max_concurrency=64"),
    )
    .expect("written");

    let mut live = harness.vsweep(&["report", "--live", "old"]);
    let mut live = live
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut address = String::new();
    let mut told = BufReader::new(live.stdout.take().expect("a pipe"));
    told.read_line(&mut address).expect("an address");

    let pages = [
        ("report", file(&report.report_html())),
        ("two workloads", file(&several.report_html())),
        ("compare", file(&folder.join("compare.html"))),
        ("requests", file(&folder.join("timeline.html"))),
        ("live", address.trim().to_owned()),
    ];
    let found = pages.map(|(name, url)| {
        broken(&browser, &axe, &url)
            .into_iter()
            .map(move |line| format!("{name}: {line}"))
            .collect::<Vec<_>>()
    });
    let _ = live.kill();
    let _ = live.wait();
    let found = found.concat();

    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));

    // A planted violation is found.
    browser.visit(&file(&folder.join("compare.html")));
    browser.run("document.body.append(Object.assign(document.createElement('img'), { src: 'data:,' }))");
    let planted = violations(&browser, &axe);
    assert!(planted.iter().any(|line| line.starts_with("image-alt")), "{planted:?}");
}
