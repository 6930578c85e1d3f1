//! Pipes, links, readers that pause, signals: cases in which commands used to hang or leave files behind.

use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, Instant};

use anabranch::{Endpoint, SelfSigned, config};

use super::*;

/// Runs a system tool.
fn tool(name: &str, args: &[&str]) {
    assert!(Command::new(name).args(args).status().unwrap().success(), "{name}");
}

/// Starts the command in `dir` with its output in a pipe, and does not wait for it.
fn spawn(dir: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(args).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_pipe_is_not_served() {
    let server = Server::start(&["perf", "server"], &["--one-core", "0"]);
    tool("mkfifo", &[server.dir.path().join("root/pipe").to_str().unwrap()]);
    let fetch = |path| server.perf_client(&["--idle-ms", "5000", "--alpn", "hq-interop", path]);
    let output = fetch("/pipe");
    assert_eq!(status(&output), 6, "{}", stderr(&output));
    assert_eq!(status(&fetch("/small")), 0);
}

#[test]
fn pipes_and_links_stay_what_they_are() {
    let server = Server::serve();
    let here = tempfile::tempdir().unwrap();
    let (url, ca) = (server.url("/small"), server.ca());
    let path = |name: &str| here.path().join(name);
    tool("mkfifo", &[path("pipe").to_str().unwrap()]);
    let child = spawn(here.path(), &["get", "--hq", &url, "--ca", &ca, "-o", "pipe"]);
    // Opening a pipe for both directions does not block.
    let mut pipe = std::fs::File::options().read(true).write(true).open(path("pipe")).unwrap();
    assert_eq!(status(&child.wait_with_output().unwrap()), 0);
    assert!(std::fs::metadata(path("pipe")).unwrap().file_type().is_fifo());
    let mut content = [0; 10];
    pipe.read_exact(&mut content).unwrap();
    assert_eq!(&content, b"small file");

    std::fs::write(path("old"), "what was there before").unwrap();
    for (target, link) in [("old", "link"), ("new", "dangling")] {
        std::os::unix::fs::symlink(target, path(link)).unwrap();
        let output = get(here.path(), &[&url, "--ca", &ca, "-o", link]);
        assert_eq!(status(&output), 0, "{link}: {}", stderr(&output));
        assert!(path(link).is_symlink(), "{link}");
        assert_eq!(std::fs::read(path(target)).unwrap(), b"small file", "{link}");
    }
    assert_eq!(names(here.path()), ["dangling", "link", "new", "old", "pipe"]);
}

#[test]
fn an_interrupted_get_leaves_nothing() {
    let here = tempfile::tempdir().unwrap();
    for signal in ["-TERM", "-INT"] {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/x", silent.local_addr().unwrap());
        let child = spawn(here.path(), &["get", &url, "--insecure", "--timeout", "60"]);
        // The partial file is created before the first packet is sent.
        silent.recv(&mut [0; 2_000]).unwrap();
        assert_eq!(names(here.path()).len(), 1);
        tool("kill", &[signal, &child.id().to_string()]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), 10, "{}", stderr(&output));
        assert_eq!(names(here.path()), [""; 0]);
    }
}

