//! `vsweep report` of several experiments: one page that names each.

use crate::deadline::output;
use crate::experiment::{Experiment, times};
use serde_json::json;
use std::fs;
use std::process::Command;

#[test]
fn one_page_names_each_experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = |seqs: &[u64]| Experiment {
        servers: times(
            &[json!({})],
            "max_num_seqs",
            &seqs.iter().map(|n| json!(n)).collect::<Vec<_>>(),
        ),
        loads: times(&[json!({})], "max_concurrency", &[json!(4), json!(32)]),
        ..Experiment::default()
    };
    experiment(&[4]).write(&folder.path().join("old <b>"));
    experiment(&[16, 64]).write(&folder.path().join("new"));
    let report = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vsweep"));
        let found = output(command.current_dir(folder.path()).arg("report").args(args));
        let said = [found.stdout, found.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
        (found.status.code(), said.concat())
    };
    let (code, said) = report(&["old <b>", "new"]);
    assert_eq!(
        (code, said.contains("wrote experiments.html")),
        (Some(0), true),
        "{said}"
    );
    let page = fs::read_to_string(folder.path().join("experiments.html")).expect("written");
    for part in [
        "18 runs of 6 points in 2 experiments",
        "<td>old &lt;b&gt;</td><td>2 points</td>",
        "<td>new</td><td>4 points</td>",
        "For the highest throughput, run experiment new, ",
        "<svg xmlns",
    ] {
        assert!(
            page.contains(part),
            "{part} is not in the page:\n{}",
            &page[..page.len().min(20_000)]
        );
    }
    assert!(!page.contains("old <b>") && !page.contains("<script"));
    assert!(
        !folder.path().join("new/report.html").exists(),
        "each keeps its own report"
    );
    for (args, why) in [
        (&["new", "new"][..], "new is given twice"),
        (&["new", "nowhere"], "there is no directory nowhere"),
        (&["new", "old <b>", "--timeline", "a/0"], "--timeline is of one run"),
    ] {
        let (code, said) = report(args);
        assert_eq!((code, said.contains(why)), (Some(2), true), "{said}");
    }
}
