//! Namespaces for a scene: its test runs again in a child process that has some of its own.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// Variable that is set in the namespaces.
const INSIDE: &str = "ANABRANCH_FAULTS_INSIDE";
/// Options for new network, mount and process namespaces, whose processes end with the first one.
const UNSHARE: [&str; 5] = ["--net", "--mount", "--pid", "--fork", "--kill-child"];
/// Further options for a user namespace, in which anybody may make the others.
const AS_ROOT: [&str; 2] = ["--user", "--map-root-user"];
/// Maximum number of scenes at the same time. They wait most of the time, but those that measure gaps need a processor now
/// and then.
const MAX_SCENES: usize = 6;

/// Scenes by the names of their tests, the longest ones first. If all tests run, those begin at once; any other one begins
/// with its test.
const ALL: &[&str] = &[
    "scenes::both_dead_for_35_s",
    "ends_change::resolver_dead",
    "applications::ssh_survives_both_links_through_the_vpn",
    "applications::ssh_survives_both_links_through_a_forward",
    "scenes::server_restarted",
    "ends_change::server_moved",
    "scenes::both_dead_for_10_s",
    "scenes::carrier_flaps_100_times",
    "applications::iperf3_through_the_vpn",
    "applications::iperf3_through_a_forward",
    "browsers::chromium_through_socks_and_http",
    "browsers::chromium_with_http3_in_the_vpn",
    "scenes::eight_paths",
    "scenes::silent_link",
    "scenes::link_deleted",
    "scenes::admin_down",
    "scenes::address_deleted",
    "scenes::address_changed",
    "scenes::first_path_dead",
    "scenes::ipv6_only",
    "scenes::client_killed",
    "middleboxes::nat_rebinds",
    "middleboxes::nat_rebinds_the_only_path",
    "middleboxes::long_packets_lost_from_the_start",
    "middleboxes::long_packets_lost_later",
    "ends_change::clocks_jump",
    "applications::dig_through_a_forward_and_the_vpn",
    "transparent::programs_without_a_proxy",
    "transparent::ipv6_without_a_proxy",
    "transparent::hosts_behind_this_one",
    "transparent::own_connections_are_not_captured",
];

/// Results of scenes that began before their tests did.
type Early = BTreeMap<&'static str, Mutex<Receiver<Output>>>;

/// Runs `scene` as the test `name` of a module in namespaces of its own. `programs` are those that it needs.
pub(crate) fn inside(module: &str, name: &str, programs: &[&str], scene: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return scene();
    }
    if let Some(obstacle) = obstacle(programs) {
        eprintln!("skipped: {name} ({obstacle})");
        return;
    }
    let test = test_of(module, name);
    let output = match early().get(test.as_str()) {
        Some(result) => result.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap(),
        None => run(&test),
    };
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success() && stdout.contains("1 passed"), "{name}: {stdout}{stderr}");
    eprintln!("{name}: {} ({})", stderr.trim(), stdout.trim().lines().next_back().unwrap_or_default());
}

/// Returns the name of a test, without that of the program.
fn test_of(module: &str, name: &str) -> String {
    let module = module.split_once("::").map_or(module, |(_, rest)| rest);
    format!("{module}::{name}")
}

/// Starts all scenes if all tests run: without a filter, the process has no arguments.
fn early() -> &'static Early {
    static EARLY: OnceLock<Early> = OnceLock::new();
    EARLY.get_or_init(|| {
        if std::env::args().len() > 1 {
            return Early::new();
        }
        let (waiting, early): (Vec<_>, Early) = ALL
            .iter()
            .map(|test| {
                let (tell, told) = channel();
                ((*test, tell), (*test, Mutex::new(told)))
            })
            .unzip();
        let waiting = Arc::new(Mutex::new(waiting.into_iter()));
        for _ in 0..MAX_SCENES {
            let waiting = Arc::clone(&waiting);
            thread::spawn(move || {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some((test, tell)) = next() {
                    // A test that is skipped asks for no result.
                    let _ = tell.send(run(test));
                }
            });
        }
        early
    })
}

/// Runs a test in namespaces.
fn run(test: &str) -> Output {
    let mut command = unshare();
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(INSIDE, "1");
    command.stdin(Stdio::null()).output().unwrap()
}

/// Returns the beginning of a command in new namespaces.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(AS_ROOT);
    }
    command.args(UNSHARE);
    command
}

/// Returns whether this process has the rights of the host's root.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns whether a program, or a file with its whole path, is to be had.
pub(crate) fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).chain(["/usr/sbin".into()]).any(|folder| folder.join(program).exists())
}

/// Returns the reason why namespaces or programs are not to be had.
fn obstacle(programs: &[&str]) -> Option<String> {
    static NAMESPACES: OnceLock<bool> = OnceLock::new();
    let works = || unshare().arg("true").output().is_ok_and(|output| output.status.success());
    if !*NAMESPACES.get_or_init(works) {
        return Some("no right to make namespaces".to_owned());
    }
    let missing = ["ip", "tc"].iter().chain(programs).find(|program| !has(program))?;
    Some(format!("no {missing}"))
}
