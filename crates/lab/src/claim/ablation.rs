//! Ablations: the runs of a claim once more, with one setting changed in all of them.

use crate::experiment::Experiment;
use crate::profile::{Settings, SettingsError};

/// A setting that is changed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ablation {
    /// Name for directories and tables.
    pub name: &'static str,
    /// Part of the names of the variants that are changed; all of them if it is empty.
    pub of: &'static str,
    /// The setting, as a line of a profile in TOML.
    pub set: &'static str,
}

impl Ablation {
    /// Returns the experiment with the setting changed. Names of experiment, variants and points stay, so that the same
    /// claims judge the rows.
    ///
    /// # Errors
    /// Fails if there is no such setting, or no such value.
    pub fn apply(&self, experiment: Experiment) -> Result<Experiment, SettingsError> {
        changed(experiment, self.of, &Settings::parse(self.name, self.set)?)
    }
}

/// Returns the experiment with `settings` over those of the variants whose names contain `of`.
fn changed(mut experiment: Experiment, of: &str, settings: &Settings) -> Result<Experiment, SettingsError> {
    for variant in experiment.variants.iter_mut().filter(|variant| variant.name.contains(of)) {
        variant.settings = settings.clone().over(std::mem::take(&mut variant.settings));
    }
    Ok(experiment)
}

#[cfg(test)]
mod tests {
    use super::super::PAPERS;
    use crate::experiment::named;

    #[test]
    fn every_ablation_changes_some_variant_and_keeps_the_names() {
        for ablation in PAPERS.iter().flat_map(|paper| paper.ablations) {
            let before = named("ccr22-heterogeneous-2path", None).unwrap();
            let after = ablation.apply(before.clone()).unwrap();
            let names = |of: &crate::experiment::Experiment| {
                of.variants.iter().map(|variant| variant.name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(&before), names(&after));
            assert_ne!(before.variants, after.variants, "{}", ablation.name);
        }
    }
}
