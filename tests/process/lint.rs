//! The check of a server's flags: all problems at once, each at its place, by the help of the installed vLLM if there is one. Unknown
//! programs are not checked.

use crate::deadline::output;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn vsweep(words: &[&str], plan: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plan.toml"), plan).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    // With this PATH no installed vLLM is found.
    output(
        command
            .args(words)
            .arg("plan.toml")
            .current_dir(folder.path())
            .env("PATH", "/nowhere"),
    )
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const WRONG: &str = r#"
[serve]
command = "vllm serve m --dtyp auto extra"
params = { tensor_paralel_size = 2, max_num_seqs = ["many", 8], enforce_eager = true, compilation_config = { value = { mode = 3 } } }

[[serve.combos]]
name = "long"
max-model-len = "x"
api_key = "sk-12345678"

[bench.params]
random_input_len = 8
"#;

#[test]
fn of_a_long_axis_of_wrong_values_the_first_are_reported() {
    let plan =
        "[serve]\ncommand = \"vllm serve m\"\n[bench.params]\ndataset_name = { from = 1, to = 1000, step = 1 }\n";
    let said = said(&vsweep(&["check"], plan));
    assert!(said.contains("100 problems found"), "{said}");
}

#[test]
fn a_request_with_a_batch_is_due_once() {
    let text = |batch: usize| {
        format!(
            "[serve]\nurl = \"http://127.0.0.1:9\"\n[bench]\ntimeout = \"20m\"\n[bench.params]\nbackend = \"openai-embeddings\"\n\
             random_input_len = 8\nrandom_batch_size = {batch}\nnum_prompts = 32000\nrequest_rate = 10\n"
        )
    };
    let single = vsweep(&["check"], &text(1));
    assert!(
        said(&single).contains("the last request is due after 3200 s"),
        "{}",
        said(&single)
    );
    let batches = vsweep(&["check"], &text(32));
    assert_eq!(batches.status.code(), Some(0), "{}", said(&batches));
}

#[test]
fn a_load_that_lasts_longer_than_its_timeout_is_refused() {
    let seconds = |runner: &str, load: &str| {
        let text =
            format!("[serve]\nurl = \"http://127.0.0.1:9\"\n[bench]\ntimeout = \"1m\"\n{runner}[bench.params]\n{load}");
        let said = said(&vsweep(&["check"], &text));
        let words = said.split_once("requests are sent for ");
        words.map(|(_, rest)| rest.split(' ').next().unwrap_or_default().to_owned())
    };
    let rows = "dataset_name = \"custom\"\ndataset_path = \"rows.jsonl\"\nrequest_rate = 2\nduration = \"2m\"\n";
    assert_eq!(seconds("", rows).as_deref(), Some("120"));
    assert_eq!(
        seconds("", &format!("{rows}no_oversample = true\n")),
        None,
        "the file may end it"
    );
    assert_eq!(seconds("", &format!("{rows}num_prompts = 8\n")), None);
    let ramp = "ramp_up_strategy = \"linear\"\nramp_up_start_rps = 1\nramp_up_end_rps = 3\nduration = \"2m\"\n";
    assert_eq!(seconds("", ramp).as_deref(), Some("120"));
    let phases = "phase = \"decode\"\nmax_concurrency = 4\nduration = 120\n";
    assert_eq!(seconds("runner = \"phases\"\n", phases).as_deref(), Some("160"));
}

/// A mix, the `hf` dataset, a file that is too short, and a trace that takes too long.
#[test]
fn the_files_of_every_dataset_are_looked_at_before_a_server_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let rows = write("rows.jsonl", &"{\"prompt\": \"a\"}\n".repeat(3));
    let wrong = write("wrong.jsonl", "{\"text\": \"a\"}\n");
    let row = |time: u32| {
        format!("{{\"timestamp\": {time}, \"input_length\": 6, \"output_length\": 2, \"hash_ids\": [1]}}\n")
    };
    let trace = write("trace.jsonl", &format!("{}{}", row(7), row(97)));
    let mix = |path: &str| {
        format!(
            "dataset_name = \"custom\"\n[[bench.mix]]\nname = \"a\"\nshare = 1\ndataset_name = \"random\"\n\
             [[bench.mix]]\nname = \"b\"\nshare = 1\ndataset_path = \"{path}\"\n"
        )
    };
    let alone = |name: &str, path: &str| format!("dataset_name = \"{name}\"\ndataset_path = \"{path}\"\n");
    let once = |slots: u32| {
        format!(
            "{}no_oversample = true\nmax_concurrency = {slots}\n",
            alone("custom", &rows)
        )
    };
    let said = |command: &str, load: &str| {
        let text = format!("[serve]\ncommand = \"vllm serve m\"\n[bench]\ntimeout = \"1m\"\n[bench.params]\n{load}");
        said(&vsweep(&[command], &text))
    };
    let missing = "there is no dataset file ./no/rows.jsonl";
    for (command, load, message) in [
        ("run", mix("./no/rows.jsonl"), missing),
        ("run", alone("hf", "./no/rows.jsonl"), missing),
        ("check", mix(&wrong), "no column \"prompt\""),
        ("check", once(4), "3 rows of its file cannot keep 4 in flight"),
        (
            "check",
            alone("timed_trace", &trace),
            "due after 90 s, and bench.timeout is 60 s",
        ),
    ] {
        let said = said(command, &load);
        assert!(said.contains(message), "{message} in {said}");
    }
    for load in [mix(&rows), once(3), alone("hf", "org/rows")] {
        let said = said("run", &load);
        assert!(!said.contains("dataset") && !said.contains("in flight"), "{said}");
    }
}

