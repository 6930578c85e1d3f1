//! Namespaces for a test, which runs again in a child process with namespaces of its own.

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Variable that is set in the namespaces.
const INSIDE: &str = "ANABRANCH_FAULTS_INSIDE";
/// Options for new user, network, mount and process namespaces, whose processes end with the first one.
const UNSHARE: [&str; 7] =
    ["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child"];

/// Lock by which tests run one after the other, because some measure gaps.
static TURN: Mutex<()> = Mutex::new(());

/// Runs `scene` as the test `name` in namespaces of its own.
pub(crate) fn inside(name: &str, scene: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return scene();
    }
    if let Some(obstacle) = obstacle() {
        eprintln!("skipped: {name} ({obstacle})");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let test = format!("scenes::{name}");
    let mut command = Command::new("unshare");
    command.args(UNSHARE).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture", "--test-threads", "1"]).env(INSIDE, "1");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success() && stdout.contains("1 passed"), "{name}: {stdout}{stderr}");
    eprintln!("{name}: {}", stderr.trim());
}

/// Returns the reason why the test cannot run; `None` if it can.
fn obstacle() -> Option<&'static str> {
    let works = |program: &str, words: &[&str]| {
        Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
    };
    if !works("unshare", &[&UNSHARE[..], &["true"]].concat()) {
        Some("no user namespaces")
    } else if !works("ip", &["-V"]) || !works("tc", &["-V"]) {
        Some("no iproute2")
    } else {
        None
    }
}
