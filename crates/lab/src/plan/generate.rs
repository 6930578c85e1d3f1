//! Points that a plan has generated: parameters with ranges, and a method that spreads points over them.

use core::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::PlanError;
use super::check::Source;
use super::path::{DELAY, LOSS, PACKETS, PRODUCTS, QUEUING, QueueLength, RATE};
use crate::design::{self, Coordinates, Factor, MAX_DIMENSIONS, MAX_GENERATED, MAX_PATHS, PathDesign, Point};
use crate::random::Seed;

/// Cubes that a Latin hypercube may be the best of.
const MAX_DRAWS: u64 = 1000;

/// `[points.wsp]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wsp {
    seed: Option<Spanned<f64>>,
    candidates: Spanned<f64>,
    spacing: Spanned<f64>,
    /// More than there are parameters if others have the rest.
    dimensions: Option<Spanned<f64>>,
    paths: Spanned<Vec<PathText>>,
}

/// `[points.latin]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Latin {
    seed: Option<Spanned<f64>>,
    count: Spanned<f64>,
    draws: Option<Spanned<f64>>,
    paths: Spanned<Vec<PathText>>,
}

/// `[points.factorial]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Factorial {
    /// Levels of each range; a parameter with `values` has one for each of them.
    levels: Option<Spanned<f64>>,
    paths: Spanned<Vec<PathText>>,
}

/// A path with parameters that may vary.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathText {
    /// So many paths alike, which vary together.
    alike: Option<Spanned<f64>>,
    rate_mbps: Spanned<Parameter>,
    owd_ms: Spanned<Parameter>,
    queue_packets: Option<Spanned<Parameter>>,
    queue_bdp: Option<Spanned<Parameter>>,
    queuing_delay_ms: Option<Spanned<Parameter>>,
    loss_percent: Option<Spanned<Parameter>>,
}

/// A number, `{ from = 1, to = 9 }`, or `{ values = [1, 5, 9] }`.
struct Parameter(Factor);

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ParameterVisitor)
    }
}

struct ParameterVisitor;

