//! Picture of all experiments that compare stacks, with a panel for each experiment. A panel shows each
//! stack's times, divided by the fluid bound: their range over the points, the median and the worst point.

use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{Axis, widened};
use super::scale::Scale;
use super::svg::{Area, Fault, GRID, INK, PALETTE, fault};
use crate::experiment::COMPARE;
use crate::stack::{ALONE, Standing};

/// Stacks in the order of the picture, with their labels and their colors in [`PALETTE`]. Other stacks come
/// behind them.
const STACKS: &[(&str, &str, usize)] = &[
    ("anabranch-multiple", "anabranch, BBR", 0),
    ("anabranch-single", "anabranch, BBR, one space", 0),
    ("anabranch-multiple-cubic", "anabranch, CUBIC", 0),
    ("anabranch-single-cubic", "anabranch, CUBIC, one space", 0),
    ("noq", "noq, CUBIC", 2),
    ("noq-bbr", "noq, BBR", 2),
    ("linux-mptcp-tls13", "Linux MPTCP, CUBIC", 1),
    ("linux-mptcp-bbr-tls13", "Linux MPTCP, BBR", 1),
    ("anabranch-best-path", "anabranch, BBR", 0),
    ("quinn-best-path", "quinn, CUBIC", 3),
    ("quinn-bbr-best-path", "quinn, BBR", 3),
    ("quiche-best-path", "quiche, CUBIC", 4),
    ("quiche-bbr-best-path", "quiche, BBR", 4),
    ("linux-tcp-cubic-best-path", "Linux TCP, CUBIC", 1),
    ("linux-tcp-bbr-best-path", "Linux TCP, BBR", 1),
];
/// Color of other stacks.
const OTHER: usize = 5;

/// Width of the picture and of its parts in pixels.
const WIDTH: i32 = 1120;
const LABELS: i32 = 222;
const NUMBERS: i32 = 108;
const GAP: i32 = 18;
/// Heights in pixels: of the title, of a panel's title, of a stack, of a group's heading and of an axis.
const TITLE: i32 = 62;
const HEAD: i32 = 38;
const LINE: i32 = 22;
const HEADING: i32 = 26;
const AXIS: i32 = 42;
/// Maximum number of ticks of a panel's axis.
const MAX_TICKS: usize = 6;
/// Largest value on the axes. Larger values are shown as arrows with numbers, so that the smaller values
/// remain distinguishable.
const MAX_VALUE: f64 = 5.0;

/// Draws the standings of [`COMPARE`]'s experiments as an SVG file; `None` if there are none.
///
/// # Errors
/// Fails if the drawing library cannot draw the picture.
pub fn draw(standings: &[Standing]) -> Result<Option<String>, Fault> {
    let Some(layout) = Layout::of(standings) else { return Ok(None) };
    let mut file = String::new();
    {
        let size = (WIDTH.unsigned_abs(), layout.height().unsigned_abs());
        let area = SVGBackend::with_string(&mut file, size).into_drawing_area();
        area.fill(&WHITE).map_err(fault)?;
        let title = "Downloads beside other stacks: transfer time over the fluid bound of all paths (= 1)";
        text(&area, title, (WIDTH / 2, 22), HPos::Center, 18)?;
        let legend = "Dot: median of the points. Bar: worst point. Arrow: beyond the axis, or failed. Bound and connections over all \
                      paths begin on the first path; another one alone may be sooner.";
        text(&area, legend, (WIDTH / 2, 46), HPos::Center, 13)?;
        for row in 0..layout.paths.len() {
            layout.labels(&area, layout.top(row))?;
        }
        for standing in COMPARE.iter().filter_map(|name| place(name)) {
            layout.panel(&area, standings, standing)?;
        }
        area.present().map_err(fault)?;
    }
    Ok(Some(file))
}

