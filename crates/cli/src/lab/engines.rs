//! Engines that run stacks other than ours, if this machine has them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use anabranch_lab::experiment::Experiment;
use anabranch_lab::run::{Engine, RunOptions};

use crate::exit::note;

/// Returns the engines that this machine has. All calls return the same ones, so that each is checked once.
pub(super) fn ready() -> Vec<Arc<dyn Engine>> {
    static READY: OnceLock<Vec<Arc<dyn Engine>>> = OnceLock::new();
    READY.get_or_init(found).clone()
}

#[cfg(target_os = "linux")]
fn found() -> Vec<Arc<dyn Engine>> {
    super::linux::engine().into_iter().collect()
}

#[cfg(not(target_os = "linux"))]
fn found() -> Vec<Arc<dyn Engine>> {
    Vec::new()
}

/// Removes the variants whose engine is missing or does not work from the selected ones, and prints their names with the
/// reason. `names` are the selected variants; `None` selects the default ones. The result may be empty.
pub(super) fn without_absent(
    experiment: &Experiment,
    names: Option<Vec<String>>,
    options: &RunOptions,
) -> Option<Vec<String>> {
    let asked = |name: &String| names.as_ref().is_none_or(|names| names.contains(name));
    let all = match names {
        Some(_) => &experiment.variants[..],
        None => experiment.usual_variants(),
    };
    let mut left_out: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut rest = Vec::new();
    for variant in all.iter().filter(|variant| asked(&variant.name)) {
        match variant.external().and_then(|external| fault(&external.engine, options)) {
            Some(fault) => left_out.entry(fault).or_default().push(&variant.name),
            None => rest.push(variant.name.clone()),
        }
    }
    if left_out.is_empty() {
        return names;
    }
    for (fault, variants) in left_out {
        note(format_args!("left out, {fault}: {}", variants.join(", ")));
    }
    Some(rest)
}

/// Returns the reason why an engine cannot run anything; `None` if it can.
fn fault(engine: &str, options: &RunOptions) -> Option<String> {
    match options.engine(engine) {
        None => Some(format!("for want of Linux's kernel ({REMEDY})")),
        Some(engine) => {
            let fault = engine.check().err()?;
            Some(format!("as {} failed its check ({fault})", engine.version()))
        }
    }
}

/// Hint on how to get the engine.
pub(super) const REMEDY: &str =
    "`anabranch lab linux build` makes it, and `anabranch lab linux check` tries it";
