//! Operation of a server: log, metrics, shutdown, systemd, completions and manual pages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;

use super::client::{self, ALL, Field, Over, Server, eventually, runtime};

fn anabranch(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch")).args(args).output().unwrap()
}

#[test]
fn the_log_has_a_line_for_each_request() {
    let server = Server::start(&[]);
    for over in ALL {
        server.ask(over, "GET", "/small.txt?q=%22", &[("user-agent", "me \"and\" \\"), ("referer", "r")]);
    }
    let lines = server.log_of(ALL.len());
    for (line, protocol) in lines.iter().zip(["http/1.1", "h2", "h3"]) {
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        let rest = format!("\"GET /small.txt?q=%22 {protocol}\" 200 10 \"r\" \"me \\x22and\\x22 \\x5c\" 0.");
        assert!(line.contains(&rest), "{line}");
    }
}

#[test]
fn the_log_has_other_forms() {
    let server = Server::start(&["--log", "json"]);
    server.get(Over::Http2, "/missing");
    let line = server.log_of(1).remove(0);
    let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&entry["status"], &entry["protocol"], &entry["path"]),
        (&404.into(), &"h2".into(), &"/missing".into())
    );
    assert!(entry["peer"].as_str().unwrap().starts_with("127.0.0.1:"));

    let mut quiet = Server::start(&["--log", "none"]);
    quiet.get(Over::Http2, "/small.txt");
    quiet.signal("-TERM");
    assert!(quiet.wait().success());
    assert_eq!(quiet.log(), "");
}

#[test]
fn figures_are_scraped() {
    let mut server = Server::start(&["--metrics", "127.0.0.1:0"]);
    let url = server.said("metrics http://");
    let address = url.strip_suffix("/metrics").unwrap();
    for over in ALL {
        server.get(over, "/small.txt");
    }
    server.get(Over::Http3, "/missing");
    let scrape = |path: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(scrape("/").starts_with("HTTP/1.1 404"));
    let expected = [
        "anabranch_connections_total{transport=\"tcp\"} 2",
        "anabranch_connections_total{transport=\"quic\"} 2",
        "anabranch_handshakes_total{transport=\"quic\",result=\"completed\"} 2",
        "anabranch_http_requests_total{protocol=\"http/1.1\",status=\"200\"} 1",
        "anabranch_http_requests_total{protocol=\"h2\",status=\"200\"} 1",
        "anabranch_http_requests_total{protocol=\"h3\",status=\"200\"} 1",
        "anabranch_http_requests_total{protocol=\"h3\",status=\"404\"} 1",
        "anabranch_http_content_bytes_total{protocol=\"h3\"} 24",
        "anabranch_http_request_duration_seconds_count{protocol=\"h2\"} 1",
        "anabranch_quic_lost_packets_total{path=\"0\"} ",
        "# EOF",
    ];
    let text = eventually("all figures", || {
        let text = scrape("/metrics");
        expected.iter().all(|line| text.contains(line)).then_some(text)
    });
    assert!(text.contains("content-type: application/openmetrics-text; version=1.0.0"), "{text}");
    let sent =
        text.lines().find_map(|line| line.strip_prefix("anabranch_quic_sent_bytes_total{path=\"0\"} "));
    assert!(sent.unwrap().parse::<u64>().unwrap() > 2_000, "{text}");
}