/// Rows and columns of the picture.
struct Layout<'a> {
    /// Part of the experiments' names for each row of panels, such as `2path`.
    paths: Vec<&'a str>,
    /// Part of the experiments' names for each column of panels, such as `50mb`.
    sizes: Vec<&'a str>,
    /// Stacks over all paths, and those over one path alone.
    groups: [Vec<&'a str>; 2],
    /// Axis of all panels.
    scale: Scale,
}

/// Labels with their vertical positions.
struct Lines<'a> {
    stacks: Vec<(&'a str, i32)>,
    headings: Vec<(&'static str, i32)>,
}

impl<'a> Layout<'a> {
    fn of(standings: &'a [Standing]) -> Option<Self> {
        let shown = || standings.iter().filter(|one| COMPARE.contains(&one.experiment.as_str()));
        let ratios = || shown().flat_map(|one| one.ratios.iter().map(|(_, ratio)| *ratio));
        shown().next()?;
        let ends = ratios().fold((1.0, 1.0), |(low, high): (f64, f64), one| (low.min(one), high.max(one)));
        let range = widened((ends.0, ends.1.min(MAX_VALUE)), true);
        let there = |name: &&&str| shown().any(|one| one.experiment == **name);
        let (mut paths, mut sizes) = (Vec::new(), Vec::new());
        for (path, size) in COMPARE.iter().filter(there).filter_map(|name| place(name)) {
            if !paths.contains(&path) {
                paths.push(path);
            }
            if !sizes.contains(&size) {
                sizes.push(size);
            }
        }
        let known = |name: &str| STACKS.iter().position(|(stack, ..)| *stack == name);
        let mut stacks: Vec<&str> = shown().map(|one| one.stack.as_str()).collect();
        stacks.sort_by_key(|name| (known(name).unwrap_or(STACKS.len()), *name));
        stacks.dedup();
        let (alone, all) = stacks.into_iter().partition(|name| name.ends_with(ALONE));
        let scale = Scale::from(&Axis { label: String::new(), log: true, range });
        Some(Self { paths, sizes, groups: [all, alone], scale })
    }

    /// Returns the height of a panel's stacks and headings.
    fn body(&self) -> i32 {
        let group =
            |stacks: &Vec<&str>| if stacks.is_empty() { 0 } else { HEADING + LINE * stacks.len() as i32 };
        self.groups.iter().map(group).sum()
    }

    fn height(&self) -> i32 {
        self.top(self.paths.len()) - HEAD
    }

    /// Returns the vertical position of the first heading in a row of panels.
    fn top(&self, row: usize) -> i32 {
        TITLE + HEAD + row as i32 * (HEAD + self.body() + AXIS)
    }

    /// Returns the stacks and the headings of groups, with their positions below `top`.
    fn lines(&self, top: i32) -> Lines<'a> {
        let (mut stacks, mut headings, mut y) = (Vec::new(), Vec::new(), top);
        for (group, heading) in
            self.groups.iter().zip(["over all paths", "the path that is best in hindsight, alone"])
        {
            if !group.is_empty() {
                headings.push((heading, y + HEADING / 2));
                y += HEADING;
            }
            for stack in group {
                stacks.push((*stack, y + LINE / 2));
                y += LINE;
            }
        }
        Lines { stacks, headings }
    }

    /// Draws the names of stacks to the left of a row of panels.
    fn labels(&self, area: &Area<'_>, top: i32) -> Result<(), Fault> {
        let Lines { stacks, headings } = self.lines(top);
        for (heading, y) in headings {
            text(area, heading, (12, y), HPos::Left, 13)?;
        }
        for (stack, y) in stacks {
            text(area, described(stack).0, (LABELS - 10, y), HPos::Right, 14)?;
        }
        Ok(())
    }

    /// Draws the panel of one experiment.
    fn panel(&self, area: &Area<'_>, all: &[Standing], (path, size): (&str, &str)) -> Result<(), Fault> {
        let place = |of: &[&str], name| of.iter().position(|one| *one == name);
        let (Some(row), Some(column)) = (place(&self.paths, path), place(&self.sizes, size)) else {
            return Ok(());
        };
        let width = (WIDTH - LABELS - GAP) / self.sizes.len() as i32;
        let (left, top) = (LABELS + width * column as i32, self.top(row));
        let right = left + width - GAP - NUMBERS;
        let name = format!("compare-{path}-{size}");
        let standings: Vec<&Standing> = all.iter().filter(|one| one.experiment == name).collect();
        let most = standings.iter().map(|one| one.ratios.len() + one.failed).max().unwrap_or_default();
        text(area, &title(path, size, most), ((left + right) / 2, top - HEAD / 2), HPos::Center, 15)?;
        self.axis(area, (left, right), top)?;
        for (column, name) in ["median", "worst"].into_iter().enumerate() {
            text(area, name, (number(right, column), top + HEADING / 2), HPos::Right, 12)?;
        }
        for (stack, y) in self.lines(top).stacks {
            let Some(one) = standings.iter().find(|one| one.stack == stack) else {
                text(area, "not run", (number(right, 1), y), HPos::Right, 12)?;
                continue;
            };
            self.stack(area, (left, right), y, one)?;
            let worst = match one.failed {
                0 => one.worst().map(|(_, ratio)| shown(ratio)).unwrap_or_default(),
                failed => format!("{failed} failed"),
            };
            let median = one.median().map(shown).unwrap_or_default();
            text(area, &median, (number(right, 0), y), HPos::Right, 13)?;
            text(area, &worst, (number(right, 1), y), HPos::Right, 13)?;
        }
        Ok(())
    }

    /// Draws the grid of a panel, its ticks, and a line at the fluid bound.
    fn axis(&self, area: &Area<'_>, ends: (i32, i32), top: i32) -> Result<(), Fault> {
        let bottom = top + self.body() + 4;
        for tick in self.scale.ticks(MAX_TICKS) {
            let x = self.scale.map(&tick, ends);
            area.draw(&PathElement::new([(x, top), (x, bottom)], GRID)).map_err(fault)?;
            text(area, &Scale::format(&tick), (x, bottom + 12), HPos::Center, 13)?;
        }
        let bound = self.scale.map(&1.0, ends);
        area.draw(&PathElement::new([(bound, top), (bound, bottom)], INK)).map_err(fault)?;
        area.draw(&PathElement::new([(ends.0, bottom), (ends.1, bottom)], INK)).map_err(fault)
    }

    /// Draws a stack's line from its best to its worst point, a dot at the median, and a bar at the worst
    /// point. In place of the bar there is an arrow if the worst point lies beyond the axis or the stack
    /// failed at a point.
    fn stack(&self, area: &Area<'_>, ends: (i32, i32), y: i32, of: &Standing) -> Result<(), Fault> {
        let color = PALETTE[described(&of.stack).1];
        let (Some(median), Some((_, worst))) = (of.median(), of.worst()) else { return Ok(()) };
        let best = of.ratios.iter().map(|(_, ratio)| *ratio).fold(f64::INFINITY, f64::min);
        let beyond = worst > MAX_VALUE || of.failed > 0;
        let x = |value: f64| self.scale.map(&value.min(MAX_VALUE), ends);
        let end = if beyond { ends.1 } else { x(worst) };
        let line = |from, to| PathElement::new([from, to], color.stroke_width(2));
        area.draw(&line((x(best), y), (end, y))).map_err(fault)?;
        if beyond {
            let head = vec![(end, y - 5), (end + 8, y), (end, y + 5)];
            area.draw(&Polygon::new(head, color.filled())).map_err(fault)?;
        } else {
            area.draw(&line((end, y - 6), (end, y + 6))).map_err(fault)?;
        }
        area.draw(&Circle::new((x(median), y), 5, color.filled())).map_err(fault)
    }
}

