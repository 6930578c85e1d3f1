//! Vector pictures as PDF, for papers; text stays text.

use resvg::usvg::Tree;
use svg2pdf::{ConversionOptions, PageOptions};

/// Renders the picture as a PDF file of one page.
///
/// # Errors
/// In one line, if it cannot be converted.
pub fn render(picture: &Tree) -> Result<Vec<u8>, String> {
    svg2pdf::to_pdf(picture, ConversionOptions::default(), PageOptions::default())
        .map_err(|error| error.to_string())
}
