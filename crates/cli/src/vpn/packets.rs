//! Transfer of packets other than TCP, which are sent as IP packets (CONNECT-IP, RFC 9484).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::proxy::client::{IpEvent, IpReceiver, IpSender, Proxy, SendPacketError, TunnelError};
use anabranch::proxy::ip::{self, IcmpLimit, IpRange, PacketHeader};
use ipnet::IpNet;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::exit::{Exit, Failure, Result};
use crate::proxy::connect::way;
use crate::tun::Packet;

/// Maximum time until the proxy has assigned addresses and advertised routes.
const ASSIGNMENT: Duration = Duration::from_secs(10);
/// Pause after a tunnel could not be opened, which doubles with each further failure up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Addresses that the proxy has assigned to this host, and ranges of addresses to which it forwards packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ranges: Vec<IpRange>,
}

/// An open tunnel for IP packets.
pub(super) struct Open {
    sender: IpSender,
    receiver: IpReceiver,
    pub(super) terms: Terms,
}

/// Opens a tunnel, requests an address of each family, and waits until the proxy has assigned addresses and
/// advertised routes. Requests the addresses in `wanted`, and any address of a family without one.
///
/// # Errors
/// Fails if the proxy does not support CONNECT-IP, assigns no address, or does not respond.
pub(super) async fn open(proxy: &Proxy, wanted: &[IpAddr]) -> Result<Open> {
    let tunnel = proxy.ip().await.map_err(|error| refused(&error))?;
    let (sender, receiver) = tunnel.split();
    let mut open = Open { sender, receiver, terms: Terms::default() };
    let any = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
    let like = |any: IpAddr| wanted.iter().copied().find(|own| own.is_ipv4() == any.is_ipv4()).unwrap_or(any);
    let requests: Vec<IpNet> = any.into_iter().map(|any| IpNet::from(like(any))).collect();
    open.sender.request(&requests).map_err(|error| Failure::new(Exit::Protocol, error))?;
    let assigned = async {
        // The proxy advertises routes before or after it assigns addresses.
        while open.terms.addresses.is_empty() || open.terms.ranges.is_empty() {
            match open.receiver.recv().await {
                Ok(Some(event)) => _ = open.terms.update(&event),
                Ok(None) => return Err(Failure::new(Exit::Protocol, "the proxy ended the tunnel")),
                Err(error) => {
                    return Err(Failure::new(Exit::Protocol, format!("the tunnel has ended: {error}")));
                }
            }
        }
        Ok(())
    };
    let late = || {
        Failure::new(Exit::Protocol, "the proxy assigned no address")
            .or("it may have none left; see --vpn-pool of `anabranch proxy serve`")
    };
    timeout(ASSIGNMENT, assigned).await.map_err(|_| late())??;
    Ok(open)
}

fn refused(error: &TunnelError) -> Failure {
    match error {
        TunnelError::NoIp => Failure::new(Exit::Protocol, error)
            .or("use another one, such as `anabranch proxy serve` with --vpn-pool"),
        error => way::failure(error),
    }
}

impl Terms {
    /// Handles an event. Returns whether the terms have changed.
    fn update(&mut self, event: &IpEvent) -> bool {
        let before = self.clone();
        match event {
            IpEvent::Addresses(assigned) => {
                let own = assigned.iter().filter(|address| !address.is_refusal());
                self.addresses = own.map(|address| address.prefix.addr()).collect();
            }
            IpEvent::Routes(ranges) => self.ranges.clone_from(ranges),
            _ => {}
        }
        *self != before
    }
}

/// State that both directions of packets share.
pub(super) struct Packets {
    proxy: Proxy,
    /// Sending end of the open tunnel; `None` while there is none.
    sender: watch::Sender<Option<IpSender>>,
    terms: watch::Sender<Terms>,
    /// Queue of packets to the device.
    out: mpsc::Sender<Packet>,
}

