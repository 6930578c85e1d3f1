//! The report: one self-contained HTML file with the history of every path.

use anabranch::IdleReason;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{Anchor, Chart, Points, Window, drawn};
use super::summary::{Summary, mbps};
use super::timeline::{CLOSED, PathSample, Sample};
use crate::output::hex;

/// Style sheet; light or dark like the reader's system.
const STYLE: &str = include_str!("report.css");
/// Height of the first chart, in units of the picture; the heights of others follow.
const TOGETHER: f64 = 240.0;
const RATE: f64 = 96.0;
const SMALL: f64 = 70.0;
const STRIP: f64 = 24.0;
/// Maximum number of reasons that are listed for a path, the most frequent ones.
const MAX_REASONS: usize = 5;
/// Ratio of the value at the top of a chart to the largest value in it.
const AIR: f64 = 1.08;

/// Returns the report's HTML page.
pub(super) fn page(summary: &Summary) -> String {
    let paths = summary.plan.0.len();
    let settings = &summary.settings;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "anabranch demo" }
                style { (PreEscaped(STYLE)) }
            }
            body { main {
                header {
                    h1 { "One connection over " (paths) @if paths == 1 { " path" } @else { " paths" } }
                    span.how {
                        (format!("{:.1} MB in {:.2} s", summary.size as f64 / 1e6, summary.seconds()))
                        " · " (settings.scheduler) " · " (settings.congestion) " · "
                        (settings.numbering) " packet number space" @if settings.numbering != "single" { "s" }
                    }
                }
                (tiles(summary))
                (together(summary))
                (comparison(summary))
                @for index in 0..paths { (path(summary, index)) }
                (events(summary))
                footer {
                    "Links run in user space on the loopback interface, with queues of one bandwidth-delay product. "
                    "Rates of paths are UDP payload that the client received; goodput is content, from the first packet "
                    "to the last byte. Round-trip times and windows are the server's. SHA-256 "
                    (hex(&summary.outcome.received.digest)) "."
                }
            } }
        }
    };
    page.into_string()
}

fn tiles(summary: &Summary) -> Markup {
    let (total, best) = (summary.goodput(), summary.best_alone().max(1.0));
    let received = &summary.outcome.received;
    html! {
        div.tiles {
            div.tile { b { (format!("{:.1}", total / 1e6)) " " small { "Mbit/s" } } span { "goodput of all paths together" } }
            div.tile { b { (format!("{:.2}", total / best)) " " small { "×" } } span { "the best single path" } }
            div.tile {
                b { (format!("{:.0}", 100.0 * total / summary.plan.rate() as f64)) " " small { "%" } }
                span { "of what the links carry" }
            }
            @if !summary.fails.is_empty() {
                div.tile {
                    @match summary.gap() {
                        Some(gap) => b { (format!("{:.0}", gap.as_secs_f64() * 1e3)) " " small { "ms" } },
                        None => b { "–" },
                    }
                    span { "without new bytes at a failure" }
                }
            }
            div.tile {
                @if received.matches { b.good { "✓ intact" } } @else { b.bad { "✗ damaged" } }
                span { "SHA-256 " (hex(&received.digest)[..8]) "…" }
            }
        }
    }
}

/// Draws the total rate of all paths.
fn together(summary: &Summary) -> Markup {
    let (links, best) = (summary.plan.rate() as f64 / 1e6, summary.best_alone() / 1e6);
    let rates: Vec<Points> = (0..summary.plan.0.len()).map(|index| rate(summary, index)).collect();
    let timeline = &summary.outcome.timeline;
    let whole = series(summary, |at| timeline.rate(at, |sample| sample.bytes) / 1e6);
    let mut sums: Vec<Points> = vec![whole.iter().map(|(second, _)| (*second, 0.0)).collect()];
    for path in &rates {
        let below = &sums[sums.len() - 1];
        let sum = below.iter().zip(path).map(|((second, low), (_, value))| (*second, low + value));
        sums.push(sum.collect());
    }
    let top = sums.last().into_iter().chain([&whole]).flat_map(|line| line.iter().map(|point| point.1));
    let max = top.fold(links, f64::max) * AIR;
    let seconds = summary.seconds();
    let draw = |window| {
        let chart = Chart { window, height: TOGETHER, seconds, max, unit: "Mbit/s", has_times: true };
        chart.draw(&html! {
            @for (index, two) in sums.windows(2).enumerate() { (chart.area(&colour(index), &two[0], &two[1])) }
            (chart.line("whole", &whole))
            (chart.level(links, &format!("sum of the links {links:.0}"), Anchor::Right))
            (chart.level(best, &format!("best single path {best:.1}"), Anchor::Left))
            @for fail in &summary.fails {
                @let (from, to) = fail.seconds(seconds);
                (chart.dead(from, to, &format!("path {} dead", fail.path)))
            }
        })
    };
    html! {
        section {
            h2 {
                "Together"
                span.legend {
                    @for index in 0..rates.len() {
                        i { span.dot.(colour(index)) {} "path " (index) }
                    }
                    i { "— content" }
                }
            }
            @for window in Window::ALL { (draw(window)) }
        }
    }
}

