//! Execution of one case in separate namespaces, both endpoints through `interop/run_endpoint.sh`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::case::Work;
use super::super::field::{Field, Identity};
use super::super::judge::{Outcome, judge};
use super::super::process::{Client, NoServer, Server};
use super::super::watch::Seen;
use super::evidence::{read_all, verify, verify_all};
use super::network::{CLIENT, Host, Network, ROUTER, SERVER};
use super::plan::{FAIR_ENOUGH, Play, Route};
use super::{forward, load};

/// Port on which servers listen.
const PORT: u16 = 443;
/// Port of the competing TCP connection.
const LOAD_PORT: u16 = 5201;
/// Application protocols of most cases, and of `http3`.
const ALPN: [&str; 2] = ["hq-interop", "h3"];

/// Paths and files that all cases share.
pub(super) struct Setting<'a> {
    /// Path of the entry point.
    pub(super) endpoint: PathBuf,
    /// Path of the command that the entry point runs.
    pub(super) command: PathBuf,
    pub(super) field: &'a Field,
}

/// Runs `play` and judges it. `number` distinguishes the names of its namespaces.
pub(super) fn play(setting: &Setting<'_>, play: &Play, number: usize) -> Outcome {
    Stage::build(setting, play, number).and_then(|stage| stage.run()).unwrap_or_else(Outcome::Failed)
}

/// Network, and the folders of both endpoints.
struct Stage<'a> {
    setting: &'a Setting<'a>,
    play: &'a Play,
    network: Network,
    folders: tempfile::TempDir,
    files: Vec<String>,
}

impl<'a> Stage<'a> {
    fn build(setting: &'a Setting<'_>, play: &'a Play, number: usize) -> Result<Self, String> {
        let files = files(play, setting.field)?;
        let folders = setting.field.downloads()?;
        for folder in ["downloads", "certs", "www"] {
            fs::create_dir(folders.path().join(folder)).map_err(|error| format!("{folder}: {error}"))?;
        }
        let identity = if play.case.long_chain { &setting.field.long } else { &setting.field.short };
        install(identity, &folders.path().join("certs")).map_err(|error| format!("certificates: {error}"))?;
        let seen_by_the_client = if play.route == Route::Relay { ROUTER } else { SERVER };
        let network = Network::lay(number, seen_by_the_client)?;
        if play.route == Route::Contended {
            network.narrow()?;
        }
        Ok(Self { setting, play, network, folders, files })
    }

    fn run(&self) -> Result<Outcome, String> {
        let serving = started(Server::start(self.endpoint(Host::Server)))?;
        let between = match self.play.route {
            Route::Relay => vec![started(Server::start(self.relay()?))?],
            Route::Direct => Vec::new(),
            Route::Contended => self.compete()?,
        };
        let requests = self.files.iter().map(|name| format!("https://{}:{PORT}/{name}", self.play.host));
        let mut command = self.endpoint(Host::Client);
        command.env("REQUESTS", requests.collect::<Vec<_>>().join(" "));
        let ended = Client::start(command)?.end(self.play.case.patience);
        let said = between.into_iter().map(Server::end).collect::<Result<Vec<_>, _>>()?;
        let served = serving.terminate();
        let last = said.iter().flatten().next_back();
        let seen = last.and_then(|line| forward::from_json(line)).filter(|_| self.play.route == Route::Relay);
        let outcome = judge(&self.play.case, &ended, seen.as_ref());
        if let Outcome::Pass(remark) = outcome {
            self.compare()?;
            self.look_at_traces()?;
            served?;
            let share = last.and_then(|line| load::goodput(line));
            return self.share(remark, share, seen.as_ref());
        }
        Ok(outcome)
    }

    /// Checks the additional requirements of a route: the relay's report, or the rate of the TCP connection.
    fn share(&self, remark: String, tcp: Option<f64>, seen: Option<&Seen>) -> Result<Outcome, String> {
        match (self.play.route, tcp, seen) {
            (Route::Relay, _, None) => Err("the relay did not say what it saw".to_owned()),
            (Route::Contended, None, _) => Err("the TCP connection did not say how it went".to_owned()),
            (Route::Contended, Some(tcp), _) if tcp < FAIR_ENOUGH => {
                Err(format!("TCP was left with {tcp:.2} Mbit/s"))
            }
            (Route::Contended, Some(tcp), _) => Ok(Outcome::Pass(format!("{remark}, TCP {tcp:.2} Mbit/s"))),
            _ => Ok(Outcome::Pass(remark)),
        }
    }

