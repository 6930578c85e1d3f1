//! Options that all commands of a client share, the connection to the proxy, and messages about the connection on standard
//! error.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anabranch::paths::Pattern;
use anabranch::proxy::client::{
    ConnectFailure, Credentials, CredentialsError, Proxy, ProxyConfig, ProxyState, RefusalKind, Resolve,
    StreamError, TunnelError,
};
use anabranch::{
    AttemptError, ConnectionError, MAX_PATHS, MultipathConfig, PathPolicy, PathRule, config, http3, rustls,
    schedule,
};
use aws_lc_rs::digest::{SHA256, digest};
use clap::Args;
use tokio::task::JoinSet;

use super::rules::Rules;
use crate::algorithm;
use crate::exit::{self, Exit, Failure, Result};
use crate::multipath;
use crate::options::{ClientIdentity, ClientPlan, Trust, Tuning};
use crate::output::hex;
use crate::proxy::MAX_WAITING_DATAGRAMS;

/// Application protocol of HTTP/3.
const H3: &str = "h3";
/// Maximum time for which the start waits for the first check of the credentials.
const CHECK: Duration = Duration::from_secs(2);

/// Reasons to connect to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dial {
    /// The process starts, and its user waits.
    First,
    /// The options have changed. The process still has a connection, so it can wait for the check until the timeout.
    Again,
}

/// Maximum number of bytes of each file that are compared to detect changes.
const PRINTED: u64 = 4 << 20;
/// Time after the end of the tunnels in which the connections of programs are reset.
const RESETS: Duration = Duration::from_millis(50);

/// Options for a proxy, the credentials, and the paths to the proxy.
#[derive(Args, Debug)]
pub(crate) struct Way {
    /// The proxy: https://HOST[:PORT]
    #[arg(id = "proxy", value_name = "PROXY")]
    url: String,
    /// File with this user's token
    #[arg(long, value_name = "FILE", conflicts_with = "user_file")]
    token_file: Option<PathBuf>,
    /// File with this user's name and password, NAME:PASSWORD
    #[arg(long, value_name = "FILE")]
    user_file: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    /// Client certificate, for a proxy that requires one
    #[arg(long, value_name = "PEM", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Private key of the client's certificate
    #[arg(long, value_name = "PEM", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Use these interfaces or addresses and no others, in order of preference; may be repeated. Without this
    /// option all networks of this host are used; `anabranch paths` shows them
    #[arg(long = "path", value_name = "IF|ADDR[,backup][,weight=N][,count=N]")]
    rules: Vec<PathRule>,
    /// Never use this interface or address; may be repeated
    #[arg(long = "not-path", value_name = "IF|ADDR")]
    denied: Vec<Pattern>,
    /// Maximum number of paths that are open at the same time
    #[arg(long, value_name = "N", default_value_t = MultipathConfig::default().max_paths(),
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PATHS)))]
    max_paths: u32,
    /// Scheduler, which chooses the path of the next packet
    #[arg(long, value_name = "NAME", default_value = MultipathConfig::default().scheduler().name(),
          value_parser = algorithm::scheduler)]
    scheduler: schedule::Algorithm,
    /// Seconds that an attempt to connect may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Do not connect over TCP, by HTTP/2 on one path, where UDP is blocked
    #[arg(long)]
    no_fallback: bool,
    #[command(flatten)]
    udp: Rules,
    #[command(flatten)]
    tuning: Tuning,
    /// Mark of TCP connections to the proxy.
    #[arg(skip)]
    tcp_mark: Option<u32>,
}

/// Options of a [`Way`], and digests of the files that they name. Equal prints create equal clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Print(String);

impl Way {
    /// Returns the proxy's URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the rules for UDP flows.
    pub(crate) fn udp_rules(&self) -> &Rules {
        &self.udp
    }

    /// Sets the mark of TCP connections to the proxy.
    pub(super) fn mark_tcp(&mut self, mark: Option<u32>) {
        self.tcp_mark = mark;
    }

    /// Checks the options and the files that they name, without connecting.
    pub(crate) fn check(&self) -> Result {
        self.config(self.policy()).map(drop)
    }

    /// Returns the print of the options and of the files that they name. Ignores files that cannot be read.
    pub(crate) fn print(&self) -> Print {
        let mut print = format!("{self:?}");
        for file in self.files() {
            let mut content = Vec::new();
            let _ = File::open(file).and_then(|file| file.take(PRINTED).read_to_end(&mut content));
            print.push_str(&hex(&digest(&SHA256, &content)));
        }
        Print(print)
    }