/// A download that is running when SIGTERM arrives is completed, and new connections are refused.
#[test]
fn running_answers_are_finished() {
    const LEN: usize = 40_000_000;
    for over in ALL {
        let mut server = Server::start(&["--drain", "25"]);
        std::fs::write(server.field.path("root/large"), vec![7; LEN]).unwrap();
        let received = runtime().block_on(async {
            let (address, ca) = (server.address, server.field.path("cert.pem"));
            let url = format!("https://localhost:{}/large", address.port());
            let slowly = |count: usize| Duration::from_millis(if count < 20 { 20 } else { 0 });
            let mut count = 0;
            let mut received = 0;
            if over == Over::Http3 {
                let client = client::client(address, &ca);
                let mut body = client.get(&url).await.unwrap().into_body();
                server.signal("-TERM");
                while let Some(frame) = body.frame().await {
                    received += frame.unwrap().into_data().map_or(0, |data| data.len());
                    tokio::time::sleep(slowly(count)).await;
                    count += 1;
                }
            } else {
                let uri = if over == Over::Http1 { "/large".to_owned() } else { url };
                let mut request = http::Request::get(uri).body(http_body_util::Empty::new()).unwrap();
                if over == Over::Http1 {
                    request.headers_mut().insert("host", "localhost".parse().unwrap());
                }
                let mut body = client::send(address, &ca, over, request).await.into_body();
                server.signal("-TERM");
                while let Some(frame) = body.frame().await {
                    received += frame.unwrap().into_data().map_or(0, |data| data.len());
                    tokio::time::sleep(slowly(count)).await;
                    count += 1;
                }
            }
            received
        });
        assert_eq!(received, LEN, "{over:?}");
        assert_eq!(server.wait().code(), Some(0), "{over:?}");
        assert!(server.log().contains(&format!(" 200 {LEN} ")), "{over:?}: {}", server.log());
    }
}

/// The client reads nothing: the server waits for the time of `--drain`, or until the next signal.
#[test]
fn a_drain_has_an_end() {
    for (drain, signals) in [("1", 1), ("600", 2)] {
        let mut server = Server::start(&["--drain", drain]);
        let file = std::fs::File::create(server.field.path("root/large")).unwrap();
        file.set_len(1 << 30).unwrap();
        let begin = Instant::now();
        runtime().block_on(async {
            let ca = server.field.path("cert.pem");
            let uri = format!("https://localhost:{}/large", server.address.port());
            let request = http::Request::get(uri).body(http_body_util::Empty::new()).unwrap();
            let _answer = client::send(server.address, &ca, Over::Http2, request).await;
            server.signal("-TERM");
            if signals == 2 {
                tokio::time::sleep(Duration::from_millis(300)).await;
                assert!(server.child.try_wait().unwrap().is_none(), "it waits");
                server.signal("-TERM");
            }
            assert_eq!(server.wait().code(), Some(0));
        });
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
}

/// Delay of the link to the server in each direction. The server's closing period would be several times as
/// long.
const FAR: Duration = Duration::from_millis(250);

/// Starts a link with the delay [`FAR`] to `server`, until the process ends.
fn far_link(server: SocketAddr) -> SocketAddr {
    let inside = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let outside = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    outside.connect(server).unwrap();
    let address = inside.local_addr().unwrap();
    let client = Arc::new(Mutex::new(None));
    for to_server in [true, false] {
        let (inside, outside, client) = (Arc::clone(&inside), Arc::clone(&outside), Arc::clone(&client));
        let (sender, arrivals) = mpsc::channel::<(Instant, Vec<u8>)>();
        let (from, back) = (Arc::clone(&inside), Arc::clone(&outside));
        let peer = Arc::clone(&client);
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            loop {
                let n = if to_server {
                    let Ok((n, from)) = from.recv_from(&mut buffer) else { return };
                    *peer.lock().unwrap() = Some(from);
                    n
                } else {
                    // Fails when the server has ended.
                    back.recv(&mut buffer).unwrap_or(0)
                };
                if sender.send((Instant::now() + FAR, buffer[..n].to_vec())).is_err() {
                    return;
                }
            }
        });
        std::thread::spawn(move || {
            for (due, datagram) in arrivals {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let client = *client.lock().unwrap();
                let _ = match client.filter(|_| !to_server) {
                    Some(client) => inside.send_to(&datagram, client),
                    None => outside.send(&datagram),
                };
            }
        });
    }
    address
}

/// A server ends when it has sent CONNECTION_CLOSE. It does not wait for the closing period (RFC 9000 §10.2),
/// which is seconds for a distant client; earlier versions waited up to a second.
#[test]
fn the_closing_period_is_left_out() {
    let ends = |is_connected: bool| {
        let mut server = Server::start(&["--drain", "0"]);
        let far = far_link(server.address);
        runtime().block_on(async {
            let client = client::client(far, &server.field.path("cert.pem"));
            if is_connected {
                let url = format!("https://localhost:{}/small.txt", far.port());
                assert_eq!(client.get(&url).await.unwrap().status(), 200);
            }
            let begin = Instant::now();
            server.signal("-TERM");
            assert_eq!(server.wait().code(), Some(0));
            begin.elapsed()
        })
    };
    let (without, with) = (ends(false), ends(true));
    assert!(with < without + Duration::from_millis(700), "{with:?}, and {without:?} without a connection");
}