impl Packets {
    pub(super) fn new(proxy: Proxy, terms: Terms, out: mpsc::Sender<Packet>) -> Arc<Self> {
        let (sender, terms) = (watch::Sender::new(None), watch::Sender::new(terms));
        Arc::new(Self { proxy, sender, terms, out })
    }

    /// Returns a receiver of the terms and their changes.
    pub(super) fn terms(&self) -> watch::Receiver<Terms> {
        self.terms.subscribe()
    }

    /// Queues the proxy's packets for the device, and opens another tunnel whenever one has ended.
    pub(super) async fn receive(self: Arc<Self>, mut open: Option<Open>) {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(open) = open.take() {
                pause = FIRST_PAUSE;
                self.receive_from(open).await;
            }
            let wanted = self.terms.borrow().addresses.clone();
            match self::open(&self.proxy, &wanted).await {
                Ok(next) => {
                    self.terms.send_if_modified(|terms| {
                        let is_new = *terms != next.terms;
                        terms.clone_from(&next.terms);
                        is_new
                    });
                    open = Some(next);
                }
                Err(failure) => {
                    debug!(target: "anabranch::vpn", %failure, "no tunnel for packets");
                    sleep(pause).await;
                    pause = (2 * pause).min(LAST_PAUSE);
                }
            }
        }
    }

    async fn receive_from(&self, open: Open) {
        let Open { sender, mut receiver, .. } = open;
        self.sender.send_replace(Some(sender));
        loop {
            match receiver.recv().await {
                // A packet is dropped if the device's queue is full, as on any link.
                Ok(Some(IpEvent::Packet(packet))) => _ = self.out.try_send(Packet::new(&packet)),
                Ok(Some(event)) => {
                    self.terms.send_if_modified(|terms| terms.update(&event));
                }
                Ok(None) => break,
                Err(error) => {
                    debug!(target: "anabranch::vpn", %error, "the tunnel for packets has ended");
                    break;
                }
            }
        }
        self.sender.send_replace(None);
    }
}

/// The direction from programs to the proxy.
pub(super) struct Outgoing {
    packets: Arc<Packets>,
    sender: watch::Receiver<Option<IpSender>>,
    icmp: IcmpLimit,
}

impl Outgoing {
    pub(super) fn new(packets: Arc<Packets>) -> Self {
        let sender = packets.sender.subscribe();
        Self { packets, sender, icmp: IcmpLimit::default() }
    }

    /// Sends a packet of a program to the proxy, or drops it. If it does not fit, queues an ICMP message to
    /// the program's host.
    pub(super) fn send(&mut self, header: &PacketHeader, packet: &[u8]) {
        // Multicast packets are of the device's link. The proxy would drop packets with another source.
        if header.destination.is_multicast()
            || !self.packets.terms.borrow().addresses.contains(&header.source)
        {
            return;
        }
        let sent = match &*self.sender.borrow() {
            Some(sender) => sender.send(packet),
            None => return,
        };
        if let Err(SendPacketError::TooLarge { mtu }) = sent
            && let Some(report) = ip::too_big(packet, mtu).filter(|_| self.icmp.allows())
        {
            let _ = self.packets.out.try_send(Packet::new(&report));
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::proxy::ip::AssignedAddress;

    use super::*;

    #[test]
    fn terms_follow_the_proxy() {
        let mut terms = Terms::default();
        let assigned = |prefix: &str| AssignedAddress { request: 1, prefix: prefix.parse().unwrap() };
        let event = IpEvent::Addresses(vec![assigned("10.9.0.2/32"), assigned("::/128")]);
        assert!(terms.update(&event) && !terms.update(&event));
        assert_eq!(terms.addresses, [IpAddr::from([10, 9, 0, 2])]);
        let range = IpRange::of("0.0.0.0/0".parse().unwrap());
        assert!(terms.update(&IpEvent::Routes(vec![range])));
        assert!(terms.update(&IpEvent::Addresses(Vec::new())));
        assert_eq!(terms, Terms { addresses: Vec::new(), ranges: vec![range] });
    }
}