/// Compares each path alone with all of them together.
fn comparison(summary: &Summary) -> Markup {
    let links = summary.plan.rate() as f64;
    let most = summary.alone.iter().copied().fold(links.max(summary.goodput()), f64::max);
    let percent = |value: f64| format!("width:{:.2}%", 100.0 * value / most);
    let carried: Vec<f64> = (0..summary.plan.0.len()).map(|index| summary.carried(index)).collect();
    // Splits the goodput in proportion to the bytes that each path carried.
    let share = |index: usize| summary.goodput() * carried[index] / carried.iter().sum::<f64>().max(1.0);
    html! {
        section {
            h2 { "Compared" small { "content in Mbit/s; single paths were measured before, at the same time, on links of their own" } }
            div.bars {
                @for (index, alone) in summary.alone.iter().enumerate() {
                    span { "path " (index) " alone" }
                    div { span.(colour(index)) style=(percent(*alone)) {} }
                    em { (mbps(*alone)) }
                }
                span { b { "together" } }
                div { @for index in 0..carried.len() { span.(colour(index)) style=(percent(share(index))) {} } }
                em { b { (mbps(summary.goodput())) } }
                span { "sum of the links" }
                div { span style=(format!("{};background:var(--axis)", percent(links))) {} }
                em { (mbps(links)) }
            }
        }
    }
}

/// Draws the section of one path.
fn path(summary: &Summary, index: usize) -> Markup {
    let link = &summary.plan.0[index];
    let seconds = summary.seconds();
    let rates = [rate(summary, index)];
    let samples = &summary.outcome.timeline.samples;
    let rtts = alive(samples, index, PathSample::rtt_ms);
    let windows = alive(samples, index, |path| path.window as f64 / 1e3);
    let fails = || summary.fails.iter().filter(|fail| fail.path == index).map(|fail| fail.seconds(seconds));
    let plot = |height, parts: &[Points], unit, least: f64, has_times, level: Option<(f64, String)>| {
        let max = parts.iter().flatten().map(|point| point.1).fold(least, f64::max) * AIR;
        let draw = |window| {
            let chart = Chart { window, height, seconds, max, unit, has_times };
            chart.draw(&html! {
                @for points in parts {
                    @let floor: Points = points.iter().map(|(second, _)| (*second, 0.0)).collect();
                    (chart.area("soft", &floor, points))
                    (chart.line("of", points))
                }
                @if let Some((value, name)) = &level { (chart.level(*value, name, Anchor::Right)) }
                @for (from, to) in fails() { (chart.dead(from, to, "")) }
            })
        };
        html! { @for window in Window::ALL { (draw(window)) } }
    };
    let rate = link.rate as f64 / 1e6;
    let last = summary.outcome.timeline.samples.last();
    let figures = last.map(|last| {
        let path = &last.paths[index];
        format!("{:.1} MB, {} packets lost", path.received as f64 / 1e6, path.lost)
    });
    html! {
        section.(colour(index)) {
            h2 {
                span.dot {}
                span style="color:var(--ink)" { "Path " (index) }
                span.how { (link.text) }
                small { (figures.unwrap_or_default()) }
            }
            (states(summary, index))
            (plot(RATE, &rates, "rate, Mbit/s", rate, false, Some((rate, format!("link {rate:.0}")))))
            (plot(SMALL, &rtts, "RTT, ms", 1.0, false, None))
            (plot(SMALL + 14.0, &windows, "window, kB", 1.0, true, None))
            div.why { (why(summary, index)) }
        }
    }
}

