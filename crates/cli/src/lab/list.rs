//! `anabranch lab list`: the experiments, and the layers of variants.

use anabranch_lab::experiment::{self, Experiment};
use anabranch_lab::profile::LAYERS;
use clap::Args;

use crate::exit::{Exit, Failure, Result, say};

/// List experiments and the layers that variants are made of
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Experiment whose variants are listed
    name: Option<String>,
}

pub(super) fn run(options: &List) -> Result {
    let named = |name: &str| experiment::named(name, None).map_err(|error| Failure::new(Exit::Usage, error));
    if let Some(name) = &options.name {
        let experiment = named(name)?;
        say(describe(&experiment))?;
        let (usual, others) = experiment.variants.split_at(experiment.usual_variants().len());
        usual.iter().try_for_each(|variant| say(format_args!("  {}", variant.name)))?;
        if !others.is_empty() {
            say("if they are asked for with --variants:")?;
        }
        return others.iter().try_for_each(|variant| say(format_args!("  {}", variant.name)));
    }
    say("Experiments:")?;
    for name in experiment::NAMES {
        say(format_args!("  {}", describe(&named(name)?)))?;
    }
    say(format_args!("\nLayers of variants, for plans:\n  {}", LAYERS.join(", ")))?;
    say("\n`anabranch lab list NAME` lists an experiment's variants.")
}

fn describe(of: &Experiment) -> String {
    let (variants, points) = (of.usual_variants().len(), of.points.len());
    let runs = variants * points * of.repetitions as usize;
    format!("{}: {} ({variants} variants at {points} points, {runs} runs)", of.name, of.about)
}
