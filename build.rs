//! Names the commit that a release was built from, for `vsweep --version`. A debug build names none: it would be built anew after
//! each commit. It also says whether tests can have a browser; under `CI=true` they must.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rustc-check-cfg=cfg(no_browser)");
    if std::env::var("CI").as_deref() != Ok("true") && Command::new("chromedriver").arg("--version").output().is_err() {
        println!("cargo::rustc-cfg=no_browser");
    }
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    // Not the commit of a repository that only holds a copy of this one.
    let is_ours = git(&["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix.is_empty());
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).filter(|_| is_ours && is_release());
    let named = commit.map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=VSWEEP_VERSION={named}");
    if is_release() {
        for file in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--git-path", file]) {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
}

fn is_release() -> bool {
    std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// Runs git in this checkout; `None` without git or a checkout.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8_lossy(&said).trim().to_owned())
}