/// Returns the reasons why the server did not send on a path, most frequent first.
fn why(summary: &Summary, index: usize) -> String {
    let paths = summary.outcome.timeline.samples.iter().map(|sample| &sample.paths[index]);
    let mut reasons: Vec<(Option<IdleReason>, usize)> = Vec::new();
    let mut seen = 0;
    for path in paths.filter(|path| path.state != CLOSED) {
        seen += 1;
        match reasons.iter_mut().find(|(reason, _)| *reason == path.idle) {
            Some((_, count)) => *count += 1,
            None => reasons.push((path.idle, 1)),
        }
    }
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let part = |(reason, count): &(Option<IdleReason>, usize)| {
        let name = reason.map_or_else(|| "about to send".to_owned(), |reason| reason.to_string());
        format!("{name} {:.0} %", 100.0 * *count as f64 / f64::from(seen.max(1)))
    };
    // Reasons that would round to 0 % are omitted.
    reasons.retain(|(_, count)| *count as f64 >= 0.005 * f64::from(seen));
    let parts: Vec<String> = reasons.iter().take(MAX_REASONS).map(part).collect();
    format!("The server, whenever it was looked at: {}", parts.join(" · "))
}

/// Draws a strip of a path's states over time.
fn states(summary: &Summary, index: usize) -> Markup {
    let seconds = summary.seconds();
    let mut periods: Vec<(f64, f64, &str)> = Vec::new();
    for sample in &summary.outcome.timeline.samples {
        let (at, state) = (sample.at.as_secs_f64(), sample.paths[index].state);
        match periods.last_mut() {
            Some(last) if last.2 == state => last.1 = at,
            Some(last) => {
                last.1 = at;
                periods.push((at, at, state));
            }
            None => periods.push((0.0, at, state)),
        }
    }
    let draw = |window| {
        let chart = Chart { window, height: STRIP, seconds, max: 1.0, unit: "", has_times: false };
        chart.strip(&html! { @for (from, to, state) in &periods { (chart.band(state, *from, *to, state)) } })
    };
    html! { @for window in Window::ALL { (draw(window)) } }
}

fn events(summary: &Summary) -> Markup {
    html! {
        section {
            h2 { "What happened" }
            table {
                tr { th { "time" } th { "path" } th { "event" } }
                @for event in &summary.outcome.timeline.events {
                    tr {
                        td { (format!("{:.2} s", event.at.as_secs_f64())) }
                        td { span.dot.(colour(event.path)) {} " " (event.path) }
                        td { (event.what) }
                    }
                }
            }
        }
    }
}

/// Returns the rate of a path over time, in Mbit/s.
fn rate(summary: &Summary, index: usize) -> Points {
    series(summary, |at| summary.outcome.timeline.rate(at, |sample| sample.paths[index].received) / 1e6)
}

/// Returns a value of a path over time, as one line for each period in which the path responds. A dead path
/// has no current values.
fn alive(samples: &[Sample], index: usize, value: fn(&PathSample) -> f64) -> Vec<Points> {
    let mut parts = vec![Points::new()];
    for at in drawn(samples.len()) {
        let path = &samples[at].paths[index];
        match (path.is_alive(), parts.last_mut()) {
            (true, Some(part)) => part.push((samples[at].at.as_secs_f64(), value(path))),
            (false, Some(part)) if !part.is_empty() => parts.push(Points::new()),
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns a value for each sample that is drawn.
fn series(summary: &Summary, value: impl Fn(usize) -> f64) -> Points {
    let samples = &summary.outcome.timeline.samples;
    drawn(samples.len()).map(|at| (samples[at].at.as_secs_f64(), value(at))).collect()
}

/// Returns the style sheet's class for the colour of a path.
fn colour(index: usize) -> String {
    format!("c{index}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_is_drawn_of_a_path_that_does_not_answer() {
        let states = ["opening", "open", "open", "failing", "failing", "backup", "abandoned", CLOSED, "open"];
        let sample = |(at, state): (usize, &&'static str)| {
            let path = PathSample { window: 1_000 * at as u64, state, ..PathSample::default() };
            Sample { at: Duration::from_secs(at as u64), bytes: 0, paths: vec![path] }
        };
        let samples: Vec<_> = states.iter().enumerate().map(sample).collect();
        let parts = alive(&samples, 0, |path| path.window as f64 / 1e3);
        assert_eq!(parts, [vec![(1.0, 1.0), (2.0, 2.0)], vec![(5.0, 5.0)], vec![(8.0, 8.0)]]);
    }
}
