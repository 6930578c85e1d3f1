//! Engines that run stacks other than ours, if this machine has them.

use std::sync::Arc;

use anabranch_lab::experiment::Experiment;
use anabranch_lab::run::{Engine, RunOptions};

use crate::exit::note;

/// Returns the engines that this machine has.
pub(super) fn ready() -> Vec<Arc<dyn Engine>> {
    #[cfg(target_os = "linux")]
    return super::linux::engine().into_iter().collect();
    #[cfg(not(target_os = "linux"))]
    Vec::new()
}

/// Removes the variants whose engine is missing from the selected ones, and prints their names. `names` are the
/// selected variants; `None` selects the default ones. The result may be empty.
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
    let is_absent = |name: &String| {
        let variant = experiment.variants.iter().find(|variant| variant.name == *name);
        let external = variant.and_then(|variant| variant.external());
        external.is_some_and(|external| options.engine(&external.engine).is_none())
    };
    let wanted = all.iter().map(|variant| variant.name.clone()).filter(asked);
    let (absent, rest): (Vec<_>, Vec<_>) = wanted.partition(is_absent);
    if absent.is_empty() {
        return names;
    }
    note(format_args!("left out, for want of Linux's kernel: {}; {REMEDY}", absent.join(", ")));
    Some(rest)
}

/// Hint on how to build the missing engine.
pub(super) const REMEDY: &str = "`anabranch lab linux build` makes it";
