//! Output about connections and paths: `-v`, `ANABRANCH_LOG`, `--events`.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::{Server, anabranch, anabranch_identity, names, pattern, status, stderr};

/// Number of packets to a client's second path before the relay drops all others.
const UNTIL_CUT: usize = 100;
/// Delay of each packet to a client at the relay, so that the transfer lasts long enough to be observed.
const PACE: Duration = Duration::from_micros(150);

/// Relay between clients and a server, like a NAT: each client port has its own port towards the server. The
/// relay cuts off the second client port after a while.
struct Relay {
    address: SocketAddr,
    forwarded: Arc<AtomicUsize>,
}

impl Relay {
    fn start(server: SocketAddr) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let address = front.local_addr().unwrap();
        let forwarded = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&forwarded);
        std::thread::spawn(move || {
            let mut backs: HashMap<SocketAddr, (usize, Arc<UdpSocket>)> = HashMap::new();
            let mut buffer = [0; 65_536];
            while let Ok((len, client)) = front.recv_from(&mut buffer) {
                let number = backs.len();
                let (number, back) = backs.entry(client).or_insert_with(|| {
                    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
                    back.connect(server).unwrap();
                    let (front, back_too, counter) =
                        (Arc::clone(&front), Arc::clone(&back), Arc::clone(&counter));
                    std::thread::spawn(move || to_client(&front, &back_too, client, number == 1, &counter));
                    (number, back)
                });
                if *number != 1 || counter.load(Ordering::Relaxed) < UNTIL_CUT {
                    let _ = back.send(&buffer[..len]);
                }
            }
        });
        Self { address, forwarded }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port()).replace("localhost", "127.0.0.1")
    }
}

fn to_client(front: &UdpSocket, back: &UdpSocket, client: SocketAddr, counts: bool, counter: &AtomicUsize) {
    let mut buffer = [0; 65_536];
    while let Ok(len) = back.recv(&mut buffer) {
        if counts && counter.fetch_add(1, Ordering::Relaxed) >= UNTIL_CUT {
            continue;
        }
        std::thread::sleep(PACE);
        let _ = front.send_to(&buffer[..len], client);
    }
}

fn with_log(filter: &str, dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(args).current_dir(dir).env("ANABRANCH_LOG", filter).output().unwrap()
}

/// Parses each line of a text as a JSON object with time and event.
#[track_caller]
fn events(text: &str) -> Vec<Value> {
    let parse = |line: &str| -> Value {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let time = event["time"].as_str().unwrap();
        assert!(time.len() == 27 && time.ends_with('Z') && event["event"].is_string(), "{line}");
        event
    };
    text.lines().map(parse).collect()
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name).collect()
}

