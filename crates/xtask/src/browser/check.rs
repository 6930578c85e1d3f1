//! Conditions that must hold after a visit to the page.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::chromium::VIEW;
use super::picture::{Picture, hex, is_like};
use super::server::Request;
use super::site::{BACKGROUND, Site};

/// Report of the page about itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Report {
    pub(super) files: Vec<Loaded>,
    length: usize,
    digest: String,
    /// Position of the picture: left and top.
    picture: [f64; 2],
}

/// File as the browser received it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Loaded {
    path: String,
    pub(super) protocol: String,
    bytes: usize,
}

impl Report {
    /// Returns the protocol over which the page itself arrived.
    pub(super) fn document(&self) -> &str {
        self.files.iter().find(|file| file.path == "/").map_or("nothing", |file| file.protocol.as_str())
    }

    /// Returns whether all files arrived over this protocol.
    pub(super) fn is_all(&self, protocol: &str) -> bool {
        self.files.iter().all(|file| file.protocol == protocol)
    }
}

/// Checks the browser's view: every file arrived complete and over HTTP/3, and the download equals the served
/// file.
pub(super) fn report(site: &Site, report: &Report) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, bytes) in site.files {
        match report.files.iter().find(|file| file.path == path) {
            None => faults.push(format!("the browser has not loaded {path}")),
            Some(file) if file.protocol != "h3" || file.bytes != bytes => faults.push(format!(
                "the browser has {} bytes of {path} over {}, not {bytes} over h3",
                file.bytes, file.protocol
            )),
            Some(_) => {}
        }
    }
    if report.length != site.files[3].1 || report.digest != site.digest {
        faults.push(format!("the download has {} bytes and SHA-256 {}", report.length, report.digest));
    }
    faults
}

/// Checks the server's view: it answered the request for each file over HTTP/3 with status 200 and all bytes.
pub(super) fn log(site: &Site, requests: &[Request]) -> Vec<String> {
    let answered = |path: &str, bytes| {
        requests.iter().any(|request| {
            let whole = request.status == Some(200) && request.bytes == bytes;
            request.path == path && request.protocol == "h3" && whole
        })
    };
    let missing = site.files.iter().filter(|(path, bytes)| !answered(path, *bytes));
    let mut faults: Vec<String> = missing
        .map(|(path, bytes)| format!("the server has not sent {bytes} bytes of {path} over h3"))
        .collect();
    let others = requests.iter().filter(|request| request.status != Some(200));
    faults.extend(
        others.map(|request| format!("the server answered {} with {:?}", request.path, request.status)),
    );
    faults
}

/// Checks the screenshot: the corners have the stylesheet's colour, and the picture is in its place.
pub(super) fn screenshot(site: &Site, report: &Report, file: &[u8]) -> Vec<String> {
    let shot = match Picture::decode(file) {
        Ok(shot) => shot,
        Err(why) => return vec![format!("screenshot: {why}")],
    };
    let mut faults = Vec::new();
    if (shot.width, shot.height) != VIEW {
        faults.push(format!("the screenshot is {} by {}", shot.width, shot.height));
    }
    for (x, y) in corners(VIEW) {
        match shot.colour(x, y) {
            Some(colour) if is_like(colour, BACKGROUND) => {}
            colour => faults.push(format!("the page is {:?} at {x},{y}: no stylesheet", colour.map(hex))),
        }
    }
    let [left, top] = report.picture.map(|place| place as usize);
    faults.extend(
        shot.shows(&site.picture, left, top).err().map(|why| format!("the picture is not shown: {why}")),
    );
    faults
}

/// Returns the positions of the four corners, slightly inside the edges.
fn corners((width, height): (usize, usize)) -> [(usize, usize); 4] {
    let (right, bottom) = (width - 3, height - 3);
    [(2, 2), (right, 2), (2, bottom), (right, bottom)]
}

/// Checks the server's qlog: it contains events of a QUIC connection and of the HTTP/3 frames on it.
pub(super) fn traces(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let traces: Vec<String> = files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
    let wanted = ["quic:packet_received", "http3:frame_parsed", "http3:frame_created"];
    let missing = wanted
        .into_iter()
        .filter(|name| !traces.iter().any(|trace| trace.contains(&format!("\"name\":\"{name}\""))));
    missing.map(|name| format!("no {name} in the server's qlog")).collect()
}

#[cfg(test)]
mod tests;
