//! Real programs through forwards and the VPN.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ends::{Ends, Process, eventually};
use crate::inside::{inside, is_root};
use crate::network::{Link, SERVER, TARGET, add_target, lay, program_at_server, within_server};

/// Options of a proxy whose clients may have addresses, and reach the target.
pub(crate) const FOR_VPN: [&str; 4] = ["--vpn-pool", "10.8.0.0/24", "--allow", "10.9.8.8"];
/// Device that a VPN needs.
pub(crate) const TUN: &str = "/dev/net/tun";
/// Number of bytes that shows that a link was used for a test of the rate.
const SHARE: u64 = 1_000_000;
/// Maximum time in which a session over two links answers while one of them is lost, on a busy machine.
const ANSWERS: Duration = Duration::from_secs(5);

/// Starts a proxy over two links that also carries packets, and its target.
pub(crate) fn proxy() -> ([Link; 2], Ends) {
    let links: [Link; 2] = lay(2, false).try_into().unwrap();
    add_target();
    let mut ends = Ends::prepare(SERVER, &FOR_VPN);
    ends.start_proxy();
    (links, ends)
}

/// Starts a VPN.
pub(crate) fn vpn(ends: &Ends) -> Process {
    let mut vpn = ends.run(ends.by_way(&["vpn", "connect"]), "vpn.log");
    assert_eq!(vpn.said("connected "), "anabranch0 10.8.0.2");
    vpn
}

/// Starts forwards.
fn forward(ends: &Ends, routes: &[&str]) -> Process {
    let mut command = ends.by_way(&["forward"]);
    command.arg("--no-status").args(routes);
    let mut forward = ends.run(command, "forward.log");
    routes.iter().for_each(|_| _ = forward.said("forwarding "));
    forward
}

/// Runs iperf3 until it works, and returns its report.
fn iperf3(host: &str, more: &[&str]) -> Value {
    eventually("a run of iperf3", || {
        let mut command = Command::new("iperf3");
        let output = command.args(["-c", host, "--json", "--connect-timeout", "5000"]).args(more).output();
        let output = output.unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).ok()?;
        (output.status.success() && report["error"].is_null()).then_some(report)
    })
}

/// Measures TCP and UDP in both directions. Downloads must use both links.
fn measure(host: &str, links: [Link; 2]) {
    for direction in [&["--time", "3"][..], &["--time", "3", "--reverse"]] {
        let before = links.map(Link::received);
        let report = iperf3(host, direction);
        let bytes = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
        assert!(bytes > 2 * SHARE, "{bytes} bytes of TCP, {direction:?}");
        let used = [0, 1].map(|at| links[at].received() - before[at]);
        assert!(direction.len() == 2 || used.iter().all(|bytes| *bytes > SHARE), "{used:?}");
        let mbits = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6;
        eprintln!("TCP {direction:?}: {mbits:.1} Mbit/s");
        let udp = ["--udp", "--bitrate", "4M", "--length", "1000"];
        let report = iperf3(host, &[&udp[..], direction].concat());
        let sum = &report["end"]["sum"];
        let (packets, lost) = (sum["packets"].as_u64().unwrap(), sum["lost_percent"].as_f64().unwrap());
        assert!(packets > 1_000 && lost < 5.0, "{lost} % of {packets} datagrams lost, {direction:?}");
        eprintln!("UDP {direction:?}: {lost:.2} % of {packets} datagrams lost");
    }
}

/// Starts the server of iperf3.
fn iperf3_server(ends: &Ends, address: &str) -> Process {
    let mut command = program_at_server("iperf3");
    command.args(["--server", "--bind", address]);
    ends.run(command, "iperf3.log")
}

#[test]
fn iperf3_through_a_forward() {
    inside(module_path!(), "iperf3_through_a_forward", &["iperf3", TUN], || {
        let (links, ends) = proxy();
        let _server = iperf3_server(&ends, "127.0.0.1");
        let route = "127.0.0.1:5201=127.0.0.1:5201";
        let _forward = forward(&ends, &[&format!("{route}/tcp"), &format!("{route}/udp")]);
        measure("127.0.0.1", links);
    });
}

#[test]
fn iperf3_through_the_vpn() {
    inside(module_path!(), "iperf3_through_the_vpn", &["iperf3", TUN], || {
        let (links, ends) = proxy();
        let _server = iperf3_server(&ends, TARGET);
        let _vpn = vpn(&ends);
        measure(TARGET, links);
    });
}

/// Returns the answer to a question of DNS (RFC 1035 §4): one address.
fn answer(question: &[u8]) -> Vec<u8> {
    let name = question[12..].iter().position(|byte| *byte == 0).unwrap();
    // Identifier; an authoritative answer; one question, one answer, nothing more.
    let mut answer = question[..2].to_vec();
    answer.extend([0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
    answer.extend(&question[12..12 + name + 5]);
    // The name of the question, A, IN, 60 s, four bytes.
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    answer
}

/// Starts a server for names at the target, over UDP and TCP.
fn name_server(address: &'static str) {
    let (udp, tcp) = within_server(move || {
        (UdpSocket::bind((address, 53)).unwrap(), TcpListener::bind((address, 53)).unwrap())
    });
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((len, from)) = udp.recv_from(&mut buffer) {
            udp.send_to(&answer(&buffer[..len]), from).unwrap();
        }
    });
    thread::spawn(move || {
        for stream in tcp.incoming() {
            let mut stream = stream.unwrap();
            let mut len = [0; 2];
            stream.read_exact(&mut len).unwrap();
            let mut question = vec![0; u16::from_be_bytes(len).into()];
            stream.read_exact(&mut question).unwrap();
            let answer = answer(&question);
            stream.write_all(&u16::try_from(answer.len()).unwrap().to_be_bytes()).unwrap();
            stream.write_all(&answer).unwrap();
        }
    });
}