#[test]
fn a_get_may_outlive_its_terminal() {
    let here = tempfile::tempdir().unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/x", silent.local_addr().unwrap());
    let mut command = Command::new("nohup");
    command.args([env!("CARGO_BIN_EXE_anabranch"), "get", &url, "--insecure", "--timeout", "60"]);
    let mut child =
        command.current_dir(here.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    silent.recv(&mut [0; 2_000]).unwrap();
    tool("kill", &["-HUP", &child.id().to_string()]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none());
    tool("kill", &[&child.id().to_string()]);
    assert_eq!(child.wait().unwrap().code(), Some(10));
}

#[test]
fn two_files_of_one_name_are_refused() {
    let server = Server::start(&["perf", "server"], &[]);
    let here = tempfile::tempdir().unwrap();
    let (one, other) = (server.url("/small"), server.url("/sub/small"));
    let output = get(here.path(), &[&one, &other, "--ca", &server.ca()]);
    assert_eq!(status(&output), 2, "{}", stderr(&output));
    assert_eq!(names(here.path()), [""; 0]);
    assert_eq!(status(&server.perf_client(&["--out", ".", "/small", "/sub/small"])), 2);
}

/// A reader that pauses for longer than the idle timeout still receives everything.
#[test]
fn a_reader_may_pause() {
    const LEN: usize = 20_000_000;
    let server = Server::serve();
    std::fs::write(server.dir.path().join("root/huge"), pattern(LEN)).unwrap();
    let (url, ca) = (server.url("/huge"), server.ca());
    let args = ["get", "--hq", &url, "--ca", &ca, "-o", "-", "--idle-ms", "1000", "--window", "100000"];
    let child = spawn(server.dir.path(), &args);
    std::thread::sleep(Duration::from_millis(2_500));
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(output.stdout == pattern(LEN));
}

#[test]
fn a_closed_output_has_its_status() {
    let here = tempfile::tempdir().unwrap();
    for args in [&["demo", "--size", "1"][..], &["serve", "--listen", "127.0.0.1:0", "--root", "."]] {
        let mut child = spawn(here.path(), args);
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(status(&output), 8, "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn numbers_that_overflow_are_refused() {
    let here = tempfile::tempdir().unwrap();
    let most = u64::MAX.to_string();
    let client = ["perf", "client", "--connect", "127.0.0.1:1"];
    let cases: [&[&str]; 5] = [
        &["demo", "--size", &most],
        &["serve", "--root", ".", "--window", &most],
        &["serve", "--root", ".", "--idle-ms", &most],
        &[&client[..], &["--download", &most]].concat(),
        &[&client[..], &["--upload", &most]].concat(),
    ];
    for args in cases {
        let output = anabranch(here.path(), args);
        assert_eq!(status(&output), 2, "{args:?}: {}", stderr(&output));
    }
}

/// If the handshake fails after early data was sent, the exit status is that of the handshake's failure.
#[test]
fn handshakes_under_early_data_have_their_status() {
    let server = Server::serve();
    let here = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _guard = runtime.enter();
    let identity = SelfSigned::new(["127.0.0.1"]).unwrap();
    let loopback = ([127, 0, 0, 1], 0).into();
    let stranger = Endpoint::server(identity.server_config(["other"]).unwrap(), loopback).unwrap();
    let strange = stranger.local_addr().unwrap();
    runtime.spawn(async move {
        while let Some(incoming) = stranger.accept().await {
            assert!(incoming.await.is_err());
        }
    });
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let known = format!("https://{}/small", server.address);
    for (address, expected) in [(strange, 4), (silent.local_addr().unwrap(), 7)] {
        let (url, ca) = (format!("https://{address}/x"), server.ca());
        let begin = Instant::now();
        // With output to standard output, the downloads run one after the other.
        let output = get(here.path(), &[&known, &url, "--ca", &ca, "--timeout", "1", "-o", "-"]);
        assert_eq!(status(&output), expected, "{}", stderr(&output));
        assert!(begin.elapsed() < Duration::from_secs(10));
        assert_eq!(output.stdout, b"small file");
    }
}

/// A `perf` server ends its stream only after the client has ended its own.
#[test]
fn a_perf_server_reads_to_the_end_first() {
    let server = Server::start(&["perf", "server"], &[]);
    let roots = config::roots(&server.dir.path().join("cert.pem")).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
        let config = config::client(roots, ["perf"]).unwrap();
        let connection = endpoint.connect_with(&config, server.address, "localhost").unwrap().await.unwrap();
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&1_000_u64.to_be_bytes()).await.unwrap();
        send.write_all(b"and more").await.unwrap();
        let answer = receive.read_to_end(2_000);
        tokio::pin!(answer);
        assert!(tokio::time::timeout(Duration::from_millis(300), &mut answer).await.is_err());
        send.finish().unwrap();
        assert_eq!(answer.await.unwrap().len(), 1_000);
    });
}