    fn endpoint(&self, place: Host) -> Command {
        let (role, case) = match place {
            Host::Client => ("client", self.play.names[0]),
            _ => ("server", self.play.names[1]),
        };
        let own = |folder: &str| self.folders.path().join(folder);
        let mut command = self.network.command(place, &self.setting.endpoint);
        command
            .env("ROLE", role)
            .env("TESTCASE", case)
            .env("QLOGDIR", own(&format!("{role}-qlog")))
            .env("SSLKEYLOGFILE", own(&format!("{role}-keys.log")))
            .env("ANABRANCH_BIN", &self.setting.command)
            .env("ANABRANCH_LOGS", "")
            .env("ANABRANCH_WWW", self.setting.field.www())
            .env("ANABRANCH_CERTS", own("certs"))
            .env("ANABRANCH_DOWNLOADS", own("downloads"))
            .env_remove("REQUESTS");
        command
    }

    /// Returns the command of the relay. It listens at the address that the client uses for the server.
    fn relay(&self) -> Result<Command, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let version = usize::from(self.play.case.ipv6);
        let mut command = self.network.command(Host::Router, own);
        command.args(["forward", "--case", self.play.case.name]);
        command.arg("--listen").arg(SocketAddr::new(ROUTER[version], PORT).to_string());
        command.arg("--server").arg(SocketAddr::new(SERVER[version], PORT).to_string());
        Ok(command)
    }

    /// Starts a TCP connection in the direction of the download. The receiver, which counts the bytes, is the
    /// last of the two returned programs.
    fn compete(&self) -> Result<Vec<Server>, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let there = SocketAddr::new(CLIENT[0], LOAD_PORT).to_string();
        let start = |place, flag| {
            let mut command = self.network.command(place, &own);
            command.args(["load", flag, &there]);
            started(Server::start(command))
        };
        let receiver = start(Host::Client, "--receive")?;
        let sender = start(Host::Server, "--send")?;
        Ok(vec![sender, receiver])
    }

    fn compare(&self) -> Result<(), String> {
        let downloads = self.folders.path().join("downloads");
        self.files.iter().try_for_each(|name| self.setting.field.compare(&downloads, name))?;
        let stored = fs::read_dir(&downloads).map_err(|error| format!("downloads: {error}"))?.count();
        if stored == self.files.len() {
            Ok(())
        } else {
            Err(format!("{stored} files for {} requests", self.files.len()))
        }
    }

    fn look_at_traces(&self) -> Result<(), String> {
        let [client, server] =
            ["client-qlog", "server-qlog"].map(|name| read_all(&self.folders.path().join(name)));
        verify_all(&client, self.play.connections, ALPN[usize::from(self.play.case.http3)])?;
        self.play.evidence.iter().try_for_each(|evidence| verify(evidence, &client, &server))
    }
}

/// Returns the names of the case's files.
fn files(play: &Play, field: &Field) -> Result<Vec<String>, String> {
    let Work::Files(groups) = &play.case.work else { return Ok(Vec::new()) };
    let each = groups.iter().flat_map(|(count, size)| (0..*count).map(|number| (*size, number)));
    each.map(|(size, number)| field.long_named_file(size, number, play.name_length)).collect()
}

/// Copies an identity to the location that the runner uses.
fn install(identity: &Identity, folder: &Path) -> std::io::Result<()> {
    fs::copy(&identity.chain, folder.join("cert.pem"))?;
    fs::copy(&identity.key, folder.join("priv.key")).map(|_| ())
}

fn started(server: Result<Server, NoServer>) -> Result<Server, String> {
    server.map_err(|none| match none {
        NoServer::Unsupported(why) | NoServer::Failed(why) => why,
    })
}
