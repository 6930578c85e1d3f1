//! Transfer of packets other than TCP, which are sent as IP packets (CONNECT-IP, RFC 9484).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch::proxy::client::{IpEvent, IpReceiver, IpSender, SendPacketError, TunnelError};
use anabranch::proxy::ip::transport_protocol::UDP;
use anabranch::proxy::ip::{self, IcmpLimit, IpRange, PacketHeader};
use ipnet::IpNet;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::exit::{Exit, Failure, Result};
use crate::proxy::connect::link::Client;
use crate::proxy::connect::seen::{Flow, Kind};
use crate::proxy::connect::way;
use crate::tun::Packet;

/// Maximum time until the proxy has assigned addresses and advertised routes.
const ASSIGNMENT: Duration = Duration::from_secs(10);
/// Pause after a tunnel could not be opened, which doubles with each further failure up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LAST_PAUSE: Duration = Duration::from_secs(5);
/// Duration below which an open tunnel counts as one that could not be opened.
const BRIEF: Duration = Duration::from_secs(1);

/// Addresses that the proxy has assigned to this host, and ranges of addresses to which it forwards packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ranges: Vec<IpRange>,
}

impl Terms {
    /// Returns whether a packet from the proxy has an address of this host as its destination.
    fn covers(&self, packet: &[u8]) -> bool {
        PacketHeader::parse(packet).is_some_and(|header| self.addresses.contains(&header.destination))
    }

    /// Returns an address of these networks to which the proxy does not forward UDP; `None` if it forwards UDP to all of them.
    pub(super) fn missing(&self, networks: &[IpNet]) -> Option<IpAddr> {
        let next = |address: IpAddr| match address {
            IpAddr::V4(address) => {
                address.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into())
            }
            IpAddr::V6(address) => {
                address.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into())
            }
        };
        networks.iter().find_map(|network| {
            let mut address = network.network();
            loop {
                let range = self.range_of(address, UDP);
                let Some(range) = range else { return Some(address) };
                match next(range.end).filter(|next| network.contains(next)) {
                    Some(next) => address = next,
                    None => return None,
                }
            }
        })
    }

    /// Returns whether the proxy forwards packets of a protocol to an address.
    pub(super) fn forwards(&self, address: IpAddr, protocol: u8) -> bool {
        self.range_of(address, protocol).is_some()
    }

    /// Returns the range by which the proxy forwards packets of a protocol to an address.
    fn range_of(&self, address: IpAddr, protocol: u8) -> Option<&IpRange> {
        // 0 stands for all protocols (RFC 9484 §4.7.3).
        [0, protocol].into_iter().find_map(|protocol| {
            // The ranges are sorted by these three.
            let key = |range: &IpRange| (range.start.is_ipv6(), range.protocol, range.start);
            let later =
                self.ranges.partition_point(|range| key(range) <= (address.is_ipv6(), protocol, address));
            let range = &self.ranges[later.checked_sub(1)?];
            let is_in = range.protocol == protocol && range.start <= address && address <= range.end;
            is_in.then_some(range)
        })
    }
}

/// An open tunnel for IP packets.
pub(super) struct Open {
    up: Up,
    receiver: IpReceiver,
    pub(super) terms: Terms,
}

/// The sending end of a tunnel.
struct Up {
    sender: IpSender,
    flow: Arc<Flow>,
    /// Client of the tunnel, whose paths are managed while the tunnel is open.
    client: Client,
}

/// Opens a tunnel, and waits until the proxy has assigned addresses: these ones, if that is possible. Another tunnel of the same
/// user that has them loses them.
///
/// # Errors
/// Fails if the proxy carries no IP packets, assigns no address, or does not respond.
pub(super) async fn open(client: &Client, wanted: &[IpAddr]) -> Result<Open> {
    let opened = async {
        let (sender, mut receiver) = client.proxy().ip().await.map_err(|error| refused(&error))?.split();
        let any = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        let like =
            |any: IpAddr| wanted.iter().copied().find(|own| own.is_ipv4() == any.is_ipv4()).unwrap_or(any);
        let requests: Vec<IpNet> = any.into_iter().map(|any| IpNet::from(like(any))).collect();
        sender.request(&requests).map_err(|error| Failure::new(Exit::Protocol, error))?;
        let late = |_| {
            Failure::new(Exit::Protocol, "the proxy assigned no address")
                .or("it may have none left; see --vpn-pool of `anabranch proxy serve`")
        };
        let terms = timeout(ASSIGNMENT, assigned(&mut receiver)).await.map_err(late)??;
        Ok::<_, Failure>((sender, receiver, terms))
    };
    let (sender, receiver, terms) = opened.await.inspect_err(|_| client.seen().fail(Kind::Ip))?;
    // RFC 9484 §4.6: all hosts and all protocols.
    let flow = Arc::new(client.seen().open(Kind::Ip, &"*"));
    Ok(Open { up: Up { sender, flow, client: client.clone() }, receiver, terms })
}

