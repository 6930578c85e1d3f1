//! `cargo xtask browser`: Chromium loads a page from `anabranch serve`, and all files must arrive over
//! HTTP/3.

mod check;
mod chromium;
mod devtools;
mod picture;
mod server;
mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use check::Report;
use chromium::{Chromium, Page};
use server::{Request, Server};
use site::Site;

use crate::ours;

/// Options for driving a browser.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Chromium's program [default: the one in PATH]
    #[arg(long, value_name = "PROGRAM")]
    chromium: Option<PathBuf>,
    /// Folder for screenshots and qlog [default: target/browser]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Succeed if Chromium is missing, and print that it is
    #[arg(long)]
    allow_missing: bool,
    /// Use this project's command without building it
    #[arg(long)]
    no_build: bool,
}

/// Maximum duration of a case.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of visits until all files arrive over HTTP/3.
const MAX_VISITS: usize = 8;

/// Way in which the browser chooses HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// A flag forces HTTP/3.
    Forced,
    /// The browser discovers HTTP/3 from `Alt-Svc` in responses over HTTP/2.
    Discovered,
}

/// Runs both cases, and prints the requests and the faults. Returns true if all checks passed, or if Chromium
/// is missing and `--allow-missing` is set.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let Some(chromium) = arguments.chromium.clone().or_else(chromium::find) else {
        println!("skipped: chromium (not installed)");
        return Ok(arguments.allow_missing);
    };
    let out = arguments.out.clone().unwrap_or_else(|| root.join("target/browser"));
    let program = ours::program(root, !arguments.no_build)?;
    let site = Site::new()?;
    let mut good = true;
    println!("{:<11} {:<14} {:<8} {:>6} {:>8} {:>8}", "case", "path", "protocol", "status", "bytes", "ms");
    for case in [Case::Forced, Case::Discovered] {
        let faults = match play(case, &chromium, &program, &site, &out.join(case.name())) {
            Ok(faults) => faults,
            Err(why) => vec![why],
        };
        faults.iter().for_each(|fault| println!("{}: FAIL: {fault}", case.name()));
        good &= faults.is_empty();
    }
    Ok(good)
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Self::Forced => "forced",
            Self::Discovered => "discovered",
        }
    }

    fn options(self, server: &Server) -> Vec<String> {
        match self {
            Self::Forced => vec![format!("--origin-to-force-quic-on={}", server.authority())],
            // Over QUIC, Chromium accepts only a publicly known root, unless a flag forces QUIC for an origin
            // with the same host name. The flag names a port on which no server listens, so it does not force
            // QUIC for our server.
            Self::Discovered => vec!["--origin-to-force-quic-on=127.0.0.1:1".to_owned()],
        }
    }
}

/// Runs one server and one browser, and returns the detected faults.
fn play(case: Case, chromium: &Path, program: &Path, site: &Site, out: &Path) -> Result<Vec<String>, String> {
    // Files of an earlier run must not be mistaken for files of this run.
    let _ = fs::remove_dir_all(out);
    let traces = out.join("qlog");
    fs::create_dir_all(&traces).map_err(|error| format!("{}: {error}", traces.display()))?;
    let begun = Instant::now();
    let server = Server::start(program, site.folder(), &traces)?;
    let mut browser = Chromium::start(chromium, &server, &case.options(&server), begun + PATIENCE)?;
    let version = browser.version()?;
    let visited = visit(case, &mut browser, &server.url);
    let shown = visited.and_then(|(page, report)| Ok((browser.screenshot(&page)?, report)));
    let ended = browser.end();
    let requests = server.end();
    requests.iter().flatten().for_each(|request| print(case, request));
    let (screenshot, report) = shown?;
    ended?;
    let requests = requests?;
    let file = out.join("screenshot.png");
    fs::write(&file, &screenshot).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("{}: {version}, {:.1} s, {}", case.name(), begun.elapsed().as_secs_f64(), file.display());
    Ok([
        check::report(site, &report),
        check::log(site, &requests),
        check::screenshot(site, &report, &screenshot),
        check::traces(&traces),
    ]
    .concat())
}

/// Visits the page until all files arrive over HTTP/3, but at most `MAX_VISITS` times. Returns the last page
/// and its report.
fn visit(case: Case, browser: &mut Chromium, url: &str) -> Result<(Page, Report), String> {
    let first = if case == Case::Forced { "h3" } else { "h2" };
    for visit in 0..MAX_VISITS {
        let (page, report) = browser.visit(url)?;
        let report: Report =
            serde_json::from_value(report).map_err(|error| format!("the page's report: {error}"))?;
        if visit == 0 && report.document() != first {
            return Err(format!("the first visit came over {}, not {first}", report.document()));
        }
        if case == Case::Forced || report.is_all("h3") {
            return Ok((page, report));
        }
        browser.leave(&page)?;
    }
    Err(format!("after {MAX_VISITS} visits the browser does not use HTTP/3"))
}

fn print(case: Case, request: &Request) {
    let status = request.status.map_or("-".to_owned(), |status| status.to_string());
    println!(
        "{:<11} {:<14} {:<8} {status:>6} {:>8} {:>8.1}  {}",
        case.name(),
        request.path,
        request.protocol,
        request.bytes,
        request.seconds * 1e3,
        request.peer
    );
}
