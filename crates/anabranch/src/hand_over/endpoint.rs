//! Hand-over, as the endpoints at both ends do it.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use anabranch_transport::{EndpointConfig, ServerConfig};
use anabranch_wire::InvalidSetting;

use super::neighbours::Standing;
use super::{HandOver, MAX_OLDER_PROCESSES, channel};
use crate::endpoint::Endpoint;
use crate::endpoint_inner::EndpointInner;
use crate::error::EndpointError;
use crate::socket::Socket;

impl Endpoint {
    /// Prepares to hand this endpoint's sockets over to another process, the successor, so that a new version of a program replaces a
    /// running one without a failed connection. (On Linux and Android.)
    ///
    /// Nothing changes until an endpoint of the successor begins ([`Endpoint::take_over`]). From then on, the successor receives all packets.
    /// Those that belong to none of its connections it forwards to this endpoint, and this endpoint returns what it does not know. So
    /// connections, and handshakes that have begun, stay here, wherever their clients move, and new clients reach the successor.
    /// [`Endpoint::relieved`] tells when that is so. Keep accepting clients afterwards: some may have arrived before. If the
    /// successor ends, this endpoint receives again, unless the successor has handed the sockets on itself.
    ///
    /// The process must not end while it forwards packets to a still older one: see [`Endpoint::older_ended`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::{Endpoint, SelfSigned, random_config};
    ///
    /// let identity = SelfSigned::new(["localhost"])?;
    /// let server = identity.server_config(["greeting"])?;
    /// let old = Endpoint::server(server.clone(), "127.0.0.1:0".parse()?)?;
    /// // A program sends what this returns to the new process, by `HandOver::send` and `HandOver::receive`.
    /// let sockets = old.hand_over()?;
    /// let new = Endpoint::take_over(&random_config()?, Some(server), sockets)?;
    /// old.relieved().await;
    /// assert_eq!(old.local_addr()?, new.local_addr()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Fails if a successor receives already, if more than [`MAX_OLDER_PROCESSES`] processes would forward packets, or if the system has
    /// no more descriptors.
    pub fn hand_over(&self) -> io::Result<HandOver> {
        let standing = self.standings().max_by_key(|standing| standing.older).unwrap_or_default();
        let older = standing.older.saturating_add(1);
        if self.standings().any(|other| other.is_relieved) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the sockets were handed over already"));
        }
        if usize::from(older) > MAX_OLDER_PROCESSES {
            let reason = "too many older processes have not finished their connections yet";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, reason));
        }
        let (mut workers, mut channels, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for worker in &*self.workers {
            let sockets = worker.driver.sockets().lasting();
            workers.push(sockets.iter().map(|socket| socket.duplicate()).collect::<io::Result<_>>()?);
            let (ours, theirs) = channel::pair()?;
            channels.push(theirs);
            links.push((worker, ours, sockets));
        }
        for (worker, ours, sockets) in links {
            worker.driver.links.precede(ours, sockets);
            worker.driver.wake();
        }
        let (keys, cid_len) = (self.config.lasting_keys(), self.config.cid_len());
        let is_balanced = self.config.load_balancing().is_some();
        Ok(HandOver { keys, cid_len, is_balanced, older, workers, channels, further: Vec::new() })
    }

    /// Creates an endpoint on the sockets of another process, which keeps its connections ([`Endpoint::hand_over`]). The sockets, the number
    /// of workers, the length of connection IDs and, unless only one of the two has QUIC-LB, the key of stateless resets are those of
    /// the other process. Its address tokens are accepted; new ones are sealed with the key of `config`, from which the rest comes,
    /// too. Its seed must be new. Memory of used address tokens, sessions and limits is not
    /// common to both.
    ///
    /// # Errors
    /// Fails if a socket cannot be used, or if a configuration contradicts the protocol.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with timers and I/O.
    pub fn take_over(
        config: &EndpointConfig,
        server: Option<ServerConfig>,
        handed: HandOver,
    ) -> Result<Self, EndpointError> {
        let HandOver { keys: [reset, token], cid_len, is_balanced, older, workers, channels, .. } = handed;
        let mut config = config.clone().with_cid_len(cid_len).with_accepted_token_key(token);
        // The key of all servers behind a load balancer must not answer for connections of others, and that of one server is
        // unknown to them.
        if is_balanced == config.load_balancing().is_some() {
            config = config.with_reset_key(reset);
        }
        let is_whole = !workers.is_empty() && workers.iter().all(|sockets| !sockets.is_empty());
        InvalidSetting::unless(is_whole, "handed", "must have sockets")?;
        config.validate_for(workers.len())?;
        let open = |socket| Socket::new(UdpSocket::from(socket));
        let (mut own, mut further) = (Vec::new(), Vec::new());
        for sockets in workers {
            let mut sockets = sockets.into_iter();
            own.extend(sockets.next());
            further.push(sockets);
        }
        let prepare = |workers: &[Arc<EndpointInner>]| {
            for ((worker, sockets), channel) in workers.iter().zip(further).zip(channels) {
                for socket in sockets {
                    worker.driver.sockets().add(Arc::new(open(socket)?));
                }
                worker.driver.links.follow(channel, older);
            }
            Ok(())
        };
        Self::on_all(&config, server, || own.into_iter().map(open).collect(), prepare)
    }

    /// Waits until another process receives on this endpoint's sockets, for all workers: no new clients arrive from then on.
    pub async fn relieved(&self) {
        self.wait_for(|standing| standing.is_relieved).await;
    }

    /// Returns whether another process receives on this endpoint's sockets, for all workers. It no longer does once it has ended.
    pub fn is_relieved(&self) -> bool {
        self.standings().all(|standing| standing.is_relieved)
    }

    /// Returns the number of older processes that still finish their connections, and to which this endpoint forwards packets.
    pub fn older_processes(&self) -> usize {
        self.standings().map(|standing| usize::from(standing.older)).max().unwrap_or(0)
    }

    /// Waits until no older process is left to which this endpoint forwards packets.
    pub async fn older_ended(&self) {
        self.wait_for(|standing| standing.older == 0).await;
    }

    fn standings(&self) -> impl Iterator<Item = Standing> {
        self.workers.iter().map(|worker| *worker.driver.links.standing.borrow())
    }

    async fn wait_for(&self, holds: impl Fn(&Standing) -> bool) {
        for worker in &*self.workers {
            let mut standing = worker.driver.links.standing.subscribe();
            // The endpoint holds the sender.
            let _ = standing.wait_for(&holds).await;
        }
    }
}
