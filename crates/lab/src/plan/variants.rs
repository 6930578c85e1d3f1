//! Variants of a plan: layers and settings, for one variant or for each of several values.

use anabranch_transport::recovery::Algorithm as Congestion;
use anabranch_transport::schedule::Algorithm as Scheduler;
use serde::Deserialize;
use toml::Spanned;

use super::PlanError;
use super::check::Source;
use crate::experiment;
use crate::profile::{Settings, Variant, Wire, layer};

/// Maximum number of variants of a plan.
const MAX_VARIANTS: usize = 1000;

/// Table `[[variant]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    name: Option<Spanned<String>>,
    /// Name of a variant of a published experiment that this one is based on.
    published: Option<Spanned<String>>,
    /// Layers over the published variant. Each layer overrides those before it.
    #[serde(default)]
    layers: Vec<Spanned<String>>,
    /// Settings that override all layers.
    set: Option<Settings>,
    /// Values that make one variant each. The value's name is appended to the variant's name.
    each: Option<Spanned<Each>>,
}

/// Settings with several values, each of which makes one variant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Each {
    scheduler: Option<Vec<Spanned<String>>>,
    congestion: Option<Vec<Spanned<String>>>,
    wire: Option<Vec<Spanned<String>>>,
}

pub(super) fn variants(source: &Source<'_>, texts: Spanned<Vec<Text>>) -> Result<Vec<Variant>, PlanError> {
    let span = texts.span();
    let mut all: Vec<Variant> = Vec::new();
    for text in texts.into_inner() {
        let here = text.span().unwrap_or(span.clone());
        for variant in text.variants(source, here.clone())? {
            if all.iter().any(|other| other.name == variant.name) {
                let message =
                    format!("there is another variant `{}`: each needs a name of its own", variant.name);
                return Err(source.fault(here, message));
            }
            all.push(variant);
        }
    }
    match all.len() {
        1..=MAX_VARIANTS => Ok(all),
        count => Err(source.fault(span, format!("{count} variants are not 1 to {MAX_VARIANTS}"))),
    }
}

impl Text {
    /// Returns the position in the text of one of the variant's fields; `None` if no field with a position is
    /// set.
    fn span(&self) -> Option<core::ops::Range<usize>> {
        let name = self.name.as_ref().or(self.published.as_ref()).or(self.layers.first());
        name.map(Spanned::span).or(self.each.as_ref().map(Spanned::span))
    }

    fn variants(self, source: &Source<'_>, here: core::ops::Range<usize>) -> Result<Vec<Variant>, PlanError> {
        let mut settings = Settings::default();
        if let Some(name) = &self.published {
            let variant = experiment::variant(name.get_ref());
            settings = variant.map_err(|fault| source.fault(name.span(), fault.to_string()))?.settings;
        }
        for name in &self.layers {
            let layer =
                layer(name.get_ref()).map_err(|fault| source.fault(name.span(), fault.to_string()))?;
            settings = layer.over(settings);
        }
        settings = self.set.unwrap_or_default().over(settings);
        let name = match self.name.as_ref().or(self.published.as_ref()) {
            Some(name) => source.name(name)?,
            None if self.each.is_some() => String::new(),
            None => return Err(source.fault(here, "a variant needs `name`, `published` or `each`")),
        };
        match self.each {
            None => Ok(vec![Variant { name, settings }]),
            Some(each) => Each::variants(each, source, &name, &settings),
        }
    }
}

impl Each {
    fn variants(
        each: Spanned<Self>,
        source: &Source<'_>,
        name: &str,
        settings: &Settings,
    ) -> Result<Vec<Variant>, PlanError> {
        let span = each.span();
        let Self { scheduler, congestion, wire } = each.into_inner();
        let choices = [
            ("scheduler", scheduler.map(Choice::Scheduler)),
            ("congestion", congestion.map(Choice::Congestion)),
            ("wire", wire.map(Choice::Wire)),
        ];
        let made = source.one_of(span, "`each`", choices)?.settings(source)?;
        let full = |value: String| if name.is_empty() { value } else { format!("{name}-{value}") };
        Ok(made
            .into_iter()
            .map(|(value, set)| Variant { name: full(value), settings: set.over(settings.clone()) })
            .collect())
    }
}

/// Names of schedulers, congestion controllers or wire images; `*` means all of them.
enum Choice {
    Scheduler(Vec<Spanned<String>>),
    Congestion(Vec<Spanned<String>>),
    Wire(Vec<Spanned<String>>),
}

impl Choice {
    fn settings(self, source: &Source<'_>) -> Result<Vec<(String, Settings)>, PlanError> {
        let (wanted, all) = match &self {
            Self::Scheduler(wanted) => (wanted, Scheduler::NAMES),
            Self::Congestion(wanted) => (wanted, Congestion::NAMES),
            Self::Wire(wanted) => (wanted, Wire::NAMES),
        };
        let mut made = Vec::new();
        for name in wanted {
            let names = if name.get_ref() == "*" { all.to_vec() } else { vec![name.get_ref().as_str()] };
            for value in names {
                let settings = self.one(value).map_err(|fault| {
                    source.fault(name.span(), format!("`{value}`: {fault}, or `*` for all of them"))
                })?;
                made.push((value.to_owned(), settings));
            }
        }
        Ok(made)
    }

    fn one(&self, name: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        match self {
            Self::Scheduler(_) => {
                settings.scheduler = Some(name.parse::<Scheduler>().map_err(|fault| fault.to_string())?);
            }
            Self::Congestion(_) => {
                settings.congestion = Some(name.parse::<Congestion>().map_err(|fault| fault.to_string())?);
            }
            Self::Wire(_) => {
                settings.wire = Some(name.parse::<Wire>().map_err(|fault| fault.to_string())?);
            }
        }
        Ok(settings)
    }
}
