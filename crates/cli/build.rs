//! Tells the program which commit it is built from, which results of the lab name.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=ANABRANCH_COMMIT={commit}");
    // The log of HEAD grows with each commit; a file that is not there would have this run every time.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    log.iter().for_each(|log| println!("cargo::rerun-if-changed={log}"));
}

/// What git answers; `None` without git or outside of a clone.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let answer = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!answer.is_empty()).then_some(answer)
}