    /// Returns the files that the options name.
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let files = [&self.token_file, &self.user_file, &self.trust.ca, &self.client_cert, &self.client_key];
        files.into_iter().flatten()
    }

    /// Resolves the proxy's name. Returns its addresses.
    #[cfg(all(feature = "vpn", target_os = "linux"))]
    pub(crate) async fn connect_around(
        &self,
        dial: Dial,
        device: &str,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Proxy> {
        let own = device.parse::<Pattern>().map_err(|error| Failure::new(Exit::Usage, error))?;
        self.connect_by(dial, self.policy().denying([own]), Some(resolver)).await
    }

    /// Connects to the proxy, and checks that it accepts the credentials.
    pub(crate) async fn connect(&self, dial: Dial) -> Result<Proxy> {
        self.connect_by(dial, self.policy(), None).await
    }

    async fn connect_by(
        &self,
        dial: Dial,
        policy: PathPolicy,
        resolver: Option<Arc<dyn Resolve>>,
    ) -> Result<Proxy> {
        let survey = policy.survey().await;
        multipath::check(&survey)?;
        for unusable in &survey.invalid {
            exit::note(format_args!("anabranch: {unusable}; it is used once that changes"));
        }
        let config = self.config(policy)?;
        let proxy = Proxy::new(match resolver {
            Some(resolver) => config.with_resolver(resolver),
            None => config,
        });
        proxy.connect().await.map_err(|error| self.failure(&error))?;
        // The proxy verifies the certificate after the client has completed the handshake (RFC 8446 §4.4.2.4).
        let mut states = proxy.states();
        let rejected = async {
            let state = states.wait_for(|state| certificate_fault(state).is_some()).await.ok();
            state.and_then(|state| certificate_fault(&state))
        };
        let patience = match dial {
            Dial::First => CHECK,
            Dial::Again => Duration::from_secs(self.timeout.into()),
        };
        tokio::select! {
            checked = tokio::time::timeout(patience, proxy.check()) => match checked {
                Ok(Err(error)) if is_final(&error) => return Err(self.failure(&error)),
                Ok(_) => {}
                // The proxy's resolver may be slow.
                Err(_) => _ = tokio::spawn(tell_credentials(proxy.clone())),
            },
            Some(fault) = rejected => return Err(fault.about(&self.url)),
        }
        Ok(proxy)
    }

    fn policy(&self) -> PathPolicy {
        let policy = PathPolicy::default().allowing(self.rules.clone()).denying(self.denied.clone());
        policy.with_max_paths(self.max_paths as usize)
    }

    fn config(&self, policy: PathPolicy) -> Result<ProxyConfig> {
        let multipath =
            MultipathConfig::default().with_max_paths(self.max_paths).with_scheduler(self.scheduler);
        let transport = self.tuning.transport().with_multipath(Some(multipath));
        let transport = transport.with_datagram_send_buffer(MAX_WAITING_DATAGRAMS);
        let first = self.tuning.first_version();
        let plan =
            ClientPlan { trust: &self.trust, alpn: H3, transport, first, chacha20: false, resume: true };
        let config = ProxyConfig::new(&self.url, plan.config_with(self.identity()?)?);
        let config = config.map_err(|error| Failure::new(Exit::Usage, error))?;
        let config = config.with_paths(policy).with_fallback(!self.no_fallback).with_tcp_mark(self.tcp_mark);
        let config = config.with_attempt_timeout(Duration::from_secs(self.timeout.into()));
        let credentials = match (&self.token_file, &self.user_file) {
            (Some(file), _) => Some(Credentials::bearer_file(file)),
            (None, Some(file)) => Some(Credentials::basic_file(file)),
            (None, None) => None,
        };
        match credentials.transpose().map_err(|error| unreadable(&error))? {
            Some(credentials) => Ok(config.with_credentials(credentials)),
            None => Ok(config),
        }
    }

    /// Reads the client's certificate and its key.
    fn identity(&self) -> Result<Option<ClientIdentity>> {
        let (Some(cert), Some(key)) = (&self.client_cert, &self.client_key) else { return Ok(None) };
        Ok(Some((config::certificates(cert)?, config::private_key(key)?)))
    }

    /// Converts the error of a tunnel into a failure of the command, with a remedy.
    fn failure(&self, error: &TunnelError) -> Failure {
        match error {
            TunnelError::Refused(refusal) if refusal.kind() == RefusalKind::Credentials => {
                let (what, remedy) = match self.token_file.is_some() || self.user_file.is_some() {
                    true => ("the proxy does not accept the credentials", "look at the file that you name"),
                    false => ("the proxy wants to know its users", "name --token-file or --user-file"),
                };
                Failure::new(Exit::Http, format!("{what} (status {})", refusal.status.as_u16())).or(remedy)
            }
            error => failure(error),
        }
        .about(&self.url)
    }
}

fn unreadable(error: &CredentialsError) -> Failure {
    Failure::new(Exit::Usage, error)
}

/// Returns whether the request is expected to fail again if it is repeated.
fn is_final(error: &TunnelError) -> bool {
    match error {
        TunnelError::Refused(_) => true,
        TunnelError::Http3(http3::Error::ConnectionLost(lost)) => certificate(lost).is_some(),
        _ => false,
    }
}

