//! Claims of the papers, as thresholds written before the first run, and the verdicts that follow from the
//! rows of our runs.
//!
//! A claim names the runs that it needs, and is judged only by their rows. Adding the claims of another paper
//! takes one file and one line in `registry!`.

mod ablation;
mod bootstrap;
mod results;

use crate::registry::registry;

pub use ablation::Ablation;
pub use results::{Metric, Results};
pub use reverso::Measured;

/// The claims of one paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Name of the paper on the command line.
    pub name: &'static str,
    /// Title of the paper.
    pub title: &'static str,
    /// Settings that are changed one at a time to explain a claim that does not hold.
    pub ablations: &'static [Ablation],
    /// Claims of the paper.
    pub claims: &'static [Claim],
    /// Function that returns further runs of the claim with this short name. Without them, a part of the
    /// claim is not judged.
    further: fn(&str) -> &'static [Need],
}

registry! {
    /// All papers whose claims are checked.
    pub const PAPERS: &[Paper] = PAPER in
    ccr22,
    conext17,
    reverso,
}

/// Statement of a paper about its measurements.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Short name, unique over all papers.
    pub id: &'static str,
    /// Figure or section of the paper that shows the claim.
    pub shown: &'static str,
    /// The claim in one line.
    pub text: &'static str,
    /// Condition that our numbers must meet for the claim to hold.
    pub threshold: &'static str,
    /// Reason for the threshold.
    pub reason: &'static str,
    /// Runs without which the claim cannot be judged.
    pub needs: &'static [Need],
    /// Function that judges our runs.
    pub judge: fn(&Results) -> Option<Finding>,
    /// Part of the claim that cannot be judged, and the reason. If the claim has [further
    /// runs](Self::further), this applies only as long as some of them are missing.
    pub beyond: Option<&'static str>,
}

/// Variants of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The experiment's name.
    pub experiment: &'static str,
    /// Variants of the experiment.
    pub variants: &'static [&'static str],
}

/// Result of judging a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// Measured numbers as text in one line.
    pub figure: String,
    /// Numbers in `figure`, in the same order.
    pub values: Vec<f64>,
    /// `true` if the numbers meet the threshold.
    pub holds: bool,
}

/// A claim's verdict, with the numbers on which it rests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Measured numbers as text in one line; empty if there are none.
    pub figure: String,
    /// `true` if the numbers meet the threshold; `None` if the claim cannot be judged here.
    pub holds: Option<bool>,
    /// 95 % interval of each number in `figure`, in the same order; empty if there are too few points to
    /// resample.
    pub intervals: Vec<[f64; 2]>,
    /// Share of the resampled sets of points, 0 to 1, that give the same answer as all points; `None` if
    /// there are too few points to resample.
    pub agreement: Option<f64>,
    /// Reason that the claim cannot be judged, or the part of the claim that was not judged, with the reason.
    pub why: Option<String>,
}

/// Answer to the question whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ruling {
    /// The claim holds, also for other points of the same kind.
    Holds,
    /// The claim holds neither for the points that were run nor for other points of the same kind.
    DoesNotHold,
    /// Other points of the same kind may give the other answer.
    CannotBeTold,
    /// The runs that the claim needs do not exist.
    NotJudged,
}

impl Ruling {
    /// Returns the ruling in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::CannotBeTold => "cannot be told",
            Self::NotJudged => "not judged",
        }
    }
}

/// Minimum share of the resampled sets of points that must give the same answer as all points for the answer
/// to count.
const CERTAIN: f64 = 0.975;

impl Verdict {
    /// Returns the answer of all points, or [`Ruling::CannotBeTold`] if too many resampled sets of points
    /// give another one.
    pub fn ruling(&self) -> Ruling {
        match (self.holds, self.agreement) {
            (None, _) => Ruling::NotJudged,
            (Some(_), Some(agreement)) if agreement < CERTAIN => Ruling::CannotBeTold,
            (Some(true), _) => Ruling::Holds,
            (Some(false), _) => Ruling::DoesNotHold,
        }
    }
}

impl Claim {
    /// Returns the further runs without which a part of the claim is not judged.
    pub fn further(&self) -> &'static [Need] {
        paper_of(self.id).map_or(&[], |paper| (paper.further)(self.id))
    }

    /// Judges the claim by `results`.
    pub fn verdict(&self, results: &Results) -> Verdict {
        let undecided = |why| Verdict { why: Some(why), ..Verdict::default() };
        if self.needs.is_empty() {
            return undecided(self.beyond.unwrap_or("there is nothing to judge it by").to_owned());
        }
        for need in self.needs {
            let missing = need.variants.iter().find(|variant| !results.has(need.experiment, variant));
            if let Some(variant) = missing {
                return undecided(format!("no runs of {variant} in {}", need.experiment));
            }
        }
        let is_there = |needs: &[Need]| {
            let mut wanted =
                needs.iter().flat_map(|need| need.variants.iter().map(|one| (need.experiment, one)));
            wanted.all(|(experiment, variant)| results.has(experiment, variant))
        };
        match (self.judge)(results) {
            Some(finding) => {
                let spread = bootstrap::spread(self, results, &finding);
                let (intervals, agreement) =
                    spread.map_or((Vec::new(), None), |of| (of.intervals, Some(of.agreement)));
                let (figure, holds) = (finding.figure, Some(finding.holds));
                let beyond = self.beyond.filter(|_| self.further().is_empty() || !is_there(self.further()));
                Verdict { figure, holds, intervals, agreement, why: beyond.map(str::to_owned) }
            }
            None => undecided("too few runs ended as they should".to_owned()),
        }
    }
}

/// Returns the paper that makes the claim with this short name.
pub fn paper_of(id: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.claims.iter().any(|claim| claim.id == id))
}

/// Returns the paper called `name`.
pub fn paper(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}

#[cfg(test)]
mod tests;
