//! Chromium through SOCKS, through HTTP, and in the VPN.

use std::process::{Command, Stdio};

use anabranch_testkit::pattern;

use crate::applications::{TUN, proxy, vpn};
use crate::ends::{Ends, Process, eventually};
use crate::inside::inside;
use crate::network::{Link, TARGET, addresses_are_ready, program_at_server};

/// Port of the site.
const PORT: u16 = 8443;
/// Length of the file that the page fetches, in bytes.
const LEN: usize = 2_000_000;
/// Flags that disable everything the browser does not need here.
const FLAGS: [&str; 12] = [
    "--headless",
    // The sandbox does not work for root, and the browser loads only our own page.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--dump-dom",
];

/// Page that fetches a file and reports what it received.
const PAGE: &str = "<!doctype html><html><body><script>
const request = new XMLHttpRequest();
request.open('GET', 'file.bin', false);
request.overrideMimeType('text/plain; charset=x-user-defined');
request.send();
const text = request.responseText;
let sum = 0;
for (let at = 0; at < text.length; at++) sum = (sum * 31 + (text.charCodeAt(at) & 255)) % 65521;
const protocol = performance.getEntriesByType('navigation')[0].nextHopProtocol;
document.body.textContent = `${text.length} bytes, sum ${sum}, over ${protocol}`;
</script></body></html>
";

/// Starts the site, and returns the hash of its key.
fn site(ends: &Ends) -> (Process, String) {
    std::fs::create_dir(ends.file("www")).unwrap();
    std::fs::write(ends.file("www/index.html"), PAGE).unwrap();
    std::fs::write(ends.file("www/file.bin"), pattern(LEN)).unwrap();
    let mut command = program_at_server(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["serve", "--listen", &format!("{TARGET}:{PORT}"), "--root"]).arg(ends.file("www"));
    let mut site = ends.run(command, "site.log");
    let said = site.said("certificate made up ");
    let (_, pin) = said.split_once("SPKI SHA-256 ").unwrap();
    let pin = pin.to_owned();
    (site, pin)
}

/// Waits until the addresses of this host no longer change: a browser ends its connections when they do
/// (`ERR_NETWORK_CHANGED`), and without a person it does not load the page again.
fn wait_for_addresses(links: [Link; 2]) {
    eventually("addresses that are in use", || addresses_are_ready(&links).then_some(()));
}

/// Visits the page, which must receive the file over this version of HTTP.
fn visit(ends: &Ends, pin: &str, protocol: &str, more: &[String]) {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "90", "chromium"]).args(FLAGS).args(more);
    command.arg(format!("--ignore-certificate-errors-spki-list={pin}"));
    // A profile of its own has nothing in its cache.
    let profile = tempfile::tempdir_in(ends.file("")).unwrap();
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("https://{TARGET}:{PORT}/")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let sum = pattern(LEN).iter().fold(0, |sum, byte| (sum * 31 + u32::from(*byte)) % 65_521);
    let wanted = format!("{LEN} bytes, sum {sum}, over {protocol}");
    assert!(page.contains(&wanted), "{wanted}: {page} {}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{wanted} {}", more.join(" "));
}

#[test]
fn chromium_through_socks_and_http() {
    inside(module_path!(), "chromium_through_socks_and_http", &["chromium", TUN], || {
        let (links, mut ends) = proxy();
        ends.start_client(&["--no-status"]);
        let (_site, pin) = site(&ends);
        wait_for_addresses(links);
        // The target cannot be reached around the proxy.
        for port in [format!("socks5://{}", ends.socks), format!("http://{}", ends.http)] {
            visit(&ends, &pin, "h2", &[format!("--proxy-server={port}")]);
        }
    });
}

#[test]
fn chromium_with_http3_in_the_vpn() {
    inside(module_path!(), "chromium_with_http3_in_the_vpn", &["chromium", TUN], || {
        let (links, ends) = proxy();
        let (_site, pin) = site(&ends);
        let _vpn = vpn(&ends);
        wait_for_addresses(links);
        let forced = format!("--origin-to-force-quic-on={TARGET}:{PORT}");
        visit(&ends, &pin, "h3", &["--no-proxy-server".to_owned(), forced]);
        // Over TCP, which ends in the client of the tunnel.
        visit(&ends, &pin, "h2", &["--no-proxy-server".to_owned()]);
    });
}