/// Returns the failure if the proxy has not accepted the client's certificate.
fn certificate_fault(state: &ProxyState) -> Option<Failure> {
    match state {
        ProxyState::Lost(reason) => match &**reason {
            StreamError::Http3(http3::Error::ConnectionLost(lost)) => certificate(lost),
            _ => None,
        },
        _ => None,
    }
}

/// Converts the error of a connection if the proxy has rejected the client's certificate; `None` for other errors.
fn certificate(error: &ConnectionError) -> Option<Failure> {
    let ConnectionError::PeerTransport(error) = error else { return None };
    let (what, remedy) = match error.code.alert()? {
        116 => ("the proxy demands a client certificate", "name one with --client-cert and --client-key"),
        45 => (
            "the client's certificate has expired, or is not valid yet",
            "have it renewed, or check the clocks",
        ),
        42..=44 | 46..=49 => (
            "the proxy does not accept the client's certificate",
            "have it signed by an authority in the file that --client-ca of the proxy names",
        ),
        _ => return None,
    };
    let reason = if error.reason.is_empty() { String::new() } else { format!(": {}", error.reason) };
    Some(Failure::new(Exit::Certificate, format!("{what}{reason}")).or(remedy))
}

/// Converts the error of a tunnel into a failure of the command.
pub(crate) fn failure(error: &TunnelError) -> Failure {
    match error {
        TunnelError::Unavailable(failure) => unavailable(failure),
        TunnelError::Refused(refusal) => Failure::new(Exit::Http, refusal),
        TunnelError::NoUdp => Failure::new(Exit::Protocol, error)
            .or("use another proxy for UDP, such as `anabranch proxy serve`"),
        TunnelError::Http3(http3::Error::ConnectionLost(lost)) if certificate(lost).is_some() => {
            certificate(lost).unwrap_or_else(|| Failure::new(Exit::Protocol, error))
        }
        TunnelError::TimedOut(_) => Failure::new(Exit::Timeout, error),
        error => Failure::new(Exit::Protocol, error),
    }
}

/// Converts the failure of a connection.
pub(super) fn unavailable(failure: &ConnectFailure) -> Failure {
    match failure {
        ConnectFailure::Resolve { .. } => Failure::new(Exit::Resolution, failure).or("check the host name"),
        ConnectFailure::NoPath => Failure::new(Exit::NoPath, failure).or("see `anabranch paths`"),
        ConnectFailure::Attempts(AttemptError::Handshake(error)) => exit::handshake(error.clone()),
        ConnectFailure::TimedOut(_) => Failure::new(Exit::Timeout, failure)
            .or("check address, port and firewalls for UDP, or raise --timeout"),
        ConnectFailure::NotHttp3 => Failure::new(Exit::Handshake, failure),
        ConnectFailure::OverTcp(error) => {
            let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
            let is_certificate = matches!(tls, Some(rustls::Error::InvalidCertificate(_)));
            Failure::new(if is_certificate { Exit::Certificate } else { Exit::Handshake }, failure)
        }
        failure => Failure::new(Exit::Io, failure),
    }
}

/// Closes all tunnels, waits until the connections of programs are reset, and then aborts the tasks in `running`.
pub(crate) async fn end(proxy: &Proxy, running: &mut JoinSet<()>) {
    proxy.close().await;
    tokio::time::sleep(RESETS).await;
    running.abort_all();
}

/// Describes the effect of a configuration that was read again.
pub(crate) fn changes(opened: usize, is_replaced: bool) -> String {
    let proxy = if is_replaced { "new tunnels use a new connection" } else { "the connection stays" };
    format!("{proxy}; ports: {opened} opened")
}

/// Reports options that have no effect before a restart.
pub(crate) fn tell_fixed(options: &[&str]) {
    if !options.is_empty() {
        let options = options.join(", ");
        exit::note(format_args!("anabranch: a new value of {options} has no effect before a restart"));
    }
}

/// `true` once people know that the proxy does not accept the credentials.
static TOLD_CREDENTIALS: AtomicBool = AtomicBool::new(false);

/// Reports on standard error, once per process, if `error` means that the proxy does not accept the credentials.
pub(crate) fn tell_refusal(error: &TunnelError) {
    let TunnelError::Refused(refusal) = error else { return };
    if refusal.kind() == RefusalKind::Credentials && !TOLD_CREDENTIALS.swap(true, Ordering::Relaxed) {
        let status = refusal.status.as_u16();
        exit::note(format_args!("anabranch: the proxy no longer accepts the credentials (status {status})"));
    }
}

/// Checks the credentials without the time limit of the start.
async fn tell_credentials(proxy: Proxy) {
    if let Err(error) = proxy.check().await {
        tell_refusal(&error);
    }
}
