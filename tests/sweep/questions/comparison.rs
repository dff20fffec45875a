//! `[compare]` in a plan: pairs of starts until the comparison is decided, whatever interrupts them, and bisected axes.

use crate::agreement::assert_sweep_agreed;
use crate::deadline::ended;
use crate::harness::{Harness, journal_lines, journals, said, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A plan with these servers, by name and flags.
fn plan(servers: &[(&str, &str)], compare: &str) -> String {
    let server =
        |(name, flags): &(&str, &str)| format!("{name} = \"vsweep sim serve tiny-8b --sim-start 10ms {flags}\"\n");
    let servers: String = servers.iter().map(server).collect();
    format!(
        "version = 1\nruns = 1\n[serve]\nstop_grace = \"1s\"\n[serve.command]\n{servers}[compare]\n{compare}\n[bench]\ntelemetry = \
         false\n[bench.params]\nrandom_input_len = 16\nrandom_output_len = 16\nmax_concurrency = 1\nnum_prompts = 60\n"
    )
}

/// Names of the servers in the order of their starts, each start once.
fn started(harness: &Harness) -> Vec<String> {
    let journals = journals(&harness.folder.path().join("out"));
    let lines = journals.iter().flat_map(|journal| journal.lines());
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut begun: Vec<(u64, String, u64)> = lines
        .filter_map(|line| {
            let begun = line["event"].get("group_begun")?;
            let name = begun["config"]["name"].as_str()?.replace("command=", "");
            Some((line["lamport"].as_u64()?, name, begun["slot"].as_u64()?))
        })
        .collect();
    begun.sort();
    let mut starts: Vec<(String, u64)> = begun.into_iter().map(|(_, name, slot)| (name, slot)).collect();
    // A start that was killed begins again.
    starts.dedup();
    starts.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_regression_is_found_by_pairs_of_starts_across_a_kill() {
    let harness = Harness::new();
    let servers = [("base", "--sim-speed 20"), ("new", "--sim-speed 8")];
    harness.write("plan.toml", &plan(&servers, "fail_on = [\"output_throughput:-5%\"]"));
    let mut child = harness.start(&["run", "plan.toml", "-o", "out", "--quiet"]);
    wait_for("the third start", || {
        journal_lines(&harness.folder.path().join("out")) >= 17
    });
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("alive");
    child.wait().expect("reaped");
    harness.wait_until_alone();
    let report = harness.run(&["report", "out"]);
    assert_eq!(report.status.code(), Some(5), "not decided yet: {}", said(&report));
    assert!(said(&harness.run(&["status", "out"])).contains("not decided yet"));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(
        said(&output).contains("output throughput: regressed, -"),
        "{}",
        said(&output)
    );
    let page = std::fs::read_to_string(harness.folder.path().join("out/report.html")).expect("a page");
    let (first_screen, _) = page.split_once("id=\"explore\"").expect("the answer comes first");
    for part in [
        "Changes: new against base",
        "the command line of base",
        "--sim-speed</span> 20",
    ] {
        assert!(first_screen.contains(part), "{part}");
    }
    assert!(!first_screen.contains("the command line of new"));
    assert!(harness.folder.path().join("out/charts/changes.png").exists());
    let markdown = std::fs::read_to_string(harness.folder.path().join("out/report.md")).expect("a text");
    let report = said(&harness.run(&["report", "out"]));
    for arm in ["base", "new"] {
        assert!(markdown.contains(&format!("\n| {arm} ")), "{arm}: {markdown}");
        assert!(page.contains(&format!("<th scope=\"row\">{arm}")), "{arm}");
        let is_row = |line: &str| line.starts_with([' ', '*']) && line.contains(&format!("  {arm}"));
        assert!(report.lines().any(is_row), "{arm}: {report}");
    }
    assert!(markdown.contains("The points that were compared."), "{markdown}");
    let starts = started(&harness);
    assert!(starts.len() >= 8 && starts.len().is_multiple_of(2), "{starts:?}");
    for (i, pair) in starts.chunks(2).enumerate() {
        let expected = if i % 2 == 0 { ["base", "new"] } else { ["new", "base"] };
        assert_eq!(pair, expected, "the order is ABBA: {starts:?}");
    }
    let again = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(again.status.code(), Some(4), "{}", said(&again));
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
    assert!(harness.run(&["verify", "out"]).status.success());
    assert_sweep_agreed(&harness, "out");
    assert_eq!(harness.run(&["report", "out"]).status.code(), Some(4));
}

/// Writes a comparison whose results are those of a script.
fn write_scripted(harness: &Harness, script: &str, compare: &str) {
    harness.write("bench.sh", script);
    let plan = format!(
        "version = 1\nruns = 1\n[serve]\nstop_grace = \"1s\"\n[serve.command]\nbase = \"vsweep sim serve tiny-8b --sim-start \
         10ms\"\nnew = \"vsweep sim serve tiny-8b --sim-start 11ms\"\n[compare]\n{compare}\n[bench]\ncommand = \"sh bench.sh\"\n"
    );
    harness.write("plan.toml", &plan);
}

#[test]
fn what_cannot_be_decided_says_so() {
    let harness = Harness::new();
    // Results of the starts in their order, which is base, new, new, base and so on: pairs with +2, -2, -2 and +2 %.
    let script = r#"
        [ -s values ] || printf '100 102 98 100 100 98 102 100' > values
        read -r value others < values
        printf '%s' "$others" > values
        printf '{"completed": 60, "output_throughput": %s}' "$value" > "$VSWEEP_RESULT"
    "#;
    let write = |compare: &str| write_scripted(&harness, script, compare);
    write("max_starts = 8\nfail_on = [\"output_throughput:-0.1%\"]");
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    // As long as the pairs have no interval of their own, that of the noise model is shown.
    let paired = said(&output);
    let second = paired
        .lines()
        .find(|line| line.contains("pair 2 of at most 4: ") && line.contains(" output throughput"));
    assert!(second.is_some_and(|line| line.contains(" % (-")), "{paired}");
    assert!(paired.contains("pair 3 of at most 4"), "{paired}");
    assert!(paired.contains("(run 3 of at most 8"), "{paired}");
    assert!(
        said(&output).contains("stopped after 8 starts (max_starts)"),
        "{}",
        said(&output)
    );
    // Without a requirement every verdict counts as success.
    write("max_time = \"1s\"");
    let output = harness.run(&["run", "plan.toml", "-o", "short"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("(max_time)"), "{}", said(&output));
    assert!(
        said(&output).contains("output throughput: undecided"),
        "{}",
        said(&output)
    );
}

#[test]
fn an_arm_that_loses_requests_breaks_every_requirement() {
    let harness = Harness::new();
    // Failed requests of the starts in their order, which is base, new, new, base and so on.
    let script = r#"
        [ -s values ] || printf '0 3 3 0 0 3 3 0' > values
        read -r failed others < values
        printf '%s' "$others" > values
        printf '{"completed": %s, "failed": %s, "output_throughput": 100}' $((120 - failed)) "$failed" > "$VSWEEP_RESULT"
    "#;
    write_scripted(
        &harness,
        script,
        "max_starts = 8\nfail_on = [\"output_throughput:-5%\"]",
    );
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let requirement = "requirement not met: output_throughput:-5% (new loses requests that base answers)";
    assert!(said(&output).contains(requirement), "{}", said(&output));
}

#[test]
fn an_arm_that_does_not_start_ends_the_comparison() {
    let harness = Harness::new();
    let servers = [("base", "--sim-speed 20"), ("new", "--sim-fault oom-at-load")];
    harness.write("plan.toml", &plan(&servers, "fail_on = [\"output_throughput:-5%\"]"));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let requirement = "requirement not met: output_throughput:-5% (new does not start (out of memory while loading))";
    assert!(said(&output).contains(requirement), "{}", said(&output));
    assert!(
        said(&output).contains(
            "new does not start (out of memory while loading), so nothing can be compared; 5 starts; the last four starts of new gave no result"
        ),
        "{}",
        said(&output)
    );
    assert!(
        !said(&output).contains("since the clock was changed"),
        "{}",
        said(&output)
    );
    let answer = std::fs::read_to_string(harness.folder.path().join("out/answer.json")).expect("an answer");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let broken = json!({"server": "command=new", "was_ready": false, "cause": "oom_at_load"});
    assert_eq!(answer["comparison"]["broken"], broken);
    let page = std::fs::read_to_string(harness.folder.path().join("out/report.html")).expect("a page");
    assert!(page.contains("the command line of base") && !page.contains("the command line of new"));
    let again = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&again).contains("nothing left to do"), "{}", said(&again));
}

#[test]
fn an_arm_that_answers_nonsense_meets_no_requirement() {
    let harness = Harness::new();
    let servers = [
        ("base", "--sim-speed 20"),
        ("new", "--sim-speed 20 --sim-fault repeated-tokens:1"),
    ];
    let compare = "fail_on = [\"output_throughput:-30%\"]\n[[assert]]\noutput_throughput = \">=1\"";
    harness.write("plan.toml", &plan(&servers, compare));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    for requirement in [
        "requirement not met: output_throughput:-30% (new ",
        "requirement not decided: output_throughput>=1 (new: no valid run",
    ] {
        assert!(said(&output).contains(requirement), "{}", said(&output));
    }
}

#[test]
fn a_worker_that_retries_an_arm_in_vain_ends() {
    let harness = Harness::new();
    let servers = [("base", "--sim-speed 20"), ("new", "--sim-fault oom-at-load")];
    harness.write("plan.toml", &plan(&servers, "fail_on = [\"output_throughput:-5%\"]"));
    for command in [
        ["submit", "plan.toml", "-o", "out"],
        ["worker", "out", "--group", "compare"],
    ] {
        let output = harness.run(&command);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let mut worker = harness.start(&["worker", "out", "--group", "compare", "--retry-failed"]);
    assert_eq!(ended(&mut worker).code(), Some(0));
    harness.wait_until_alone();
}

#[test]
fn an_axis_is_bisected_past_an_entry_that_does_not_start() {
    let harness = Harness::new();
    let fast = |seed: u32| format!("--sim-speed 20 --sim-seed {seed}");
    let slow = |seed: u32| format!("--sim-speed 8 --sim-seed {seed}");
    let broken = format!("{} --sim-fault oom-at-load", fast(3));
    let flags = [fast(1), fast(2), broken, slow(4), slow(5)];
    let names = ["v1", "v2", "v3", "v4", "v5"];
    let servers: Vec<(&str, &str)> = names.into_iter().zip(flags.iter().map(String::as_str)).collect();
    harness.write("plan.toml", &plan(&servers, ""));
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(said(&output).contains("between v2 and v4"), "{}", said(&output));
    assert!(said(&output).contains("not started: v3"), "{}", said(&output));
    assert!(
        said(&output).contains("what differs between v2 and v4: serve.sim_seed 2 -> 4; serve.sim_speed 20 -> 8"),
        "{}",
        said(&output)
    );
    assert!(started(&harness).len() <= 20, "{:?}", started(&harness));
    for command in [&["run"][..], &["plan", "--rehearse"]] {
        let part = harness.run(&[command, &["plan.toml", "-o", "out", "--shard", "1/2"]].concat());
        assert_eq!(part.status.code(), Some(2), "{}", said(&part));
        assert!(said(&part).contains("[compare] chooses among all"), "{}", said(&part));
    }
}

/// The margins that each session recorded.
fn margins(harness: &Harness) -> Vec<f64> {
    let journals = journals(&harness.folder.path().join("out"));
    let lines = journals.iter().flat_map(|journal| journal.lines());
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter_map(|line| line["event"]["session_started"]["compare"]["family"][0]["margin"]["log"].as_f64())
        .collect()
}

#[test]
fn the_machines_own_noise_is_the_margin_and_stays_it() {
    let harness = Harness::new();
    // Runs in doubt are not used to estimate the noise. These are long enough to be valid, even if other work on the machine disturbs two.
    let servers = [("base", "--sim-speed 12"), ("new", "--sim-speed 11")];
    let compared = plan(&servers, "max_starts = 8").replace("num_prompts = 60", "num_prompts = 110");
    let repeated = compared
        .replace("[compare]\nmax_starts = 8\n", "")
        .replace("runs = 1", "runs = 1\nstarts = 4");
    harness.write("noise.toml", &repeated);
    let output = harness.run(&["run", "noise.toml", "-o", "noise"]);
    assert!(output.status.success(), "{}", said(&output));
    harness.write("plan.toml", &compared);
    let output = harness.run(&["run", "plan.toml", "-o", "out"]);
    assert!(
        said(&output).contains("below this machine's noise count as equal: "),
        "{}",
        said(&output)
    );
    let begun = margins(&harness);
    assert!(begun.len() == 1 && (0.004..0.05).contains(&begun[0]), "{begun:?}");
    // Noise that is measured or deleted later does not change a comparison that has begun.
    std::fs::remove_dir_all(harness.folder.path().join("noise")).expect("removed");
    harness.write("plan.toml", &compared.replace("max_starts = 8", "max_starts = 10"));
    harness.run(&["run", "plan.toml", "-o", "out"]);
    let all = margins(&harness);
    assert!(all.iter().all(|margin| (margin - begun[0]).abs() < 1e-6), "{all:?}");
}