/// A path is cut off during a download. The client reports its failure in events and on standard error, and
/// the server's events name the connection by the same ID.
#[test]
fn a_path_that_fails_is_seen() {
    let told = tempfile::tempdir().unwrap();
    let at_server = told.path().join("events");
    let server = Server::start(&["serve"], &["--events", at_server.to_str().unwrap()]);
    std::fs::write(server.dir.path().join("root/huge"), pattern(25_000_000)).unwrap();
    let relay = Relay::start(server.address);
    let (here, ca) = (tempfile::tempdir().unwrap(), server.ca());
    let args =
        ["get", &relay.url("/huge"), "--ca", &ca, "--path", "127.0.0.1,count=2", "-v", "--events", "-"];
    let output = anabranch(here.path(), &args);
    let said = stderr(&output);
    assert_eq!(status(&output), 0, "{said}");
    assert!(std::fs::read(here.path().join("huge")).unwrap() == pattern(25_000_000));
    assert!(relay.forwarded.load(Ordering::Relaxed) > UNTIL_CUT, "it was not cut");

    let seen = events(&String::from_utf8(output.stdout).unwrap());
    let established = named(&seen, "connection_established")[0];
    let id = established["connection"].as_str().unwrap();
    assert_eq!((&established["alpn"], &established["multipath"]), (&"h3".into(), &true.into()));
    let opened = named(&seen, "path_opened")[0];
    assert_eq!((&opened["path"], &opened["connection"]), (&1.into(), &id.into()));
    assert_eq!(opened["remote"], relay.address.to_string());
    assert_eq!(named(&seen, "path_validated").len(), 2, "{seen:?}");
    let failed = named(&seen, "path_failed");
    assert!(failed.iter().any(|event| event["path"] == 1 && event["connection"] == id), "{seen:?}");
    let progress = named(&seen, "progress");
    assert!(!progress.is_empty(), "{seen:?}");
    assert!(progress.iter().all(|event| event["files"].is_array() && event["rate_mbps"].is_number()));
    let path = &progress[0]["paths"][0];
    assert!(path["rate_mbps"].is_number() && path["state"].is_string() && path["connection"] == id, "{path}");
    let closed = named(&seen, "connection_closed")[0];
    assert!(closed["bytes"].as_u64() > Some(25_000_000) && closed["paths"].is_array(), "{closed}");
    assert_eq!(named(&seen, "file_done")[0]["bytes"], 25_000_000);
    let end = seen.last().unwrap();
    assert_eq!((&end["event"], &end["bytes"], &end["exit"]), (&"end".into(), &25_000_000.into(), &0.into()));

    for expected in [
        "INFO connection{id=",
        "anabranch::connection: established version=",
        "path{id=1 local=127.0.0.1:",
        "anabranch::path: validated",
        "anabranch::path: failing",
        "anabranch::get: path 0 ",
        "Mbit/s  active",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(said.contains(id) && !said.contains("DEBUG"), "{said}");

    // The server's events name the connection by the same ID.
    assert_eq!(server.terminate(), 0);
    let seen = events(&std::fs::read_to_string(at_server).unwrap());
    assert_eq!(seen[0]["event"], "listening");
    assert_eq!(named(&seen, "connection_established")[0]["connection"], id);
    let ends = ["connection_closed", "end"].map(|name| named(&seen, name).len());
    assert_eq!(ends, [1, 1], "{seen:?}");
    assert!(seen.last().unwrap()["bytes_sent"].as_u64() > Some(25_000_000), "{seen:?}");
}

#[test]
fn nothing_is_told_that_nobody_asked_for() {
    let server = Server::serve();
    let (here, url, ca) = (tempfile::tempdir().unwrap(), server.url("/small"), server.ca());
    let get = |filter: &str, more: &[&str]| {
        let output = with_log(filter, here.path(), &[&["get", &url, "--ca", &ca], more].concat());
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        stderr(&output)
    };
    let is_log = |line: &str| line.contains("anabranch::");
    assert!(!get("", &[]).lines().any(is_log));
    assert!(!get("off", &["-vvv"]).lines().any(is_log), "the environment decides");
    let path = get("anabranch::path=info", &[]);
    assert!(path.lines().any(is_log), "{path}");
    assert!(
        path.lines().filter(|line| is_log(line)).all(|line| line.contains("anabranch::path: ")),
        "{path}"
    );
    let (v, vv, vvv) = (get("", &["-v"]), get("", &["-vv"]), get("", &["-vvv"]));
    assert!(!v.contains("DEBUG") && vv.contains(" DEBUG ") && !vv.contains("TRACE"), "{vv}");
    assert!(
        vv.contains("anabranch::http3: request stream=0 method=GET") && vv.contains("status=200"),
        "{vv}"
    );
    assert!(vvv.contains("anabranch::packet: sent kind="), "{vvv}");
    assert_eq!(get("", &["-q"]), "");
}

#[test]
fn bad_filters_and_mixed_outputs_are_refused() {
    let here = tempfile::tempdir().unwrap();
    let url = "https://127.0.0.1:1/x";
    for command in [&["get", url][..], &["serve", "."], &["perf", "server"], &["demo"]] {
        for bad in ["loud", "anabranch=loud"] {
            let output = with_log(bad, here.path(), command);
            let said = stderr(&output);
            assert_eq!(status(&output), 2, "{command:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(
                said.starts_with("anabranch: ANABRANCH_LOG: `") && said.contains("write error, warn"),
                "{said}"
            );
        }
    }
    for (args, what) in [
        (&["get", url, "--events", "-", "-o", "-"][..], "events and content would both"),
        (&["get", url, "--events", "-", "-I"], "events and content would both"),
        (&["get", url, "--events", "-", "--json", "-"], "events and the final JSON would both"),
        (&["perf", "client", "-c", "127.0.0.1:1", "--events", "-"], "events and the result would both"),
        (&["perf", "server", "--events", "-"], "would both"),
    ] {
        let output = anabranch(here.path(), args);
        assert_eq!(status(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(what), "{args:?}: {}", stderr(&output));
        assert_eq!(output.stdout, b"");
    }
    let output = anabranch(here.path(), &["get", url, "--events", "no/such/file"]);
    assert_eq!(status(&output), 8, "{}", stderr(&output));
    assert_eq!(names(here.path()), [""; 0]);
}

/// A server whose events go to standard output prints everything else on standard error. Failures have
/// events, too.
#[test]
fn failures_and_measurements_have_events() {
    let server = Server::start(&["perf", "server"], &[]);
    let output = server.perf_client(&["--download", "3000000", "--events", "events"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let file = server.dir.path().join("events");
    let seen = events(&std::fs::read_to_string(&file).unwrap());
    for name in ["connection_established", "path_validated", "connection_closed", "end"] {
        assert_eq!(named(&seen, name).len(), 1, "{name}: {seen:?}");
    }
    let here = tempfile::tempdir().unwrap();
    let url = "https://127.0.0.1:1/x";
    let output = anabranch(here.path(), &["get", url, "--insecure", "--events", "-"]);
    let seen = events(&String::from_utf8(output.stdout.clone()).unwrap());
    let names: Vec<_> = seen.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["connection_failed", "file_failed", "end"]);
    assert!(seen.iter().all(|event| event["exit"] == status(&output)), "{seen:?}");

    let (cert, key) = anabranch_identity(here.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["serve", "--listen", "127.0.0.1:0", "--cert", &cert, "--key", &key, "--events", "-"])
        .current_dir(here.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut first).unwrap();
    assert_eq!(events(&first)[0]["event"], "listening");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    assert_eq!(events(&rest).last().unwrap()["event"], "end");
    let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.starts_with("listening 127.0.0.1:"), "{said}");
}
