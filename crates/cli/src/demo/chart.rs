//! Charts as SVG: lines and areas over the time of a transfer. Colours come from the page's style sheet.
//! Every chart is drawn for wide windows and again for narrow ones, where scaled-down labels would be
//! illegible; the style sheet shows one of the two.

use std::fmt::Write as _;

use maud::{Markup, html};

/// Left margin of every chart, in units of the picture; the other margins follow.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 20.0;
/// Maximum number of points of a line, about one for two units of the widest picture.
const MAX_POINTS: usize = 450;
/// Approximate number of labels on an axis.
const TICKS: f64 = 4.0;

/// Size of the window that a chart is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Wide,
    Narrow,
}

impl Window {
    pub(super) const ALL: [Self; 2] = [Self::Wide, Self::Narrow];

    /// Returns the width of a picture, in its units.
    fn width(self) -> f64 {
        match self {
            Self::Wide => 960.0,
            Self::Narrow => 480.0,
        }
    }

    /// Returns the window's class in the style sheet.
    fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }

    /// Returns the approximate width of a character of a label.
    fn character(self) -> f64 {
        match self {
            Self::Wide => 7.0,
            Self::Narrow => 8.2,
        }
    }

    /// Returns the approximate number of labels on the time axis.
    fn time_ticks(self) -> f64 {
        match self {
            Self::Wide => 10.0,
            Self::Narrow => 5.0,
        }
    }
}

/// An empty chart with its axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chart {
    /// Size of the window that the chart is drawn for.
    pub(super) window: Window,
    /// Height of the picture.
    pub(super) height: f64,
    /// Length of the time axis, in seconds.
    pub(super) seconds: f64,
    /// Largest value of the value axis.
    pub(super) max: f64,
    /// Unit of the values.
    pub(super) unit: &'static str,
    /// `true` if the time axis has labels.
    pub(super) has_times: bool,
}

/// Points of a line: time in seconds, and value.
pub(super) type Points = Vec<(f64, f64)>;

/// Side of a label's text that lies at the label's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Left,
    Right,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Left => "start",
            Self::Right => "end",
        }
    }
}

impl Chart {
    /// Returns the chart with `content` in it.
    pub(super) fn draw(&self, content: &Markup) -> Markup {
        let (right, floor) = (self.window.width() - RIGHT, self.y(0.0));
        html! {
            svg.(self.window.class()) viewBox={ "0 0 " (self.window.width()) " " (self.height) } role="img" {
                @for value in ticks(self.max, TICKS) {
                    line.grid x1=(LEFT) x2=(right) y1=(px(self.y(value))) y2=(px(self.y(value))) {}
                    text.tick x=(LEFT - 8.0) y=(px(self.y(value) + 4.0)) text-anchor="end" { (label(value)) }
                }
                @if self.has_times {
                    @for second in ticks(self.seconds, self.window.time_ticks()) {
                        text.tick x=(px(self.x(second))) y=(px(self.height - 4.0)) text-anchor="middle" {
                            (label(second)) " s"
                        }
                    }
                }
                (content)
                line.axis x1=(LEFT) x2=(right) y1=(px(floor)) y2=(px(floor)) {}
                text.unit x=(LEFT) y=(TOP - 7.0) { (self.unit) }
            }
        }
    }

    /// Returns a line through `points`.
    pub(super) fn line(&self, class: &str, points: &[(f64, f64)]) -> Markup {
        html! { path.line.(class) d=(self.along(points.iter(), 'M')) {} }
    }

    /// Draws the area between two lines that have values at the same times.
    pub(super) fn area(&self, class: &str, low: &[(f64, f64)], high: &[(f64, f64)]) -> Markup {
        let mut path = self.along(high.iter(), 'M');
        path.push_str(&self.along(low.iter().rev(), 'L'));
        path.push('Z');
        html! { path.area.(class) d=(path) {} }
    }

