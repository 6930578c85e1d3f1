//! `anabranch lab claims`: checks the claims of papers by runs of the lab and by measurements.

use anabranch_lab::claim::{self, Ablation, Claim, Measured, PAPERS, Verdict};
use clap::Args;
use serde_json::json;

use super::judged::{Runs, RunsOptions};
use super::measured;
use super::run::STANDARD;
use crate::exit::{Result, say};

/// Check the papers' claims: run the experiments that they need, and report for each claim whether it holds
///
/// Runs that this command or `lab run` has finished already are not repeated. All claims together take a
/// long time: use --points to try a few points first. The claims about VReverso concern processor time:
/// `anabranch-bench`, in the same directory as this command, measures it anew each time.
#[derive(Args, Debug)]
pub(crate) struct Claims {
    /// Papers, or single claims by their short names [default: all]
    #[arg(value_name = "PAPER|CLAIM", value_parser = wanted)]
    claims: Vec<Wanted>,
    #[command(flatten)]
    runs: RunsOptions,
    /// Judge each claim again with each setting changed alone, and show the settings that its verdict depends on
    #[arg(long)]
    ablate: bool,
    /// Write the verdicts as JSON to standard output
    #[arg(long, value_name = "-", value_parser = [STANDARD])]
    json: Option<String>,
}

