//! Progress bars appear on a terminal, and only there.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use nix::pty::{Winsize, openpty};

use super::*;

const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };

/// Returns the output of `get` on a terminal of 100 columns.
fn shown(site: &Site, dir: &Path, args: &[&str]) -> String {
    let pty = openpty(Some(&SIZE), None).unwrap();
    let mut child = command(site, dir, args)
        .env("TERM", "xterm")
        .stdout(Stdio::null())
        .stderr(Stdio::from(pty.slave))
        .spawn()
        .unwrap();
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        // Fails with an error when nobody holds the other end any longer.
        let _ = File::from(pty.master).read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    });
    child.wait().unwrap();
    reading.join().unwrap()
}

#[test]
fn bars_show_rates_paths_and_time_left_on_a_terminal() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    // Half of the file arrives, then nothing until the client's timeout.
    let (half, small) = (site.url("/half"), site.url("/small"));
    let text = shown(&site, here.path(), &[&half, "--idle-ms", "1000", "--retry", "0"]);
    assert!(text.contains("half ") && text.contains("/3.00 MB") && text.contains("bit/s"), "{text:?}");
    let path = format!("127.0.0.1:{}", site.address.port());
    assert!(text.contains("  path 0 ") && text.contains("  active ") && text.contains(&path), "{text:?}");
    // Log lines appear above the bars.
    let told = shown(&site, here.path(), &[&half, "--idle-ms", "1000", "--retry", "0", "-v"]);
    assert!(told.contains("anabranch::connection: established") && told.contains("  path 0 "), "{told:?}");
    assert!(!told.contains("anabranch::get: "), "bars show it: {told:?}");
    let quiet = shown(&site, here.path(), &["-q", &small]);
    assert_eq!(quiet, "");
    // No bars are shown if the content goes to standard output.
    let standard = shown(&site, here.path(), &[&half, "-o", "-", "--idle-ms", "1000", "--retry", "0"]);
    assert!(!standard.contains("MB"), "{standard:?}");
}

/// If the terminal is closed during a download, only the terminal's output is lost.
#[test]
fn a_terminal_that_goes_away_ends_nothing() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let pty = openpty(Some(&SIZE), None).unwrap();
    // Each third is lost once and requested again, which is reported to people.
    let mut child = command(&site, here.path(), &[&site.url("/flaky/close"), "-v"])
        .env("TERM", "xterm")
        .stdout(Stdio::null())
        .stderr(Stdio::from(pty.slave))
        .spawn()
        .unwrap();
    File::from(pty.master.try_clone().unwrap()).read_exact(&mut [0; 200]).unwrap();
    drop(pty.master);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(names(here.path()), ["close"]);
}
