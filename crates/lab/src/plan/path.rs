//! Path of a point: its parameters, its changes during a run, and the parameters that differ in the direction
//! to the server. An explicit path has numbers as parameters; a generated one has factors (`generate`).

use core::ops::Range;
use core::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::PlanError;
use super::check::Source;
use crate::design::{self, Change, DesignError, MAX_CHANGES, PathDesign, RateTrace};

/// A path, or the parameters that differ in one direction.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, bound = "V: Deserialize<'de>")]
pub(super) struct Text<V = f64> {
    pub(super) rate_mbps: Option<Spanned<V>>,
    /// Name of a Mahimahi trace file, instead of the rate.
    mahimahi: Option<Spanned<String>>,
    pub(super) owd_ms: Option<Spanned<V>>,
    pub(super) jitter_ms: Option<Spanned<V>>,
    pub(super) queue_packets: Option<Spanned<V>>,
    pub(super) queue_bdp: Option<Spanned<V>>,
    pub(super) queuing_delay_ms: Option<Spanned<V>>,
    pub(super) loss_percent: Option<Spanned<V>>,
    pub(super) reorder_percent: Option<Spanned<V>>,
    pub(super) reorder_ms: Option<Spanned<V>>,
    changes: Option<Spanned<Vec<ChangeText>>>,
    /// Name of a CSV file of changes.
    trace: Option<Spanned<String>>,
    /// Parameters that differ in the direction from client to server.
    pub(super) up: Option<Spanned<Box<Text<V>>>>,
    /// Number of identical paths, whose parameters vary together; for generated points only.
    pub(super) alike: Option<Spanned<f64>>,
}

/// Parameters of a direction with their bounds, in the order in which designs assign dimensions.
const PARAMETERS: [Bounds; 9] = [RATE, DELAY, PACKETS, PRODUCTS, QUEUING, LOSS, JITTER, REORDER, HELD_BACK];

impl<V> Text<V> {
    /// Returns the path's parameters with their bounds. The parameters of the direction to the server come
    /// last.
    pub(super) fn parameters(&self) -> Vec<(&Spanned<V>, Bounds)> {
        let own = [
            &self.rate_mbps,
            &self.owd_ms,
            &self.queue_packets,
            &self.queue_bdp,
            &self.queuing_delay_ms,
            &self.loss_percent,
            &self.jitter_ms,
            &self.reorder_percent,
            &self.reorder_ms,
        ];
        let own =
            own.into_iter().zip(PARAMETERS).filter_map(|(value, bounds)| Some((value.as_ref()?, bounds)));
        own.chain(self.up.iter().flat_map(|up| up.get_ref().parameters())).collect()
    }

