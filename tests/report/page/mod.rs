//! `report.html` in a real browser: it must work by mouse, by keyboard and on a phone, without complaints in the console and without
//! requests to the network.

mod answer;
mod axe;
mod browser;
mod few;
mod gallery;
mod sliders;
mod speed;

use crate::experiment::{Experiment, times};
use browser::Browser;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use vsweep::cause::Cause;
use vsweep::journal::{self, Check, Directory};
use vsweep::plan::ReportOptions;
use vsweep::report::{RequestSamples, read_runs, write_all};
use vsweep::validity::Code;

/// Nine servers, of three tensor-parallel sizes and three batch limits, under six loads. One server does not load, and some runs fail or
/// are in doubt.
fn realistic() -> Experiment {
    let sizes = [json!(1), json!(2), json!(4)];
    let servers = times(
        &[json!({"gpu_memory_utilization": 0.9})],
        "tensor_parallel_size",
        &sizes,
    );
    let loads = times(
        &[json!({"dataset_name": "random", "random_input_len": 1024, "random_output_len": 256})],
        "max_concurrency",
        &[1, 4, 16, 64, 128, 256].map(|users| json!(users)),
    );
    Experiment {
        servers: times(&servers, "max_num_seqs", &[json!(64), json!(256), json!(1024)]),
        loads,
        runs: 3,
        fails: |server, load| match (server, load) {
            (2, _) => Some(Cause::OomAtLoad),
            (1, 5) => Some(Cause::CrashedUnderLoad),
            (0, 5) | (3, 5) => Some(Cause::RequestErrors),
            _ => None,
        },
        doubts: |server, load| ((server, load) == (8, 5)).then_some(Code::GeneratorSaturated),
        ..Experiment::default()
    }
}

/// 10 000 runs: 20 servers, 500 loads of one workload.
fn large() -> Experiment {
    let seqs: Vec<Value> = (1..=20).map(|i| json!(i * 16)).collect();
    let rates: Vec<Value> = (1..=500).map(|i| json!(f64::from(i) / 10.0)).collect();
    Experiment {
        servers: times(&[json!({"tensor_parallel_size": 2})], "max_num_seqs", &seqs),
        loads: times(&[json!({"random_output_len": 256})], "request_rate", &rates),
        runs: 1,
        simulated: true,
        ..Experiment::default()
    }
}

const PLAN: &str = "version = 1\nname = \"demo\"\nruns = 3\n\n[serve]\ncommand = \"vllm serve </script><b>x\"\n";

/// Writes an experiment with everything that a page can show, and its reports.
fn write(experiment: &Experiment) -> (TempDir, Directory) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let directory = experiment.write(&folder.path().join("llama-3.1-8b-h100"));
    fs::write(directory.plan(false), PLAN).expect("written");
    let manifest = json!({"format": "1.0", "vsweep": "0.1.0", "host": "node7", "os": "Linux 6.8", "cpu": "Xeon 8480+",
        "cpus": 224, "memory_bytes": 2_164_663_517_184_u64, "gpus": vec!["NVIDIA H100 80GB HBM3"; 8],
        "gpu_driver": "570.86", "git_commit": null, "plan": "plans/llama.toml"});
    fs::write(directory.manifest(), manifest.to_string()).expect("written");
    let log = directory.root().join("servers/0000000000000002/1.log");
    fs::create_dir_all(log.parent().expect("a folder")).expect("created");
    fs::copy("tests/data/logs/oom_at_load.log", log).expect("copied");
    watch(&directory);
    write_report(&directory);
    (folder, directory)
}

/// Writes readings of two GPUs for the first run of each of the first 300 points.
fn watch(directory: &Directory) {
    let mut points: Vec<_> = fs::read_dir(directory.root().join("runs"))
        .expect("runs")
        .flatten()
        .collect();
    points.sort_by_key(fs::DirEntry::path);
    let mut text =
        "seconds,running,waiting,kv_cache_usage,preemptions,generation_tokens,gpu0_power_watts,gpu1_power_watts,\
                    gpu0_utilization,gpu0_throttle,host_cpu_share\n"
            .to_owned();
    for i in 0..240 {
        let (second, wave) = (f64::from(i) - 1.5, (f64::from(i) / 9.0).sin());
        let busy = if second > 0.0 { 1.0 } else { 0.0 };
        let (running, waiting) = (busy * (48.0 + 8.0 * wave), busy * (9.0 * wave).max(0.0));
        let (usage, preemptions, tokens) = (busy * (0.8 + 0.19 * wave), i / 60, i * 900);
        let (power, throttle) = (
            120.0 + busy * (500.0 + 60.0 * wave),
            if i % 50 > 44 { "sw_power_cap" } else { "none" },
        );
        text += &format!(
            "{second},{running},{waiting},{usage},{preemptions},{tokens},{power},{power},{busy},{throttle},0.31\n"
        );
    }
    for point in points.iter().take(300) {
        let files = fs::read_dir(point.path()).expect("a folder").flatten();
        let first = files.map(|file| file.path()).min().expect("a run");
        fs::write(first.with_extension("telemetry.csv"), &text).expect("written");
    }
}

