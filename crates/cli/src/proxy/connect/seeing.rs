//! Publication of a client's state: on a Unix socket, as metrics, and as a page for a browser.

use std::net::{SocketAddr, TcpListener};

use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::link::Client;
use super::metrics;
use super::state::State;
use crate::exit::Result;
use crate::serve::sockets::bind_tcp;
use crate::status::page::Page;
use crate::status::publish::{Publisher, Publishing, reporting};

/// Options for the publication of a client's state. They cannot change while the command runs.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeing {
    #[command(flatten)]
    publishing: Publishing,
    /// Serve metrics for Prometheus at http://IP:PORT/metrics
    #[arg(long, value_name = "IP:PORT")]
    metrics: Option<SocketAddr>,
    /// Serve a page for a browser on this host that shows the state over time, at a loopback address. The command prints the
    /// URL, which contains a secret
    #[arg(long, value_name = "IP:PORT")]
    page: Option<SocketAddr>,
}

/// Sockets for the client's state, which are bound before the command connects to the proxy.
#[derive(Debug)]
pub(crate) struct Bound {
    role: &'static str,
    publisher: Option<Publisher>,
    metrics: Option<TcpListener>,
    page: Option<Page>,
}

impl Seeing {
    /// Binds the sockets of a command.
    pub(crate) fn bind(&self, role: &'static str) -> Result<Bound> {
        let metrics = self.metrics.map(bind_tcp).transpose()?;
        let page = self.page.map(Page::bind).transpose()?;
        Ok(Bound { role, publisher: self.publishing.bind(role)?, metrics, page })
    }

    /// Returns the names of the options that differ from `other`. They have no effect before a restart.
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let differences = [
            ("status_socket", self.publishing != other.publishing),
            ("metrics", self.metrics != other.metrics),
            ("page", self.page != other.page),
        ];
        differences.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

impl Bound {
    /// Publishes the client's state in tasks that are added to `tasks`. Returns the lines to print about it.
    pub(crate) fn start(
        self,
        current: &watch::Receiver<Client>,
        tasks: &mut JoinSet<()>,
    ) -> Result<Vec<String>> {
        let Self { role, publisher, metrics, page } = self;
        let mut lines = Vec::new();
        if publisher.is_some() || page.is_some() {
            let (newest, reporting) = reporting(State::new(role, current.clone()));
            tasks.spawn(reporting);
            if let Some(page) = page {
                lines.push(format!("page {}", page.url()));
                tasks.spawn(page.serve(newest.clone()));
            }
            if let Some(publisher) = publisher {
                tasks.spawn(publisher.publish(newest));
            }
        }
        let serve = |listener| metrics::serve(listener, current.clone(), tasks);
        let address = metrics.map(serve).transpose()?;
        lines.extend(address.map(|address| format!("metrics http://{address}/metrics")));
        Ok(lines)
    }
}
