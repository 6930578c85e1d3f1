//! Self-contained web page for each experiment. It shows the distribution of every metric and the published
//! figures. A curve leads to its points, and a point to the timeline of its run.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::claim::Results;
use crate::figure::{self, Chart, own, pdf, png, svg};
use crate::record::Row;
use crate::store::{RunTimeline, StoreError};

/// File name of the page in a directory of results.
pub const PAGE: &str = "report.html";
/// Name of the folder of figures in a directory of results.
pub const FIGURES: &str = "figures";

/// Result of writing a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Path of the page.
    pub page: PathBuf,
    /// Figures that were drawn: those of the paper for which there were runs, or our own if the experiment
    /// has no paper.
    pub figures: Vec<String>,
    /// Figures of the paper for which there were no runs.
    pub missing: Vec<&'static str>,
}

/// Draws the figures for the experiment of `rows` into `dir/figures`, as SVG, PDF and PNG, and writes
/// `dir/report.html`.
///
/// # Errors
/// Fails if a figure cannot be drawn or a file cannot be written.
pub fn write(dir: &Path, rows: &[Row], timelines: &[RunTimeline]) -> Result<Written, StoreError> {
    let experiment = rows.first().map_or("", |row| row.experiment.as_str());
    let folder = dir.join(FIGURES);
    std::fs::create_dir_all(&folder).map_err(|error| StoreError::new(&folder, error))?;
    let (charts, missing) = charts(experiment, rows);
    let mut written = Written { missing, ..Written::default() };
    let mut pictures = Vec::new();
    for (id, chart) in charts {
        let picture = draw(&folder, &id, &chart)?;
        pictures.push((id.clone(), picture));
        written.figures.push(id);
    }
    written.page = dir.join(PAGE);
    save(&written.page, page(experiment, rows, timelines, &pictures).as_bytes())?;
    Ok(written)
}

/// Returns the charts of an experiment with their names, and the names of published figures without runs.
fn charts(experiment: &str, rows: &[Row]) -> (Vec<(String, Chart)>, Vec<&'static str>) {
    if figure::of(experiment).next().is_none() {
        return (own::charts(experiment, rows), Vec::new());
    }
    let results: Results = rows.iter().cloned().collect();
    let (mut charts, mut missing) = (Vec::new(), Vec::new());
    for figure in figure::of(experiment) {
        match Chart::of(figure, &results) {
            Some(chart) => charts.push((figure.id.to_owned(), chart)),
            None => missing.push(figure.id),
        }
    }
    (charts, missing)
}

/// Writes the files of a figure and returns its SVG.
fn draw(folder: &Path, id: &str, chart: &Chart) -> Result<String, StoreError> {
    let fault = |error| StoreError::new(&folder.join(format!("{id}.svg")), error);
    let picture = svg::draw(chart).map_err(fault)?;
    write_picture(folder, id, &picture)?;
    Ok(picture)
}

/// Writes an SVG file into `folder` as `id.svg`, and beside it the same picture as PNG and PDF.
///
/// # Errors
/// Fails if the picture cannot be converted or a file cannot be written.
pub fn write_picture(folder: &Path, id: &str, picture: &str) -> Result<(), StoreError> {
    let name = |ending: &str| folder.join(format!("{id}.{ending}"));
    let fault = |error: String| StoreError::new(&name("svg"), error);
    let tree = figure::parse(picture).map_err(fault)?;
    save(&name("svg"), picture.as_bytes())?;
    save(&name("png"), &png::render(&tree).map_err(fault)?)?;
    save(&name("pdf"), &pdf::render(&tree).map_err(fault)?)
}

fn save(name: &Path, contents: &[u8]) -> Result<(), StoreError> {
    std::fs::write(name, contents).map_err(|error| StoreError::new(name, error))
}

/// Returns the HTML of the page. `pictures` are SVG files with the names of their figures.
pub fn page(
    experiment: &str,
    rows: &[Row],
    timelines: &[RunTimeline],
    pictures: &[(String, String)],
) -> String {
    let data = json!({ "experiment": experiment, "rows": rows, "timelines": timelines });
    let figures: String =
        pictures.iter().map(|(id, picture)| format!("<figure id=\"{id}\">{picture}</figure>\n")).collect();
    let title: String =
        experiment.chars().filter(|c| c.is_ascii_alphanumeric() || "-_. ".contains(*c)).collect();
    include_str!("page.html")
        .replace("{{title}}", &title)
        .replace("{{style}}", include_str!("report.css"))
        .replace("{{figures}}", &figures)
        .replace("{{script}}", concat!(include_str!("stats.js"), include_str!("report.js")))
        .replace("{{library}}", library())
        .replace("{{data}}", &embedded(&data))
}

/// Returns JSON that is safe within a `script` element, regardless of the names that it contains.
fn embedded(data: &serde_json::Value) -> String {
    data.to_string().replace('<', "\\u003c")
}

/// Returns the plotting library's `script` element. The crate appends a formula library, which is left out
/// because the page does not use it.
fn library() -> &'static str {
    static SOURCES: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let sources = plotly::Plot::offline_js_sources();
        const END: &str = "</script>";
        let end = sources.find(END).map_or(sources.len(), |at| at + END.len());
        sources[..end].to_owned()
    });
    &SOURCES
}

#[cfg(test)]
mod tests;