fn write_report(directory: &Directory) {
    let state = journal::load(directory, Check::Hashes).expect("a sound journal");
    assert_eq!(read_runs(directory, &state).damaged, Vec::<String>::new());
    write_all(directory, &state, &ReportOptions::default()).expect("written");
}

/// Writes pictures to the folder that `SCREENSHOTS` names, if it does, for people to look at.
fn keep_pictures(browser: &Browser, name: &str) {
    let Ok(folder) = std::env::var("SCREENSHOTS") else {
        return;
    };
    fs::create_dir_all(&folder).expect("created");
    for (i, picture) in browser.pictures().iter().enumerate() {
        fs::write(Path::new(&folder).join(format!("{name}-{i}.png.base64")), picture).expect("written");
    }
}

fn set_width(browser: &Browser, width: u32, phone: bool) {
    let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": phone});
    browser.devtools("Emulation.setDeviceMetricsOverride", &metrics);
}

/// Opens a page, with all its sections unfolded.
fn open_whole(browser: &Browser, page: &Path) {
    browser.open(page);
    browser.run("for (const part of document.querySelectorAll('details:not(.menu)')) part.open = true");
}

/// Scrolls to a panel, and returns the place of one of its points in the window.
fn place_of_mark(browser: &Browser, panel: &str, at: usize) -> (f64, f64) {
    let place = browser.run(&format!(
        "const chart = vsweep.panels.{panel}.chart; chart.picture.scrollIntoView({{block: 'center', behavior: 'instant'}});
         const frame = chart.picture.getBoundingClientRect(); const mark = chart.marks[{at}];
         return [frame.left + mark.left, frame.top + mark.top];"
    ));
    (
        place[0].as_f64().expect("a number"),
        place[1].as_f64().expect("a number"),
    )
}

/// Waits until the parts of the page that are out of sight are drawn too.
fn settle(browser: &Browser) {
    browser.run("return new Promise((done) => setTimeout(() => requestIdleCallback(done, { timeout: 1000 }), 300))");
}

