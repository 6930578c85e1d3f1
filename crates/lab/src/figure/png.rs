//! Conversion of SVG figures to PNG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::Tree;

/// Pixels per unit of the SVG, enough for high-density screens.
const SCALE: f32 = 2.0;

/// Renders the figure as a PNG file.
///
/// # Errors
/// Fails with a message of one line if the figure has no size.
pub fn render(picture: &Tree) -> Result<Vec<u8>, String> {
    let size = picture.size();
    let (width, height) = ((size.width() * SCALE) as u32, (size.height() * SCALE) as u32);
    let mut pixels = Pixmap::new(width, height).ok_or("the picture has no size")?;
    resvg::render(picture, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| error.to_string())
}
