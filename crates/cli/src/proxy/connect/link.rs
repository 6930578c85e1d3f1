//! The connection of a command to its proxy, which its configuration can replace while tunnels are open.

use std::sync::{Arc, Weak};

use anabranch::proxy::client::Proxy;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::news;
use super::rules::Rules;
use super::seen::Seen;
use super::way::{self, Dial, Print, Way};
use crate::exit::Result;

/// Client of a proxy, with the rules and the statistics of its tunnels. Each tunnel has a clone, so that the client's tasks
/// run as long as its tunnels are open.
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
    /// Options and contents of files from which the current client was created.
    print: Print,
    retired: Vec<Weak<Inner>>,
    /// Task that prints state changes of the current client.
    teller: AbortHandle,
}

/// A client that is connected, but that no tunnel uses yet.
pub(crate) struct Fresh {
    client: Client,
    print: Print,
}

impl Fresh {
    /// Makes a client of a proxy that is connected.
    pub(crate) fn new(way: &Way, print: Print, proxy: Proxy, seen: Seen) -> Self {
        let (url, rules) = (way.url().to_owned(), way.udp_rules().clone());
        Self { client: Client(Arc::new(Inner { proxy, seen, url, rules })), print }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

impl Link {
    /// Connects to the proxy.
    pub(crate) async fn connect(way: &Way) -> Result<Self> {
        fresh(Dial::First, way, Seen::default(), way.print()).await.map(Self::new)
    }

    /// Begins with a client.
    pub(crate) fn new(fresh: Fresh) -> Self {
        let Fresh { client, print } = fresh;
        let teller = tokio::spawn(news::tell_states(client.proxy().clone())).abort_handle();
        Self { current: watch::Sender::new(client), print, retired: Vec::new(), teller }
    }

    /// Returns a receiver of the current client and its successors.
    pub(crate) fn current(&self) -> watch::Receiver<Client> {
        self.current.subscribe()
    }

    /// Returns whether the current client was made of options and files with this print.
    pub(crate) fn is_of(&self, print: &Print) -> bool {
        *print == self.print
    }

    /// Returns the current client, and those that still have open tunnels.
    #[cfg(all(feature = "vpn", target_os = "linux"))]
    pub(crate) fn clients(&self) -> Vec<Client> {
        let retired = self.retired.iter().filter_map(Weak::upgrade).map(Client);
        std::iter::once(self.current.borrow().clone()).chain(retired).collect()
    }

    /// Connects to the proxy anew if the options, or files that they name, have changed. `None` if they have not.
    pub(crate) async fn renew(&self, way: &Way) -> Result<Option<Fresh>> {
        let print = way.print();
        if self.is_of(&print) {
            return Ok(None);
        }
        let seen = self.current.borrow().seen().clone();
        fresh(Dial::Again, way, seen, print).await.map(Some)
    }

    /// Sets the client that new tunnels use. Open tunnels keep the one on which they were opened.
    pub(crate) fn replace(&mut self, fresh: Fresh) {
        self.teller.abort();
        self.teller = tokio::spawn(news::tell_states(fresh.client.proxy().clone())).abort_handle();
        self.print = fresh.print;
        let before = self.current.send_replace(fresh.client);
        self.retired.retain(|client| client.strong_count() > 0);
        self.retired.push(Arc::downgrade(&before.0));
    }

    /// Closes all tunnels, and then aborts the tasks in `serving`.
    pub(crate) async fn end(self, serving: &mut JoinSet<()>) {
        for client in self.retired.iter().filter_map(Weak::upgrade) {
            client.proxy.close().await;
        }
        let proxy = self.current.borrow().proxy().clone();
        way::end(&proxy, serving).await;
        // The tasks remove files that they have created, for instance sockets, before they end.
        while serving.join_next().await.is_some() {}
        self.teller.abort();
    }
}

async fn fresh(dial: Dial, way: &Way, seen: Seen, print: Print) -> Result<Fresh> {
    Ok(Fresh::new(way, print, way.connect(dial).await?, seen))
}

#[cfg(test)]
pub(crate) mod tests {
    use anabranch::proxy::client::ProxyConfig;
    use anabranch::{SelfSigned, config};

    use super::*;

    /// Returns a client that is not connected.
    pub(crate) fn client() -> Client {
        let roots = SelfSigned::new(["localhost"]).unwrap().roots().unwrap();
        let quic = config::client(roots, ["h3"]).unwrap();
        let url = "https://localhost:1".to_owned();
        let proxy = Proxy::new(ProxyConfig::new(&url, quic).unwrap());
        Client(Arc::new(Inner { proxy, seen: Seen::default(), url, rules: Rules::default() }))
    }
}