/// Claims that one argument of the command line selects.
#[derive(Clone, Debug)]
struct Wanted(Vec<&'static Claim>);

fn wanted(name: &str) -> std::result::Result<Wanted, String> {
    if let Some(paper) = claim::paper(name) {
        return Ok(Wanted(paper.claims.iter().collect()));
    }
    let all = || PAPERS.iter().flat_map(|paper| paper.claims);
    let found: Vec<_> = all().filter(|claim| claim.id.eq_ignore_ascii_case(name)).collect();
    if found.is_empty() {
        let known = PAPERS.iter().map(|paper| paper.name).chain(all().map(|claim| claim.id));
        return Err(format!("one of {}", known.collect::<Vec<_>>().join(", ")));
    }
    Ok(Wanted(found))
}

pub(super) fn run(options: &Claims) -> Result {
    let asked = |claim: &&Claim| {
        options.claims.is_empty()
            || options.claims.iter().any(|wanted| wanted.0.iter().any(|one| one.id == claim.id))
    };
    let claims: Vec<&Claim> = PAPERS.iter().flat_map(|paper| paper.claims).filter(asked).collect();
    // The measurement comes first, because it fails at once if its program is missing.
    let measured = options.measured(&claims)?;
    let mut runs = Runs::new(&options.runs)?;
    runs.check_points(&claims)?;
    let mut all = Vec::new();
    for claim in claims {
        let verdict = match &measured {
            Some(measured) if Measured::decides(claim) => measured.verdict(claim),
            _ => claim.verdict(&runs.of(claim, None)?),
        };
        let hangs_on = match options.ablate && verdict.holds.is_some() && !Measured::decides(claim) {
            true => ablations(claim, &verdict, &mut runs)?,
            false => Vec::new(),
        };
        match options.json {
            Some(_) => all.push(as_json(claim, &verdict, &hangs_on)),
            // The verdict is printed at once, because the next claim may take minutes.
            None => say(format_args!("{}\n", described(claim, &verdict, &hangs_on)))?,
        }
    }
    match options.json {
        Some(_) => say(json!(all)),
        None => Ok(()),
    }
}

/// Ablation of one setting, and the verdict on a claim by runs in which only that setting is changed.
struct Changed {
    ablation: &'static Ablation,
    verdict: Verdict,
}

impl Changed {
    /// Returns true if the claim can be judged with the changed setting, and the verdict differs from
    /// `verdict`.
    fn turns(&self, verdict: &Verdict) -> bool {
        self.verdict.holds.is_some() && self.verdict.holds != verdict.holds
    }
}

/// Judges the claim again for each ablation of its paper that concerns the claim's variants. Ablations that
/// change the verdict come first.
fn ablations(claim: &Claim, verdict: &Verdict, runs: &mut Runs<'_>) -> Result<Vec<Changed>> {
    let settings = claim::paper_of(claim.id).map_or(&[][..], |paper| paper.ablations);
    let judged = settings.iter().filter(|ablation| {
        claim.needs.iter().flat_map(|need| need.variants).any(|variant| variant.contains(ablation.of))
    });
    let judged = judged
        .map(|ablation| Ok(Changed { ablation, verdict: claim.verdict(&runs.of(claim, Some(ablation))?) }));
    let mut judged = judged.collect::<Result<Vec<_>>>()?;
    judged.sort_by_key(|changed| !changed.turns(verdict));
    Ok(judged)
}

impl Claims {
    /// Measures the processor time that some of `claims` need; returns `None` if none of them does, or runs
    /// are disabled. A failed measurement is an error only if the command line selects claims; otherwise it
    /// is reported, and `None` is returned.
    fn measured(&self, claims: &[&Claim]) -> Result<Option<Measured>> {
        if self.runs.no_run || !claims.iter().any(|claim| Measured::decides(claim)) {
            return Ok(None);
        }
        match measured::measure() {
            Ok(measured) => Ok(Some(measured)),
            Err(failure) if self.claims.is_empty() => {
                failure.report();
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}

fn as_json(claim: &Claim, verdict: &Verdict, ablations: &[Changed]) -> serde_json::Value {
    let turning = ablations.iter().filter(|changed| changed.turns(verdict));
    let changed = |changed: &Changed| {
        json!({
            "setting": changed.ablation.set,
            "variants": changed.ablation.of,
            "figure": changed.verdict.figure,
            "verdict": changed.verdict.ruling().name(),
        })
    };
    json!({
        "id": claim.id,
        "claim": claim.text,
        "shown": claim.shown,
        "figure": verdict.figure,
        "threshold": claim.threshold,
        "holds": verdict.holds,
        "verdict": verdict.ruling().name(),
        "interval": verdict.intervals,
        "agreement": verdict.agreement,
        "hangs_on": turning.map(changed).collect::<Vec<_>>(),
        "tried": ablations.iter().map(changed).collect::<Vec<_>>(),
        "why": verdict.why,
    })
}

fn described(claim: &Claim, verdict: &Verdict, ablations: &[Changed]) -> String {
    let holds = verdict.ruling().name();
    let mut text = format!("{:<4}{holds}: {} ({})\n", claim.id, claim.text, claim.shown);
    let mut line = |name: &str, what: &str| text += &format!("    {name:<10} {what}\n");
    if !verdict.figure.is_empty() {
        line("found", &verdict.figure);
    }
    if let Some(agreement) = verdict.agreement {
        let intervals = verdict.intervals.iter().map(|[low, high]| format!("{low:.3} to {high:.3}"));
        let intervals = intervals.collect::<Vec<_>>().join("; ");
        line(
            "95 %",
            &format!("{intervals}; {:.1} % of 1000 resampled sets of points agree", agreement * 100.0),
        );
    }
    line("threshold", claim.threshold);
    if let Some(why) = &verdict.why {
        line("but", why);
    }
    for changed in ablations.iter().filter(|changed| changed.turns(verdict)) {
        let Changed { ablation, verdict } = changed;
        line("hangs on", &format!("{}: {}, {}", ablation.set, verdict.ruling().name(), verdict.figure));
    }
    if !ablations.is_empty() {
        let others =
            ablations.iter().filter(|changed| !changed.turns(verdict)).map(|changed| changed.ablation.set);
        line("not on", &others.collect::<Vec<_>>().join(", "));
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use anabranch_lab::claim::Results;

    use super::*;

    #[test]
    fn a_verdict_is_said_in_words() {
        let claim = claim::paper("conext17").unwrap().claims[0];
        let text = described(&claim, &claim.verdict(&Results::default()), &[]);
        assert!(text.starts_with("Q1  not judged: ") && text.contains("but        no runs of mpquic"));
        assert!(wanted("ccr23").unwrap_err().contains("ccr22, conext17, reverso, D1, "));
    }

    #[test]
    fn claims_can_be_asked_for_one_by_one() {
        let ids = |name| wanted(name).unwrap().0.iter().map(|claim| claim.id).collect::<Vec<_>>();
        assert_eq!(ids("q7"), ["Q7"]);
        assert_eq!(ids("conext17"), ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7"]);
    }
}