/// Asks for an address, over UDP and over TCP.
fn dig(server: &str, port: &str) {
    for more in [&[][..], &["+tcp"]] {
        let mut command = Command::new("dig");
        command.arg(format!("@{server}"));
        command.args(["-p", port, "www.example.test", "A", "+short", "+tries=5"]);
        let output = command.arg("+time=4").args(more).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        // A busy machine loses a question now and then, and the program tells that before it asks again.
        let answers: Vec<_> = said.lines().filter(|line| !line.starts_with(';')).collect();
        assert_eq!(answers, ["192.0.2.7"], "{server} {more:?}: {said}");
    }
}

#[test]
fn dig_through_a_forward_and_the_vpn() {
    inside(module_path!(), "dig_through_a_forward_and_the_vpn", &["dig", TUN], || {
        let (_links, ends) = proxy();
        name_server("127.0.0.1");
        name_server(TARGET);
        let route = "127.0.0.1:5353=127.0.0.1:53";
        let forward = forward(&ends, &[&format!("{route}/tcp"), &format!("{route}/udp")]);
        dig("127.0.0.1", "5353");
        drop(forward);
        let _vpn = vpn(&ends);
        dig(TARGET, "53");
    });
}

/// A session of ssh whose other end repeats lines.
struct Session {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    lines: usize,
}

impl Session {
    /// Logs in.
    fn open(ends: &Ends, host: &str) -> Self {
        let mut command = Command::new("ssh");
        command.args(["-F", "none", "-T", "-p", "2222", "-i"]).arg(ends.file("user-key"));
        for option in ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes"] {
            command.args(["-o", option]);
        }
        command.arg(format!("root@{host}")).arg("cat").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, lines: 0 }
    }

    /// Sends a line, and waits until it comes back. Returns how long that took.
    fn repeats(&mut self) -> Duration {
        let begin = Instant::now();
        self.lines += 1;
        let line = format!("line {}\n", self.lines);
        self.stdin.write_all(line.as_bytes()).unwrap();
        let mut repeated = String::new();
        self.stdout.read_line(&mut repeated).unwrap();
        assert_eq!(repeated, line, "the session has ended");
        begin.elapsed()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the server of ssh, with keys of its own.
fn ssh_server(ends: &Ends) -> Process {
    for key in ["host-key", "user-key"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(ends.file(key));
        assert!(command.status().unwrap().success());
    }
    let (host, user) = (ends.file("host-key"), ends.file("user-key.pub"));
    let config = format!(
        "Port 2222\nListenAddress 127.0.0.1\nListenAddress {TARGET}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPermitUserRC no\n",
        host.display(),
        user.display()
    );
    std::fs::write(ends.file("sshd_config"), config).unwrap();
    // The /run of this scene is its own.
    std::fs::create_dir_all("/run/sshd").unwrap();
    let mut command = program_at_server("/usr/sbin/sshd");
    command.args(["-D", "-e", "-f"]).arg(ends.file("sshd_config"));
    let server = ends.run(command, "sshd.log");
    eventually("the server of ssh", || ends.log("sshd.log").contains("Server listening").then_some(()));
    server
}

/// Has a session go on while each link is lost, one after the other.
fn survives_both_links(ends: &Ends, links: [Link; 2], host: &str) {
    let mut session = Session::open(ends, host);
    let begin = Instant::now();
    session.repeats();
    let login = begin.elapsed();
    let mut longest = Duration::ZERO;
    for link in [links[0], links[1], links[0]] {
        link.down();
        for _ in 0..10 {
            longest = longest.max(session.repeats());
            thread::sleep(Duration::from_millis(50));
        }
        let before = link.received();
        link.up();
        // The link has a path again once it has carried packets that validate one, in both directions.
        eventually("a path", || (link.received() > before + 2_400).then_some(()));
        longest = longest.max(session.repeats());
    }
    assert!(longest < ANSWERS, "{longest:?}");
    eprintln!("{host}: login after {login:?}, longest answer {longest:?}");
}

/// Runs a scene with ssh.
fn ssh(name: &str, scene: impl FnOnce()) {
    if !is_root() {
        // The server changes its user, which a namespace of one user does not have.
        eprintln!("skipped: {name} (sshd needs root)");
        return;
    }
    inside(module_path!(), name, &["sshd", "ssh", "ssh-keygen", TUN], scene);
}

#[test]
fn ssh_survives_both_links_through_a_forward() {
    ssh("ssh_survives_both_links_through_a_forward", || {
        let (links, ends) = proxy();
        let _server = ssh_server(&ends);
        let _forward = forward(&ends, &["127.0.0.1:2222=127.0.0.1:2222/tcp"]);
        survives_both_links(&ends, links, "127.0.0.1");
    });
}

#[test]
fn ssh_survives_both_links_through_the_vpn() {
    ssh("ssh_survives_both_links_through_the_vpn", || {
        let (links, ends) = proxy();
        let _server = ssh_server(&ends);
        let _vpn = vpn(&ends);
        survives_both_links(&ends, links, TARGET);
    });
}