/// A shell plays the part of systemd, because it stays the same process when it becomes the server.
#[test]
fn sockets_come_from_systemd() {
    const SHELL: &str = "export LISTEN_PID=$$ LISTEN_FDS=2; exec \"$@\" 3<&0 4<&2 </dev/null 2>log";
    let field = Field::new();
    let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (quic, over_tcp) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let notified = UnixDatagram::bind(field.path("notify")).unwrap();
    notified.set_read_timeout(Some(client::PATIENCE)).unwrap();
    let serve = field.serve();
    let mut command = Command::new("sh");
    command.args(["-c", SHELL, "sh"]).arg(serve.get_program()).args(serve.get_args());
    command.current_dir(field.0.path()).env("NOTIFY_SOCKET", field.path("notify")).stdout(Stdio::piped());
    command.stdin(OwnedFd::from(udp)).stderr(OwnedFd::from(tcp));
    let mut server = Server::run(field, command);
    assert_eq!(server.address, quic);
    let hear = || {
        let mut message = [0; 100];
        let len = notified.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    };
    assert_eq!(hear(), "READY=1\n");
    assert_eq!(server.get(Over::Http3, "/small.txt").text(), "small file");
    server.address = over_tcp;
    let answer = server.get(Over::Http2, "/small.txt");
    assert_eq!(
        (answer.status, answer.header("alt-svc")),
        (200, &*format!("h3=\":{}\"; ma=86400", quic.port()))
    );
    server.signal("-TERM");
    assert_eq!(hear(), "STOPPING=1\n");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn failures_have_their_status() {
    let field = Field::new();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(field.path("other.pem"), other.signing_key.serialize_pem()).unwrap();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy.local_addr().unwrap().to_string();
    let listen = ["--listen", "127.0.0.1:0"];
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--root", "root", "--listen", &busy], 9, "is in use"),
        (&["--root", "root", "--listen", "127.0.0.1:0", "--metrics", &busy], 9, "is in use"),
        (&["--root", "missing"], 2, "missing"),
        (&["--root", "secret"], 2, "is not a directory"),
        (
            &["--root", "root", "--cert", "cert.pem", "--key", "other.pem"],
            2,
            "is not that of the certificate",
        ),
        (&["--root", "root", "--cert", "missing.pem", "--key", "key.pem"], 2, "cannot read missing.pem"),
        (&["--root", "root", "--cert", "secret", "--key", "key.pem"], 2, "holds no certificate"),
        (&["--root", "root", "--cert", "cert.pem"], 2, "--key"),
    ];
    for (args, status, what) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(field.0.path()).arg("serve").args(args);
        if !args.contains(&"--listen") {
            command.args(listen);
        }
        let output = command.output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {line}");
        assert!(line.contains(what), "{args:?}: {line}");
    }
    drop(busy);
}

