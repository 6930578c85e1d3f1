//! Progress on a terminal, and only there.

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
        // Ends with an error once nobody has the other end any longer.
        let _ = File::from(pty.master).read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    });
    child.wait().unwrap();
    reading.join().unwrap()
}

#[test]
fn bars_show_rates_paths_and_time_left_on_a_terminal() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    // Half of it comes, and then nothing more until the client gives up.
    let (half, small) = (site.url("/half"), site.url("/small"));
    let text = shown(&site, here.path(), &[&half, "--idle-ms", "1000", "--retry", "0"]);
    assert!(text.contains("half ") && text.contains("/3.00 MB") && text.contains("bit/s"), "{text:?}");
    let path = format!("127.0.0.1:{}", site.address.port());
    assert!(text.contains("  path 0 ") && text.contains("  active ") && text.contains(&path), "{text:?}");
    // What is told goes above the bars.
    let told = shown(&site, here.path(), &[&half, "--idle-ms", "1000", "--retry", "0", "-v"]);
    assert!(told.contains("anabranch::connection: established") && told.contains("  path 0 "), "{told:?}");
    assert!(!told.contains("anabranch::get: "), "bars show it: {told:?}");
    let quiet = shown(&site, here.path(), &["-q", &small]);
    assert_eq!(quiet, "");
    // Content on standard output is not mixed with bars.
    let standard = shown(&site, here.path(), &[&half, "-o", "-", "--idle-ms", "1000", "--retry", "0"]);
    assert!(!standard.contains("MB"), "{standard:?}");
}

/// A terminal that is closed in the middle costs what it would have shown, and nothing else.
#[test]
fn a_terminal_that_goes_away_ends_nothing() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let pty = openpty(Some(&SIZE), None).unwrap();
    // Each third of it is lost once and asked for again, of which people are told.
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
