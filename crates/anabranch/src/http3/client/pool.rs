//! Connections that are kept for later requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;

use super::super::{Connection, Error};
use super::connect;
use super::reach::Reach;
use crate::lock::lock;
use crate::sync::Mutex;

/// Maximum number of hosts whose connections are kept. Beyond it, unused ones are removed.
const MAX_HOSTS: usize = 256;

const HTTPS_PORT: u16 = 443;

/// A client's connections.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) reach: Reach,
    hosts: Mutex<HashMap<(String, u16), Arc<PooledHost>>>,
}

/// A host and port, and the connection to it.
#[derive(Debug)]
pub(super) struct PooledHost {
    pub(super) host: String,
    pub(super) port: u16,
    /// The kept connection. The lock is held while a connection is opened, so that concurrent requests wait
    /// for it and use it, too.
    kept: tokio::sync::Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    connection: Option<Connection>,
    /// Address of the server at the last connection.
    address: Option<SocketAddr>,
}

impl Pool {
    pub(super) fn new(reach: Reach) -> Self {
        Self { reach, hosts: Mutex::default() }
    }

    pub(super) fn host(&self, url: &Uri) -> Result<Arc<PooledHost>, Error> {
        let wrong = |reason| Error::Url { url: url.to_string(), reason };
        if url.scheme() != Some(&Scheme::HTTPS) {
            return Err(wrong("not an https URL"));
        }
        let host = url.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port = url.port_u16().unwrap_or(HTTPS_PORT);
        let mut hosts = lock(&self.hosts);
        let key = (host, port);
        if let Some(host) = hosts.get(&key) {
            return Ok(Arc::clone(host));
        }
        make_room(&mut hosts);
        let host = Arc::new(PooledHost { host: key.0.clone(), port, kept: tokio::sync::Mutex::default() });
        hosts.insert(key, Arc::clone(&host));
        Ok(host)
    }
}

/// Removes hosts that are not in use until there is room for one more: first those without a usable
/// connection, then any.
fn make_room(hosts: &mut HashMap<(String, u16), Arc<PooledHost>>) {
    if hosts.len() < MAX_HOSTS {
        return;
    }
    hosts.retain(|_, host| Arc::strong_count(host) > 1 || host.is_connected());
    while hosts.len() >= MAX_HOSTS {
        let idle = hosts.iter().find(|(_, host)| Arc::strong_count(host) == 1);
        let Some(key) = idle.map(|(key, _)| key.clone()) else { return };
        hosts.remove(&key);
    }
}

impl PooledHost {
    /// Returns a connection, and whether it existed before. With `early` the handshake need not be complete.
    pub(super) async fn connection(&self, reach: &Reach, early: bool) -> Result<(Connection, bool), Error> {
        let mut kept = self.kept.lock().await;
        let found = kept.connection.clone().filter(Connection::is_usable);
        let reused = found.is_some();
        let connection = match found {
            Some(connection) => connection,
            None => {
                let early = early && reach.early_data;
                let (connection, address) =
                    connect::connect(reach, (&self.host, self.port), kept.address, early).await?;
                kept.address = Some(address);
                kept.connection.insert(connection).clone()
            }
        };
        drop(kept);
        if !early {
            connection.established().await?;
        }
        Ok((connection, reused))
    }

    fn is_connected(&self) -> bool {
        // If the lock is held, a connection is being opened.
        self.kept.try_lock().map_or(true, |kept| kept.connection.as_ref().is_some_and(Connection::is_usable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, SelfSigned, config};

    #[tokio::test]
    async fn max_hosts_are_kept_and_those_in_use_stay() {
        let roots = SelfSigned::new(["localhost"]).unwrap().roots().unwrap();
        let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let pool = Pool::new(Reach::new(endpoint, config::client(roots, ["h3"]).unwrap()));
        let used = pool.host(&Uri::from_static("https://used.example/")).unwrap();
        for i in 0..3 * MAX_HOSTS {
            pool.host(&format!("https://host-{i}.example/").parse().unwrap()).unwrap();
        }
        assert!(lock(&pool.hosts).len() <= MAX_HOSTS);
        let again = pool.host(&Uri::from_static("https://USED.example:443/other")).unwrap();
        assert!(Arc::ptr_eq(&used, &again));
    }
}
