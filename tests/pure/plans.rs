//! Every committed plan is valid, every broken plan gets exactly the message in its snapshot, the committed schema and plan reference are
//! up to date, and no text makes the reading of a plan panic.

use crate::deadline::output;
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use vsweep::bench;
use vsweep::matrix::Matrix;
use vsweep::plan::{self, BenchRunner, Draft, Format, World, reference};

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

/// Returns the problems of a plan as the user sees them, or `None` if it is valid.
fn problems(path: &Path) -> Option<String> {
    let check = output(Command::new(env!("CARGO_BIN_EXE_vsweep")).arg("check").arg(path));
    let said = String::from_utf8(check.stderr).expect("a text");
    (check.status.code() == Some(2)).then(|| said.trim_end().to_owned())
}

/// The committed plans, with the environment variables that they need.
fn checked_in() -> Vec<(PathBuf, Result<plan::Plan, plan::Problems>)> {
    let mut world = World::real();
    world.vars.insert("TINY_MODEL".into(), "/models/tiny".into());
    let plans = files("plans").into_iter().filter(|path| !path.ends_with("schema.json"));
    plans
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a text");
            let plan = plan::parse(&text, Format::of(&path), &path, &world);
            (path, plan)
        })
        .collect()
}

#[test]
fn checked_in_plans_are_valid() {
    for (path, plan) in checked_in() {
        let matrix = plan.and_then(|plan| Matrix::expand(&plan));
        assert!(
            matrix.is_ok(),
            "{}",
            matrix.err().map(|problems| problems.to_string()).unwrap_or_default()
        );
        let counts = matrix.expect("checked").counts();
        assert!(counts.points + counts.searches > 0, "{}", path.display());
    }
}

#[test]
fn broken_plans_are_told_what_is_wrong() {
    let paths = files("tests/data/bad-plans");
    assert!(paths.len() >= 30);
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let shown = problems(&path).unwrap_or_else(|| panic!("{name} is valid"));
        insta::assert_snapshot!(name, shown);
    }
}

/// Loads with fewer requests than they hold at once: by a value, a list, a derived value, a combination and a default. Loads with a request
/// rate are not reported.
#[test]
fn loads_without_enough_requests_are_told_in_one_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let head = "[serve]\ncommand = \"vsweep sim serve m\"\n";
    let lists = "[bench.params]\nnum_prompts = [4, 200]\nmax_concurrency = { from = 1, to = 256, times = 4 }\n";
    let derived =
        "[bench.params]\nmax_concurrency = [8, 64]\nnum_prompts = { per = \"max_concurrency\", times = 2, max = 50 }\n";
    let combos = "[[bench.combos]]\nname = \"a\"\nnum_prompts = 4\nmax-concurrency = 64\n\
                  [[bench.combos]]\nname = \"b\"\nmax_concurrency = 2000\n\
                  [[bench.combos]]\nname = \"c\"\nnum_prompts = 64\nmax_concurrency = 64\n";
    for (name, table) in [("lists", lists), ("derived", derived), ("combos", combos)] {
        let path = folder.path().join("starved.toml");
        fs::write(&path, format!("{head}{table}")).expect("written");
        let check = output(
            Command::new(env!("CARGO_BIN_EXE_vsweep"))
                .current_dir(&folder)
                .args(["check", "starved.toml"]),
        );
        assert_eq!(check.status.code(), Some(3), "{name}");
        let said = String::from_utf8(check.stderr).expect("a text");
        insta::assert_snapshot!(format!("starved-{name}"), said.trim_end());
        let rate = path.with_file_name("rate.toml");
        fs::write(
            &rate,
            format!("{head}[bench.params]\nrequest_rate = 4\nnum_prompts = 8\nmax_concurrency = 64\n"),
        )
        .expect("written");
        let check = output(Command::new(env!("CARGO_BIN_EXE_vsweep")).arg("check").arg(&rate));
        assert!(
            check.status.success() && check.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&check.stderr)
        );
    }
}

#[test]
fn schema_and_reference_are_fresh() {
    let fresh = |path: &str, text: String| {
        let committed = fs::read_to_string(path).expect("it is committed");
        assert!(
            committed == text,
            "{path} is stale: run `vsweep schema` as CONTRIBUTING.md says"
        );
    };
    fresh("plans/schema.json", reference::json_text());
    fresh("docs/plan.md", reference::markdown());
    fresh("docs/parameters.md", vsweep::bench::reference());
}

#[test]
fn every_key_is_documented() {
    fn visit(path: &str, value: &serde_json::Value) {
        if let Some(properties) = value.get("properties").and_then(|properties| properties.as_object()) {
            for (key, property) in properties {
                let text = property
                    .get("description")
                    .and_then(|text| text.as_str())
                    .unwrap_or_default();
                assert!(!text.is_empty(), "{path}.{key} has no description");
            }
        }
        if let Some(members) = value.as_object() {
            members
                .iter()
                .for_each(|(key, member)| visit(&format!("{path}/{key}"), member));
        }
    }
    visit("", &reference::json_schema());
}

/// Reads and expands a text as far as possible. The result does not matter; it must only not panic.
fn survive(text: &str, format: Format) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(match format {
        Format::Toml => "plan.toml",
        Format::Json => "plan.json",
    });
    fs::write(&path, text).expect("written");
    let problems = plan::draft(&path, &[], None).and_then(|Draft { plan, mut found }| {
        plan.redacted_text();
        if let Some(matrix) = Matrix::draft(&plan, &mut found) {
            let points = matrix.points().take(3);
            points.for_each(|point| drop(bench::check(&BenchRunner::Native, &point.params)));
        }
        Err::<(), _>(found.into_problems(&plan.origin.sources, &plan.secrets))
    });
    problems.expect_err("made so").render(true);
}

#[test]
fn exclusions_end_if_parameters_follow_each_other() {
    for per in ["num_prompts", "max_concurrency"] {
        let params =
            format!("max_concurrency = {{ per = \"{per}\" }}\nnum_prompts = {{ per = \"max_concurrency\" }}\n");
        let exclude = "[[exclude]]\n\"bench.max_concurrency\" = \"<4\"\n";
        let serve = "[serve]\ncommand = \"vllm serve m\"\n";
        survive(&format!("{serve}[bench.params]\n{params}{exclude}"), Format::Toml);
    }
}

proptest! {
    #![proptest_config(crate::cases(96))]

    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        for format in [Format::Toml, Format::Json] {
            survive(&text, format);
        }
    }

    #[test]
    fn no_change_of_a_plan_makes_reading_panic(
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        length in 0usize..12,
        insert in r#"[\[\]{}="',.0-9a-z$#\n\\é-]{0,6}"#,
    ) {
        let mut paths = files("plans");
        paths.extend(files("tests/data/bad-plans"));
        let path = which.get(&paths);
        let mut text = fs::read_to_string(path).expect("a text");
        if !text.is_empty() {
            let start = text.floor_char_boundary(place.index(text.len()));
            let end = text.ceil_char_boundary(start + length);
            text.replace_range(start..end, &insert);
        }
        survive(&text, Format::of(path));
    }
}
