//! Ratios of VReverso's time to that of version 1, round by round, for our stack and the reference.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::pages::{Stack, Subject, allocator};
use super::{Wire, ours, peer};
use crate::Error;
use crate::report::{median, rounded};
use crate::stacks::Identity;

/// Batch sizes of the paper.
const BATCHES: [usize; 3] = [10, 50, 150];

/// Returns the reference program if it is built; otherwise prints its name.
fn reference() -> Option<PathBuf> {
    let program = crate::stacks::peer("quiceh");
    if !program.is_file() {
        eprintln!("skipped: {} is not built", program.display());
        return None;
    }
    Some(program)
}

/// Measurement that is made with either wire format in every round.
type Measure<'a> = dyn Fn(Wire) -> Result<f64, Error> + 'a;

/// Returns the median of the rounds' ratios for each measurement in `all`. The order of the wire formats
/// alternates between rounds.
fn compare(rounds: u32, all: &[&Measure<'_>]) -> Result<Vec<f64>, Error> {
    let mut ratios = vec![Vec::new(); all.len()];
    for round in 0..rounds {
        for (measure, ratios) in all.iter().zip(&mut ratios) {
            let (v1, reverso) = if round % 2 == 0 {
                let v1 = measure(Wire::V1)?;
                (v1, measure(Wire::Reverso)?)
            } else {
                let reverso = measure(Wire::Reverso)?;
                (measure(Wire::V1)?, reverso)
            };
            ratios.push(reverso / v1);
        }
    }
    Ok(ratios.iter().map(|ratios| rounded(median(ratios))).collect())
}

/// Measures the receive path with the paper's batch sizes.
pub(crate) fn batches(rounds: u32) -> Result<Vec<Value>, Error> {
    batches_of(rounds, &BATCHES, reference().as_deref())
}

/// Measures the receive path with the given batch sizes.
pub(crate) fn batches_of(
    rounds: u32,
    batches: &[usize],
    reference: Option<&Path>,
) -> Result<Vec<Value>, Error> {
    let identity = Identity::new()?;
    let row = |&batch: &usize| {
        eprintln!("receive path, batches of {batch}");
        let ours = |wire: Wire| Ok(ours::measure(wire.version(), batch)?.ns_per_packet);
        let theirs = |wire: Wire| {
            let flags = [&["--wire".to_owned(), wire.name().to_owned()], &identity.flags()[..]].concat();
            Ok(peer::measure(reference.unwrap_or(Path::new("")), batch, &flags)?.ns_per_packet)
        };
        let all: [&Measure<'_>; 2] = [&ours, &theirs];
        let ratios = compare(rounds, &all[..1 + usize::from(reference.is_some())])?;
        Ok(json!({ "batch": batch, "ours": ratios[0], "reference": ratios.get(1) }))
    };
    batches.iter().map(row).collect()
}

/// Measures responses over HTTP/3.
pub(crate) fn pages(rounds: u32) -> Result<Vec<Value>, Error> {
    let (identity, reference) = (Identity::new()?, reference());
    let quiceh = reference.as_deref().unwrap_or(Path::new(""));
    let row = |retained| {
        eprintln!("HTTP/3, malloc {}", allocator(retained));
        let ours = |wire| Subject { stack: Stack::Anabranch(wire), retained }.measure(quiceh, &identity);
        let theirs = |wire| Subject { stack: Stack::Quiceh(wire), retained }.measure(quiceh, &identity);
        let all: [&Measure<'_>; 2] = [&ours, &theirs];
        let ratios = compare(rounds, &all[..1 + usize::from(reference.is_some())])?;
        Ok(json!({ "allocator": allocator(retained), "ours": ratios[0], "reference": ratios.get(1) }))
    };
    [false, true].into_iter().map(row).collect()
}
