//! Leftover markers of postponed work and of debugging.

use super::{Fault, Source};

/// Markers. Each is split in two, so that this check does not find it in this file.
const MARKERS: &[(&str, &str)] = &[
    ("todo", "!("),
    ("unimplemented", "!("),
    ("dbg", "!("),
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("#[ig", "nore"),
    ("<<<<", "<<< "),
    (">>>>", ">>> "),
];

/// Reports markers in all text files except lock files and third-party schemas.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let markers: Vec<String> = MARKERS.iter().map(|(head, tail)| format!("{head}{tail}")).collect();
    let ours = |source: &&Source| {
        !source.path.ends_with(".lock") && !source.path.ends_with(".sum") && !source.path.ends_with(".cddl")
    };
    let mut faults = Vec::new();
    for source in sources.iter().filter(ours) {
        for (index, line) in source.text.lines().enumerate() {
            if let Some(marker) = markers.iter().find(|marker| contains_word(line, marker)) {
                faults.push(source.fault(index, format!("leftover `{marker}`")));
            }
        }
    }
    faults
}

/// Returns whether `line` contains `marker` and not only as a part of a longer word.
fn contains_word(line: &str, marker: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let bounded = |at: usize| {
        let before = line[..at].chars().next_back();
        let after = line[at + marker.len()..].chars().next();
        let starts_word = is_word(marker.chars().next());
        let ends_word = is_word(marker.chars().next_back());
        !(starts_word && is_word(before) || ends_word && is_word(after))
    };
    line.match_indices(marker).any(|(at, _)| bounded(at))
}

#[cfg(test)]
mod tests {
    use super::super::{places, source};
    use super::*;

    #[test]
    fn every_marker_is_found_as_a_word() {
        for (head, tail) in MARKERS {
            let found = check(&[source("a.rs", &format!("ok\n    {head}{tail} x"))]);
            assert_eq!(places(&found), ["a.rs:2"], "{head}{tail}");
        }
        let fine = "methodo!(); peers-tests-VXXXI; mktemp anabranch.XXXXXX; ignored; \"todo\" <<";
        assert_eq!(check(&[source("a.rs", fine)]), []);
    }

    #[test]
    fn lock_files_are_others() {
        let text = format!("{}{}", MARKERS[3].0, MARKERS[3].1);
        assert_eq!(check(&[source("Cargo.lock", &text), source("go.sum", &text)]), []);
    }
}
