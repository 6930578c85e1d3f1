//! Points of a plan: written down, in a file, generated, or those of a built-in experiment.

use serde::Deserialize;
use toml::Spanned;

use super::check::Source;
use super::{PlanError, generate, path};
use crate::design::{self, MAX_NUMBER, MAX_PATHS, Point};
use crate::experiment;

/// `[points]`: one of these, and what belongs to it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    /// Those of a built-in experiment.
    published: Option<Spanned<String>>,
    /// Folder with the published CSV files.
    data: Option<Spanned<String>>,
    /// A CSV file.
    file: Option<Spanned<String>>,
    /// Written down.
    inline: Option<Vec<Inline>>,
    /// Generated.
    wsp: Option<Spanned<generate::Wsp>>,
    latin: Option<Spanned<generate::Latin>>,
    factorial: Option<Spanned<generate::Factorial>>,
}

/// `[[points.inline]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inline {
    run: Option<Spanned<f64>>,
    paths: Spanned<Vec<Spanned<path::Text>>>,
}

/// Returns the points and a description of their source.
pub(super) fn points(source: &Source<'_>, text: Spanned<Text>) -> Result<(Vec<Point>, String), PlanError> {
    let span = text.span();
    let Text { published, data, file, inline, wsp, latin, factorial } = text.into_inner();
    if let (Some(data), None) = (&data, &published) {
        return Err(source.fault(data.span(), "`data` belongs to `published`"));
    }
    let published = published.map(|name| of_experiment(source, &name, data.as_ref()));
    let file = file.map(|file| {
        let path = source.folder.join(file.get_ref());
        let points = design::read(&path).map_err(|fault| path::foreign(source, &file, &fault))?;
        Ok((points, path.display().to_string()))
    });
    let inline =
        inline.map(|texts| Ok((inline_points(source, &texts, span.clone())?, "the plan's own".to_owned())));
    let wsp = wsp.map(|text| generate::wsp(source, &text));
    let latin = latin.map(|text| generate::latin(source, &text));
    let factorial = factorial.map(|text| generate::factorial(source, &text));
    let choices = [
        ("published", published),
        ("file", file),
        ("inline", inline),
        ("wsp", wsp),
        ("latin", latin),
        ("factorial", factorial),
    ];
    source.one_of(span, "`points`", choices)?
}

fn of_experiment(
    source: &Source<'_>,
    name: &Spanned<String>,
    data: Option<&Spanned<String>>,
) -> Result<(Vec<Point>, String), PlanError> {
    let folder = data.map(|data| source.folder.join(data.get_ref()));
    let experiment = experiment::named(name.get_ref(), folder.as_deref());
    let experiment = experiment.map_err(|fault| match (&fault, data) {
        (experiment::ExperimentError::Design(design), Some(data)) => path::foreign(source, data, design),
        _ => source.fault(name.span(), fault.to_string()),
    })?;
    Ok((experiment.points, format!("those of {}", experiment.about)))
}

fn inline_points(
    source: &Source<'_>,
    texts: &[Inline],
    span: core::ops::Range<usize>,
) -> Result<Vec<Point>, PlanError> {
    let mut points: Vec<Point> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let given = text.run.as_ref().map(|run| source.whole(run, "run", 0, MAX_NUMBER)).transpose()?;
        let run = given.unwrap_or(index as u64);
        let here = text.paths.span();
        if points.iter().any(|point| point.run == run) {
            let here = text.run.as_ref().map_or(here, Spanned::span);
            let message = format!("there is another point {run}: `run` gives each a number of its own");
            return Err(source.fault(here, message));
        }
        let count = text.paths.get_ref().len();
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(source.fault(here, format!("{count} in `paths` are not 1 to {MAX_PATHS} paths")));
        }
        let paths =
            text.paths.get_ref().iter().map(|text| path::path(source, text)).collect::<Result<_, _>>()?;
        points.push(Point { run, paths });
    }
    if points.is_empty() {
        return Err(source.fault(span, "`inline` has no points"));
    }
    Ok(points)
}
