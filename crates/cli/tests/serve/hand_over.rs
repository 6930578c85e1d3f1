//! Restarts: a process takes the sockets of a running server over, and no request fails.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::client::{Field, Over, Server, eventually};

/// Number of restarts under load.
const RESTARTS: usize = 4;
/// Number of clients at a time.
const CLIENTS: usize = 3;

/// Starts a server that takes over from one of the same field, if there is one.
fn start(field: Field, address: &str, more: &[&str]) -> Server {
    let mut command = field.serve();
    command.args(["--listen", address, "--handover", "handover", "--drain", "60"]).args(more);
    Server::run(field, command)
}

/// Starts a server that takes over from `old`. Returns both.
fn next(mut old: Server, more: &[&str]) -> (Server, Server) {
    let field = std::mem::replace(&mut old.field, Field(tempfile::tempdir().unwrap()));
    let new = start(field, &old.address.to_string(), more);
    assert_eq!(new.address, old.address);
    (old, new)
}

/// Returns a command that fetches `path`, once.
fn get(server: &Server, path: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["get", "-q", "-o", "-", "--retry", "0", "--ca"]).arg(server.field.path("cert.pem"));
    command.arg(format!("https://localhost:{}{path}", server.address.port()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits until the file is the socket of the process.
fn await_turn(server: &Server) {
    let hidden = server.field.path(&format!("handover.{}", server.child.id()));
    eventually("the socket's name", || {
        (server.field.path("handover").exists() && !hidden.exists()).then_some(())
    });
}

#[test]
fn no_request_fails_during_restarts() {
    for workers in ["1", "3"] {
        let mut server = start(Field::new(), "127.0.0.1:0", &["--workers", workers]);
        await_turn(&server);
        let mut command = get(&server, "/small.txt");
        command.arg(format!("https://localhost:{}/sub/page.html", server.address.port()));
        let (program, args) = (command.get_program().to_owned(), command.get_args());
        let args: Arc<Vec<_>> = Arc::new(args.map(ToOwned::to_owned).collect());
        let (over, fetched) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (program, args) = (program.clone(), Arc::clone(&args));
                let (over, fetched) = (Arc::clone(&over), Arc::clone(&fetched));
                thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let output = Command::new(&program).args(&*args).output().unwrap();
                        let said = String::from_utf8_lossy(&output.stderr).into_owned();
                        assert!(output.status.success(), "{said}");
                        assert_eq!(output.stdout, b"small file<p>page", "{said}");
                        fetched.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let mut old = Vec::new();
        for _ in 0..RESTARTS {
            let before = fetched.load(Ordering::Relaxed);
            eventually("requests", || (fetched.load(Ordering::Relaxed) > before + CLIENTS).then_some(()));
            let (gone, new) = next(server, &[]);
            await_turn(&new);
            old.push(gone);
            server = new;
            // As many may finish their connections at a time.
            if old.len() > 2 {
                assert!(old.remove(0).wait().success());
            }
        }
        over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert!(old.iter_mut().all(|old| old.wait().success()));
        assert_eq!(server.get(Over::Http2, "/small.txt").text(), "small file");
        server.signal("-TERM");
        assert!(server.wait().success());
        assert!(!server.field.path("handover").exists(), "the last one removes the file");
    }
}

/// A download goes on in the old process, behind two younger ones, until its client has read all of it.
#[test]
fn a_download_outlives_two_restarts() {
    const LEN: usize = 60_000_000;
    let first = start(Field::new(), "127.0.0.1:0", &["--metrics", "127.0.0.1:0"]);
    std::fs::write(first.field.path("root/large"), vec![7; LEN]).unwrap();
    await_turn(&first);
    let mode = std::fs::metadata(first.field.path("handover")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut download = get(&first, "/large").spawn().unwrap();
    let mut body = download.stdout.take().unwrap();
    let mut beginning = vec![0; 1_000_000];
    body.read_exact(&mut beginning).unwrap();
    let (mut first, second) = next(first, &["--metrics", "127.0.0.1:0"]);
    await_turn(&second);
    let (mut second, third) = next(second, &["--metrics", "127.0.0.1:0"]);
    await_turn(&third);
    for over in super::client::ALL {
        assert_eq!(third.get(over, "/small.txt").text(), "small file", "{over:?}");
    }
    thread::sleep(Duration::from_millis(300));
    assert!(first.child.try_wait().unwrap().is_none() && second.child.try_wait().unwrap().is_none());
    let mut rest = Vec::new();
    body.read_to_end(&mut rest).unwrap();
    assert_eq!(beginning.len() + rest.len(), LEN);
    assert!(download.wait().unwrap().success());
    assert!(first.wait().success() && second.wait().success());
}

#[test]
fn files_in_the_way_are_told_from_stale_sockets() {
    let field = Field::new();
    // A process has been killed, and its socket is left.
    drop(UnixListener::bind(field.path("handover")).unwrap());
    let server = start(field, "127.0.0.1:0", &[]);
    await_turn(&server);
    assert_eq!(server.get(Over::Http3, "/small.txt").text(), "small file");
    for (path, said) in [("secret", "is no socket"), ("nowhere/handover", "cannot create the socket")] {
        let mut command = server.field.serve();
        let output =
            command.args(["--listen", "127.0.0.1:0", "--handover", path]).stderr(Stdio::piped()).output();
        let output = output.unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{output:?}");
    }
    assert!(server.field.path("secret").exists());
}

/// A process that asks for the sockets and dies leaves the old one as it was.
#[test]
fn a_new_process_that_fails_changes_nothing() {
    let server = start(Field::new(), "127.0.0.1:0", &[]);
    await_turn(&server);
    drop(std::os::unix::net::UnixStream::connect(server.field.path("handover")).unwrap());
    let mut command = server.field.serve();
    // It takes the sockets over, and then cannot bind the announced address.
    command.args(["--handover", "handover", "--announce", "192.0.2.77:9", "--log", "none"]);
    let failed = command.stderr(Stdio::piped()).output().unwrap();
    assert!(!failed.status.success());
    for over in [Over::Http1, Over::Http2] {
        assert_eq!(server.get(over, "/small.txt").text(), "small file", "{over:?}");
    }
    assert_eq!(get(&server, "/small.txt").output().unwrap().stdout, b"small file");
    let (mut old, new) = next(server, &[]);
    // The client closes its connection, whichever process has accepted it.
    assert_eq!(get(&new, "/small.txt").output().unwrap().stdout, b"small file");
    assert!(old.wait().success());
}
