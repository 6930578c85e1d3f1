//! Configuration of the host's resolvers while a VPN runs.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch::proxy::server::is_forbidden;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure, Result};

/// The configuration of the system's resolver.
const CONFIGURATION: &str = "/etc/resolv.conf";
/// Directory in which systemd-resolved keeps it.
const RESOLVED: &str = "/run/systemd/resolve";

/// Change of the resolver's configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Resolver {
    pub(super) path: PathBuf,
    /// Content of the file before the change; `None` if there was no file.
    pub(super) before: Option<String>,
    /// Content of the file after the change.
    pub(super) after: String,
}

/// Change of the host's resolvers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Change of the device's resolvers in systemd-resolved, which discards it when the device is removed.
    Resolved,
    File(Resolver),
}

impl Change {
    /// Prepares the change to these resolvers.
    ///
    /// # Errors
    /// Fails if the configuration cannot be read.
    pub(super) fn to(resolvers: &[IpAddr]) -> Result<Self> {
        let path = Path::new(CONFIGURATION);
        if fs::canonicalize(path).is_ok_and(|real| real.starts_with(RESOLVED)) {
            return Ok(Self::Resolved);
        }
        Resolver::to(path, resolvers).map(Self::File)
    }

    /// Makes the change. `device` is the name of the TUN device.
    ///
    /// # Errors
    /// Fails if the configuration cannot be written.
    pub(super) fn make(&self, resolvers: &[IpAddr], device: &str) -> Result {
        match self {
            Self::File(resolver) => resolver.make(),
            Self::Resolved => {
                let addresses = resolvers.iter().map(ToString::to_string);
                resolvectl(["dns".to_owned(), device.to_owned()].into_iter().chain(addresses))?;
                // With the domain `~.`, queries for all names are sent to these resolvers.
                resolvectl(["domain", device, "~."].map(str::to_owned).into_iter())
            }
        }
    }

    /// Undoes the change.
    ///
    /// # Errors
    /// Fails if the configuration cannot be written.
    pub(super) fn undo(&self, device: &str) -> Result {
        match self {
            Self::File(resolver) => resolver.undo(),
            Self::Resolved => resolvectl(["revert", device].map(str::to_owned).into_iter()),
        }
    }
}

fn resolvectl(arguments: impl Iterator<Item = String>) -> Result {
    let failed = |why: String| {
        Failure::new(Exit::Io, format!("resolvectl cannot set the resolvers: {why}")).or("leave out --dns")
    };
    let output = Command::new("resolvectl").args(arguments).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

impl Resolver {
    fn to(path: &Path, resolvers: &[IpAddr]) -> Result<Self> {
        let before = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(|error| Failure::io(path.display(), &error))?),
        };
        let mut after =
            "# Written by anabranch vpn, which puts the former content back at its end.\n".to_owned();
        // All lines but resolvers and comments are kept, such as options and search lists.
        for line in before
            .iter()
            .flat_map(|text| text.lines())
            .filter(|line| !is_nameserver(line) && !line.starts_with('#'))
        {
            after.push_str(line);
            after.push('\n');
        }
        resolvers.iter().for_each(|resolver| after.push_str(&format!("nameserver {resolver}\n")));
        Ok(Self { path: path.to_owned(), before, after })
    }

    /// Writes the changed content into the existing file, which may be a mount point and so cannot be
    /// replaced.
    fn make(&self) -> Result {
        fs::write(&self.path, &self.after).map_err(|error| {
            Failure::io(self.path.display(), &error).or("leave out --dns, or run with the right to write it")
        })
    }

    /// Restores the former content, unless the file has been changed by another program.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn undo(&self) -> Result {
        if fs::read_to_string(&self.path).is_ok_and(|now| now == self.after) {
            let written = match &self.before {
                Some(before) => fs::write(&self.path, before),
                None => fs::remove_file(&self.path),
            };
            written.map_err(|error| Failure::io(self.path.display(), &error))?;
        }
        Ok(())
    }
}

fn is_nameserver(line: &str) -> bool {
    line.split_whitespace().next() == Some("nameserver")
}

/// Returns the system's first resolver whose address is not public. Packets to such an address usually go to
/// this host or to a local network, and so around the tunnel.
pub(super) fn around() -> Option<IpAddr> {
    let text = fs::read_to_string(CONFIGURATION).ok()?;
    private(&text)
}

fn private(text: &str) -> Option<IpAddr> {
    let addresses = text.lines().filter(|line| is_nameserver(line));
    addresses
        .filter_map(|line| line.split_whitespace().nth(1)?.parse().ok())
        .find(|address: &IpAddr| is_forbidden(*address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_replaced_and_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resolv.conf");
        let before = "# comment\nsearch example.org\nnameserver 192.168.1.1\noptions edns0\n";
        fs::write(&path, before).unwrap();
        let resolver =
            Resolver::to(&path, &["9.9.9.9".parse().unwrap(), "2620:fe::fe".parse().unwrap()]).unwrap();
        resolver.make().unwrap();
        let after = fs::read_to_string(&path).unwrap();
        assert!(
            after
                .ends_with("search example.org\noptions edns0\nnameserver 9.9.9.9\nnameserver 2620:fe::fe\n"),
            "{after}"
        );
        resolver.undo().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        // Another program has changed the file, so it is not restored.
        resolver.make().unwrap();
        fs::write(&path, "nameserver 1.1.1.1\n").unwrap();
        resolver.undo().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "nameserver 1.1.1.1\n");
        fs::remove_file(&path).unwrap();
        let resolver = Resolver::to(&path, &["9.9.9.9".parse().unwrap()]).unwrap();
        resolver.make().unwrap();
        resolver.undo().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn resolvers_around_the_tunnel_are_found() {
        assert_eq!(private("nameserver 9.9.9.9\nnameserver 10.0.0.1\n"), Some([10, 0, 0, 1].into()));
        assert_eq!(private("nameserver\nnameserver x\nnameserver 9.9.9.9"), None);
    }
}
