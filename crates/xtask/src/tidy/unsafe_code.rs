//! Crates that forbid unsafe code.

use super::{Fault, Source};

/// Folders below `crates` whose crates forbid unsafe code.
const SAFE: &[&str] = &[
    "wire",
    "seeded",
    "tls",
    "recovery",
    "transport",
    "http3",
    "qlog",
    "lab",
    "linux",
    "guest",
    "testkit",
    "meter",
];

/// Reports crate roots without `#![forbid(unsafe_code)]`.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let root =
        |source: &&Source| SAFE.iter().any(|folder| source.path == format!("crates/{folder}/src/lib.rs"));
    let promises = |source: &Source| source.text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
    let broken = sources.iter().filter(root).filter(|source| !promises(source));
    broken.map(|source| source.fault(0, "lacks #![forbid(unsafe_code)]")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn the_promise_stands_in_the_crates_root() {
        let sources = [
            source("crates/wire/src/lib.rs", "//! Doc\n#![forbid(unsafe_code)]\n"),
            source("crates/lab/src/lib.rs", "//! #![forbid(unsafe_code)] some day\n"),
            source("crates/lab/src/other.rs", ""),
            source("crates/anabranch/src/lib.rs", ""),
        ];
        assert_eq!(places(&check(&sources)), ["crates/lab/src/lib.rs:1"]);
    }
}
