//! One page for each experiment, which needs nothing but a browser: distributions of every metric, from a curve to the
//! point, from the point to what happened in its run, and the published figures.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::claim::Results;
use crate::figure::{self, Chart, png, svg};
use crate::record::Row;
use crate::store::{RunTimeline, StoreError};

/// The page's name in a directory of results.
pub const PAGE: &str = "report.html";
/// The folder of pictures in a directory of results.
pub const FIGURES: &str = "figures";

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The page.
    pub page: PathBuf,
    /// The published figures that there were runs for.
    pub figures: Vec<&'static str>,
    /// Those without.
    pub missing: Vec<&'static str>,
}

/// Draws the figures of the experiment that `rows` are of into `dir/figures`, as SVG and PNG, and writes `dir/report.html`.
///
/// # Errors
/// If a picture cannot be drawn or a file not be written.
pub fn write(dir: &Path, rows: &[Row], timelines: &[RunTimeline]) -> Result<Written, StoreError> {
    let experiment = rows.first().map_or("", |row| row.experiment.as_str());
    let results: Results = rows.iter().cloned().collect();
    let folder = dir.join(FIGURES);
    std::fs::create_dir_all(&folder).map_err(|error| StoreError::new(&folder, error))?;
    let save = |name: PathBuf, contents: &[u8]| {
        std::fs::write(&name, contents).map_err(|error| StoreError::new(&name, error)).map(|()| name)
    };
    let mut written = Written::default();
    let mut pictures = Vec::new();
    for figure in figure::of(experiment) {
        let Some(chart) = Chart::of(figure, &results) else {
            written.missing.push(figure.id);
            continue;
        };
        let name = folder.join(format!("{}.svg", figure.id));
        let picture = svg::draw(&chart).map_err(|error| StoreError::new(&name, error))?;
        let pixels = png::render(&picture).map_err(|error| StoreError::new(&name, error))?;
        save(folder.join(format!("{}.png", figure.id)), &pixels)?;
        save(name, picture.as_bytes())?;
        written.figures.push(figure.id);
        pictures.push((figure.id, picture));
    }
    written.page = save(dir.join(PAGE), page(experiment, rows, timelines, &pictures).as_bytes())?;
    Ok(written)
}

/// The page itself. `pictures` are SVG files with the names of their figures.
pub fn page(
    experiment: &str,
    rows: &[Row],
    timelines: &[RunTimeline],
    pictures: &[(&str, String)],
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
        .replace("{{script}}", include_str!("report.js"))
        .replace("{{library}}", library())
        .replace("{{data}}", &embedded(&data))
}

/// JSON that may stand within a `script` element, whatever names are in it.
fn embedded(data: &serde_json::Value) -> String {
    data.to_string().replace('<', "\\u003c")
}

/// The plotting library's `script` element. The crate adds a library for formulas behind it, which nothing here uses.
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
