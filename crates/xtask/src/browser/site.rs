//! Page that the browser loads. Its files are in a temporary folder, which is removed when the value is
//! dropped.

use std::fs;
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tempfile::TempDir;

use super::picture::{Colour, Picture};

/// Background colour in `style.css`, which is visible in the page's corners.
pub(super) const BACKGROUND: Colour = [0xe4, 0xee, 0xe6];
/// Size of the picture, in pixels of the page.
const PICTURE: (usize, usize) = (720, 200);
/// Size of the download in bytes, and the seed of its content.
const DOWNLOAD: usize = 5_000_000;
const SEED: u64 = 5;

const INDEX: &[u8] = include_bytes!("page/index.html");
const STYLE: &[u8] = include_bytes!("page/style.css");

/// Folder with a page, its stylesheet, its picture and a download.
pub(super) struct Site {
    folder: TempDir,
    pub(super) picture: Picture,
    /// SHA-256 of the download, in hexadecimal digits.
    pub(super) digest: String,
    /// Paths that a browser requests, and their sizes in bytes.
    pub(super) files: [(&'static str, usize); 4],
}

impl Site {
    pub(super) fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let picture = Picture::river(PICTURE.0, PICTURE.1);
        let image = picture.encode()?;
        let mut download = vec![0; DOWNLOAD];
        ChaCha8Rng::seed_from_u64(SEED).fill_bytes(&mut download);
        let contents: [(_, &[u8]); 4] =
            [("index.html", INDEX), ("style.css", STYLE), ("river.png", &image), ("download.bin", &download)];
        for (name, content) in contents {
            fs::write(folder.path().join(name), content).map_err(|error| format!("{name}: {error}"))?;
        }
        let files = [
            ("/", INDEX.len()),
            ("/style.css", STYLE.len()),
            ("/river.png", image.len()),
            ("/download.bin", DOWNLOAD),
        ];
        let digest = HEXLOWER.encode(digest(&SHA256, &download).as_ref());
        Ok(Self { folder, picture, digest, files })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

#[cfg(test)]
mod tests {
    use super::super::picture::hex;
    use super::*;

    #[test]
    fn the_page_asks_for_all_files_and_the_stylesheet_has_the_colour() {
        let site = Site::new().unwrap();
        let index = String::from_utf8_lossy(INDEX);
        for (path, bytes) in &site.files {
            let name = if *path == "/" { "index.html" } else { &path[1..] };
            assert_eq!(fs::metadata(site.folder().join(name)).unwrap().len(), *bytes as u64);
            assert!(*path == "/" || index.contains(&format!("\"{name}\"")), "{name}");
        }
        let style = String::from_utf8_lossy(STYLE);
        assert!(style.contains(&format!("html {{ background: {};", hex(BACKGROUND))));
        assert!(style.contains(&format!("width: {}px; height: {}px", PICTURE.0, PICTURE.1)));
    }
}
