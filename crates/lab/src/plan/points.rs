//! Points of a plan: written down, in a file, generated, or those of a built-in experiment.

use core::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::check::Source;
use super::{PlanError, generate};
use crate::design::{self, Change, MAX_NUMBER, MAX_PATHS, PathDesign, Point};
use crate::experiment;

/// Changes that a path may have.
const MAX_CHANGES: usize = 100_000;

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
    paths: Spanned<Vec<Spanned<PathText>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathText {
    rate_mbps: Spanned<f64>,
    owd_ms: Spanned<f64>,
    queue_packets: Option<Spanned<f64>>,
    queue_bdp: Option<Spanned<f64>>,
    queuing_delay_ms: Option<Spanned<f64>>,
    loss_percent: Option<Spanned<f64>>,
    #[serde(default)]
    changes: Vec<ChangeText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeText {
    at_s: Spanned<f64>,
    rate_mbps: Option<Spanned<f64>>,
    loss_percent: Option<Spanned<f64>>,
}

/// How long a queue is, before rate and delay are known.
#[derive(Clone, Copy)]
pub(super) enum QueueLength {
    Packets(f64),
    Products(f64),
    DelayMs(f64),
}

/// Bounds of a path's parameters, the same wherever they come from.
pub(super) const RATE: (&str, f64, f64) = ("rate_mbps", 1e-3, 1e6);
pub(super) const DELAY: (&str, f64, f64) = ("owd_ms", 0.0, 1e5);
pub(super) const PACKETS: (&str, f64, f64) = ("queue_packets", 1.0, 1e7);
pub(super) const PRODUCTS: (&str, f64, f64) = ("queue_bdp", 0.0, 1e3);
pub(super) const QUEUING: (&str, f64, f64) = ("queuing_delay_ms", 0.0, 1e5);
pub(super) const LOSS: (&str, f64, f64) = ("loss_percent", 0.0, 100.0);

/// The points, and where they come from in words.
pub(super) fn points(source: &Source<'_>, text: Spanned<Text>) -> Result<(Vec<Point>, String), PlanError> {
    let span = text.span();
    let Text { published, data, file, inline, wsp, latin, factorial } = text.into_inner();
    if let (Some(data), None) = (&data, &published) {
        return Err(source.fault(data.span(), "`data` belongs to `published`"));
    }
    let published = published.map(|name| of_experiment(source, &name, data.as_ref()));
    let file = file.map(|file| {
        let path = source.folder.join(file.get_ref());
        let points = design::read(&path).map_err(|fault| foreign(source, &file, &fault))?;
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
        (experiment::ExperimentError::Design(design), Some(data)) => foreign(source, data, design),
        _ => source.fault(name.span(), fault.to_string()),
    })?;
    Ok((experiment.points, format!("those of {}", experiment.about)))
}

/// A fault of a file that the plan names: that file's line if there is one, otherwise the line that names it.
fn foreign(source: &Source<'_>, named: &Spanned<String>, fault: &design::DesignError) -> PlanError {
    source.fault(named.span(), fault.to_string().lines().collect::<Vec<_>>().join(", "))
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
        let paths = text.paths.get_ref().iter().map(|text| path(source, text)).collect::<Result<_, _>>()?;
        points.push(Point { run, paths });
    }
    if points.is_empty() {
        return Err(source.fault(span, "`inline` has no points"));
    }
    Ok(points)
}

fn path(source: &Source<'_>, text: &Spanned<PathText>) -> Result<PathDesign, PlanError> {
    let span = text.span();
    let text = text.get_ref();
    let packets = maybe(source, &text.queue_packets, PACKETS)?.map(QueueLength::Packets);
    let products = maybe(source, &text.queue_bdp, PRODUCTS)?.map(QueueLength::Products);
    let delay = maybe(source, &text.queuing_delay_ms, QUEUING)?.map(QueueLength::DelayMs);
    let choices = [("queue_packets", packets), ("queue_bdp", products), ("queuing_delay_ms", delay)];
    let queue = source.one_of(span.clone(), "a path", choices)?;
    let (rate_mbps, owd_ms) = (number(source, &text.rate_mbps, RATE)?, number(source, &text.owd_ms, DELAY)?);
    let mut changes: Vec<Change> = Vec::new();
    for change in &text.changes {
        let at = Duration::from_secs_f64(source.number(&change.at_s, "at_s", 0.0, 1e6)?);
        if changes.last().is_some_and(|earlier| earlier.at > at) {
            return Err(source.fault(change.at_s.span(), "`changes` must be in order of time (`at_s`)"));
        }
        // A pause may be a rate of zero.
        let rate_mbps = maybe(source, &change.rate_mbps, ("rate_mbps", 0.0, RATE.2))?;
        changes.push(Change { at, rate_mbps, loss_percent: maybe(source, &change.loss_percent, LOSS)? });
    }
    if changes.len() > MAX_CHANGES {
        return Err(source.fault(span, format!("{} changes are more than {MAX_CHANGES}", changes.len())));
    }
    let loss_percent = maybe(source, &text.loss_percent, LOSS)?.unwrap_or_default();
    Ok(PathDesign {
        rate_mbps,
        owd_ms,
        queue_packets: queue.packets(rate_mbps, owd_ms),
        loss_percent,
        changes,
    })
}

/// A parameter's name and its bounds.
type Bounds = (&'static str, f64, f64);

fn number(
    source: &Source<'_>,
    value: &Spanned<f64>,
    (what, lowest, highest): Bounds,
) -> Result<f64, PlanError> {
    source.number(value, what, lowest, highest)
}

fn maybe(
    source: &Source<'_>,
    value: &Option<Spanned<f64>>,
    bounds: Bounds,
) -> Result<Option<f64>, PlanError> {
    value.as_ref().map(|value| number(source, value, bounds)).transpose()
}

impl QueueLength {
    /// Packets of 1500 bytes; ten at least where they are computed.
    pub(super) fn packets(self, rate_mbps: f64, owd_ms: f64) -> usize {
        let product = rate_mbps * 1e6 / 8.0 * (2.0 * owd_ms) / 1e3 / 1500.0;
        match self {
            Self::Packets(packets) => packets as usize,
            Self::Products(products) => ((product * products) as usize).max(10),
            Self::DelayMs(delay) => PathDesign::queue_of_delay(rate_mbps, owd_ms, delay),
        }
    }
}
