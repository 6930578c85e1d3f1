//! Ablations: repetitions of a claim's runs with one setting changed.

use crate::experiment::Experiment;
use crate::profile::{Settings, SettingsError, Variant};

/// Change of a single setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ablation {
    /// Name for directories and tables.
    pub name: &'static str,
    /// Text that the names of the changed variants contain. If it is empty, all variants are changed.
    pub of: &'static str,
    /// The setting with its new value, as a line of a profile in TOML.
    pub set: &'static str,
}

impl Ablation {
    /// Returns true if the setting is changed in this variant. Variants of engines outside the simulator have
    /// no settings.
    pub fn changes(&self, variant: &Variant) -> bool {
        variant.name.contains(self.of) && variant.external().is_none()
    }

    /// Returns the experiment with the setting changed. The names of the experiment and of its variants
    /// remain, and so do the numbers of its points. So the same claims can judge the rows.
    ///
    /// # Errors
    /// Fails if the setting does not exist or its value is invalid.
    pub fn apply(&self, mut experiment: Experiment) -> Result<Experiment, SettingsError> {
        let settings = Settings::parse(self.name, self.set)?;
        for variant in experiment.variants.iter_mut().filter(|variant| self.changes(variant)) {
            variant.settings = settings.clone().over(std::mem::take(&mut variant.settings));
        }
        Ok(experiment)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PAPERS;
    use crate::experiment::named;

    #[test]
    fn every_ablation_changes_some_variant_and_keeps_the_names() {
        let all =
            PAPERS.iter().flat_map(|paper| paper.ablations.iter().map(move |ablation| (paper, ablation)));
        for (paper, ablation) in all {
            let experiment = paper.claims[0].needs[0].experiment;
            let before = named(experiment, None).unwrap();
            let after = ablation.apply(before.clone()).unwrap();
            let names = |of: &crate::experiment::Experiment| {
                of.variants.iter().map(|variant| variant.name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(&before), names(&after));
            assert_ne!(before.variants, after.variants, "{}", ablation.name);
            // A changed variant may equal the original, which may already have the new value.
            let pairs = before.variants.iter().zip(&after.variants);
            for (before, after) in pairs.filter(|(before, _)| !ablation.changes(before)) {
                assert_eq!(before, after, "{}", ablation.name);
            }
        }
    }
}
