//! A disk that fails or is full in the middle of a sweep: the error is named, no measured run is lost, and the sweep continues once the
//! disk works.

use crate::deadline;
use crate::harness::{Harness, journals, rows, said};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Two servers, two loads.
const PLAN: &str = r#"
version = 1
runs = 1
[serve]
command = "vsweep sim serve tiny-8b --sim-start 10ms --sim-zero"
stop_grace = "1s"
[serve.params]
max_num_seqs = [4, 16]
[bench.params]
random_input_len = 16
random_output_len = 4
max_concurrency = [1, 2]
num_prompts = 4
"#;

/// Injected fault of an operation.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Eio,
    Enospc,
    /// The operation ends early, which is not an error.
    Short,
}

impl Fault {
    const ALL: [Fault; 3] = [Fault::Eio, Fault::Enospc, Fault::Short];

    fn number(self) -> i32 {
        match self {
            Fault::Eio => nix::errno::Errno::EIO as i32,
            Fault::Enospc => nix::errno::Errno::ENOSPC as i32,
            Fault::Short => 0,
        }
    }

    fn words(self) -> Option<&'static str> {
        match self {
            Fault::Eio => Some("Input/output error"),
            Fault::Enospc => Some("No space left on device"),
            Fault::Short => None,
        }
    }
}

/// Makes the disk fail for a sweep.
struct Disks {
    harness: Harness,
    expected: Vec<BTreeMap<String, String>>,
    /// Number of file operations of a whole sweep.
    operations: u64,
}

/// Returns the rows, with only the columns that show that a run was measured.
fn table(directory: &Path) -> Vec<BTreeMap<String, String>> {
    let mut table = rows(&directory.join("summary.csv"));
    for row in &mut table {
        row.retain(|name, _| ["point", "run", "outcome", "max_num_seqs", "max_concurrency"].contains(&name.as_str()));
        // Load on the machine disturbs a run now and then.
        if row["outcome"] == "suspect" {
            row.insert("outcome".to_owned(), "ok".to_owned());
        }
    }
    table.sort();
    table
}

impl Disks {
    fn new() -> Disks {
        let harness = Harness::new();
        harness.write("plan.toml", PLAN);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/faulty.c");
        let library = harness.folder.path().join("faulty.so");
        let mut built = std::process::Command::new("cc");
        built
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .args([source, "-ldl"]);
        assert!(built.status().expect("a C compiler").success());
        let mut disks = Disks {
            harness,
            expected: Vec::new(),
            operations: 0,
        };
        let output = disks.sweep("whole", Fault::Short, 0, false);
        assert!(output.status.success(), "{}", said(&output));
        let count = fs::read_to_string(disks.path("count")).expect("a count");
        disks.operations = count.trim().parse().expect("a number");
        disks.expected = table(&disks.path("whole"));
        assert_eq!(disks.expected.len(), 4);
        disks
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.harness.folder.path().join(name)
    }

    /// Runs a sweep in which the file operation number `at` fails, and if `lasts`, all later ones too. With `at` 0 none fails.
    fn sweep(&self, name: &str, fault: Fault, at: u64, lasts: bool) -> std::process::Output {
        let directory = self.path(name);
        let mut vsweep = self
            .harness
            .vsweep(&["run", "plan.toml", "-q", "-o", directory.to_str().expect("plain")]);
        vsweep
            .env("LD_PRELOAD", self.path("faulty.so"))
            .env("VSWEEP_FAULT_UNDER", &directory)
            .env("VSWEEP_FAULT_COUNT", self.path("count"))
            .env("VSWEEP_FAULT_AT", at.to_string())
            .env("VSWEEP_FAULT_ERRNO", fault.number().to_string())
            .env("VSWEEP_FAULT_LASTS", u8::from(lasts).to_string());
        deadline::output(&mut vsweep)
    }

    /// Runs a sweep with a fault, and then again without.
    fn trial(&self, name: &str, fault: Fault, at: u64, lasts: bool) {
        let directory = self.path(name);
        let path = directory.to_str().expect("plain");
        let output = self.sweep(name, fault, at, lasts);
        let context = || format!("{fault:?} at {at}, lasting {lasts}: {}", said(&output));
        assert!(!said(&output).contains("panicked"), "{}", context());
        match (output.status.code(), fault.words()) {
            (Some(0), _) => {}
            (Some(1 | 3), Some(words)) => assert!(said(&output).contains(words), "{}", context()),
            _ => panic!("{}", context()),
        }
        self.harness.wait_until_alone();
        let has_journal = directory.join("journal").is_dir() && !journals(&directory).is_empty();
        if has_journal {
            // `verify` may find tables that were not written, but it must not panic.
            let verified = self.harness.run(&["verify", path]);
            let words = said(&verified);
            assert!(
                !words.contains("panicked") && matches!(verified.status.code(), Some(0 | 1 | 3)),
                "{}\n{words}",
                context()
            );
        }
        let again = self.harness.run(&["run", "plan.toml", "-q", "-o", path]);
        assert!(again.status.success(), "{}\nagain: {}", context(), said(&again));
        assert_eq!(table(&directory), self.expected, "{}", context());
        let verified = self.harness.run(&["verify", path]);
        assert!(verified.status.success(), "{}\n{}", context(), said(&verified));
        let left = |folder: &Path| -> Vec<String> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.filter(|name| name.ends_with(".tmp")).collect()
        };
        for folder in ["", "journal", "runs"] {
            assert!(left(&directory.join(folder)).is_empty(), "{}", context());
        }
        fs::remove_dir_all(&directory).expect("removable");
    }
}

#[test]
fn a_disk_that_fails_once_is_named_and_the_sweep_goes_on() {
    let disks = Disks::new();
    for (place, fault) in [(0.3, Fault::Eio), (0.6, Fault::Enospc), (0.8, Fault::Short)] {
        let at = (disks.operations as f64 * place) as u64;
        disks.trial("out", fault, at, matches!(fault, Fault::Enospc));
    }
}

/// The long test. `.ci/night io` runs it.
#[test]
#[ignore = "takes minutes; .ci/night runs it"]
fn a_disk_that_fails_anywhere_loses_nothing() {
    let rounds = std::env::var("VSWEEP_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(100);
    let next = AtomicU64::new(0);
    let work = || {
        let disks = Disks::new();
        loop {
            let round = next.fetch_add(1, Ordering::Relaxed);
            if round >= rounds {
                return;
            }
            // Every place is tried once before any is tried again, then with another fault.
            let (at, again) = (1 + (round * 37) % disks.operations, round / disks.operations);
            let fault = Fault::ALL[((round + again) % 3) as usize];
            disks.trial("out", fault, at, (round + again).is_multiple_of(2));
            println!(
                "round {}: {fault:?} at operation {at} of {}",
                round + 1,
                disks.operations
            );
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
}
