//! Headless Chromium with a separate profile.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::devtools::DevTools;
use super::server::Server;
use crate::child::Reaped;

/// Size of the page's viewport.
pub(super) const VIEW: (usize, usize) = (800, 560);

/// Names of Chromium's program in various distributions.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
/// Interval at which slow operations are polled.
const TICK: Duration = Duration::from_millis(20);
/// Time that the browser may take to exit when asked to.
const END: Duration = Duration::from_secs(5);

/// Flags that disable everything the browser does not need here.
const FLAGS: &[&str] = &[
    "--headless",
    // The sandbox does not work for root, and the browser loads only our own page.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
];

/// Running browser.
pub(super) struct Chromium {
    // Fields are dropped in this order: the profile is removed after the browser has ended.
    devtools: DevTools,
    child: Reaped,
    _profile: TempDir,
}

/// Open page.
pub(super) struct Page {
    target: String,
    session: String,
}

/// Finds the program by its names in the folders of `PATH`.
pub(super) fn find() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let candidates = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|program| program.is_file())
}

impl Chromium {
    /// Starts the browser so that it trusts the server's key. Calls that are not complete at `deadline` fail.
    pub(super) fn start(
        program: &Path,
        server: &Server,
        options: &[String],
        deadline: Instant,
    ) -> Result<Self, String> {
        let profile = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let path = profile.path().join("stderr");
        let log = File::create(&path).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(FLAGS).args(options);
        command.arg(format!("--ignore-certificate-errors-spki-list={}", server.pin));
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = Reaped::spawn(&mut command);
        let mut child = child.map_err(|error| format!("{}: {error}", program.display()))?;
        let devtools = loop {
            if let Some((port, path)) = listening(profile.path()) {
                break DevTools::connect(port, &path, deadline)?;
            }
            if child.wait_until(Instant::now() + TICK).is_some() || Instant::now() >= deadline {
                let log = fs::read_to_string(&path).unwrap_or_default();
                return Err(format!("the browser did not start: {}", log.trim()));
            }
        };
        Ok(Self { devtools, child, _profile: profile })
    }

    /// Returns the browser's name and version.
    pub(super) fn version(&mut self) -> Result<String, String> {
        let version = self.devtools.call(None, "Browser.getVersion", &json!({}))?;
        text(&version, "product")
    }

    /// Opens a page with the cache disabled, and waits until the promise `report` of the page's script is
    /// resolved.
    pub(super) fn visit(&mut self, url: &str) -> Result<(Page, Value), String> {
        let created = self.devtools.call(None, "Target.createTarget", &json!({ "url": "about:blank" }))?;
        let target = text(&created, "targetId")?;
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.devtools.call(None, "Target.attachToTarget", &attach)?;
        let page = Page { target, session: text(&attached, "sessionId")? };
        self.call(&page, "Network.enable", &json!({}))?;
        self.call(&page, "Network.setCacheDisabled", &json!({ "cacheDisabled": true }))?;
        let view = json!({ "width": VIEW.0, "height": VIEW.1, "deviceScaleFactor": 1, "mobile": false });
        self.call(&page, "Emulation.setDeviceMetricsOverride", &view)?;
        let begun = self.call(&page, "Page.navigate", &json!({ "url": url }))?;
        if let Some(error) = begun["errorText"].as_str() {
            return Err(format!("{url}: {error}"));
        }
        let report = self.report(&page)?;
        Ok((page, report))
    }

    /// Returns a screenshot of the page as a PNG file.
    pub(super) fn screenshot(&mut self, page: &Page) -> Result<Vec<u8>, String> {
        let taken = self.call(page, "Page.captureScreenshot", &json!({ "format": "png" }))?;
        BASE64.decode(text(&taken, "data")?.as_bytes()).map_err(|error| error.to_string())
    }

    pub(super) fn leave(&mut self, page: &Page) -> Result<(), String> {
        self.devtools.call(None, "Target.closeTarget", &json!({ "targetId": page.target })).map(|_| ())
    }

    /// Asks the browser to exit, and kills it if it takes too long.
    pub(super) fn end(mut self) -> Result<(), String> {
        self.devtools.call(None, "Browser.close", &json!({}))?;
        self.child.wait_until(Instant::now() + END);
        Ok(())
    }

    fn call(&mut self, page: &Page, method: &str, arguments: &Value) -> Result<Value, String> {
        self.devtools.call(Some(&page.session), method, arguments)
    }

    /// Returns the report of the page's script. Waits for the script to begin.
    fn report(&mut self, page: &Page) -> Result<Value, String> {
        let expression = "typeof report === 'undefined' ? null : report";
        let evaluate = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        loop {
            let evaluated = self.call(page, "Runtime.evaluate", &evaluate)?;
            if let Some(exception) = evaluated.get("exceptionDetails") {
                return Err(format!("the page's script failed: {}", exception["exception"]["description"]));
            }
            match &evaluated["result"]["value"] {
                Value::Null => thread::sleep(TICK),
                report => return Ok(report.clone()),
            }
        }
    }
}

/// Returns the port and the path on which the browser listens for DevTools, once it listens.
fn listening(profile: &Path) -> Option<(u16, String)> {
    let said = fs::read_to_string(profile.join("DevToolsActivePort")).ok()?;
    let (port, path) = said.split_once('\n')?;
    path.starts_with("/devtools/").then(|| Some((port.parse().ok()?, path.trim().to_owned())))?
}

fn text(value: &Value, name: &str) -> Result<String, String> {
    let text = value[name].as_str().map(str::to_owned);
    text.ok_or_else(|| format!("DevTools: no {name} in {value}"))
}
