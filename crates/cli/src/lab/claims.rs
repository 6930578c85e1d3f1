//! `anabranch lab claims`: what the papers say, and whether it holds here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anabranch_lab::claim::{self, Claim, Measured, PAPERS, Results, Verdict};
use anabranch_lab::experiment::{self, MAX_REPETITIONS};
use anabranch_lab::record::Row;
use anabranch_lab::sweep::SweepOptions;
use clap::Args;
use serde_json::json;

use super::measured;
use super::run::{RESULTS, STANDARD};
use super::version;
use super::watch::SweepProgress;
use crate::exit::{Exit, Failure, Result, note, say};

/// Check the papers' claims: run what they need, and say for each whether it holds
///
/// Runs that are finished already, by this command or by `lab run`, are not repeated. All of it takes a
/// while: use --points to look at a few points first. What is claimed of VReverso is about time:
/// `anabranch-bench`, which has to lie beside this command, measures it anew each time.
#[derive(Args, Debug)]
pub(crate) struct Claims {
    /// Papers, or single claims by their short names; all of them without this
    #[arg(value_name = "PAPER|CLAIM", value_parser = wanted)]
    claims: Vec<Wanted>,
    /// Directory with a directory of results for each experiment
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    out: PathBuf,
    /// Directory with the published designs, if you have them
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Run these points only, by the numbers that their design gives them, wherever they exist
    #[arg(long, value_name = "0,4,8", value_delimiter = ',')]
    points: Option<Vec<u64>>,
    /// Repetitions of each point
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPETITIONS)))]
    repetitions: Option<u32>,
    /// Judge by the results that are there, without running anything
    #[arg(long)]
    no_run: bool,
    /// Add to results of another version of this program; each row names its own
    #[arg(long)]
    force: bool,
    /// Threads; one for each processor without this
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write the verdicts as JSON to standard output
    #[arg(long, value_name = "-", value_parser = [STANDARD])]
    json: Option<String>,
}

/// Claims that one word of the command line asks for.
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
    // First, since it may turn out that it cannot be done.
    let measured = options.measured(&claims)?;
    let watch = SweepProgress::new()?;
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    let needed = needed(&claims);
    let experiments = needed.len();
    for (name, variants) in needed {
        match options.rows(name, variants, &watch)? {
            Some(found) => rows.extend(found),
            None => left_out.push(name),
        }
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        if left_out.len() == experiments {
            return Err(Failure::new(Exit::Usage, format!("{names}: no such points")).or("see lab list"));
        }
        note(format_args!("left out, without any of the points: {names}"));
    }
    let results: Results = rows.into_iter().collect();
    let verdict = |claim: &Claim| match &measured {
        Some(measured) if Measured::decides(claim) => measured.verdict(claim),
        _ => claim.verdict(&results),
    };
    let verdicts: Vec<(&Claim, Verdict)> = claims.into_iter().map(|claim| (claim, verdict(claim))).collect();
    if options.json.is_some() {
        let all: Vec<_> = verdicts.iter().map(|(claim, verdict)| as_json(claim, verdict)).collect();
        return say(json!(all));
    }
    say(verdicts.iter().map(|(claim, verdict)| described(claim, verdict)).collect::<String>().trim_end())
}

/// Returns the variants that the claims need, by experiment.
fn needed(claims: &[&Claim]) -> BTreeMap<&'static str, Vec<String>> {
    let mut needed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for need in claims.iter().flat_map(|claim| claim.needs) {
        let variants = needed.entry(need.experiment).or_default();
        for variant in need.variants {
            if !variants.iter().any(|known| known == variant) {
                variants.push((*variant).to_owned());
            }
        }
    }
    needed
}

impl Claims {
    /// Returns the measurements that claims about time need. A caller that has not asked for these claims
    /// does without if they cannot be measured.
    fn measured(&self, claims: &[&Claim]) -> Result<Option<Measured>> {
        if self.no_run || !claims.iter().any(|claim| Measured::decides(claim)) {
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

    /// Returns the experiment's rows; `None` if it has none of the points. Papers number theirs alike, but
    /// for a few experiments.
    fn rows(&self, name: &str, variants: Vec<String>, watch: &SweepProgress) -> Result<Option<Vec<Row>>> {
        let dir = self.out.join(name);
        if self.no_run {
            // Without results the verdict says what is missing.
            return Ok(Some(anabranch_lab::store::read(&dir).unwrap_or_default()));
        }
        let experiment = experiment::named(name, self.data.as_deref());
        let mut experiment = experiment.map_err(|error| Failure::new(Exit::Usage, error))?;
        experiment.repetitions = self.repetitions.unwrap_or(experiment.repetitions);
        let exists = |point: &&u64| experiment.points.iter().any(|one| one.run == **point);
        let points: Option<Vec<u64>> =
            self.points.as_ref().map(|points| points.iter().filter(exists).copied().collect());
        if points.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let options = SweepOptions {
            dir,
            run: version(),
            force: self.force,
            threads: self.threads.map_or(0, usize::from),
            variants: Some(variants),
            points,
            ..SweepOptions::default()
        };
        watch.sweep(&experiment, &options).map(Some)
    }
}

fn as_json(claim: &Claim, verdict: &Verdict) -> serde_json::Value {
    json!({
        "id": claim.id,
        "claim": claim.text,
        "shown": claim.shown,
        "figure": verdict.figure,
        "threshold": claim.threshold,
        "holds": verdict.holds,
        "why": verdict.why,
    })
}

fn described(claim: &Claim, verdict: &Verdict) -> String {
    let holds = match verdict.holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "cannot be decided here",
    };
    let mut text = format!("{:<4}{holds}: {} ({})\n", claim.id, claim.text, claim.shown);
    let mut line = |name: &str, what: &str| text += &format!("    {name:<10} {what}\n");
    if !verdict.figure.is_empty() {
        line("found", &verdict.figure);
    }
    line("threshold", claim.threshold);
    if let Some(why) = &verdict.why {
        line("but", why);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_is_run_once() {
        let claims: Vec<&Claim> = PAPERS.iter().flat_map(|paper| paper.claims).collect();
        for (name, variants) in needed(&claims) {
            let known = experiment::named(name, None).unwrap();
            for variant in &variants {
                assert_eq!(variants.iter().filter(|other| *other == variant).count(), 1);
                assert!(known.variants.iter().any(|known| known.name == *variant), "{name} has no {variant}");
            }
        }
    }

    #[test]
    fn a_verdict_is_said_in_words() {
        let claim = claim::paper("conext17").unwrap().claims[0];
        let text = described(&claim, &claim.verdict(&Results::default()));
        assert!(text.starts_with("Q1  cannot be decided here: ") && text.contains("but        needs TCP"));
        assert!(wanted("ccr23").unwrap_err().contains("ccr22, conext17, reverso, D1, "));
    }

    #[test]
    fn claims_can_be_asked_for_one_by_one() {
        let ids = |name| wanted(name).unwrap().0.iter().map(|claim| claim.id).collect::<Vec<_>>();
        assert_eq!(ids("q7"), ["Q7"]);
        assert_eq!(ids("conext17"), ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7"]);
    }
}
