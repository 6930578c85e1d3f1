//! Pictures. One is drawn for the page, and screenshots are checked to contain it.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, Encoder, Transformations};

/// Colour as red, green and blue.
pub(super) type Colour = [u8; 3];

/// Maximum size of a decoded picture in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Maximum difference of each colour component. Browsers may convert between colour spaces.
const TOLERANCE: u8 = 2;

const LAND: Colour = [0x8f, 0xb9, 0x85];
const WATER: Colour = [0x2f, 0x7d, 0xb5];

/// Pixels in rows, beginning at the top left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    pixels: Vec<Colour>,
}

impl Picture {
    /// Draws a river from left to right, and a branch that leaves it and rejoins it.
    pub(super) fn river(width: usize, height: usize) -> Self {
        let (middle, reach) = (height as f64 / 2.0, height as f64 / 3.0);
        let at = |x: usize, y: usize| {
            let (across, down) = (x as f64 / width as f64, y as f64 - middle);
            let bend = (across * std::f64::consts::TAU).sin() * reach / 4.0;
            // The branch leaves the river after a quarter of the width and rejoins it after three quarters.
            let leave = ((across - 0.25) * std::f64::consts::TAU).sin().max(0.0).powi(2);
            let stream = (down - bend - leave * reach / 2.0).abs() < reach / 4.0;
            let branch = (down - bend + leave * reach).abs() < reach / 9.0 && (0.2..0.8).contains(&across);
            if stream || branch { WATER } else { LAND }
        };
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| at(x, y))).collect();
        Self { width, height, pixels }
    }

    /// Creates a picture of one colour.
    #[cfg(test)]
    pub(super) fn plain(width: usize, height: usize, colour: Colour) -> Self {
        Self { width, height, pixels: vec![colour; width * height] }
    }

    /// Copies another picture into this one, with its top left corner at this position.
    #[cfg(test)]
    pub(super) fn paste(&mut self, other: &Self, left: usize, top: usize) {
        for (y, row) in other.pixels.chunks_exact(other.width).enumerate() {
            self.pixels[(top + y) * self.width + left..][..row.len()].copy_from_slice(row);
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, String> {
        let mut file = Vec::new();
        let side = |length: usize| u32::try_from(length).map_err(|error| error.to_string());
        let mut encoder = Encoder::new(&mut file, side(self.width)?, side(self.height)?);
        encoder.set_color(ColorType::Rgb);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
        writer.write_image_data(self.pixels.as_flattened()).map_err(|error| error.to_string())?;
        writer.finish().map_err(|error| error.to_string())?;
        Ok(file)
    }

    /// Decodes a PNG file without its transparency.
    pub(super) fn decode(file: &[u8]) -> Result<Self, String> {
        let broken = |error: png::DecodingError| format!("not a picture: {error}");
        let mut decoder = Decoder::new(Cursor::new(file));
        decoder.set_transformations(Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().map_err(broken)?;
        let size = reader.output_buffer_size().filter(|size| *size <= MAX_BYTES);
        let mut bytes = vec![0; size.ok_or("a picture of too many bytes")?];
        let info = reader.next_frame(&mut bytes).map_err(broken)?;
        let samples = info.color_type.samples();
        if samples < 3 {
            return Err("a picture without colours".to_owned());
        }
        let pixels = bytes[..info.buffer_size()].chunks_exact(samples).map(|p| [p[0], p[1], p[2]]).collect();
        Ok(Self { width: info.width as usize, height: info.height as usize, pixels })
    }

    /// Returns the colour at a position, or `None` outside the picture.
    pub(super) fn colour(&self, x: usize, y: usize) -> Option<Colour> {
        (x < self.width && y < self.height).then(|| self.pixels[y * self.width + x])
    }

    /// Checks that this picture contains `other` with its top left corner at this position.
    pub(super) fn shows(&self, other: &Self, left: usize, top: usize) -> Result<(), String> {
        for (y, row) in other.pixels.chunks_exact(other.width).enumerate() {
            for (x, wanted) in row.iter().enumerate() {
                let (x, y) = (left + x, top + y);
                let found = self.colour(x, y).ok_or("it does not fit in")?;
                if !is_like(found, *wanted) {
                    return Err(format!("pixel {x},{y} is {}, not {}", hex(found), hex(*wanted)));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether two colours look the same.
pub(super) fn is_like(one: Colour, other: Colour) -> bool {
    one.iter().zip(other).all(|(one, other)| one.abs_diff(other) <= TOLERANCE)
}

/// Formats a colour in the notation of stylesheets.
pub(super) fn hex([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_survives_its_file() {
        let river = Picture::river(72, 20);
        assert_eq!(Picture::decode(&river.encode().unwrap()), Ok(river.clone()));
        assert_eq!((river.colour(0, 0), river.colour(0, 10)), (Some(LAND), Some(WATER)));
        assert_eq!((river.colour(72, 0), river.colour(0, 20)), (None, None));
        assert!(Picture::decode(b"no picture").is_err());
        let cut = river.encode().unwrap();
        assert!(Picture::decode(&cut[..cut.len() / 2]).is_err());
    }

    #[test]
    fn a_picture_is_found_in_another_one_only_where_it_is() {
        let part = Picture::river(30, 10);
        let mut whole = Picture::plain(40, 20, [255; 3]);
        assert!(whole.shows(&part, 3, 4).is_err());
        whole.paste(&part, 3, 4);
        assert_eq!(whole.shows(&part, 3, 4), Ok(()));
        assert!(whole.shows(&part, 4, 4).unwrap_err().contains("pixel"));
        let (large, small) = (Picture::plain(9, 9, LAND), Picture::plain(5, 5, LAND));
        assert_eq!((large.shows(&small, 4, 4), large.shows(&small, 4, 5).is_err()), (Ok(()), true));
        whole.pixels[5 * 40 + 3] = [0; 3];
        assert_eq!(whole.shows(&part, 3, 4), Err("pixel 3,5 is #000000, not #8fb985".to_owned()));
    }
}
