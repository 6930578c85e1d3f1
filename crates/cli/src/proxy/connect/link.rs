//! The connection of a command to its proxy, which its configuration can replace while tunnels are open.

use std::sync::{Arc, Weak};

use anabranch::proxy::client::Proxy;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::news;
use super::rules::Rules;
use super::seen::Seen;
use super::way::{self, Print, Way};
use crate::exit::Result;

/// The client of a proxy, as tunnels use it. Each tunnel has a clone, so that the client lives as long as its tunnels.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    proxy: Proxy,
    seen: Seen,
    url: String,
    rules: Rules,
}

impl Client {
    pub(crate) fn proxy(&self) -> &Proxy {
        &self.0.proxy
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.0.seen
    }

    /// Returns the rules for UDP flows.
    pub(crate) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    /// Returns the proxy's URL.
    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }
}

/// The client that new tunnels use, and those that still have open tunnels.
#[derive(Debug)]
pub(crate) struct Link {
    current: watch::Sender<Client>,
    /// Options and contents of files that the current client was made of.
    print: Print,
    retired: Vec<Weak<Inner>>,
    /// Task that tells people about the current client.
    teller: AbortHandle,
}

/// A client that is connected, but that no tunnel uses yet.
pub(crate) struct Fresh {
    client: Client,
    print: Print,
}

impl Fresh {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

impl Link {
    /// Connects to the proxy.
    pub(crate) async fn connect(way: &Way) -> Result<Self> {
        let Fresh { client, print } = fresh(way, Seen::default(), way.print()).await?;
        let teller = tokio::spawn(news::tell_states(client.proxy().clone())).abort_handle();
        Ok(Self { current: watch::Sender::new(client), print, retired: Vec::new(), teller })
    }

    /// Returns the current client, and its successors.
    pub(crate) fn current(&self) -> watch::Receiver<Client> {
        self.current.subscribe()
    }

    /// Connects to the proxy anew if the options, or files that they name, have changed. `None` if they have not.
    pub(crate) async fn renew(&self, way: &Way) -> Result<Option<Fresh>> {
        let print = way.print();
        if print == self.print {
            return Ok(None);
        }
        let seen = self.current.borrow().seen().clone();
        fresh(way, seen, print).await.map(Some)
    }

    /// Lets new tunnels use another client. Open tunnels stay on theirs.
    pub(crate) fn replace(&mut self, fresh: Fresh) {
        self.teller.abort();
        self.teller = tokio::spawn(news::tell_states(fresh.client.proxy().clone())).abort_handle();
        self.print = fresh.print;
        let before = self.current.send_replace(fresh.client);
        self.retired.retain(|client| client.strong_count() > 0);
        self.retired.push(Arc::downgrade(&before.0));
    }

    /// Closes all tunnels, and then ends `serving`.
    pub(crate) async fn end(self, serving: &mut JoinSet<()>) {
        for client in self.retired.iter().filter_map(Weak::upgrade) {
            client.proxy.close().await;
        }
        let proxy = self.current.borrow().proxy().clone();
        way::end(&proxy, serving).await;
        // They remove what they have made.
        while serving.join_next().await.is_some() {}
        self.teller.abort();
    }
}

async fn fresh(way: &Way, seen: Seen, print: Print) -> Result<Fresh> {
    let (url, rules) = (way.url().to_owned(), way.udp_rules().clone());
    let inner = Inner { proxy: way.connect().await?, seen, url, rules };
    Ok(Fresh { client: Client(Arc::new(inner)), print })
}

#[cfg(test)]
pub(super) mod tests {
    use anabranch::proxy::client::ProxyConfig;
    use anabranch::{SelfSigned, config};

    use super::*;

    /// Returns a client that is not connected.
    pub(in crate::proxy::connect) fn client() -> Client {
        let roots = SelfSigned::new(["localhost"]).unwrap().roots().unwrap();
        let quic = config::client(roots, ["h3"]).unwrap();
        let url = "https://localhost:1".to_owned();
        let proxy = Proxy::new(ProxyConfig::new(&url, quic).unwrap());
        Client(Arc::new(Inner { proxy, seen: Seen::default(), url, rules: Rules::default() }))
    }
}
