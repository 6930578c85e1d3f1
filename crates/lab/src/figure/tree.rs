//! Parsed SVG figures, with a bundled font, so that every machine renders the same figure.

use std::sync::Arc;

use resvg::usvg::{Options, Tree, fontdb};

/// Parses an SVG file.
///
/// # Errors
/// Fails with a message of one line if `svg` is invalid.
pub fn parse(svg: &str) -> Result<Tree, String> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    let family = fonts.faces().next().and_then(|face| face.families.first().cloned());
    if let Some((family, _)) = family {
        fonts.set_sans_serif_family(family);
    }
    let options = Options { fontdb: Arc::new(fonts), ..Options::default() };
    Tree::from_str(svg, &options).map_err(|error| error.to_string())
}
