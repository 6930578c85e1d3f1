//! Clocks and global randomness: on floors 1 to 5 and in the lab, time and randomness are passed as
//! arguments.

use super::{Fault, Source};

/// Folders below `crates` that are deterministic.
const DETERMINISTIC: &[&str] = &["wire", "seeded", "tls", "recovery", "transport", "http3", "qlog", "lab"];

/// Calls whose results differ between runs.
const FORBIDDEN: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    "UNIX_EPOCH.elapsed",
    "thread_rng",
    "rand::random",
    "rand::rng()",
    "OsRng",
    "getrandom::",
    "RandomState::new",
];

/// Lint whose `allow` or `expect` attribute marks a driver's boundary.
const BOUNDARY: &str = "clippy::disallowed_methods";

/// Maximum number of lines between a forbidden call and the mark above it.
const NEAR: usize = 10;

/// Reports forbidden calls outside of a marked boundary.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let deterministic = |source: &&Source| {
        source.is_rust() && source.crate_folder().is_some_and(|folder| DETERMINISTIC.contains(&folder))
    };
    let mut faults = Vec::new();
    for source in sources.iter().filter(deterministic) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let marked =
                || lines[index.saturating_sub(NEAR)..index].iter().any(|above| above.contains(BOUNDARY));
            if let Some(what) = FORBIDDEN.iter().find(|what| code.contains(**what)).filter(|_| !marked()) {
                faults.push(source.fault(index, format!("`{what}` in a deterministic crate")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn clocks_belong_behind_a_boundary() {
        let read = "fn now() -> Instant {\n    Instant::now()\n}\n";
        let marked = format!("#[expect(clippy::disallowed_methods, reason = \"driver\")]\n{read}");
        let sources = [
            source("crates/transport/src/a.rs", read),
            source("crates/lab/src/a.rs", &marked),
            source("crates/anabranch/src/a.rs", read),
            source("crates/wire/src/a.rs", "// not Instant::now\n"),
            source("crates/tls/src/a.rs", &format!("{}{}", marked, "\n".repeat(NEAR))),
            source("crates/qlog/src/a.rs", "\nlet x = rand::random();"),
        ];
        assert_eq!(places(&check(&sources)), ["crates/transport/src/a.rs:2", "crates/qlog/src/a.rs:2"]);
    }
}
