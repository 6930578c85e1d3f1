//! UDP flows between a client and a proxy on the loopback interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;

use super::super::field::Field;
use super::super::judge::Outcome;
use super::super::program::{OURS, Program};
use super::case::{Refused, Udp};
use super::ends::{Files, Running, TOKEN, report};
use super::target::{Echo, SILENCE, echoed};

/// Path of the default template (RFC 9298 §2).
const TEMPLATE: &str = "/.well-known/masque/udp/{target_host}/{target_port}/";

/// Facts that a client has observed.
struct Seen {
    /// Status of a refusal, and what the proxy said of its cause; `None` if the flow was accepted.
    refusal: Option<(u16, String)>,
    /// `true` if the proxy ended the flow.
    ended: bool,
    /// Client that still runs, so that only its flow has ended and not its connection.
    _running: Option<Running>,
}

/// Programs and files of a case.
struct Stage<'a> {
    client: &'a Program,
    field: &'a Field,
    files: Files,
    proxy: SocketAddr,
}

/// Runs a case.
pub(super) fn play(work: &Udp, client: &Program, server: &Program, field: &Field) -> Result<Outcome, String> {
    let files = Files::write(field)?;
    let command = proxy(server, field, &files, matches!(work, Udp::EndedByProxy));
    let (proxy, address) = Running::saying(command, "listening ").map_err(|why| format!("server: {why}"))?;
    let address = address.parse().map_err(|_| format!("server listens at {address}"))?;
    let stage = Stage { client, field, files, proxy: address };
    let note = match work {
        Udp::Echo(host, sizes) => stage.echo(host, sizes)?,
        Udp::Refused(refused) => stage.refused(refused, server)?,
        Udp::EndedByClient => {
            let echo = Echo::start((Ipv4Addr::LOCALHOST, 0).into())?;
            let seen = stage.flow("127.0.0.1", &echo, &[1], false)?;
            echo.ends_abandoned()?;
            drop(seen);
            "the proxy closed its socket".to_owned()
        }
        Udp::EndedByProxy => {
            let echo = Echo::start((Ipv4Addr::LOCALHOST, 0).into())?;
            let seen = stage.flow("127.0.0.1", &echo, &[1], true)?;
            seen.ended.then_some(()).ok_or("the client did not notice the end of the flow")?;
            "the client noticed".to_owned()
        }
    };
    proxy.end().map_err(|why| format!("server {why}"))?;
    Ok(Outcome::Pass(note))
}

/// Returns the command of a proxy. `brief` makes it end flows soon.
fn proxy(program: &Program, field: &Field, files: &Files, brief: bool) -> Command {
    let mut command = Command::new(program.path());
    if program.name == OURS {
        command.args(["proxy", "serve", "--no-tcp", "--no-status", "--users"]).arg(files.path("users.toml"));
        command.args(["--allow", "127.0.0.0/8", "--allow", "::1/128", "--drain", "1"]);
        if brief {
            command.arg("--config").arg(files.path("idle.toml"));
        }
    } else {
        command.arg("server");
        if brief {
            command.args(["--flow-ms", "1000"]);
        }
    }
    command.args(["--listen", "127.0.0.1:0", "--cert"]).arg(&field.short.chain);
    command.arg("--key").arg(&field.short.key);
    command
}