/// Returns the horizontal end of the numbers in `column`: medians or worst values.
fn number(right: i32, column: usize) -> i32 {
    right + NUMBERS * (column as i32 + 1) / 2
}

/// Returns the label and the color of a stack.
fn described(stack: &str) -> (&str, usize) {
    let known = STACKS.iter().find(|(name, ..)| *name == stack);
    known.map_or((stack, OTHER), |(_, label, color)| (*label, *color))
}

/// Returns the two parts of an experiment's name that determine the row and the column of its panel.
fn place(experiment: &str) -> Option<(&str, &str)> {
    experiment.strip_prefix("compare-")?.split_once('-')
}

/// Returns a panel's title, such as `50 MB over 2 paths, 95 points`.
fn title(path: &str, size: &str, points: usize) -> String {
    let digits = size.trim_end_matches(|character: char| character.is_alphabetic());
    let unit = size[digits.len()..].to_uppercase();
    let s = if points == 1 { "" } else { "s" };
    format!("{digits} {unit} over {} paths, {points} point{s}", path.trim_end_matches("path"))
}

fn shown(value: f64) -> String {
    if value < 99.5 { format!("{value:.2}") } else { format!("{value:.0}") }
}

fn text(area: &Area<'_>, text: &str, at: (i32, i32), to: HPos, size: i32) -> Result<(), Fault> {
    let style = ("sans-serif", size).into_font().color(&INK).pos(Pos::new(to, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style)).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::parse;

    fn standing(experiment: &str, stack: &str, ratios: &[f64]) -> Standing {
        let ratios = (0..).zip(ratios.iter().copied()).collect();
        Standing { experiment: experiment.to_owned(), stack: stack.to_owned(), ratios, failed: 0 }
    }

    #[test]
    fn every_experiment_has_a_panel_and_every_stack_its_numbers() {
        let standings: Vec<Standing> = COMPARE
            .iter()
            .flat_map(|name| {
                [
                    standing(name, "quinn-best-path", &[1.5, 2.5, 9.126]),
                    Standing { failed: 1, ..standing(name, "own-idea", &[1.25, 1.25]) },
                    Standing { failed: 3, ..standing(name, "noq", &[]) },
                    standing(name, "anabranch-multiple", &[1.0, 1.03, 1.25]),
                ]
            })
            .chain([standing("mobility", "anabranch-multiple", &[77.0])])
            .collect();
        let picture = draw(&standings).unwrap().unwrap();
        for (words, times) in [
            ("50 MB over 2 paths, 3 points", 1),
            ("256 KB over 3 paths, 3 points", 1),
            ("anabranch, BBR", 2),
            ("quinn, CUBIC", 2),
            ("own-idea", 2),
            ("the path that is best in hindsight, alone", 2),
            ("1 failed", 6),
            ("3 failed", 6),
            ("9.13", 6),
            ("1.03", 6),
            ("77.00", 0),
        ] {
            let found = picture.lines().filter(|line| line.trim() == words).count();
            assert_eq!(found, times, "{words}");
        }
        let arrows = picture.matches("<polygon").count();
        assert_eq!(arrows, 12, "a value of 9 and a failure in each panel");
        assert!(parse(&picture).is_ok());
    }

    #[test]
    fn stacks_that_were_not_run_say_so_and_nothing_is_no_picture() {
        let some = [
            standing("compare-2path-2mb", "noq", &[1.0]),
            standing("compare-3path-2mb", "quiche-best-path", &[200.0]),
        ];
        let picture = draw(&some).unwrap().unwrap();
        assert_eq!(picture.lines().filter(|line| line.trim() == "not run").count(), 2);
        assert_eq!(picture.lines().filter(|line| line.trim() == "2 MB over 2 paths, 1 point").count(), 1);
        assert!(draw(&[standing("mobility", "noq", &[1.0])]).unwrap().is_none());
    }
}