#[test]
fn a_known_client_must_report_the_figures_by_which_it_is_judged() {
    let remedy = |client: &str, judged: &str| {
        let text = format!(
            "[serve]\nurl = \"http://127.0.0.1:9\"\n[bench]\ncommand = \"{client}\"\n[bench.params]\nnum_prompts = 9\n\
             {judged} = \"<=5000\"\n"
        );
        let said = said(&vsweep(&["check"], &text));
        let about = said
            .split_once("not every run will report")
            .map_or("", |(_, about)| about);
        let help = about.split_once("= help: ").map(|(_, rest)| rest.lines().next());
        help.flatten().unwrap_or_default().to_owned()
    };
    let vllm = "vllm bench serve --percentile-metrics ttft --metric-percentiles 75,99";
    for (client, figure, expected) in [
        ("vllm bench serve", "p90_ttft_ms", ""),
        (
            "vllm bench serve",
            "p75_ttft_ms",
            "add 75 to metric_percentiles in [bench.params]",
        ),
        (vllm, "p75_ttft_ms", ""),
        (vllm, "mean_tpot_ms", "add tpot to percentile_metrics in [bench.params]"),
        (
            "vsweep bench",
            "p75_ttft_ms",
            "add 75 to metric_percentiles in [bench.params]",
        ),
        ("load --metric-percentiles 75", "p90_ttft_ms", ""),
    ] {
        let judged = format!("[[assert]]\n\"{figure}\"");
        assert_eq!(remedy(client, &judged), expected, "{client}: {figure}");
    }
    let target = "[sla]\nvary = \"max_concurrency\"\nmax = 4\n[[sla.target]]\nname = \"share\"\nattainment = \">=90%\"";
    for latency in ["ttft_ms", "e2el_ms"] {
        let needed = remedy("vllm bench serve", &format!("{target}\n{latency}"));
        assert!(needed.starts_with("set save_detailed = true"), "{latency}: {needed}");
        assert_eq!(
            remedy("vllm bench serve --save-detailed", &format!("{target}\n{latency}")),
            ""
        );
    }
}

#[test]
fn wrong_flags_are_told_all_at_once_at_their_places() {
    let check = vsweep(&["check"], WRONG);
    assert_eq!(check.status.code(), Some(2), "{}", said(&check));
    let said = said(&check);
    // An unknown flag may be one of a newer vLLM, so it is a warning. A value of a wrong type is refused by every release, so it is an
    // error.
    for (message, place, remedy) in [
        ("has no flag `--dtyp`", "plan.toml:3:11", "did you mean `--dtype`?"),
        (
            "has no flag `--tensor-paralel-size`",
            "plan.toml:4:12",
            "did you mean `--tensor-parallel-size`?",
        ),
        (
            "refuses `--max-num-seqs`: invalid int value: 'many'",
            "plan.toml:4:52",
            "write a whole number, such as 8",
        ),
        (
            "refuses `--max-model-len`: invalid",
            "plan.toml:8:17",
            "write a whole number, such as 8192 or 8k",
        ),
        ("`extra` belongs to no flag", "plan.toml:3:11", "remove it"),
    ] {
        let mut each = said.split("warning: ").flat_map(|part| part.split("error: "));
        let told = each.find(|told| told.contains(message));
        let told = told.unwrap_or_else(|| panic!("{message} in {said}"));
        assert!(
            told.contains(place) && told.contains(remedy),
            "{place} and {remedy} in {told}"
        );
    }
    let count = |level: &str| said.matches(level).count();
    assert_eq!((count("warning: "), count("error: ")), (3, 2), "{said}");
    assert!(!said.contains("12345678"), "{said}");
    for words in [&["plan", "--rehearse"][..], &["run"]] {
        assert_eq!(vsweep(words, WRONG).status.code(), Some(2), "{words:?}");
    }
    let flags_only = WRONG.replace("[\"many\", 8]", "8").replace("\"x\"", "8");
    assert_eq!(vsweep(&["check"], &flags_only).status.code(), Some(3));
}

