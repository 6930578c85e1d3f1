//! Charts as SVG.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::chart::{Mark, Shape};
use super::scale::Scale;
use super::{Chart, Style};

/// Colors by index. They are distinguishable with color blindness, too (after Okabe and Ito).
pub const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(70, 70, 70),
    RGBColor(86, 180, 233),
    RGBColor(140, 86, 75),
];

/// Lengths of a dash and of the gap after it in pixels, by index. Without a gap the line is solid.
pub const DASHES: [(i32, i32); 4] = [(0, 0), (7, 4), (2, 3), (16, 5)];

/// Width and minimum height of a figure in pixels. A long legend increases the height.
pub const SIZE: (u32, u32) = (1040, 480);
/// Vertical position of the top of the legend.
const TOP: i32 = 46;
/// Width of the legend on the right, as part of the figure's width.
const LEGEND: u32 = 330;
/// Height of a line of the legend.
const LINE: i32 = 24;

pub(super) const INK: RGBColor = RGBColor(40, 40, 40);
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);

/// Error of the drawing library.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Draws the chart as an SVG file.
///
/// # Errors
/// Fails if the drawing library cannot draw the chart.
pub fn draw(chart: &Chart) -> Result<String, Fault> {
    let mut file = String::new();
    {
        let height = (TOP + LINE * chart.marks.len() as i32).unsigned_abs().max(SIZE.1);
        let all = SVGBackend::with_string(&mut file, (SIZE.0, height)).into_drawing_area();
        all.fill(&WHITE).map_err(fault)?;
        let (left, right) = all.split_horizontally(SIZE.0 - LEGEND);
        legend(&right, &chart.marks)?;
        plot(&left, chart)?;
        all.present().map_err(fault)?;
    }
    Ok(file)
}

pub(super) fn fault(error: impl core::fmt::Display) -> Fault {
    error.to_string().into()
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn plot(area: &Area<'_>, chart: &Chart) -> Result<(), Fault> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(&chart.title, ("sans-serif", 18).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(64);
    let mut context =
        builder.build_cartesian_2d(Scale::from(&chart.x), Scale::from(&chart.y)).map_err(fault)?;
    let mut mesh = context.configure_mesh();
    mesh.axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(WHITE)
        .label_style(("sans-serif", 13).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 14).into_font().color(&INK))
        .x_desc(&chart.x.label)
        .y_desc(&chart.y.label);
    if chart.x.label.is_empty() {
        mesh.disable_x_axis().disable_x_mesh();
    }
    mesh.draw().map_err(fault)?;
    for (index, mark) in chart.marks.iter().enumerate() {
        let (line, color) = (stroke(mark.style), color(mark.style));
        match &mark.shape {
            Shape::Line(points) if dashes(mark.style).1 > 0 => {
                let (dash, gap) = dashes(mark.style);
                let path = DashedPathElement::new(points.iter().copied(), dash, gap, line);
                context.draw_series([path]).map_err(fault)?;
            }
            Shape::Line(points) => {
                context.draw_series(LineSeries::new(points.iter().copied(), line)).map_err(fault)?;
            }
            Shape::Dots(points) => {
                context.draw_series(LineSeries::new(points.iter().copied(), line)).map_err(fault)?;
                let dots = points.iter().map(|point| Circle::new(*point, 3, color.filled()));
                context.draw_series(dots).map_err(fault)?;
            }
            Shape::Box(values) => {
                let filled = box_body(index, values);
                let filling = color.mix(0.25).filled();
                context.draw_series(filled.map(|body| Rectangle::new(body, filling))).map_err(fault)?;
                let lines = box_lines(index, values).into_iter();
                context
                    .draw_series(lines.map(|line| PathElement::new(line, stroke(mark.style))))
                    .map_err(fault)?;
            }
        }
    }
    Ok(())
}

/// Returns the left side, the right side and the middle of box number `index`.
fn box_sides(index: usize) -> [f64; 3] {
    [0.28, 0.72, 0.5].map(|part| index as f64 + part)
}

/// Returns two opposite corners of the box, which extends from the first to the third quartile.
fn box_body(index: usize, [_, first, _, third, _]: &[Option<f64>; 5]) -> Option<[(f64, f64); 2]> {
    let [left, right, _] = box_sides(index);
    Some([(left, (*first)?), (right, (*third)?)])
}

/// Returns the box's outline, its median and its whiskers. Lines with unknown values are omitted.
fn box_lines(index: usize, values: &[Option<f64>; 5]) -> Vec<Vec<(f64, f64)>> {
    let [low, first, middle, third, high] = *values;
    let [left, right, centre] = box_sides(index);
    let outline = first.zip(third).map(|(first, third)| {
        vec![(left, first), (right, first), (right, third), (left, third), (left, first)]
    });
    let across = middle.map(|middle| vec![(left, middle), (right, middle)]);
    let whisker = |from: Option<f64>, to: Option<f64>| Some(vec![(centre, from?), (centre, to?)]);
    [outline, across, whisker(third, high), whisker(first, low)].into_iter().flatten().collect()
}

fn legend(area: &Area<'_>, marks: &[Mark]) -> Result<(), Fault> {
    let font = ("sans-serif", 13).into_font().color(&INK);
    for (index, mark) in marks.iter().enumerate() {
        let y = TOP + LINE * index as i32;
        let ends = [(8, y), (38, y)];
        let (dash, gap) = dashes(mark.style);
        if gap > 0 && !matches!(mark.shape, Shape::Box(_)) {
            area.draw(&DashedPathElement::new(ends, dash, gap, stroke(mark.style))).map_err(fault)?;
        } else {
            area.draw(&PathElement::new(ends, stroke(mark.style))).map_err(fault)?;
        }
        let label = format!("{} (n = {})", mark.label, mark.n);
        area.draw(&Text::new(label, (46, y - 7), font.clone())).map_err(fault)?;
    }
    Ok(())
}

fn color(style: Style) -> RGBColor {
    PALETTE[style.color % PALETTE.len()]
}

fn dashes(style: Style) -> (i32, i32) {
    DASHES[style.dashes % DASHES.len()]
}

fn stroke(style: Style) -> ShapeStyle {
    color(style).stroke_width(2)
}
