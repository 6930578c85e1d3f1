//! Published states of the proxy and its clients.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use super::process::{Client, Field, Process, eventually, stderr};
use super::{socks, targets};

/// Starts a link to the proxy.
fn link(field: &Field, name: &str, server: SocketAddr) -> (Process, String) {
    let mut relay = field.start(name, &["relay", "20mbit/10ms", &server.to_string()]);
    let address = relay.said("listening ");
    (relay, address)
}

/// Returns the states that `anabranch status` finds.
fn states(field: &Field) -> Vec<Value> {
    let output = field.run(&["status", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the state of the first process of a role.
fn state(field: &Field, role: &str) -> Value {
    let found = states(field).into_iter().find(|state| state["role"] == role);
    found.unwrap_or_else(|| panic!("no {role}: {}", stderr(&field.run(&["status"]))))
}

fn paths(state: &Value) -> Vec<Value> {
    state["paths"].as_array().unwrap().clone()
}

/// Starts a download in a thread, which ends with the download or its connection.
fn download(client: &Client, web: SocketAddr) -> thread::JoinHandle<()> {
    let mut stream = socks::connect(client.socks, "127.0.0.1", web.port()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    thread::spawn(move || {
        let mut piece = vec![0; 65_536];
        while stream.read(&mut piece).is_ok_and(|len| len > 0) {}
    })
}

#[test]
fn a_path_that_dies_is_seen_to_die() {
    let (field, web) = (Field::new(), targets::web(60_000_000));
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let everywhere = format!("0.0.0.0:{}", free.port());
    let (mut first, address) = link(&field, "first.log", free);
    let (_second, other) = link(&field, "second.log", free);
    let (proxy, _) = field.proxy(&everywhere, &["--announce", &other]);
    let client = field.connect(address.parse().unwrap(), &[]);
    let downloading = download(&client, web);
    let of = |state: &Value, remote: &str| paths(state).into_iter().find(|path| path["remote"] == remote);
    let both = eventually("two busy paths", || {
        let state = state(&field, "connect");
        let is_busy = |path: &Value| path["received"]["mbps"].as_f64().unwrap_or(0.0) > 5.0;
        let open = paths(&state).iter().filter(|path| path["state"] == "open" && is_busy(path)).count();
        (open == 2).then_some(state)
    });
    assert_eq!(both["state"], "connected");
    let path = of(&both, &address).unwrap();
    assert_eq!(path["interface"], "lo");
    assert!(path["rtt_ms"].as_f64().unwrap() > 5.0, "{path}");
    let rate: f64 = paths(&both).iter().map(|path| path["received"]["mbps"].as_f64().unwrap()).sum();
    assert!((10.0..=50.0).contains(&rate), "{rate} of 40 Mbit/s");
    assert_eq!(both["flows"]["kinds"][0]["active"], 1);
    assert_eq!(both["flows"]["top"][0]["target"], format!("127.0.0.1:{}", web.port()));

    first.kill();
    let dead = eventually("a dead path", || {
        let state = state(&field, "connect");
        let path = of(&state, &address)?;
        let is_dead = path["state"] != "open" && path["received"]["mbps"] == 0.0;
        is_dead.then_some(state)
    });
    let path = of(&dead, &address).unwrap();
    assert!(path["idle"].is_string() || path["why"].is_string(), "{path}");
    let alive = of(&dead, &other).unwrap();
    assert!(alive["received"]["mbps"].as_f64().unwrap() > 5.0, "{alive}");

    let table = String::from_utf8(field.run(&["status"]).stdout).unwrap();
    assert!(table.contains("interface") && table.contains("tunnels: 1 tcp (1 opened, 0 failed)"), "{table}");
    let server = state(&field, "serve");
    assert_eq!((&server["users"][0]["user"], &server["users"][0]["flows"]), (&"alice".into(), &1.into()));
    assert!(server["users"][0]["received"]["bytes"].as_u64().unwrap() > 1_000_000, "{server}");
    assert!(table.contains("alice"), "{table}");
    drop((client, proxy));
    downloading.join().unwrap();
}

#[test]
fn sockets_are_private_and_those_left_behind_are_replaced() {
    let field = Field::new();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &["--no-status"]);
    let run = field.path("run");
    assert!(stderr(&field.run(&["status"])).contains("no tunnel runs here"));
    let mode = |name: &str| fs::metadata(run.join(name)).unwrap().permissions().mode() & 0o777;
    let mut first = field.connect(address, &[]);
    assert_eq!((mode(""), mode("connect.sock")), (0o700, 0o600));
    let mut second = field.connect(address, &[]);
    assert_eq!(states(&field).len(), 2);
    // The next process replaces the files of a killed one.
    first.process.kill();
    assert!(run.join("connect.sock").exists());
    assert_eq!(states(&field).len(), 1);
    let mut third = field.connect(address, &[]);
    assert_eq!(states(&field).len(), 2);
    assert!(!run.join("connect-3.sock").exists());
    assert!(second.process.terminate().success() && third.process.terminate().success());
    assert_eq!(fs::read_dir(&run).unwrap().count(), 0, "nothing is left");

    let own = field.path("own.sock");
    let named = ["--status-socket", own.to_str().unwrap()];
    let _fourth = field.connect(address, &named);
    let url = format!("https://localhost:{}", address.port());
    let busy = field.run(&field.client(&["proxy", "connect"], &url, &named));
    assert_eq!(busy.status.code(), Some(9));
    assert!(stderr(&busy).contains("belongs to a running process"), "{}", stderr(&busy));
    assert!(field.run(&["status", own.to_str().unwrap()]).status.success());
}

#[test]
fn without_a_terminal_the_live_view_is_lines() {
    let field = Field::new();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &["--no-status"]);
    let mut client = field.connect(address, &["--metrics", "127.0.0.1:0"]);
    let mut status = field.command(&["status", "--live"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines: Vec<_> =
        BufReader::new(status.stdout.take().unwrap()).lines().take(2).map(|line| line.unwrap()).collect();
    assert!(lines.iter().all(|line| line.contains(" s connected; lo open")), "{lines:?}");
    assert_ne!(lines[0], lines[1]);
    status.kill().unwrap();
    status.wait().unwrap();

    // The metrics have the same figures.
    let metrics = client.process.said("metrics http://");
    let mut stream = TcpStream::connect(metrics.trim_end_matches("/metrics")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    for line in
        ["anabranch_connections_active{transport=\"quic\"} 1", "anabranch_quic_paths{state=\"open\"} 1"]
    {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
}

#[test]
fn a_browser_shows_the_page() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let is_there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = names.into_iter().find(|name| is_there(name)) else {
        eprintln!("skipped: the page in a browser (there is no Chromium)");
        return;
    };
    let field = Field::new();
    let (_proxy, address) = field.proxy("127.0.0.1:0", &["--no-status"]);
    let mut client = field.connect(address, &["--page", "127.0.0.1:0"]);
    let url = client.process.said("page ");
    let profile = format!("--user-data-dir={}", field.path("browser").display());
    let mut command = Command::new("timeout");
    command.args([
        "60",
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=3000",
    ]);
    let output = command.args([&profile, "--dump-dom", &url]).output().unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(page.contains(": connected</h1>") && page.contains("<td class=\"word\">lo</td>"), "{page}");
    let open = field.run(&["proxy", "connect", "https://localhost:1", "--page", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(2));
    assert!(stderr(&open).contains("no loopback address"), "{}", stderr(&open));
}
