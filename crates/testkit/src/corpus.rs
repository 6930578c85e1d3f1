//! Replays the fuzz corpora with a stable compiler, so that a fault that fuzzing found is found again.

use std::fs;
use std::path::Path;

/// Runs every file of one target's corpus.
///
/// # Panics
/// If the corpus is empty or absent.
pub fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        run(&fs::read(entry.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", corpus.display());
}
