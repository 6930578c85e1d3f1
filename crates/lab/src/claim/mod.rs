//! Claims of the papers, as thresholds written before the first run, and the verdicts that follow from our
//! rows.
//!
//! A claim names the runs that it needs, and judging it reads only rows. Adding the claims of another paper
//! takes one file and one line in `registry!`.

mod results;

use crate::registry::registry;

pub use results::{Metric, Results};
pub use reverso::Measured;

/// The claims of one paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Claims of the paper.
    pub claims: &'static [Claim],
}

registry! {
    /// All papers whose claims are checked.
    pub const PAPERS: &[Paper] = PAPER in
    ccr22,
    conext17,
    reverso,
}

/// Something that a paper says about its measurements.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Short name, unique over all papers.
    pub id: &'static str,
    /// The figure or section that shows it.
    pub shown: &'static str,
    /// The claim in one line.
    pub text: &'static str,
    /// Condition that our figures must meet for the claim to hold.
    pub threshold: &'static str,
    /// Reason for the threshold.
    pub reason: &'static str,
    /// The runs without which it cannot be judged.
    pub needs: &'static [Need],
    /// Function that judges our runs.
    pub judge: fn(&Results) -> Option<Finding>,
    /// Part of the claim that cannot be judged here at all, and the reason; the rest is judged.
    pub beyond: Option<&'static str>,
}

/// Variants of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The experiment's name.
    pub experiment: &'static str,
    /// Its variants.
    pub variants: &'static [&'static str],
}

/// Result of judging a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The figures, in one line.
    pub figure: String,
    /// `true` if the figures reach the threshold.
    pub holds: bool,
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The figures, in one line; empty if there are none.
    pub figure: String,
    /// `true` if the claim holds; `None` if that cannot be decided here.
    pub holds: Option<bool>,
    /// Reason that the claim cannot be decided, or the part of it that was left out.
    pub why: Option<String>,
}

impl Claim {
    /// Judges the claim by `results`.
    pub fn verdict(&self, results: &Results) -> Verdict {
        let undecided = |why| Verdict { figure: String::new(), holds: None, why: Some(why) };
        if self.needs.is_empty() {
            return undecided(self.beyond.unwrap_or("there is nothing to judge it by").to_owned());
        }
        for need in self.needs {
            let missing = need.variants.iter().find(|variant| !results.has(need.experiment, variant));
            if let Some(variant) = missing {
                return undecided(format!("no runs of {variant} in {}", need.experiment));
            }
        }
        match (self.judge)(results) {
            Some(Finding { figure, holds }) => {
                Verdict { figure, holds: Some(holds), why: self.beyond.map(str::to_owned) }
            }
            None => undecided("too few runs ended as they should".to_owned()),
        }
    }
}

/// Returns the paper called `name`.
pub fn paper(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}

#[cfg(test)]
mod tests;