impl<'de> Visitor<'de> for ParameterVisitor {
    type Value = Parameter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, { from = …, to = … } or { values = […] }")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Parameter, E> {
        Ok(Parameter(Factor::Constant(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Parameter, E> {
        self.visit_f64(value as f64)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameter, A::Error> {
        let (mut from, mut to, mut values) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "from" => from = Some(map.next_value::<f64>()?),
                "to" => to = Some(map.next_value::<f64>()?),
                "values" => values = Some(map.next_value::<Vec<f64>>()?),
                _ => return Err(A::Error::unknown_field(&key, &["from", "to", "values"])),
            }
        }
        match (from, to, values) {
            (Some(from), Some(to), None) => Ok(Parameter(Factor::Range(from, to))),
            (None, None, Some(values)) => Ok(Parameter(Factor::Values(values))),
            _ => Err(A::Error::custom("a parameter is a number, { from = …, to = … } or { values = […] }")),
        }
    }
}

/// What generated points are made from: groups of paths, each with its factors.
struct Space(Vec<Group>);

struct Group {
    alike: usize,
    rate: Factor,
    delay: Factor,
    queue: (Factor, fn(f64) -> QueueLength),
    loss: Factor,
}

pub(super) fn wsp(source: &Source<'_>, text: &Spanned<Wsp>) -> Result<(Vec<Point>, String), PlanError> {
    let text = text.get_ref();
    let space = Space::read(source, &text.paths)?;
    let varying = space.factors().count();
    let seed = seed(source, text.seed.as_ref())?;
    let dimensions = match &text.dimensions {
        Some(value) => source.whole(value, "dimensions", varying as u64, MAX_DIMENSIONS as u64)? as usize,
        None => varying,
    };
    let wsp = design::Wsp {
        candidates: source.whole(&text.candidates, "candidates", 1, MAX_GENERATED as u64)? as usize,
        dimensions,
        spacing: source.number(&text.spacing, "spacing", 0.0, 8.0)?,
    };
    Ok((space.points(&wsp.points(seed)), format!("generated with WSP, seed {}", seed.0)))
}

pub(super) fn latin(source: &Source<'_>, text: &Spanned<Latin>) -> Result<(Vec<Point>, String), PlanError> {
    let text = text.get_ref();
    let space = Space::read(source, &text.paths)?;
    let seed = seed(source, text.seed.as_ref())?;
    let draws = text.draws.as_ref().map_or(Ok(1), |draws| source.whole(draws, "draws", 1, MAX_DRAWS))?;
    let latin = design::Latin {
        count: source.whole(&text.count, "count", 1, MAX_GENERATED as u64)? as usize,
        dimensions: space.factors().count(),
        draws: draws as usize,
    };
    Ok((space.points(&latin.points(seed)), format!("generated as a Latin hypercube, seed {}", seed.0)))
}

pub(super) fn factorial(
    source: &Source<'_>,
    text: &Spanned<Factorial>,
) -> Result<(Vec<Point>, String), PlanError> {
    let span = text.span();
    let text = text.get_ref();
    let space = Space::read(source, &text.paths)?;
    let levels = text.levels.as_ref().map_or(Ok(2), |levels| source.whole(levels, "levels", 1, 1000))?;
    let levels = space.factors().map(|factor| match factor {
        Factor::Values(values) => values.len(),
        Factor::Range(..) | Factor::Constant(_) => levels as usize,
    });
    let levels: Vec<usize> = levels.collect();
    let coordinates = design::factorial(&levels).ok_or_else(|| {
        source.fault(span, format!("combinations of {levels:?} levels are more than {MAX_GENERATED} points"))
    })?;
    Ok((space.points(&coordinates), "all combinations of levels".to_owned()))
}

fn seed(source: &Source<'_>, value: Option<&Spanned<f64>>) -> Result<Seed, PlanError> {
    Ok(Seed(value.map_or(Ok(0), |value| source.whole(value, "seed", 0, 1 << 53))?))
}

impl Space {
    fn read(source: &Source<'_>, paths: &Spanned<Vec<PathText>>) -> Result<Self, PlanError> {
        let groups = paths.get_ref().iter().map(|path| Group::read(source, path));
        let space = Self(groups.collect::<Result<Vec<_>, _>>()?);
        let count: usize = space.0.iter().map(|group| group.alike).sum();
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(
                source.fault(paths.span(), format!("{count} in `paths` are not 1 to {MAX_PATHS} paths"))
            );
        }
        Ok(space)
    }

    /// Those that have a dimension of their own.
    fn factors(&self) -> impl Iterator<Item = &Factor> {
        self.0.iter().flat_map(Group::factors).filter(|factor| factor.varies())
    }

    fn points(&self, coordinates: &[Coordinates]) -> Vec<Point> {
        let point = |(run, at): (u64, &Coordinates)| {
            let mut at = at.iter().copied();
            let paths = self.0.iter().flat_map(|group| vec![group.path(&mut at); group.alike]).collect();
            Point { run, paths }
        };
        (0..).zip(coordinates).map(point).collect()
    }
}

impl Group {
    fn read(source: &Source<'_>, text: &PathText) -> Result<Self, PlanError> {
        let factor = |parameter: &Spanned<Parameter>, bounds| factor(source, parameter, bounds);
        let maybe = |parameter: &Option<Spanned<Parameter>>, bounds, length: fn(f64) -> QueueLength| {
            let factor = parameter.as_ref().map(|parameter| factor(parameter, bounds)).transpose()?;
            Ok(factor.map(|factor| (factor, length)))
        };
        let choices = [
            ("queue_packets", maybe(&text.queue_packets, PACKETS, QueueLength::Packets)?),
            ("queue_bdp", maybe(&text.queue_bdp, PRODUCTS, QueueLength::Products)?),
            ("queuing_delay_ms", maybe(&text.queuing_delay_ms, QUEUING, QueueLength::DelayMs)?),
        ];
        let alike =
            text.alike.as_ref().map_or(Ok(1), |alike| source.whole(alike, "alike", 1, MAX_PATHS as u64))?;
        Ok(Self {
            alike: alike as usize,
            rate: factor(&text.rate_mbps, RATE)?,
            delay: factor(&text.owd_ms, DELAY)?,
            queue: source.one_of(text.rate_mbps.span(), "a path", choices)?,
            loss: text.loss_percent.as_ref().map_or(Ok(Factor::Constant(0.0)), |loss| factor(loss, LOSS))?,
        })
    }

    fn factors(&self) -> [&Factor; 4] {
        [&self.rate, &self.delay, &self.queue.0, &self.loss]
    }

    /// Takes as many coordinates as it has varying parameters.
    fn path(&self, at: &mut impl Iterator<Item = f64>) -> PathDesign {
        let [rate_mbps, owd_ms, queue, loss_percent] = self.factors().map(|factor| {
            let unit = if factor.varies() { at.next() } else { None };
            factor.at(unit.unwrap_or_default())
        });
        let queue_packets = (self.queue.1)(queue).packets(rate_mbps, owd_ms);
        PathDesign { rate_mbps, owd_ms, queue_packets, loss_percent, ..PathDesign::default() }
    }
}

/// A parameter whose values all lie within bounds.
fn factor(
    source: &Source<'_>,
    parameter: &Spanned<Parameter>,
    (what, lowest, highest): (&str, f64, f64),
) -> Result<Factor, PlanError> {
    let factor = &parameter.get_ref().0;
    let values = match factor {
        Factor::Constant(value) => vec![*value],
        Factor::Range(from, to) => vec![*from, *to],
        Factor::Values(values) => values.clone(),
    };
    let bounds = lowest..=highest;
    if let Some(wrong) = values.iter().find(|value| !bounds.contains(*value)) {
        let message = format!("{wrong} in `{what}` is not a number from {lowest} to {highest}");
        return Err(source.fault(parameter.span(), message));
    }
    match factor {
        Factor::Range(from, to) if from > to => Err(source.fault(
            parameter.span(),
            format!("`{what}` goes from {from} to {to}: `from` must not be above `to`"),
        )),
        Factor::Values(values) if values.is_empty() => {
            Err(source.fault(parameter.span(), format!("`{what}` has no values")))
        }
        _ => Ok(factor.clone()),
    }
}