/// Waits until the proxy has assigned addresses and told which packets it forwards, in whichever order.
async fn assigned(receiver: &mut IpReceiver) -> Result<Terms> {
    let mut terms = Terms::default();
    while terms.addresses.is_empty() || terms.ranges.is_empty() {
        match receiver.recv().await {
            Ok(Some(event)) => _ = terms.update(&event),
            Ok(None) => return Err(Failure::new(Exit::Protocol, "the proxy ended the tunnel")),
            Err(error) => {
                return Err(Failure::new(Exit::Protocol, format!("the tunnel has ended: {error}")));
            }
        }
    }
    Ok(terms)
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
    current: watch::Receiver<Client>,
    /// Sending end of the tunnel that is open; `None` while there is none.
    up: watch::Sender<Option<Up>>,
    terms: watch::Sender<Terms>,
    /// Tunnel that takes the place of the present one.
    next: mpsc::Sender<Open>,
    /// Queue of the device.
    out: mpsc::Sender<Packet>,
}

impl Packets {
    /// Creates the state for the tunnel `open`, and the task that writes its packets to the device. When the tunnel ends, the
    /// task opens another one with the current client.
    pub(super) fn new(
        current: watch::Receiver<Client>,
        open: Open,
        out: mpsc::Sender<Packet>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (up, terms) = (watch::Sender::new(None), watch::Sender::new(open.terms.clone()));
        let (next, handed_over) = mpsc::channel(1);
        let packets = Arc::new(Self { current, up, terms, next, out });
        (Arc::clone(&packets), packets.receive(open, handed_over))
    }

    /// Returns a receiver of the terms and their changes.
    pub(super) fn terms(&self) -> watch::Receiver<Terms> {
        self.terms.subscribe()
    }

    /// Lets another tunnel take the place of the present one.
    pub(super) async fn hand_over(&self, open: Open) {
        // The receiving task ends with the command.
        let _ = self.next.send(open).await;
    }

    async fn receive(self: Arc<Self>, open: Open, mut handed_over: mpsc::Receiver<Open>) {
        let mut next = Some(open);
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(open) = next.take() {
                let begun = Instant::now();
                self.tell(&open.terms);
                // `self` has a sender, so the channel does not end.
                tokio::select! {
                    () = self.receive_from(open) => {}
                    other = handed_over.recv() => next = other,
                }
                if next.is_some() || begun.elapsed() >= BRIEF {
                    pause = FIRST_PAUSE;
                    continue;
                }
                self.up.send_replace(None);
                tokio::select! {
                    () = sleep(pause) => pause = (2 * pause).min(LAST_PAUSE),
                    other = handed_over.recv() => next = other,
                }
                continue;
            }
            self.up.send_replace(None);
            let client = self.current.borrow().clone();
            let wanted = self.terms.borrow().addresses.clone();
            tokio::select! {
                opened = self::open(&client, &wanted) => match opened {
                    Ok(open) => next = Some(open),
                    Err(failure) => {
                        debug!(target: "anabranch::vpn", %failure, "no tunnel for packets");
                        drop(client);
                        tokio::select! {
                            () = sleep(pause) => pause = (2 * pause).min(LAST_PAUSE),
                            other = handed_over.recv() => next = other,
                        }
                    }
                },
                other = handed_over.recv() => next = other,
            }
        }
    }

    /// Makes the terms of a tunnel known.
    fn tell(&self, next: &Terms) {
        self.terms.send_if_modified(|terms| {
            let is_new = terms != next;
            terms.clone_from(next);
            is_new
        });
    }

    async fn receive_from(&self, open: Open) {
        let Open { up, mut receiver, .. } = open;
        let flow = Arc::clone(&up.flow);
        self.up.send_replace(Some(up));
        loop {
            match receiver.recv().await {
                // The proxy may send packets to this host alone, not through it to others.
                Ok(Some(IpEvent::Packet(packet))) if !self.terms.borrow().covers(&packet) => {
                    debug!(target: "anabranch::vpn", "dropped a packet to a foreign address");
                }
                Ok(Some(IpEvent::Packet(packet))) => {
                    flow.traffic().add_received(packet.len() as u64);
                    // A device that is busy loses packets, as any link does.
                    let _ = self.out.try_send(Packet::new(&packet));
                }
                Ok(Some(event)) => {
                    self.terms.send_if_modified(|terms| terms.update(&event));
                }
                Ok(None) => return,
                Err(error) => {
                    debug!(target: "anabranch::vpn", %error, "the tunnel for packets has ended");
                    return;
                }
            }
        }
    }
}