#[test]
fn a_parameter_on_the_wrong_side_is_to_be_moved() {
    let plan = "[serve]\ncommand = \"vllm serve org/tiny\"\nparams = { max_concurrency = 4 }\n[bench.params]\n\
                num_prompts = 9\nmax_num_seqs = 8\n";
    let check = vsweep(&["check"], plan);
    for table in ["[bench.params]", "[serve.params]"] {
        let remedy = format!("move it to {table}");
        assert!(said(&check).contains(&remedy), "{remedy}: {}", said(&check));
    }
}

#[test]
fn the_simulator_is_known_to_refuse_what_it_has_not() {
    let wrong = "[serve]\ncommand = \"vsweep sim serve demo-8b\"\nparams = { tensor_paralel_size = 2 }\n";
    for command in ["check", "run"] {
        let refused = vsweep(&[command], wrong);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains("error: "), "{}", said(&refused));
    }
}

#[test]
fn a_problem_of_a_shared_file_is_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    write("loads.json", "[{\"max_concurrency\": 1");
    for name in ["one.toml", "two.toml"] {
        write(
            name,
            "[serve]\ncommand = \"vsweep sim serve demo-8b\"\n[bench]\nparams_file = \"loads.json\"\n",
        );
    }
    let mut check = Command::new(env!("CARGO_BIN_EXE_vsweep"));
    let check = output(
        check
            .args(["check", "one.toml", "two.toml", "one.toml"])
            .current_dir(folder.path()),
    );
    assert_eq!(check.status.code(), Some(2));
    assert_eq!(said(&check).matches("error: ").count(), 1, "{}", said(&check));
    assert!(
        said(&check).contains("two.toml: its problems are those of a shared file")
            && !said(&check).contains("one.toml: its problems"),
        "{}",
        said(&check)
    );
}

#[test]
fn mistakes_of_both_sides_are_told_together() {
    let both = WRONG.replace("random_input_len = 8", "random_input_len = \"long\"");
    let check = vsweep(&["check"], &both);
    assert_eq!(check.status.code(), Some(2));
    let said = said(&check);
    assert!(said.contains("error: random_input_len is \"long\""), "{said}");
    assert_eq!(said.matches("warning: ").count(), 3, "{said}");
}

#[test]
fn programs_that_are_not_known_and_right_flags_are_left_alone() {
    for plan in [
        WRONG.replace("vllm serve m", "python server.py"),
        "[serve]\ncommand = \"vllm serve m -tp 2 --max_model_len=8k\"\nparams = { enable_prefix_caching = false }\n"
            .to_owned(),
        "[serve]\ncommand = \"vllm serve m -O3\"\n".to_owned(),
        "[serve]\nurl = \"http://127.0.0.1:1\"\n".to_owned(),
    ] {
        let check = vsweep(&["check"], &plan);
        assert_eq!(check.status.code(), Some(0), "{}", said(&check));
    }
}

#[test]
fn a_warm_up_that_a_program_does_not_get_is_a_warning() {
    let plan = "[serve]\ncommand = \"vllm serve m\"\n[bench]\nwarmup_prompts = 4\ncommand = \"b -o {result}\"\n";
    let check = vsweep(&["check"], plan);
    assert_eq!(check.status.code(), Some(3), "{}", said(&check));
    let warning = "`bench.warmup_prompts` has no effect on b, which gets no flags";
    assert!(said(&check).contains(warning), "{}", said(&check));
}

