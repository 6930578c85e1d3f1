//! Each failure has its exit status, and leaves no files.

use std::process::Stdio;

use anabranch::ConnectionError;

use super::*;

#[test]
fn failures_have_their_status_and_leave_nothing() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let url = |path: &str| site.url(path);
    let (small, missing, cut) = (url("/small"), url("/missing"), url("/cut"));
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink("target", &link).unwrap();
    let link = link.to_str().unwrap();
    let cases: [(&[&str], i32); 20] = [
        (&[&missing], 11),
        (&[&missing, "-L"], 11),
        (&[&url("/moved")], 11),
        (&[&url("/loop"), "-L"], 11),
        (&[&url("/down"), "-L"], 11),
        (&[&url("/whole"), "-r", "0-9"], 11),
        (&[&cut, "--retry", "0"], 6),
        (&[&url("/silent"), "--timeout", "0.5"], 7),
        (&[&url("/half"), "--idle-ms", "500", "--timeout", "1", "--retry", "0"], 7),
        (&["--hq", &small], 4),
        (&[&small, "-o", "no/such/directory"], 8),
        // Not even an empty file is left. A missing directory is reported before any response arrives.
        (&[&missing, "-C"], 11),
        (&[&missing, "-o", link], 11),
        (&["https://192.0.2.1/small", "-o", "no-such-directory/"], 2),
        (&[&small, "-o", "-", "--json", "-"], 2),
        (&["https://[::1]:1/small", "--timeout", "10", "--retry", "0"], 8),
        (&[&small, "--hq", "-I"], 2),
        (&[&small, "--hq", "--http3"], 2),
        (&[&small, "-d", "@no-such-file"], 2),
        (&[&small, "-H", "no colon"], 2),
    ];
    for (args, expected) in cases {
        let output = get(&site, here.path(), args);
        let line = stderr(&output);
        assert_eq!(output.status.code(), Some(expected), "{args:?}: {line}");
        assert!(expected == 2 || line.trim_end().lines().count() == 1, "{args:?}: {line}");
        assert_eq!(names(here.path()), [""; 0], "{args:?}");
    }
    assert_eq!(names(elsewhere.path()), ["link"]);
    assert!(stderr(&get(&site, here.path(), &[&missing])).contains("404 Not Found"));
    let silent = stderr(&get(&site, here.path(), &[&url("/silent"), "--timeout", "0.5"]));
    assert!(silent.contains(" did not answer within 0.5 s; the peer answered until 0."), "{silent}");
    let untrusted = Command::new(env!("CARGO_BIN_EXE_anabranch")).args(["get", &small]).output().unwrap();
    assert_eq!(untrusted.status.code(), Some(5), "{}", stderr(&untrusted));
}

/// A file that cannot be fetched is named, does not stop the others, and determines the exit status.
#[test]
fn one_failure_leaves_the_others_alone() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let (small, missing, large) = (site.url("/small"), site.url("/missing"), site.url("/large"));
    let output = get(&site, here.path(), &[&missing, &small, &large]);
    assert_eq!(output.status.code(), Some(11), "{}", stderr(&output));
    assert_eq!(names(here.path()), ["large", "small"]);
    let said = stderr(&output);
    let failure = format!("anabranch: {missing}: 404 Not Found");
    assert_eq!(said.lines().filter(|line| *line == failure).count(), 1, "{said}");
    assert_eq!(said.lines().last(), Some("anabranch: 1 of 3 files could not be had"), "{said}");

    // The downloads run one after the other, with JSON output.
    let (cut, silent) = (site.url("/cut"), "https://127.0.0.1:9/x");
    let output = get(&site, here.path(), &[&cut, &small, "-o", "-", "-q", "--retry", "0"]);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert!(output.stdout.ends_with(b"small file"));
    let args = [silent, &small, &missing, silent, "--json", "-", "--timeout", "0.5"];
    let output = get(&site, here.path(), &args);
    let facts: Value = serde_json::from_slice(&output.stdout).unwrap();
    let status = output.status.code().unwrap();
    assert!([7, 8].contains(&status), "{facts}: {}", stderr(&output));
    assert_eq!((&facts[0]["url"], &facts[0]["exit"]), (&silent.into(), &status.into()), "{facts}");
    assert_eq!((&facts[1]["bytes"], &facts[2]["exit"]), (&10.into(), &11.into()), "{facts}");
    assert!(facts[2]["error"].as_str().unwrap().contains("404"), "{facts}");
}

/// A directory's URL gives the file the name index.html.
#[test]
fn directories_are_named_as_their_index() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    let output = get(&site, here.path(), &[&site.url("/")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(names(here.path()), ["index.html"]);
}

#[test]
fn what_was_there_stays_when_a_fetch_fails() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("cut"), "what was there before").unwrap();
    assert_eq!(get(&site, here.path(), &[&site.url("/cut"), "--retry", "0"]).status.code(), Some(6));
    assert_eq!(std::fs::read(here.path().join("cut")).unwrap(), b"what was there before");
    assert_eq!(names(here.path()), ["cut"]);
}

/// The server is notified when the client abandons a download, whatever the reason.
#[test]
fn servers_hear_of_failures() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    assert_eq!(get(&site, here.path(), &[&site.url("/missing")]).status.code(), Some(11));
    let mut child = command(&site, here.path(), &[&site.url("/half")]).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| {
        let files = std::fs::read_dir(here.path()).unwrap();
        files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).max() >= Some(1_000_000)
    });
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(10));
    wait_until(|| site.ends().len() == 2);
    for end in site.ends() {
        assert!(
            matches!(end, Some(ConnectionError::PeerApplication { code, .. }) if code == 0x100),
            "{end:?}"
        );
    }
}

#[test]
fn an_interrupted_fetch_leaves_nothing() {
    let (site, here) = (Site::start(), tempfile::tempdir().unwrap());
    for signal in ["-INT", "-TERM", "-HUP"] {
        let args = [&site.url("/half"), &site.url("/small"), "--session-file", "session"];
        let child = interruptible(&site, here.path(), &args).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| {
            let files = std::fs::read_dir(here.path()).unwrap();
            let lens = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
            here.path().join("small").exists() && lens.max() >= Some(1_000_000)
        });
        let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(10), "{}", stderr(&output));
        // The small file was complete.
        assert_eq!(names(here.path()), ["session", "small"]);
    }
}

/// Returns a command like [`command`], with the default action of SIGHUP, even if `nohup` runs the tests.
fn interruptible(site: &Site, dir: &Path, args: &[&str]) -> Command {
    let plain = command(site, dir, args);
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(plain.get_program()).args(plain.get_args());
    command.current_dir(dir);
    command
}

#[track_caller]
fn wait_until(mut done: impl FnMut() -> bool) {
    for _ in 0..600 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("it takes too long");
}
