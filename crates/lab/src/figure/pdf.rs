//! Conversion of SVG figures to PDF, for papers. Text remains text.

use resvg::usvg::Tree;
use svg2pdf::{ConversionOptions, PageOptions};

/// Renders the figure as a PDF file of one page.
///
/// # Errors
/// Fails with a message of one line if the figure cannot be converted.
pub fn render(picture: &Tree) -> Result<Vec<u8>, String> {
    svg2pdf::to_pdf(picture, ConversionOptions::default(), PageOptions::default())
        .map_err(|error| error.to_string())
}