#[test]
fn placeholders_that_nothing_fills_in_are_told() {
    let plan = "[serve]\ncommand = \"vllm serve m\"\n[bench]\n\
                command = \"b --url {base_url} --c {max_concurrency} --n {num_promts} -o {result} {{x}} '{\\\"a\\\": 1}'\"\n\
                [bench.params]\nmax-concurrency = [1, 8]\nnum_prompts = 8\n";
    let check = vsweep(&["check"], plan);
    let told = said(&check);
    assert_eq!(check.status.code(), Some(3), "{told}");
    assert!(
        told.contains("nothing fills in `{num_promts}`") && told.contains("did you mean `num_prompts`?"),
        "{told}"
    );
    assert_eq!(told.matches("warning: ").count(), 1, "{told}");

    let searched = plan.replace("{num_promts}", "{num_prompts}").replace(
        "max-concurrency = [1, 8]\nnum_prompts = 8\n",
        "[sla]\nvary = \"max_concurrency\"\nmax = 8\n[[sla.target]]\np99_ttft_ms = \"<=200\"\n",
    );
    let told = said(&vsweep(&["check"], &searched));
    assert!(!told.contains("nothing fills in"), "{told}");
}

#[test]
fn a_narrowed_axis_may_leave_an_exclusion_without_a_match() {
    let plan = "[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax_num_seqs = [8, 64]\n[bench.params]\n\
                max_concurrency = [1, 8]\nnum_prompts = 8\n[[exclude]]\n\"serve.max_num_seqs\" = 8\n\
                \"bench.max_concurrency\" = 8\n";
    let narrowed = vsweep(&["check", "--set", "serve.params.max_num_seqs=[64]"], plan);
    let told = said(&narrowed);
    assert_eq!(narrowed.status.code(), Some(3), "{told}");
    assert!(
        told.contains("warning: with the options given, this exclusion matches nothing"),
        "{told}"
    );
}

/// Writes a program that prints a help like vLLM's. It has one flag that no release has, lacks one that 0.32 has, and records each call.
fn install(folder: &Path, ends: &str) {
    let flags: String = (0..60)
        .map(|i| format!("  --flag-{i} FLAG_{i}, -f{i}\n                        Text, --not-a-flag.\n"))
        .collect();
    let own = "  --max-num-seqs MAX_NUM_SEQS\n  --brand-new {a,b}\n  --enforce-eager, --no-enforce-eager\n";
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}/asked\ncat <<'END'\noptions:\n{own}{flags}END\nexit {ends}\n",
        folder.display()
    );
    let program = folder.join("vllm");
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("allowed");
}