/// The direction from programs to the proxy.
pub(super) struct Outgoing {
    packets: Arc<Packets>,
    up: watch::Receiver<Option<Up>>,
    icmp: IcmpLimit,
}

impl Outgoing {
    pub(super) fn new(packets: Arc<Packets>) -> Self {
        let up = packets.up.subscribe();
        Self { packets, up, icmp: IcmpLimit::default() }
    }

    /// Returns whether a packet is from this host's address in the tunnel to another host. The proxy would drop packets with
    /// another source, and multicast packets are of the device's link.
    pub(super) fn is_own(&self, header: &PacketHeader) -> bool {
        !header.destination.is_multicast() && self.packets.terms.borrow().addresses.contains(&header.source)
    }

    /// Sends a packet of a program to the proxy, or drops it. If it does not fit, or if the proxy forwards no packets to its
    /// destination, queues an ICMP message to the program's host.
    pub(super) fn send(&mut self, header: &PacketHeader, packet: &[u8]) {
        if !self.packets.terms.borrow().forwards(header.destination, header.protocol) {
            return self.report(ip::prohibited(packet));
        }
        let sent = match &*self.up.borrow() {
            Some(up) => {
                let rule = header.destination_port.filter(|_| header.protocol == UDP);
                let rule = rule.and_then(|port| up.client.rules().of(port).deadline());
                let sent = match rule {
                    Some(deadline) => up.sender.send_within(packet, deadline),
                    None => up.sender.send(packet),
                };
                match sent {
                    Ok(()) => up.flow.traffic().add_sent(packet.len() as u64),
                    Err(_) => up.client.seen().drops().count(),
                }
                sent
            }
            None => return,
        };
        if let Err(SendPacketError::TooLarge { mtu }) = sent {
            self.report(ip::too_big(packet, mtu));
        }
    }

    /// Queues an ICMP message, unless there are too many.
    fn report(&mut self, message: Option<Vec<u8>>) {
        if let Some(message) = message.filter(|_| self.icmp.allows()) {
            let _ = self.packets.out.try_send(Packet::new(&message));
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::proxy::ip::AssignedAddress;

    use super::*;

    #[test]
    fn packets_to_foreign_addresses_are_not_covered() {
        let own = IpAddr::from([10, 9, 0, 2]);
        let terms = Terms { addresses: vec![own], ranges: Vec::new() };
        let mut packet = vec![0; 28];
        (packet[0], packet[3], packet[8], packet[9], packet[25]) = (0x45, 28, 64, 17, 8);
        packet[12..16].copy_from_slice(&[192, 0, 2, 1]);
        packet[16..20].copy_from_slice(&[10, 9, 0, 2]);
        assert!(terms.covers(&packet));
        for foreign in [[10, 9, 0, 3], [127, 0, 0, 1], [192, 168, 1, 1]] {
            packet[16..20].copy_from_slice(&foreign);
            assert!(!terms.covers(&packet), "{foreign:?}");
        }
        assert!(!terms.covers(&packet[..27]) && !terms.covers(&[]));
    }

    #[test]
    fn the_proxy_forwards_to_some_networks() {
        let range = |network: &str, protocol| IpRange { protocol, ..IpRange::of(network.parse().unwrap()) };
        let ranges = vec![
            range("10.0.0.0/9", 0),
            range("172.16.0.0/12", 0),
            range("192.0.2.0/24", 17),
            range("2001:db8::/32", 0),
        ];
        let terms = Terms { addresses: Vec::new(), ranges };
        let forwards = |address: &str, protocol| terms.forwards(address.parse().unwrap(), protocol);
        for inside in ["10.0.0.0", "10.127.255.255", "172.31.255.255", "2001:db8::", "2001:db8:ffff::1"] {
            assert!(forwards(inside, 17) && forwards(inside, 1), "{inside}");
        }
        for outside in ["9.255.255.255", "10.128.0.0", "172.32.0.0", "192.0.3.0", "::", "2001:db9::"] {
            assert!(!forwards(outside, 17) && !forwards(outside, 1), "{outside}");
        }
        assert!(forwards("192.0.2.1", 17) && !forwards("192.0.2.1", 1));
        assert!(!Terms::default().forwards([192, 0, 2, 1].into(), 17));
        let missing = |network: &str| terms.missing(&[network.parse().unwrap()]);
        for whole in ["10.0.0.0/9", "10.7.0.0/16", "192.0.2.0/24", "2001:db8::/32"] {
            assert_eq!(missing(whole), None, "{whole}");
        }
        assert_eq!(missing("10.0.0.0/8"), Some("10.128.0.0".parse().unwrap()));
        assert_eq!(missing("0.0.0.0/0"), Some("0.0.0.0".parse().unwrap()));
    }

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