#[test]
fn the_start_is_announced() {
    let field = Field::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.current_dir(field.0.path()).args([
        "serve",
        "--root",
        "root",
        "--listen",
        "127.0.0.1:0",
        "127.0.0.1:0",
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Server::run(field, command);
    let second = server.said("listening ");
    assert_eq!(server.said("open "), format!("https://{}/", server.address));
    assert_eq!(server.said("open "), format!("https://{second}/"));
    let pin = server.said("certificate made up for localhost, SPKI SHA-256 ");
    assert_eq!((pin.len(), pin.ends_with('=')), (44, true));
    assert_eq!(server.said("trust it with: anabranch get --pin "), format!("sha256:{pin}"));
}

/// Arguments are accepted as by `python -m http.server`: an optional directory, a port, a name.
#[test]
fn places_are_written_as_people_write_them() {
    let field = Field::new();
    let start = |args: &[&str], dir: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(field.path(dir)).arg("serve").args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        Server::run(Field::new(), command)
    };
    let fetched = |server: &Server| {
        let url = format!("https://localhost:{}/small.txt", server.address.port());
        let output = anabranch(&["get", "--insecure", "-q", "-o", "-", &url]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stdout, b"small file");
    };
    for (args, dir) in [
        (&["root", "--listen", "localhost:0"][..], "."),
        (&["--listen", "localhost:0", "root"], "."),
        (&["--listen", ":0"], "root"),
    ] {
        let server = start(args, dir);
        let everywhere = server.address.ip().is_unspecified();
        assert_eq!(everywhere, args.contains(&":0"), "{args:?}: {}", server.address);
        fetched(&server);
    }
    for (args, status) in [
        (&["--listen", "localhost:x"][..], 2),
        (&["--listen", "no-such-host.invalid:0"], 3),
        (&["root", "--root", "root"], 2),
        (&["--listen", "127.0.0.1:0", "--announce", "localhost"], 2),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .current_dir(field.0.path())
            .arg("serve")
            .args(args)
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(status),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A client learns the server's other address, and uses both.
#[test]
fn a_server_tells_of_its_other_address() {
    let server = Server::start(&["--announce", "127.0.0.2"]);
    std::fs::write(server.field.path("root/large"), vec![7; 60_000_000]).unwrap();
    let url = format!("https://{}/large", server.address);
    let ca = server.field.path("cert.pem");
    let args = ["get", "--ca", ca.to_str().unwrap(), "--path", "127.0.0.1", "--json", "-", &url];
    let output = anabranch(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let remotes: Vec<_> = facts["paths"].as_array().unwrap().iter().map(|path| &path["remote"]).collect();
    let other = format!("127.0.0.2:{}", server.address.port());
    assert_eq!(
        remotes,
        [&serde_json::json!(server.address.to_string()), &serde_json::json!(other)],
        "{facts}"
    );
}

/// A generated certificate is kept. Clients trust it by file or by key, but not otherwise.
#[test]
fn made_certificates_can_be_kept_and_trusted() {
    let field = Field::new();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.current_dir(field.0.path());
        command.args(["serve", "root", "--listen", "127.0.0.1:0", "--write-cert", "made.pem"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Server::run(Field::new(), command);
        let pin = server.said("trust it with: anabranch get --pin ");
        (server, pin)
    };
    let get = |server: &Server, trust: &[&str]| {
        let url = format!("https://{}/small.txt", server.address);
        let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
            .current_dir(field.0.path())
            .args(["get", "-q", "-o", "-", &url])
            .args(trust)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (server, pin) = start();
    assert_eq!(get(&server, &["--ca", "made.pem"]), (Some(0), String::new()));
    assert_eq!(get(&server, &["--pin", &pin]), (Some(0), String::new()));
    let (status, said) = get(&server, &[]);
    assert_eq!(status, Some(5), "{said}");
    assert!(said.contains("not trusted") && said.contains("(TLS alert 48 unknown_ca)"), "{said}");
    assert!(said.contains("--pin sha256:") && !said.contains("CRYPTO_ERROR"), "{said}");
    let (status, said) = get(&server, &["--pin", &format!("sha256:{}", "0".repeat(64))]);
    assert_eq!(status, Some(5), "{said}");
    assert!(said.contains(&format!("its key is {pin} and not the pinned one")), "{said}");
    drop(server);
    let (server, again) = start();
    assert_eq!(again, pin, "the certificate is the same");
    assert_eq!(get(&server, &["--ca", "made.pem"]), (Some(0), String::new()));
}

#[test]
fn completions_parse() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = anabranch(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["serve", "no-listing", "get"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        // A shell that is not installed cannot check the script.
        if let Ok(mut child) = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn() {
            child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            assert!(child.wait().unwrap().success(), "{shell}");
        }
    }
    assert_eq!(anabranch(&["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn each_command_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("new/man1");
    assert!(anabranch(&["man", "--out", pages.to_str().unwrap()]).status.success());
    for (name, word) in
        [("anabranch", "serve"), ("anabranch-serve", "no\\-listing"), ("anabranch-get", "insecure")]
    {
        let page = std::fs::File::open(pages.join(format!("{name}.1"))).unwrap();
        let lines: Vec<_> = BufReader::new(page).lines().map(Result::unwrap).collect();
        assert!(lines.iter().any(|line| line.contains(".TH ")), "{name}");
        assert!(lines.iter().any(|line| line.contains(word)), "{name}: {word}");
    }
    // The synopsis contains the values of options, and the page contains the exit statuses.
    let get = std::fs::read_to_string(pages.join("anabranch-get.1")).unwrap();
    let (_, synopsis) = get.split_once(".SH SYNOPSIS").unwrap();
    let synopsis = synopsis.split(".SH").next().unwrap();
    for part in ["\\-\\-ca\\fR \\fIPEM", "\\-\\-pin\\fR \\fIsha256:DIGEST", "\\fIURL\\fR..."] {
        assert!(synopsis.contains(part), "{part} is missing in {synopsis}");
    }
    assert!(get.contains("Exit status: 0 success"), "{get}");
    assert!(pages.join("anabranch-perf-client.1").exists());
    let one = anabranch(&["man"]);
    assert!(one.status.success() && String::from_utf8(one.stdout).unwrap().contains(".SH SYNOPSIS"));
}

/// Returns the first byte of the server's response to the first datagram of a client.
fn first_byte_of_the_response(server: &Server) -> u8 {
    let [between, beyond] = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let url = format!("https://localhost:{}/small.txt", between.local_addr().unwrap().port());
    let mut client = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    client.args(["get", "--insecure", "--quiet", "-o", "-", &url]).stderr(Stdio::null());
    let mut client = client.spawn().unwrap();
    let mut datagram = [0; 65_535];
    let mut receive = |socket: &UdpSocket| {
        socket.set_read_timeout(Some(client::PATIENCE)).unwrap();
        let (len, _) = socket.recv_from(&mut datagram).unwrap();
        datagram[..len].to_vec()
    };
    let initial = receive(&between);
    client.kill().unwrap();
    client.wait().unwrap();
    beyond.send_to(&initial, server.address).unwrap();
    receive(&beyond)[0]
}

#[test]
fn clients_prove_their_addresses_when_the_server_always_wants_it() {
    // RFC 9000 §17.2: the types of long headers are Initial (0) and Retry (3).
    let kind = |byte: u8| (byte & 0x80 != 0).then_some(byte >> 4 & 3);
    let server = Server::start(&["--retry", "always"]);
    assert_eq!(kind(first_byte_of_the_response(&server)), Some(3));
    assert_eq!(
        server.get(Over::Http3, "/small.txt").body,
        b"small file",
        "a client that follows the Retry is served"
    );
    for more in [&[][..], &["--retry", "auto"]] {
        assert_eq!(kind(first_byte_of_the_response(&Server::start(more))), Some(0));
    }
}

/// Returns the stateless reset token that the server at `address` answers a packet of an unknown connection with.
fn reset_token(address: &str) -> [u8; 16] {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut packet = [0x07; 100];
    packet[0] = 0x40;
    let mut answer = [0; 100];
    let len = eventually("a stateless reset", || {
        socket.send_to(&packet, address).unwrap();
        socket.recv(&mut answer).ok()
    });
    *answer[..len].last_chunk().unwrap()
}

/// A connection ID that is in use at one address has another token at the other addresses, so that nobody can ask these
/// for the token and end the connection.
#[test]
fn addresses_have_reset_tokens_of_their_own() {
    let start = |field: Field, addresses: [&str; 2]| {
        let mut command = field.serve();
        command.args(["--no-tcp", "--ticket-key", "tickets", "--listen"]).args(addresses);
        let mut server = Server::run(field, command);
        let second = server.said("listening ");
        let addresses = [server.address.to_string(), second];
        (server, addresses)
    };
    let (mut server, addresses) = start(Field::new(), ["127.0.0.1:0", "127.0.0.1:0"]);
    let tokens = addresses.each_ref().map(|address| reset_token(address));
    assert_ne!(tokens[0], tokens[1]);
    server.signal("-KILL");
    server.wait();
    // After a restart on the same addresses, clients still recognize the tokens.
    let field = std::mem::replace(&mut server.field, Field::new());
    let (_server, again) = start(field, addresses.each_ref().map(String::as_str));
    assert_eq!(again.each_ref().map(|address| reset_token(address)), tokens);
}

/// Returns the stateless reset token with which the server at `address` answers a packet to a connection ID without a key, of this
/// configuration and server; `None` if it does not answer.
fn token_of_server(address: &str, config_id: u8, server_id: [u8; 2]) -> Option<[u8; 16]> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut packet = [0x07; 100];
    packet[..4].copy_from_slice(&[0x40, config_id << 5, server_id[0], server_id[1]]);
    let mut answer = [0; 100];
    // The first packets may come before the server.
    (0..3).find_map(|_| {
        socket.send_to(&packet, address).unwrap();
        let len = socket.recv(&mut answer).ok()?;
        Some(*answer[..len].last_chunk().unwrap())
    })
}

/// A server behind a load balancer answers packets to its own connection IDs, and to no others. All servers have the same secrets,
/// so that any of them can do so after a restart elsewhere. SIGHUP changes the configuration.
#[test]
fn connection_ids_name_the_server_behind_a_load_balancer() {
    const IDS: [[u8; 2]; 3] = [[0, 1], [0, 2], [0, 3]];
    let field = Field::new();
    let config = |config_id: u8, [high, low]: [u8; 2]| {
        let ids = format!("config-id = {config_id}\nserver-id = \"{high:02x}{low:02x}\"\n");
        std::fs::write(field.path("lb.toml"), ids + "nonce-length = 8\n").unwrap();
    };
    config(0, IDS[0]);
    let [tickets, file] = ["tickets", "lb.toml"].map(|name| field.path(name).display().to_string());
    let start = || Server::start(&["--no-tcp", "--ticket-key", &tickets, "--lb-config", &file]);
    let server = start();
    let address = server.address.to_string();
    assert_eq!(server.get(Over::Http3, "/small.txt").body, b"small file");
    let token = token_of_server(&address, 0, IDS[0]).unwrap();
    assert_eq!(token_of_server(&address, 0, IDS[1]), None);
    assert_eq!(token_of_server(&address, 1, IDS[1]), None);
    config(1, IDS[1]);
    server.signal("-HUP");
    eventually("the other configuration", || token_of_server(&address, 1, IDS[1]));
    assert_eq!(token_of_server(&address, 0, IDS[0]), Some(token), "earlier connection IDs stay");
    // A mistake changes nothing.
    config(7, IDS[2]);
    server.signal("-HUP");
    assert_eq!(token_of_server(&address, 1, IDS[2]), None);
    assert!(token_of_server(&address, 1, IDS[1]).is_some());
    config(0, IDS[0]);
    let again = start();
    assert_eq!(token_of_server(&again.address.to_string(), 0, IDS[0]), Some(token));
}

#[test]
fn configurations_of_load_balancers_that_cannot_be_used_are_refused() {
    let field = Field::new();
    let good = "config-id = 0\nserver-id = \"01\"\nnonce-length = 6\n";
    std::fs::write(field.path("good.toml"), good).unwrap();
    std::fs::write(field.path("bad.toml"), good.replace("= 6", "= 3")).unwrap();
    let encoding = format!("{good}first-octet-encodes-cid-length = true\n");
    std::fs::write(field.path("encoding.toml"), encoding).unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["--lb-config", "missing.toml"], "missing.toml: No such file"),
        (&["--lb-config", "bad.toml"], "bad.toml:3: nonce-length must be at least 4 bytes"),
        (&["--lb-config", "encoding.toml", "--workers", "2"], "with several workers, first-octet"),
        (
            &["--lb-config", "good.toml", "--listen", "127.0.0.2:0"],
            "the server ID 01 leads to one address, not to 2",
        ),
    ];
    for (args, what) in cases {
        let mut command = field.serve();
        command.args(args).args(["--listen", "127.0.0.1:0"]);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {line}");
        assert!(line.contains(what) && line.trim().lines().count() == 1, "{args:?}: {line}");
    }
}

/// Clients with one connection each, at once: their connections are at different workers.
#[test]
fn several_workers_serve_all_clients_of_one_address() {
    let server = Server::start(&["--workers", "3"]);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                for _ in 0..3 {
                    assert_eq!(server.get(Over::Http3, "/small.txt").body, b"small file");
                }
            });
        }
    });
    for over in ALL {
        assert_eq!(server.get(over, "/small.txt").body, b"small file");
    }
}

#[test]
fn a_wrong_number_of_workers_is_refused() {
    for number in ["0", "33", "two"] {
        let field = Field::new();
        let mut command = field.serve();
        let output = command.args(["--workers", number]).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{number}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("must be 1 to 32"), "{said}");
    }
}