#[test]
fn an_installed_vllm_is_asked_once_and_its_word_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a PATH"));
    let check = |command: &str| {
        let plan = format!("[serve]\ncommand = \"{command}\"\n");
        fs::write(folder.path().join("plan.toml"), plan).expect("written");
        let mut check = Command::new(env!("CARGO_BIN_EXE_vsweep"));
        let check = check.args(["check", "plan.toml"]).current_dir(folder.path());
        output(
            check
                .env("PATH", &path)
                .env("XDG_CACHE_HOME", folder.path().join("cache")),
        )
    };
    let asked = || {
        fs::read_to_string(folder.path().join("asked"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    install(folder.path(), "0");
    let right = check("vllm serve m --max_num_seqs=8 --brand-new a --no-enforce-eager");
    assert_eq!((right.status.code(), asked()), (Some(0), 1), "{}", said(&right));
    assert!(said(&right).contains("vllm for its flags"), "{}", said(&right));
    for spelt in ["-O3", "-O 3", "-O=3"] {
        let told = said(&check(&format!("vllm serve m {spelt}")));
        assert!(told.contains("has no flag `--optimization-level`"), "{told}");
        assert_eq!(told.matches("has no flag").count(), 1, "{told}");
    }
    let wrong = check("vllm serve m --brand-nev a --enforce-eagr");
    assert_eq!((wrong.status.code(), asked()), (Some(2), 1), "{}", said(&wrong));
    assert!(said(&wrong).contains("/vllm has no flag `--brand-nev`") && said(&wrong).contains("`--enforce-eager`?"));
    // The release that the simulator imitates has this flag, so the help may just not mention it. It is a warning.
    let silent = check("vllm serve m --max-model-len 4");
    assert_eq!(silent.status.code(), Some(3), "{}", said(&silent));
    assert!(said(&silent).contains("warning: ") && said(&silent).contains("has no flag `--max-model-len`"));

    // Other commands than `check` ask the installed program only about flags that the release does not have.
    install(folder.path(), "0 # again");
    let plan = |command: &str| {
        fs::write(
            folder.path().join("plan.toml"),
            format!("[serve]\ncommand = \"{command}\"\n"),
        )
        .expect("written");
        let mut plan = Command::new(env!("CARGO_BIN_EXE_vsweep"));
        let plan = plan.args(["plan", "plan.toml"]).current_dir(folder.path());
        output(
            plan.env("PATH", &path)
                .env("XDG_CACHE_HOME", folder.path().join("cache")),
        )
    };
    let known = plan("vllm serve m --max-num-seqs 8");
    assert_eq!((known.status.code(), asked()), (Some(0), 1), "{}", said(&known));
    let new = plan("vllm serve m --brand-new a");
    assert_eq!((new.status.code(), asked()), (Some(0), 2), "{}", said(&new));

    // A server with other folders of programs has another vLLM, or none.
    let silent = check(&format!(
        "vllm serve m --brand-new a\"\n[serve.env]\nPATH = [\"/nowhere\", \"{path}\"]\n[report]\ntitle = \"x"
    ));
    assert!(
        said(&silent).contains("warning: vLLM 0.32 has no flag `--brand-new`"),
        "{}",
        said(&silent)
    );

    // Another installation replaces the program. Its help fails.
    install(folder.path(), "1 # broken");
    let broken = check("vllm serve m --brand-nev a --max-model-len 4");
    assert_eq!((broken.status.code(), asked()), (Some(3), 3), "{}", said(&broken));
    assert!(
        said(&broken).contains("warning: vLLM 0.32 has no flag `--brand-nev`"),
        "{}",
        said(&broken)
    );
}

/// The demo plan with one parameter misspelt where it is set.
fn misspelt(name: &str, other: &str) -> String {
    let demo = fs::read_to_string("plans/demo.toml").expect("readable");
    let set = format!("\n{name} = ");
    assert_eq!(demo.matches(&set).count(), 1, "{name}");
    demo.replace(&set, &format!("\n{other} = "))
}

#[test]
fn a_misspelt_parameter_is_told_where_it_is_set_and_not_where_it_is_named() {
    for (name, other, meant) in [
        (
            "tensor_parallel_size",
            "tensor_paralel_size",
            "`--tensor-parallel-size`",
        ),
        ("max_num_seqs", "max_num_seq", "`--max-num-seqs`"),
        ("max_concurrency", "max_concurency", "\"max_concurrency\""),
    ] {
        let plan = misspelt(name, other);
        let check = vsweep(&["check"], &plan);
        assert_eq!(check.status.code(), Some(2), "{}", said(&check));
        let said = said(&check);
        let line = 1 + plan
            .lines()
            .position(|line| line.starts_with(other))
            .expect("it is set");
        assert!(said.contains(&format!("plan.toml:{line}:1\n")), "{said}");
        assert!(said.contains(&format!("did you mean {meant}?")), "{said}");
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
        assert!(
            !said.contains("warning: ") && !said.contains("no parameter is called"),
            "{said}"
        );
    }
    // A reference is misspelt here, and the parameter is right. Only the reference is reported.
    let plan = misspelt("tensor_parallel_size", "tensor_parallel_size")
        .replace("\"serve.max_num_seqs\" =", "\"serve.max_num_seq\" =");
    let said = said(&vsweep(&["check"], &plan));
    assert!(said.contains("no parameter is called `serve.max_num_seq`"), "{said}");
    assert!(said.contains("did you mean `serve.max_num_seqs`?"), "{said}");
}

#[test]
fn an_optimisation_needs_a_server_that_fits_on_the_gpus() {
    let check = |command: &str, sizes: &str, gpus: u32| {
        vsweep(
            &["check"],
            &format!(
                "[serve]\ncommand = \"{command}\"\n[serve.params]\n{sizes}\n[optimize]\n[bench.params]\nnum_prompts = 9\n\
                 max_concurrency = [1, 8]\n[report]\ngpus = {gpus}\n"
            ),
        )
    };
    let sizes = "tensor_parallel_size = [4, 8]";
    let refused = check("vllm serve m", sizes, 2);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains("every server needs more than 2 GPUs"),
        "{}",
        said(&refused)
    );
    let fits = check("vllm serve m", sizes, 4);
    assert!(!said(&fits).contains("every server"), "{}", said(&fits));
    let unknown = check("vllm serve --config best.yaml", "max_num_seqs = [4, 8]", 2);
    assert!(
        said(&unknown).contains("warning: the number of GPUs is not known"),
        "{}",
        said(&unknown)
    );
    assert!(!said(&unknown).contains("every server"), "{}", said(&unknown));
}
