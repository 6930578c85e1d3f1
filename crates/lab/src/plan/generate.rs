//! Generated points of a plan: parameters with ranges, and a method that spreads points over them.

use core::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::PlanError;
use super::check::Source;
use super::path::{self, Bounds};
use crate::design::{self, Coordinates, Factor, MAX_DIMENSIONS, MAX_GENERATED, MAX_PATHS, Point};
use crate::random::Seed;

/// Maximum number of random cubes from which the best Latin hypercube is chosen.
const MAX_DRAWS: u64 = 1000;

/// Table `[points.wsp]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wsp {
    seed: Option<Spanned<f64>>,
    candidates: Spanned<f64>,
    spacing: Spanned<f64>,
    /// Number of dimensions of the design. It may exceed the number of parameters that vary; the other
    /// coordinates are not used.
    dimensions: Option<Spanned<f64>>,
    paths: Spanned<Vec<Spanned<path::Text<Parameter>>>>,
}

/// Table `[points.latin]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Latin {
    seed: Option<Spanned<f64>>,
    count: Spanned<f64>,
    draws: Option<Spanned<f64>>,
    paths: Spanned<Vec<Spanned<path::Text<Parameter>>>>,
}

/// Table `[points.factorial]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Factorial {
    /// Number of levels of each range. A parameter with `values` has one level for each value.
    levels: Option<Spanned<f64>>,
    paths: Spanned<Vec<Spanned<path::Text<Parameter>>>>,
}

/// Maximum number of changes of all paths of generated points together.
const MAX_ALL_CHANGES: usize = 10_000_000;

/// Parameter: a number, `{ from = 1, to = 9 }`, or `{ values = [1, 5, 9] }`.
#[derive(Clone)]
pub(super) struct Parameter(Factor);

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

/// Parameter space of generated points: groups of paths, each with its factors.
struct Space<'a> {
    source: &'a Source<'a>,
    groups: Vec<Group<'a>>,
}

struct Group<'a> {
    alike: usize,
    text: &'a Spanned<path::Text<Parameter>>,
    /// Factors of the group's parameters, in their order.
    factors: Vec<Factor>,
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
    Ok((space.points(&wsp.points(seed))?, format!("generated with WSP, seed {}", seed.0)))
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
    Ok((space.points(&latin.points(seed))?, format!("generated as a Latin hypercube, seed {}", seed.0)))
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
    Ok((space.points(&coordinates)?, "all combinations of levels".to_owned()))
}

fn seed(source: &Source<'_>, value: Option<&Spanned<f64>>) -> Result<Seed, PlanError> {
    Ok(Seed(value.map_or(Ok(0), |value| source.whole(value, "seed", 0, 1 << 53))?))
}

impl<'a> Space<'a> {
    fn read(
        source: &'a Source<'a>,
        paths: &'a Spanned<Vec<Spanned<path::Text<Parameter>>>>,
    ) -> Result<Self, PlanError> {
        let groups = paths.get_ref().iter().map(|path| Group::read(source, path));
        let space = Self { source, groups: groups.collect::<Result<Vec<_>, _>>()? };
        let count: usize = space.groups.iter().map(|group| group.alike).sum();
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(
                source.fault(paths.span(), format!("{count} in `paths` are not 1 to {MAX_PATHS} paths"))
            );
        }
        Ok(space)
    }

    /// Returns the factors that need a dimension.
    fn factors(&self) -> impl Iterator<Item = &Factor> {
        self.groups.iter().flat_map(|group| &group.factors).filter(|factor| factor.varies())
    }

    fn points(&self, coordinates: &[Coordinates]) -> Result<Vec<Point>, PlanError> {
        let mut points = Vec::new();
        let mut changes = 0;
        for (run, at) in (0..).zip(coordinates) {
            let (mut at, mut paths) = (at.iter().copied(), Vec::new());
            for group in &self.groups {
                let path = path::path(self.source, &group.text(&mut at))?;
                changes +=
                    group.alike * (path.changes.len() + path.up.as_ref().map_or(0, |up| up.changes.len()));
                if changes > MAX_ALL_CHANGES {
                    let message = format!("all points together have more than {MAX_ALL_CHANGES} changes");
                    return Err(self.source.fault(group.text.span(), message));
                }
                paths.extend(vec![path; group.alike]);
            }
            points.push(Point { run, paths });
        }
        Ok(points)
    }
}

impl<'a> Group<'a> {
    fn read(source: &Source<'_>, text: &'a Spanned<path::Text<Parameter>>) -> Result<Self, PlanError> {
        let path = text.get_ref();
        let factors = path.parameters().into_iter().map(|(value, bounds)| factor(source, value, bounds));
        let factors = factors.collect::<Result<Vec<_>, _>>()?;
        let alike =
            path.alike.as_ref().map_or(Ok(1), |alike| source.whole(alike, "alike", 1, MAX_PATHS as u64))?;
        if let Some(further) = path.up.as_ref().and_then(|up| up.get_ref().alike.as_ref()) {
            return Err(source.fault(further.span(), "`alike` belongs to a path, not to its way `up`"));
        }
        Ok(Self { alike: alike as usize, text, factors })
    }

    /// Returns the path at a point. Takes one coordinate from `at` for each varying parameter.
    fn text(&self, at: &mut impl Iterator<Item = f64>) -> Spanned<path::Text> {
        let numbers = self.factors.iter().map(|factor| {
            let unit = if factor.varies() { at.next() } else { None };
            factor.at(unit.unwrap_or_default())
        });
        Spanned::new(self.text.span(), self.text.get_ref().with(&mut numbers.collect::<Vec<_>>().into_iter()))
    }
}

/// Returns the factor of a parameter. Fails if any of its values is out of bounds.
fn factor(
    source: &Source<'_>,
    parameter: &Spanned<Parameter>,
    (what, lowest, highest): Bounds,
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