    /// Returns the same path with numbers, one for each of [`Self::parameters`], in their order.
    pub(super) fn with(&self, numbers: &mut impl Iterator<Item = f64>) -> Text {
        let mut next = |value: &Option<Spanned<V>>| {
            let span = value.as_ref()?.span();
            Some(Spanned::new(span, numbers.next()?))
        };
        let mut text = Text {
            rate_mbps: next(&self.rate_mbps),
            owd_ms: next(&self.owd_ms),
            queue_packets: next(&self.queue_packets),
            queue_bdp: next(&self.queue_bdp),
            queuing_delay_ms: next(&self.queuing_delay_ms),
            loss_percent: next(&self.loss_percent),
            jitter_ms: next(&self.jitter_ms),
            reorder_percent: next(&self.reorder_percent),
            reorder_ms: next(&self.reorder_ms),
            mahimahi: self.mahimahi.clone(),
            changes: self.changes.clone(),
            trace: self.trace.clone(),
            up: None,
            alike: None,
        };
        text.up = self.up.as_ref().map(|up| Spanned::new(up.span(), Box::new(up.get_ref().with(numbers))));
        text
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeText {
    at_s: Spanned<f64>,
    rate_mbps: Option<Spanned<f64>>,
    owd_ms: Option<Spanned<f64>>,
    loss_percent: Option<Spanned<f64>>,
}

/// Length of a queue in the unit of the plan. It is converted to packets once rate and delay are known.
#[derive(Clone, Copy)]
enum QueueLength {
    Packets(f64),
    Products(f64),
    DelayMs(f64),
}

/// Name, minimum and maximum of a parameter.
pub(super) type Bounds = (&'static str, f64, f64);

/// Bounds of a path's parameters, the same for explicit and generated paths.
const RATE: Bounds = ("rate_mbps", 1e-3, 1e6);
const DELAY: Bounds = ("owd_ms", 0.0, 1e5);
const PACKETS: Bounds = ("queue_packets", 1.0, 1e7);
const PRODUCTS: Bounds = ("queue_bdp", 0.0, 1e3);
const QUEUING: Bounds = ("queuing_delay_ms", 0.0, 1e5);
const LOSS: Bounds = ("loss_percent", 0.0, 100.0);
const JITTER: Bounds = ("jitter_ms", 0.0, 1e4);
const REORDER: Bounds = ("reorder_percent", 0.0, 100.0);
const HELD_BACK: Bounds = ("reorder_ms", 0.0, 1e4);

/// One direction, with the length of its queue before the conversion to packets.
struct Direction {
    design: PathDesign,
    queue: QueueLength,
}

/// Converts the text of a path.
pub(super) fn path(source: &Source<'_>, text: &Spanned<Text>) -> Result<PathDesign, PlanError> {
    let further = text.get_ref().up.as_ref().and_then(|up| up.get_ref().alike.as_ref());
    if let Some(alike) = text.get_ref().alike.as_ref().or(further) {
        return Err(source.fault(alike.span(), "`alike` belongs to a path of generated points"));
    }
    let down = Direction::read(source, text.get_ref(), text.span(), None)?;
    let Some(up) = &text.get_ref().up else { return Ok(down.design) };
    if let Some(further) = &up.get_ref().up {
        return Err(source.fault(further.span(), "`up` has no `up` of its own"));
    }
    let up = Direction::read(source, up.get_ref(), up.span(), Some(&down))?;
    Ok(PathDesign { up: Some(Box::new(up.design)), ..down.design })
}

impl Direction {
    /// Reads the parameters of a direction. Missing ones are taken from `other`, the opposite direction, if
    /// it is given.
    fn read(
        source: &Source<'_>,
        text: &Text,
        span: Range<usize>,
        other: Option<&Self>,
    ) -> Result<Self, PlanError> {
        let as_other = |of: fn(&PathDesign) -> f64| other.map(|other| of(&other.design));
        let missing = |what: &str| source.fault(span.clone(), format!("missing field {what}"));
        let (rate_mbps, trace) = rate(source, text, &span)?
            .or_else(|| other.map(|other| (other.design.rate_mbps, other.design.trace.clone())))
            .ok_or_else(|| missing("`rate_mbps`, or `mahimahi` in its place"))?;
        let owd_ms = maybe(source, &text.owd_ms, DELAY)?.or(as_other(|other| other.owd_ms));
        let owd_ms = owd_ms.ok_or_else(|| missing("`owd_ms`"))?;
        let queue = queue(source, text, span.clone(), other.map(|other| other.queue))?;
        let number = |value, bounds, of| {
            Ok::<_, PlanError>(maybe(source, value, bounds)?.or(as_other(of)).unwrap_or_default())
        };
        let (reorder_percent, reorder_ms) = (
            number(&text.reorder_percent, REORDER, |other| other.reorder_percent)?,
            number(&text.reorder_ms, HELD_BACK, |other| other.reorder_ms)?,
        );
        if (reorder_percent > 0.0) != (reorder_ms > 0.0) {
            let at = text
                .reorder_percent
                .as_ref()
                .or(text.reorder_ms.as_ref())
                .map_or(span.clone(), Spanned::span);
            return Err(source.fault(at, "`reorder_percent` and `reorder_ms` belong together"));
        }
        let changes = match (own_changes(source, text)?, other) {
            (Some(changes), _) => changes,
            (None, Some(other)) => text.left_of(&other.design.changes),
            (None, None) => Vec::new(),
        };
        let design = PathDesign {
            rate_mbps,
            owd_ms,
            queue_packets: queue.packets(rate_mbps, owd_ms),
            loss_percent: number(&text.loss_percent, LOSS, |other| other.loss_percent)?,
            changes,
            jitter_ms: number(&text.jitter_ms, JITTER, |other| other.jitter_ms)?,
            reorder_percent,
            reorder_ms,
            trace,
            up: None,
        };
        Ok(Self { design, queue })
    }
}

impl Text<f64> {
    /// Returns `changes`, those of the other direction, without the parameters that this direction sets
    /// itself.
    fn left_of(&self, changes: &[Change]) -> Vec<Change> {
        let own_rate = self.rate_mbps.is_some() || self.mahimahi.is_some();
        let own = [own_rate, self.owd_ms.is_some(), self.loss_percent.is_some()];
        changes.iter().map(|change| change.without(own)).collect()
    }
}

/// Returns the rate, or a trace and its mean rate; `None` if the text has neither.
fn rate(
    source: &Source<'_>,
    text: &Text,
    span: &Range<usize>,
) -> Result<Option<(f64, Option<RateTrace>)>, PlanError> {
    match (&text.rate_mbps, &text.mahimahi) {
        (Some(_), Some(_)) => {
            Err(source.fault(span.clone(), "a path has either `rate_mbps` or `mahimahi`, not both"))
        }
        (Some(rate), None) => Ok(Some((number(source, rate, RATE)?, None))),
        (None, Some(file)) => {
            let trace = RateTrace::read(&source.folder.join(file.get_ref()));
            let trace = trace.map_err(|fault| foreign(source, file, &fault))?;
            Ok(Some((trace.mean_mbps(), Some(trace))))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the length of the queue. The text must contain exactly one length, or none if the length of the
/// other direction is used.
fn queue(
    source: &Source<'_>,
    text: &Text,
    span: Range<usize>,
    other: Option<QueueLength>,
) -> Result<QueueLength, PlanError> {
    let packets = maybe(source, &text.queue_packets, PACKETS)?.map(QueueLength::Packets);
    let products = maybe(source, &text.queue_bdp, PRODUCTS)?.map(QueueLength::Products);
    let delay = maybe(source, &text.queuing_delay_ms, QUEUING)?.map(QueueLength::DelayMs);
    match other.filter(|_| packets.is_none() && products.is_none() && delay.is_none()) {
        Some(other) => Ok(other),
        None => {
            let choices = [("queue_packets", packets), ("queue_bdp", products), ("queuing_delay_ms", delay)];
            source.one_of(span, "a path", choices)
        }
    }
}

/// Returns the changes of the text, given explicitly or in a file.
fn own_changes(source: &Source<'_>, text: &Text) -> Result<Option<Vec<Change>>, PlanError> {
    let (changes, span) = match (&text.changes, &text.trace) {
        (Some(_), Some(file)) => {
            return Err(source.fault(file.span(), "a path has either `changes` or `trace`, not both"));
        }
        (Some(texts), None) => (changes(source, texts)?, texts.span()),
        (None, Some(file)) => {
            let changes = design::read_changes(&source.folder.join(file.get_ref()));
            (changes.map_err(|fault| foreign(source, file, &fault))?, file.span())
        }
        (None, None) => return Ok(None),
    };
    if text.mahimahi.is_some() && changes.iter().any(|change| change.rate_mbps.is_some()) {
        return Err(source.fault(span, "`mahimahi` gives the rate, so that nothing else can change it"));
    }
    Ok(Some(changes))
}

fn changes(source: &Source<'_>, texts: &Spanned<Vec<ChangeText>>) -> Result<Vec<Change>, PlanError> {
    let count = texts.get_ref().len();
    if count > MAX_CHANGES {
        return Err(source.fault(texts.span(), format!("{count} changes are more than {MAX_CHANGES}")));
    }
    let mut changes: Vec<Change> = Vec::new();
    for change in texts.get_ref() {
        let at = Duration::from_secs_f64(source.number(&change.at_s, "at_s", 0.0, 1e6)?);
        if changes.last().is_some_and(|earlier| earlier.at > at) {
            return Err(source.fault(change.at_s.span(), "`changes` must be in order of time (`at_s`)"));
        }
        changes.push(Change {
            at,
            // A change may set the rate to zero, which is a pause.
            rate_mbps: maybe(source, &change.rate_mbps, ("rate_mbps", 0.0, RATE.2))?,
            owd_ms: maybe(source, &change.owd_ms, DELAY)?,
            loss_percent: maybe(source, &change.loss_percent, LOSS)?,
        });
    }
    Ok(changes)
}

/// Returns the error for a fault in a file that the plan names. The error states the line of the plan, then
/// the faulty line of that file, if any.
pub(super) fn foreign(source: &Source<'_>, named: &Spanned<String>, fault: &DesignError) -> PlanError {
    source.fault(named.span(), fault.to_string().lines().collect::<Vec<_>>().join(", "))
}

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
    /// Returns the length in packets of 1500 bytes. A computed length is at least ten.
    fn packets(self, rate_mbps: f64, owd_ms: f64) -> usize {
        let product = rate_mbps * 1e6 / 8.0 * (2.0 * owd_ms) / 1e3 / 1500.0;
        match self {
            Self::Packets(packets) => packets as usize,
            Self::Products(products) => ((product * products) as usize).max(10),
            Self::DelayMs(delay) => PathDesign::queue_of_delay(rate_mbps, owd_ms, delay),
        }
    }
}
