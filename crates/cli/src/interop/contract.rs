//! The contract with the runner: environment variables and folders.

use std::path::PathBuf;

use super::case::TestCase;
use crate::exit::{Exit, Failure, Result};

/// Default port of the server.
const PORT: u16 = 443;

/// Role of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// Parsed environment of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct Contract {
    pub(super) role: Role,
    /// URLs that a client fetches.
    pub(super) requests: Vec<String>,
    /// Folder whose files the server serves.
    pub(super) www: PathBuf,
    /// Folder with `cert.pem` and `priv.key`.
    pub(super) certs: PathBuf,
    /// Folder that contains only the client's downloads.
    pub(super) downloads: PathBuf,
    /// Port that a server listens on.
    pub(super) port: u16,
}

impl Contract {
    /// Reads the environment. An unknown test case is reported before any other error.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<(Self, TestCase)> {
        let of = |name: &str| variable(name).filter(|value| !value.is_empty());
        let name = of("TESTCASE").unwrap_or_default();
        let case = TestCase::named(&name)
            .ok_or_else(|| Failure::new(Exit::UnknownCase, format!("unknown test case {name:?}")))?;
        let wrong = |what: &str| failed(Failure::new(Exit::Usage, what));
        let role = match of("ROLE").as_deref() {
            Some("client") => Role::Client,
            Some("server") => Role::Server,
            _ => return Err(wrong("ROLE is neither client nor server")),
        };
        let requests: Vec<String> =
            of("REQUESTS").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        if role == Role::Client && requests.is_empty() {
            return Err(wrong("REQUESTS names nothing to fetch"));
        }
        let port = of("ANABRANCH_PORT").map_or(Ok(PORT), |port| port.parse());
        let folder = |name: &str, usual: &str| PathBuf::from(of(name).unwrap_or_else(|| usual.to_owned()));
        let contract = Self {
            role,
            requests,
            www: folder("ANABRANCH_WWW", "/www"),
            certs: folder("ANABRANCH_CERTS", "/certs"),
            downloads: folder("ANABRANCH_DOWNLOADS", "/downloads"),
            port: port.map_err(|_| wrong("ANABRANCH_PORT is no port"))?,
        };
        Ok((contract, case))
    }
}

/// Sets the exit status to the only one that the runner accepts for failures.
pub(super) fn failed(failure: Failure) -> Failure {
    failure.with_exit(Exit::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<(Contract, TestCase)> {
        let found = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Contract::read(|name| found(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn an_unknown_case_is_refused_before_anything_else() {
        for variables in [&[("TESTCASE", "unheard")][..], &[("TESTCASE", "unheard"), ("ROLE", "server")], &[]]
        {
            assert_eq!(read(variables).unwrap_err().exit(), Exit::UnknownCase);
        }
    }

    #[test]
    fn what_is_missing_is_a_failure() {
        let client = [("TESTCASE", "handshake"), ("ROLE", "client")];
        assert_eq!(read(&client[..1]).unwrap_err().exit(), Exit::Failed);
        assert_eq!(read(&client).unwrap_err().exit(), Exit::Failed);
        let server = [("TESTCASE", "handshake"), ("ROLE", "server"), ("ANABRANCH_PORT", "many")];
        assert_eq!(read(&server).unwrap_err().exit(), Exit::Failed);
    }

    #[test]
    fn folders_and_port_are_the_runners_unless_said_otherwise() {
        let (contract, case) =
            read(&[("TESTCASE", "retry"), ("ROLE", "server"), ("ANABRANCH_WWW", "")]).unwrap();
        assert_eq!((contract.role, contract.port, case), (Role::Server, 443, TestCase::Retry));
        assert_eq!(contract.www, PathBuf::from("/www"));
        let requests = ("REQUESTS", "https://server4:443/a  https://server4:443/b\n");
        let elsewhere = ("ANABRANCH_DOWNLOADS", "elsewhere");
        let (contract, _) =
            read(&[("TESTCASE", "transfer"), ("ROLE", "client"), requests, elsewhere]).unwrap();
        assert_eq!(contract.requests, ["https://server4:443/a", "https://server4:443/b"]);
        assert_eq!(contract.downloads, PathBuf::from("elsewhere"));
    }
}