    /// Draws a horizontal reference line at `value`, with its name at one end.
    pub(super) fn level(&self, value: f64, name: &str, end: Anchor) -> Markup {
        let (y, right) = (self.y(value), self.window.width() - RIGHT);
        let x = if end == Anchor::Right { right - 4.0 } else { LEFT + 4.0 };
        html! {
            line.level x1=(LEFT) x2=(right) y1=(px(y)) y2=(px(y)) {}
            (self.note("note", x, y - 4.0, end, name))
        }
    }

    /// Draws a text on a background, so that it is legible over every colour.
    fn note(&self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) -> Markup {
        let width = self.window.character() * text.chars().count() as f64 + 8.0;
        let left = if anchor == Anchor::Right { x - width + 4.0 } else { x - 4.0 };
        html! {
            rect.ground x=(px(left)) y=(px(y - 12.0)) width=(px(width)) height="16" rx="3" {}
            text.(class) x=(px(x)) y=(px(y)) text-anchor=(anchor.name()) { (text) }
        }
    }

    /// Marks a period in which the link was down.
    pub(super) fn dead(&self, from: f64, to: f64, name: &str) -> Markup {
        let (left, right, floor) = (self.x(from), self.x(to), self.y(0.0));
        html! {
            rect.dead x=(px(left)) width=(px(right - left)) y=(TOP) height=(px(floor - TOP)) {}
            line.mark x1=(px(left)) x2=(px(left)) y1=(TOP) y2=(px(floor)) {}
            @if !name.is_empty() {
                @let fits = left + self.window.character() * (name.len() + 2) as f64 <= self.window.width();
                @let (x, anchor) = if fits { (left + 7.0, Anchor::Left) } else { (left - 7.0, Anchor::Right) };
                (self.note("note alarm", x, TOP + 14.0, anchor, name))
            }
        }
    }

    /// Draws a period as a band over the height of the chart.
    pub(super) fn band(&self, class: &str, from: f64, to: f64, name: &str) -> Markup {
        let (left, right) = (self.x(from), self.x(to));
        html! {
            rect.band.(class) x=(px(left)) width=(px((right - left).max(1.0))) y="1" height=(self.height - 2.0) {
                title { (name) }
            }
            // The name is drawn only where it fits.
            @if right - left > (self.window.character() + 1.0) * name.len() as f64 {
                text.state x=(px(left + 6.0)) y=(px(self.height / 2.0 + 4.0)) { (name) }
            }
        }
    }

    /// Draws `content` as a strip: a picture without axes.
    pub(super) fn strip(&self, content: &Markup) -> Markup {
        html! {
            svg.(self.window.class()) viewBox={ "0 0 " (self.window.width()) " " (self.height) } role="img" {
                (content)
            }
        }
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (self.window.width() - LEFT - RIGHT) * (second / self.seconds.max(1e-9)).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let bottom = self.height - if self.has_times { BOTTOM } else { 6.0 };
        bottom - (bottom - TOP) * (value / self.max.max(1e-9)).clamp(0.0, 1.0)
    }

    fn along<'a>(&self, points: impl Iterator<Item = &'a (f64, f64)>, first: char) -> String {
        let mut path = String::new();
        for (index, (second, value)) in points.enumerate() {
            let command = if index == 0 { first } else { 'L' };
            // Writing to a string cannot fail.
            let _ = write!(path, "{command}{} {}", px(self.x(*second)), px(self.y(*value)));
        }
        path
    }
}

/// Returns the indices of the samples whose points are drawn; the last sample is always among them.
pub(super) fn drawn(samples: usize) -> impl Iterator<Item = usize> {
    let step = samples.div_ceil(MAX_POINTS).max(1);
    let last = samples.checked_sub(1).filter(|last| last % step != 0);
    (0..samples).step_by(step).chain(last)
}

/// Returns round values up to `max`, approximately `wanted` of them.
fn ticks(max: f64, wanted: f64) -> Vec<f64> {
    if !max.is_finite() || max <= 0.0 {
        return Vec::new();
    }
    let rough = max / wanted;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    (0..=(max / step + 1e-9) as u32).map(|index| f64::from(index) * step).collect()
}

/// Formats a value without needless digits.
fn label(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a coordinate; a precision of a tenth suffices.
fn px(value: f64) -> String {
    label((value * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests;
