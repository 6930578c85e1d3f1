//! Replay of the fuzz corpora with a stable compiler, as regression tests for faults that fuzzing has found.

use std::fs;
use std::path::Path;

/// Runs `run` on every file of the corpus of `target`.
///
/// # Panics
/// Panics if the corpus is empty or absent.
pub fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        run(&fs::read(entry.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", corpus.display());
}
