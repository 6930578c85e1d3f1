//! Charts as vector pictures.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::chart::{Mark, Shape};
use super::scale::Scale;
use super::{Chart, Style};

/// Colors that are told apart with any eyes (after Okabe and Ito), by index.
pub const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(70, 70, 70),
];

/// Width and height of a picture in pixels.
pub const SIZE: (u32, u32) = (960, 480);
/// Of which the legend has this width on the right.
const LEGEND: u32 = 250;
/// Height of a line of the legend.
const LINE: i32 = 24;

const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// What the drawing library can complain about.
type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The chart as an SVG file.
///
/// # Errors
/// If the drawing library cannot draw it.
pub fn draw(chart: &Chart) -> Result<String, Fault> {
    let mut file = String::new();
    {
        let all = SVGBackend::with_string(&mut file, SIZE).into_drawing_area();
        all.fill(&WHITE).map_err(fault)?;
        let (left, right) = all.split_horizontally(SIZE.0 - LEGEND);
        legend(&right, &chart.marks)?;
        plot(&left, chart)?;
        all.present().map_err(fault)?;
    }
    Ok(file)
}

fn fault(error: impl core::fmt::Display) -> Fault {
    error.to_string().into()
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

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
            Shape::Line(points) if mark.style.dashed => {
                let points = points.iter().copied();
                let path = DashedPathElement::new(points, 7, 4, line);
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
            Shape::Box([low, first, middle, third, high]) => {
                let (left, right, centre) = (index as f64 + 0.28, index as f64 + 0.72, index as f64 + 0.5);
                let filling = color.mix(0.25).filled();
                context
                    .draw_series([Rectangle::new([(left, *first), (right, *third)], filling)])
                    .map_err(fault)?;
                let lines = [
                    vec![(left, *first), (right, *first), (right, *third), (left, *third), (left, *first)],
                    vec![(left, *middle), (right, *middle)],
                    vec![(centre, *third), (centre, *high)],
                    vec![(centre, *first), (centre, *low)],
                ];
                context
                    .draw_series(lines.map(|line| PathElement::new(line, stroke(mark.style))))
                    .map_err(fault)?;
            }
        }
    }
    Ok(())
}

fn legend(area: &Area<'_>, marks: &[Mark]) -> Result<(), Fault> {
    let font = ("sans-serif", 13).into_font().color(&INK);
    for (index, mark) in marks.iter().enumerate() {
        let y = 46 + LINE * index as i32;
        let ends = [(8, y), (38, y)];
        if mark.style.dashed && !matches!(mark.shape, Shape::Box(_)) {
            area.draw(&DashedPathElement::new(ends, 7, 4, stroke(mark.style))).map_err(fault)?;
        } else {
            area.draw(&PathElement::new(ends, stroke(mark.style))).map_err(fault)?;
        }
        area.draw(&Text::new(mark.label.clone(), (46, y - 7), font.clone())).map_err(fault)?;
    }
    Ok(())
}

fn color(style: Style) -> RGBColor {
    PALETTE[style.color % PALETTE.len()]
}

fn stroke(style: Style) -> ShapeStyle {
    color(style).stroke_width(2)
}