fn assert_quiet(browser: &Browser, page: &Path) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // The browser may report its requests with a delay.
    let asked = browser.requests_until_some();
    assert_eq!(asked, [format!("file://{}", page.display())]);
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn the_page_works_by_mouse_and_keyboard() {
    let browser = Browser::start();
    let (_folder, directory) = write(&realistic());
    let page = directory.report_html();
    open_whole(&browser, &page);
    keep_pictures(&browser, "desktop");

    // The script finds the same frontier and knee as the document.
    browser.wait("return vsweep.panels.pareto.chart.marks?.length > 10");
    let found = "[vsweep.panels.pareto.front].map(({ front, knee }) => [front.map((mark) => mark.point.index), knee?.point.index ?? null])";
    let told = "vsweep.data.workloads.map(({ frontier, knee }) => [frontier, knee])";
    assert_eq!(
        browser.run(&format!("return {found}")),
        browser.run(&format!("return {told}"))
    );

    // Hovering shows four figures. A click also shows the parameters and the command, and the box stays open.
    let (x, y) = place_of_mark(&browser, "curves", 4);
    browser.point_at(x, y);
    browser.wait("return !document.querySelector('#curves .tip').hidden");
    let lines = browser.run("return document.querySelectorAll('#curves .tip .facts > div').length");
    assert_eq!(lines, json!(4));
    keep_pictures(&browser, "hover-brief");
    browser.click_by_way_of((x, y), (x, y));
    let shown = browser.run("return document.querySelector('#curves .tip').textContent");
    let shown = shown.as_str().expect("text");
    for part in ["gpu_memory_utilization", "vllm serve meta-llama", "--max-concurrency"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let button = browser.run(
        "const frame = document.querySelector('#curves .tip .copy').getBoundingClientRect();
         return [frame.left + frame.width / 2, frame.top + frame.height / 2]",
    );
    let pixels = |at: usize| button[at].as_f64().expect("pixels");
    keep_pictures(&browser, "hover");
    browser.devtools(
        "Browser.grantPermissions",
        &json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}),
    );
    browser.click_by_way_of((x, y), (pixels(0), pixels(1)));
    browser.wait("return document.querySelector('#curves .tip .copy').textContent === 'Copied'");
    let copied = browser.run("return navigator.clipboard.readText()");
    assert!(
        copied
            .as_str()
            .expect("text")
            .starts_with("vllm serve meta-llama/Llama-3.1-8B-Instruct --"),
        "{copied}"
    );

    // A card links the file with the winner's settings, and copies its text.
    let link = browser.run("return document.querySelector('#answer .bests .card a').getAttribute('href')");
    let path = directory.root().join(link.as_str().expect("a link"));
    let file = fs::read_to_string(path).expect("the file that the page names");
    browser.click("#answer .card details:last-of-type .copy");
    browser.wait("return document.querySelector('#answer .card details:last-of-type .copy').textContent === 'Copied'");
    assert_eq!(browser.run("return navigator.clipboard.readText()"), json!(file));

    // The timeline has clock times, and shows details of the bar under the mouse.
    let ticks =
        browser.run("return [...document.querySelectorAll('#lanes .clock .axis')].map((tick) => tick.textContent)");
    let ticks: Vec<&str> = ticks
        .as_array()
        .expect("texts")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(ticks.len() > 2, "{ticks:?}");
    let is_round = |tick: &&str| tick.len() == 5 && tick.as_bytes()[2] == b':' && tick.ends_with(['0', '5']);
    assert!(ticks.iter().all(is_round), "{ticks:?}");
    let bar = "const bar = document.querySelector('#lanes svg .loading'); bar.scrollIntoView({block: 'center', behavior: 'instant'});
        const frame = bar.getBoundingClientRect(); return [frame.left + frame.width / 2, frame.top + frame.height / 2]";
    let place = browser.run(bar);
    browser.point_at(place[0].as_f64().expect("pixels"), place[1].as_f64().expect("pixels"));
    browser.wait("return /start 1, ready after/.test(document.querySelector('#lanes .note').textContent)");
    // Arrow keys show the same details, of one bar after the other.
    let key =
        "document.querySelector('#lanes .lanes').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));
        return document.querySelector('#lanes .note').textContent";
    let (first, second) = (browser.run(key), browser.run(key));
    assert!(first.as_str().expect("text").contains("ready after"), "{first}");
    assert_ne!(first, second);
    // The phases of a server between its runs look different.
    let legend =
        browser.run("return [...document.querySelectorAll('#lanes .legend li')].map((item) => item.textContent)");
    for look in ["resetting caches", "warm-up", "stopping"] {
        assert!(legend.as_array().expect("texts").contains(&json!(look)), "{legend}");
    }
    let widths = browser
        .run("return ['reset', 'warmup'].map((look) => document.querySelector(`#lanes .run.${look}`).getBBox().width)");
    assert!(
        widths
            .as_array()
            .expect("two")
            .iter()
            .all(|width| width.as_f64() > Some(0.0)),
        "{widths}"
    );

    // Arrow keys move from point to point, Escape closes the box.
    browser.run("const chart = vsweep.panels.pareto.chart; chart.picture.focus();
        for (const key of ['ArrowRight', 'ArrowRight']) chart.picture.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))");
    assert_eq!(browser.run("return vsweep.panels.pareto.chart.current"), json!(1));
    assert_eq!(
        browser.run("return document.querySelector('#pareto .offscreen').textContent.includes('tokens/s per user')"),
        json!(true)
    );
    browser.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))");
    assert_eq!(
        browser.run("return document.querySelector('#pareto .tip').hidden"),
        json!(true)
    );

    // Both axes of both charts turn logarithmic and back. Those of latencies that span decades begin logarithmic.
    for (panel, across, up) in [("curves", "max_concurrency", "(ms)"), ("pareto", "per user", "per GPU")] {
        let is_log = |axis: &str| {
            let title = format!(
                "return [...document.querySelectorAll('#{panel} .axis.name')].some((title) => title.textContent.includes('{axis}') && title.textContent.endsWith(' · log'))"
            );
            browser.run(&title) == json!(true)
        };
        for (toggle, axis) in [(4, across), (5, up)] {
            let before = is_log(axis);
            assert_eq!(before, panel == "curves", "{panel}: {axis}");
            browser.click(&format!("#{panel} .toggle:nth-of-type({toggle}) input"));
            assert_ne!(is_log(axis), before, "{panel}: {axis}");
            browser.click(&format!("#{panel} .toggle:nth-of-type({toggle}) input"));
            assert_eq!(is_log(axis), before, "{panel}: {axis}");
        }
    }

    // Another metric is shown, with other curves.
    browser.run(
        "const { y, by } = vsweep.panels.curves; y.value = 'output_throughput'; by.value = 'tensor_parallel_size';
        y.dispatchEvent(new Event('change'))",
    );
    assert_eq!(
        browser.run("return document.querySelectorAll('#curves .legend button').length"),
        json!(3)
    );

    // One filter acts on charts and table.
    browser.click("#filters .menu summary");
    browser.click("#filters .menu[open] label:nth-of-type(1) input");
    browser.wait("return vsweep.panels.curves.chart.marks.every((mark) => mark.x > 1)");
    let count = browser.run("return document.querySelector('#filters [role=status]').textContent");
    assert_eq!(count, json!("135 of 162 runs"));
    assert_eq!(
        browser.run("return document.querySelector('#table [role=status]').textContent"),
        json!("45 points")
    );
    browser.run("[...document.querySelectorAll('#filters > button')].at(-1).click()");

    // The table is sorted and searched, and a run is opened.
    let heads = "[...document.querySelectorAll('.runs th')]";
    let column = format!("const head = {heads}.findIndex((head) => head.textContent.startsWith('Output throughput'));
        const values = () => [...document.querySelectorAll('.runs tbody tr')].map((row) => row.children[head]?.title).filter(Boolean).map(Number);");
    browser.run(&format!("{column} {heads}[head].querySelector('button').click()"));
    // Rows that are out of sight are drawn when the page is idle.
    browser.wait(&format!(
        "{column} return values().every((value, i, all) => !i || all[i - 1] >= value) && values().length > 5"
    ));
    assert_eq!(
        browser.run(&format!("{column} return {heads}[head].getAttribute('aria-sort')")),
        json!("descending")
    );
    browser.run("const field = document.querySelector('[type=search]'); field.value = 'oom_at_load'; field.dispatchEvent(new Event('input'))");
    assert_eq!(
        browser.run("return document.querySelector('#table [role=status]').textContent"),
        json!("6 points")
    );
    browser.wait("return document.querySelectorAll('.runs .open').length === 6");
    // A point opens with its runs. Each run shows why it failed.
    browser.click(".runs .open");
    let shown = "return document.querySelector('dialog[open]').textContent";
    let point = browser.run(shown);
    assert!(point.as_str().expect("text").contains("3 failed"), "{point}");
    browser.click("dialog .of-point tbody button");
    let run = browser.run(shown);
    assert!(run.as_str().expect("text").contains("CUDA out of memory"), "{run}");
    browser.click("dialog p button");
    assert_eq!(browser.run(shown), point);
    browser.click("dialog .close");

    // Each run of a measured point shows its validity and its file.
    browser.run("const field = document.querySelector('[type=search]'); field.value = ''; field.dispatchEvent(new Event('input'))");
    browser.wait("return document.querySelectorAll('.runs .open').length > 6");
    browser.click(".runs .open");
    let runs = browser.run("return [...document.querySelectorAll('dialog .of-point tbody tr')].map((row) => [row.cells[1].textContent, row.cells[2].textContent, row.lastChild.textContent])");
    let runs = runs.as_array().expect("a list");
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert_eq!((&run[0], &run[1]), (&json!("ok"), &json!("valid")));
        let file = directory.root().join(run[2].as_str().expect("a path"));
        assert!(file.is_file(), "{}", file.display());
    }
    keep_pictures(&browser, "dialog");
    browser.click("dialog .close");
    let words = browser.run("return document.querySelectorAll('#words dt').length");
    assert!(words.as_u64().is_some_and(|count| count > 15), "{words}");

    // The rows of the table may be runs, and the address keeps this choice.
    browser.run("const rows = document.querySelector('#table select'); rows.value = 'runs'; rows.dispatchEvent(new Event('change'))");
    assert_eq!(
        browser.run(
            "return [document.querySelector('#table [role=status]').textContent, location.hash.includes('rows=runs')]"
        ),
        json!(["162 runs", true])
    );
    assert_quiet(&browser, &page);
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn targets_users_and_two_points_are_explored_and_the_address_keeps_them() {
    let browser = Browser::start();
    let (_folder, directory) = write(&Experiment {
        loads: times(&realistic().loads, "random_output_len", &[json!(64), json!(256)]),
        doubts: |_, _| None,
        ..realistic()
    });
    let page = directory.report_html();
    open_whole(&browser, &page);
    browser.wait("return vsweep.panels.pareto.chart.marks?.length > 10");
    let all = browser.run("return vsweep.data.workloads.map(({ points }) => points.length).reduce((a, b) => a + b)");
    assert_eq!(all, json!(108));

    // A tab shows the points of one workload only.
    browser.click("#workloads button:nth-of-type(2)");
    browser.wait(
        "return String([...new Set(vsweep.panels.pareto.chart.marks.map((mark) => mark.point.workload))]) === '1'",
    );

    // A slider sets the limit. The winner must be the best of the points that meet it, which are computed here.
    let winner = "const text = document.querySelector('#targets [role=status]').textContent;";
    let before = browser.run(&format!("{winner} return text"));
    browser.run("const slider = document.querySelector('#targets input[type=range]'); slider.value = 6; slider.dispatchEvent(new Event('input'))");
    settle(&browser);
    let by_hand = browser.run(
        "const [[column, limit]] = [...vsweep.targets.limits];
         const median = (point, name) => { const estimate = vsweep.data.estimates[name]?.[point.index]; if (estimate) return estimate[0];
             const column = vsweep.data.columns.find((each) => each.name === name);
             const rows = point.used.map((row) => column.each?.[row] ?? column.of[column.at[row]]).sort((a, b) => a - b); return rows[rows.length >> 1]; };
         const meeting = vsweep.panels.pareto.chart.marks.map((mark) => mark.point).filter((point) => median(point, column.name) <= limit);
         // Servers of each size fill the eight GPUs of the machine.
         const most = vsweep.data.gpus * Math.max(...meeting.map((point) => median(point, 'tokens_per_gpu')));
         return [meeting.length, most, vsweep.panels.pareto.chart.marks.filter((mark) => !mark.faded).length]",
    );
    let after = browser.run(&format!("{winner} return text"));
    assert_ne!(before, after);
    let (meeting, most) = (
        by_hand[0].as_u64().expect("a count"),
        by_hand[1].as_f64().expect("a figure"),
    );
    assert_eq!(by_hand[2], json!(meeting));
    let after = after.as_str().expect("text");
    let figure = browser.run(&format!(
        "return new Intl.NumberFormat('en-US').format(Math.round({most}))"
    ));
    assert!(after.contains(&format!("{meeting} points meet the targets")), "{after}");
    assert!(
        after.contains(figure.as_str().expect("text")) && after.contains("vllm serve"),
        "{after}"
    );

    // The table shows the servers that 300 users need, with and without a spare one, and their price.
    browser.run("const field = document.querySelector('#users input'); field.value = 300; field.dispatchEvent(new Event('input'))");
    let row = "const cells = [...document.querySelectorAll('#users tbody tr:first-child td')].map((cell) => Number(cell.textContent.replace(',', '')));";
    let cells = browser.run(&format!("{row} return cells.slice(1, 5)"));
    let number = |at: usize| cells[at].as_f64().expect("a number");
    assert_eq!(number(1), (300.0 / number(0)).ceil());
    let size = number(2) / number(1);
    assert_eq!(number(3), ((300.0 * 1.2 / number(0)).ceil() + 1.0) * size);
    browser.run("const price = document.querySelectorAll('#users input')[2]; price.value = 3; price.dispatchEvent(new Event('input'))");
    let hour =
        browser.run("return document.querySelector('#users tbody tr:first-child td:nth-of-type(6)').textContent");
    assert_eq!(hour, json!(format!("${}", number(3) * 3.0)));

    // Two points side by side: the parameters that differ, every figure with its ratio, and three distributions.
    browser.run("const [, b] = document.querySelectorAll('#sides select'); b.selectedIndex = 30; b.dispatchEvent(new Event('change'))");
    let told = browser.run("return [...document.querySelectorAll('#sides tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))");
    let told = told.as_array().expect("rows");
    let throughput = told
        .iter()
        .find(|row| row[0] == "Output throughput (tokens/s)")
        .expect("a figure");
    assert!(throughput[3].as_str().expect("text").contains(" to "), "{throughput}");
    assert!(
        told.iter()
            .any(|row| row[0] == "tensor_parallel_size" || row[0] == "max_concurrency"),
        "{told:?}"
    );
    assert_eq!(
        browser.run("return document.querySelectorAll('#sides figure .series').length"),
        json!(6 + 6)
    );
    keep_pictures(&browser, "explored");

    // Loading the address again restores everything.
    let state = "return [location.hash, document.querySelector('#targets [role=status]').textContent, document.querySelector('#sides').textContent,
                 document.querySelector('#users tbody').textContent, vsweep.panels.pareto.chart.marks.length]";
    browser.run("const select = document.querySelector('#curves select'); select.value = 'tensor_parallel_size'; select.dispatchEvent(new Event('change'))");
    browser.click("#filters .menu summary");
    browser.click("#filters .menu[open] label:nth-of-type(1) input");
    settle(&browser);
    let kept = browser.run(state);
    assert!(
        kept[0].as_str().expect("an address").contains("target.p99_ttft_ms="),
        "{kept}"
    );
    browser.run("location.reload()");
    browser.wait("return window.vsweep?.panels.pareto.chart.marks?.length > 0");
    settle(&browser);
    assert_eq!(browser.run(state), kept);
    assert_eq!(
        browser.run("return document.querySelector('#curves select').value"),
        json!("tensor_parallel_size")
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Returns the position of the lower edge of the first element that matches, in pixels from the top of the window.
fn bottom_of(browser: &Browser, selector: &str) -> f64 {
    let script = format!("return document.querySelector('{selector}').getBoundingClientRect().bottom");
    browser.run(&script).as_f64().expect("pixels")
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn the_answer_and_its_chart_are_seen_at_once() {
    let browser = Browser::start();
    let (_folder, directory) = write(&Experiment {
        simulated: true,
        loads: times(&realistic().loads, "random_output_len", &[json!(64), json!(256)]),
        ..realistic()
    });
    set_width(&browser, 1400, false);
    browser.open(&directory.report_html());
    keep_pictures(&browser, "fold");
    for part in [".says", ".cautions", ".front .picture svg"] {
        let bottom = bottom_of(&browser, part);
        assert!(bottom <= 900.0, "{part} ends at {bottom}");
    }
    // Each workload has its recommendation and its chart. Only one workload is shown; the reader chooses which.
    let shown = "return ['.pick', '.front .picture'].map((parts) => [...document.querySelectorAll(parts)].findIndex((part) => part.clientHeight > 0))";
    assert_eq!(browser.run(shown), json!([0, 0]));
    browser.click("#picks button:nth-of-type(2)");
    assert_eq!(browser.run(shown), json!([1, 1]));
    assert_eq!(browser.run("return vsweep.targets.workload"), json!(1));
    browser.run("document.querySelector('#workloads button').click()");
    assert_eq!(browser.run(shown), json!([0, 0]));
    set_width(&browser, 390, true);
    browser.open(&directory.report_html());
    keep_pictures(&browser, "fold-phone");
    let bottom = bottom_of(&browser, ".pick .lines > div");
    assert!(
        bottom <= 844.0,
        "the server, its command and how sure it is end at {bottom}"
    );
    let before = browser.run("return document.getElementById('explore').getBoundingClientRect().top / 844");
    assert!(before.as_f64() < Some(6.0), "{before} screens before Explore");
    let letters = "return document.querySelector('.front .picture svg text').getBoundingClientRect().height";
    assert!(
        browser.run(letters).as_f64() >= Some(9.0),
        "letters are too small to be read"
    );
}

#[test]
fn the_only_point_has_one_card() {
    let (_folder, directory) = write(&Experiment::default());
    let page = fs::read_to_string(directory.report_html()).expect("readable");
    assert_eq!(page.matches("<article class=\"card\"><h3>The only point").count(), 1);
    assert!(!page.contains("<h3>Lowest latency"));
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn it_is_read_in_the_dark_on_a_phone_and_on_paper() {
    let browser = Browser::start();
    let (_folder, directory) = write(&Experiment {
        simulated: true,
        ..realistic()
    });
    let page = directory.report_html();
    let colour = "return getComputedStyle(document.body).backgroundColor";
    browser.devtools(
        "Emulation.setEmulatedMedia",
        &json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]}),
    );
    browser.open(&page);
    assert_eq!(browser.run(colour), json!("rgb(20, 23, 28)"));
    keep_pictures(&browser, "dark");
    browser.click("#theme");
    assert_eq!(browser.run(colour), json!("rgb(246, 247, 249)"));
    browser.click("#theme");
    assert_eq!(browser.run(colour), json!("rgb(20, 23, 28)"));
    assert_eq!(
        browser.run("return document.querySelector('.banner').textContent.startsWith('Simulated.')"),
        json!(true)
    );

    browser.devtools(
        "Emulation.setEmulatedMedia",
        &json!({"features": [{"name": "prefers-color-scheme", "value": "light"}]}),
    );
    set_width(&browser, 360, true);
    open_whole(&browser, &page);
    browser.wait("return document.querySelector('#pareto svg').clientWidth < 360");
    assert_eq!(browser.run("return document.documentElement.scrollWidth"), json!(360));
    browser.run("vsweep.panels.curves.chart.select(3)");
    assert_eq!(browser.run("return document.documentElement.scrollWidth"), json!(360));
    keep_pictures(&browser, "phone");

    browser.run("vsweep.panels.curves.chart.hide()");
    set_width(&browser, 760, false);
    browser.devtools("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    browser.run("dispatchEvent(new Event('beforeprint'))");
    browser.wait("return document.querySelectorAll('.runs tbody tr').length === 54");
    keep_pictures(&browser, "print");
    assert_eq!(
        browser.run("return getComputedStyle(document.querySelector('nav')).display"),
        json!("none")
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn ten_thousand_runs_stay_usable() {
    let browser = Browser::start();
    let (_folder, directory) = write(&large());
    let page = directory.report_html();
    let size = fs::metadata(&page).expect("there").len();
    assert!(size < 3_000_000, "{size} bytes");
    open_whole(&browser, &page);
    assert_eq!(
        browser.run("return document.querySelector('#table [role=status]').textContent"),
        json!("10,000 points")
    );
    let marks = |count: usize| browser.wait(&format!("return vsweep.panels.pareto.chart.marks?.length === {count}"));
    let few_rows = "return document.querySelectorAll('.runs tbody tr').length < 60";
    browser.wait(few_rows);
    browser.run("document.querySelector('.port').scrollTop = 150000");
    browser.wait(
        "return Number(document.querySelector('.runs tbody tr[aria-rowindex]').getAttribute('aria-rowindex')) > 4900",
    );
    assert_eq!(browser.run(few_rows), json!(true));
    marks(10_000);
    assert_eq!(
        browser.run("return document.querySelectorAll('*').length < 6000"),
        json!(true)
    );
    keep_pictures(&browser, "large");

    // Sorting, filtering and pointing work with 10,000 points.
    let first = "return document.querySelector('.runs tbody tr[aria-rowindex] td:nth-child(3)').title";
    browser.run("document.querySelector('.port').scrollTop = 0");
    let head = "[...document.querySelectorAll('.runs th')].find((head) => head.textContent.startsWith('rate')).querySelector('button').click()";
    let mut ends = Vec::new();
    for _ in 0..2 {
        browser.run(head);
        browser.run("document.querySelector('.port').scrollTop = 0");
        ends.push(browser.run(first));
    }
    ends.sort_by_key(Value::to_string);
    assert_eq!(ends, [json!("0.1"), json!("50")]);
    browser.click("#filters .menu summary");
    browser.click("#filters .menu[open] label:nth-of-type(1) input");
    let count = "return document.querySelector('#table [role=status]').textContent";
    assert_eq!(browser.run(count), json!("9,500 points"));
    marks(9_500);
    // The open menu covers the chart, so it is closed first.
    browser.click("#filters .menu[open] summary");
    let (x, y) = place_of_mark(&browser, "pareto", 5_000);
    browser.click_by_way_of((x, y), (x, y));
    browser.wait("return !document.querySelector('#pareto .tip').hidden");
    let shown = browser.run("return document.querySelector('#pareto .tip').textContent");
    assert!(shown.as_str().expect("text").contains("--request-rate"), "{shown}");
    assert_quiet(&browser, &page);
}

#[test]
fn equal_experiments_give_equal_pages_and_nothing_in_them_is_code() {
    let (_folder, directory) = write(&realistic());
    let page = fs::read_to_string(directory.report_html()).expect("readable");
    assert!(!page.contains("</script><b>x") && page.contains("&lt;/script&gt;&lt;b&gt;x"));
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(
        page.matches("http").count(),
        page.matches("http://www.w3.org/2000/svg").count() + page.matches("http-equiv").count()
    );
    write_report(&directory);
    assert!(page == fs::read_to_string(directory.report_html()).expect("readable"));
    let markdown = fs::read_to_string(directory.report_markdown()).expect("readable");
    let (text, basis) = markdown.trim_end().rsplit_once('\n').expect("lines");
    assert!(basis.starts_with("<!-- made of the record "), "{basis}");
    insta::assert_snapshot!(text);
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn readings_are_drawn_for_the_run_that_is_chosen() {
    let browser = Browser::start();
    let (_folder, directory) = write(&realistic());
    let state = journal::load(&directory, Check::Lengths).expect("a sound journal");
    let second = state
        .runs()
        .find(|run| &*run.point.0 == "0000000000000001")
        .expect("a run");
    let missing = second.files().telemetry(&directory);
    fs::remove_file(missing).expect("was there");
    write_report(&directory);
    let page = directory.report_html();
    open_whole(&browser, &page);
    browser.wait("return window.vsweep?.openRun != null");
    let titles = browser.run(
        "return [...document.querySelectorAll('#watched figcaption')].map((title) => title.textContent).join(', ')",
    );
    assert_eq!(
        titles,
        json!(
            "Requests, KV cache in use (%), Output tokens (tokens/s), Preemptions so far, GPU power, all GPUs (W), \
               GPU utilisation, lowest GPU (%), GPUs slowed down (% of readings), Host CPU busy (%)"
        )
    );
    let drawn = "return [...document.querySelectorAll('#watched figure > svg .line')].every((line) => line.getAttribute('d').length > 8)";
    browser.wait(drawn);
    let note = browser.run("return document.querySelector('#watched .note').textContent");
    // The file of one more point was removed.
    assert!(
        note.as_str().expect("text").contains("Points without readings: "),
        "{note}"
    );
    browser.run("const select = document.querySelector('#watched select'); select.selectedIndex = 3; select.dispatchEvent(new Event('change'))");
    browser.wait(drawn);
    browser.run("const rows = vsweep.data.telemetry.runs; vsweep.openRun(rows[0].row)");
    let run = browser.run("return document.querySelector('dialog[open]').textContent");
    assert!(run.as_str().expect("text").contains("KV cache in use"), "{run}");
    browser.run("document.querySelector('dialog').close()");
    keep_pictures(&browser, "telemetry");
    assert_quiet(&browser, &page);
}

/// Samples of requests that queue, with a slow phase in the middle of the run, and one request that failed.
fn samples(count: usize) -> Value {
    let start: Vec<f64> = (0..count).map(|i| 1000.0 + i as f64 * 0.02).collect();
    let failed = |i: usize| i == 7;
    let ttft = |i: usize| if failed(i) { 0.0 } else { 0.05 + 0.0001 * i as f64 };
    let gap = |i: usize, token: usize| match (start[i] - 1000.0 + token as f64 * 0.02) as u64 {
        5..=6 => 0.06,
        7 => 0.03,
        _ => 0.012,
    };
    let gaps = |i: usize| {
        (0..if failed(i) { 0 } else { 64 })
            .map(|token| gap(i, token))
            .collect::<Vec<f64>>()
    };
    json!({
        "start_times": start,
        "ttfts": (0..count).map(ttft).collect::<Vec<f64>>(),
        "itls": (0..count).map(gaps).collect::<Vec<_>>(),
        "input_lens": vec![128; count],
        "output_lens": vec![65; count],
        "errors": (0..count).map(|i| if failed(i) { "HTTP 503 </script>" } else { "" }).collect::<Vec<_>>(),
    })
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn the_timeline_of_a_thousand_requests_is_usable() {
    let browser = Browser::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = folder.path().join("timeline.html");
    let requests = RequestSamples::read(samples(1000).to_string().as_bytes()).expect("samples");
    fs::write(
        &page,
        requests.render("demo: run 0 of point <ab>", "max_concurrency=64"),
    )
    .expect("written");
    browser.open(&page);
    assert_eq!(browser.run("return vsweep.requests.length"), json!(1000));
    assert_eq!(
        browser.run("return document.querySelector('h1').textContent"),
        json!("demo: run 0 of point <ab>")
    );
    keep_pictures(&browser, "timeline");

    // The pixels of the canvas: the pieces of the first request have different colours.
    browser.wait("return document.getElementById('canvas').width > 100");
    let pixel = |row: usize, at: &str| {
        browser.run(&format!(
            "const request = vsweep.view.rows[{row}]; const port = document.getElementById('port');
             const left = Math.round(vsweep.place({at}) * devicePixelRatio), top = Math.round((24 + {row} * 14 - port.scrollTop + 7) * devicePixelRatio);
             const copy = document.createElement('canvas').getContext('2d', {{willReadFrequently: true}});
             copy.drawImage(document.getElementById('canvas'), left, top, 1, 1, 0, 0, 1, 1);
             return [...copy.getImageData(0, 0, 1, 1).data].join()"
        ))
    };
    browser.run("for (let i = 0; i < 4; i += 1) document.querySelector('[aria-label=\"Zoom in\"]').click(); document.getElementById('port').scrollLeft = 0");
    let (waiting, fast) = ("request.start + request.ttft / 2", "request.end - 10");
    assert_ne!(pixel(0, waiting), pixel(0, fast));
    let light = pixel(0, waiting);
    browser.click("#theme");
    assert_ne!(pixel(0, waiting), light, "another theme, other colours");
    keep_pictures(&browser, "timeline-other-theme");

    // Colours follow the bounds. If no gap counts as slow, a request has two pieces.
    let pieces = "return vsweep.piecesOf(vsweep.requests[240]).length";
    assert_eq!(browser.run(pieces).as_u64().map(|count| count > 2), Some(true));
    browser.run(
        "const [low, high] = document.querySelectorAll('input[type=number]');
        for (const field of [low, high]) { field.value = 500; field.dispatchEvent(new Event('change')); }",
    );
    assert_eq!(browser.run(pieces), json!(2));

    // The mouse and the arrow keys show details of a request. A failed request shows its error.
    let place = browser.run("const frame = document.getElementById('canvas').getBoundingClientRect(); return [frame.left + 300, frame.top + 24 + 7 * 14 + 7]");
    browser.point_at(place[0].as_f64().expect("pixels"), place[1].as_f64().expect("pixels"));
    browser.wait("return document.getElementById('story').textContent.includes('failed: HTTP 503 </script>')");
    browser.run("document.getElementById('port').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }))");
    browser.wait("return document.getElementById('story').textContent.startsWith('Request 8 · 128 prompt tokens')");
    browser.run(
        "document.getElementById('port').dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }))",
    );
    browser.wait("return document.getElementById('story').textContent.startsWith('Request 999') && document.getElementById('port').scrollTop > 10000");
    browser.run("const order = document.querySelector('select'); order.value = 'longest TTFT first'; order.dispatchEvent(new Event('change'))");
    assert_eq!(browser.run("return vsweep.view.rows[0].number"), json!(999));

    set_width(&browser, 360, true);
    browser.wait("return document.getElementById('canvas').clientWidth < 360");
    assert_eq!(browser.run("return document.documentElement.scrollWidth"), json!(360));
    keep_pictures(&browser, "timeline-phone");
    assert_quiet(&browser, &page);
}

/// Returns the names of the timeline's lanes.
fn lanes(browser: &Browser) -> Vec<String> {
    let names =
        browser.run("return [...document.querySelectorAll('#lanes .lane title')].map((name) => name.textContent)");
    serde_json::from_value(names).expect("texts")
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn a_night_on_several_gpus_has_a_lane_for_each_and_one_for_each_server() {
    let browser = Browser::start();
    // The names are too long for a phone.
    let values = [json!(1024), json!(2048)];
    let (_folder, directory) = write(&Experiment {
        gpus: 8,
        servers: times(&realistic().servers, "long_prefill_token_threshold", &values),
        ..realistic()
    });
    open_whole(&browser, &directory.report_html());
    let all: Vec<String> = (0..8).map(|gpu| format!("GPU {gpu}")).collect();
    browser.wait("return document.querySelectorAll('#lanes .lane').length > 1");
    assert_eq!(lanes(&browser), all);
    assert!(
        browser
            .run("return document.querySelectorAll('#lanes .tag').length")
            .as_u64()
            > Some(5)
    );
    keep_pictures(&browser, "gpus");
    browser.click("#lanes .tabs button:first-of-type");
    browser.wait("return document.querySelectorAll('#lanes .lane').length === 18");
    let unique: BTreeSet<String> = lanes(&browser).into_iter().collect();
    assert_eq!(unique.len(), 18, "{unique:?}");
    for (width, is_phone) in [(1280, false), (390, true)] {
        set_width(&browser, width, is_phone);
        settle(&browser);
        let shown = browser
            .run("return [...document.querySelectorAll('#lanes .lane')].map((name) => name.lastChild.textContent)");
        let shown: BTreeSet<String> = serde_json::from_value(shown).expect("texts");
        assert_eq!(shown.len(), 18, "{shown:?}");
    }
    // The axis stays visible while the lanes are scrolled.
    let kept =
        "const port = document.querySelector('#lanes .lanes'); port.style.maxHeight = '100px'; port.scrollTop = 150;
        return document.querySelector('#lanes .clock').getBoundingClientRect().top - port.getBoundingClientRect().top";
    assert!(browser.run(kept).as_f64().is_some_and(|top| (0.0..4.0).contains(&top)));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn an_empty_experiment_has_a_page() {
    let browser = Browser::start();
    let (_folder, directory) = write(&Experiment {
        fails: |_, _| Some(Cause::OomAtLoad),
        ..realistic()
    });
    browser.open(&directory.report_html());
    let answer = browser.run("return document.querySelector('#answer').textContent");
    assert!(
        answer.as_str().expect("text").contains("No run was measured"),
        "{answer}"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