impl Stage<'_> {
    fn echo(&self, host: &str, sizes: &[usize]) -> Result<String, String> {
        // A name may have addresses of both families.
        let echo = Echo::start((Ipv4Addr::LOCALHOST, 0).into())?;
        let other = Echo::start((Ipv6Addr::LOCALHOST, echo.port()?).into())?;
        let seen = self.flow(host, &echo, sizes, false)?;
        if let Some((status, cause)) = seen.refusal {
            return Err(format!("refused with status {status}: {cause}"));
        }
        let came = echo.sources().len() + other.sources().len();
        (came > 0)
            .then(|| format!("{} payloads echoed", sizes.len()))
            .ok_or_else(|| "no payload came".to_owned())
    }

    fn refused(&self, refused: &Refused, server: &Program) -> Result<String, String> {
        let expected = if server.name == OURS { refused.ours } else { refused.theirs };
        let echo = Echo::start((Ipv4Addr::LOCALHOST, 0).into())?;
        let seen = self.flow(refused.host, &echo, &[], false)?;
        let (status, said) = seen.refusal.ok_or("the flow was accepted")?;
        let is_right = expected.iter().any(|(code, cause)| *code == status && said.contains(cause));
        is_right.then(|| format!("status {status}")).ok_or_else(|| format!("status {status}: {said}"))
    }

    /// Opens a flow to the port of `echo` at `host`, and has payloads of these lengths echoed. Then waits until the proxy ends
    /// the flow, if `until_end`.
    fn flow(&self, host: &str, echo: &Echo, sizes: &[usize], until_end: bool) -> Result<Seen, String> {
        let target = match host.parse::<IpAddr>() {
            Ok(address) => SocketAddr::new(address, echo.port()?).to_string(),
            Err(_) => format!("{host}:{}", echo.port()?),
        };
        if self.client.name == OURS {
            self.forward(&target, echo, sizes, until_end)
        } else {
            self.peer(&target, sizes, until_end)
        }
    }

    fn peer(&self, target: &str, sizes: &[usize], until_end: bool) -> Result<Seen, String> {
        let lengths: Vec<_> = sizes.iter().map(ToString::to_string).collect();
        let mut command = Command::new(self.client.path());
        command.args(["client", "--token", TOKEN, "--target", target, "--template"]);
        command.arg(format!("https://{}{TEMPLATE}", self.proxy)).arg("--ca").arg(&self.field.short.ca);
        if !sizes.is_empty() {
            command.arg("--sizes").arg(lengths.join(","));
        }
        if until_end {
            command.arg("--until-end");
        }
        let report = report(command)?;
        let status = report["status"].as_u64().and_then(|status| status.try_into().ok()).unwrap_or(0);
        let cause = report["proxy_status"].as_str().unwrap_or_default().to_owned();
        let refusal = (!(200..300).contains(&status)).then_some((status, cause));
        if refusal.is_none() && report["echoed"] != serde_json::json!(sizes) {
            return Err(format!("client reports echoes of {} bytes", report["echoed"]));
        }
        Ok(Seen { refusal, ended: report["ended"] == true, _running: None })
    }

    fn forward(&self, target: &str, echo: &Echo, sizes: &[usize], until_end: bool) -> Result<Seen, String> {
        let mut command = Command::new(self.client.path());
        command.args(["forward", &format!("https://{}", self.proxy), "--path", "lo", "--no-status", "-vv"]);
        command.args(["--udp-idle", if until_end { "60" } else { "1" }]);
        command.arg(format!("127.0.0.1:0={target}/udp"));
        command.arg("--token-file").arg(self.files.path("token")).arg("--ca").arg(&self.field.short.ca);
        let (running, said) = Running::saying(command, "forwarding ")?;
        let port: SocketAddr =
            said.split(' ').next().and_then(|port| port.parse().ok()).ok_or("no forwarded port")?;
        let io = |error: std::io::Error| error.to_string();
        let socket = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.connect(port).map(|()| socket));
        let socket = socket.map_err(io)?;
        sizes.iter().try_for_each(|len| echoed(&socket, *len))?;
        if sizes.is_empty() {
            // The program learns nothing of a refusal, so it is in the log.
            socket.send(b"anybody?").map_err(io)?;
            thread::sleep(SILENCE);
            let log = running.end()?;
            return Ok(Seen { refusal: refusal(&log), ended: false, _running: None });
        }
        if until_end {
            thread::sleep(SILENCE);
            // The next payload opens another flow, which comes from another port of the proxy.
            echoed(&socket, 1)?;
        }
        Ok(Seen { refusal: None, ended: echo.sources().len() > 1, _running: Some(running) })
    }
}

/// Returns the status and the cause of the refusal that the log of `anabranch forward` reports.
fn refusal(log: &str) -> Option<(u16, String)> {
    let (_, said) = log.split_once("the proxy refused with status ")?;
    let line = said.lines().next()?;
    Some((line.get(..3)?.parse().ok()?, line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_found_in_the_log() {
        let log = "begins\nDEBUG no flow target=x:1 error=the proxy refused with status 502 Bad Gateway: dns_error (no such)\n";
        assert_eq!(refusal(log), Some((502, "502 Bad Gateway: dns_error (no such)".to_owned())));
        assert_eq!(refusal("begins\nestablished\n"), None);
    }
}
