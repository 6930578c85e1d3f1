//! `anabranch vpn connect`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch::proxy::client::Proxy;
use anabranch::proxy::ip::{PacketHeader, transport_protocol};
use clap::Args;
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::dns::{self, Change};
use super::netlink::Netlink;
use super::packets::{self, Open, Outgoing, Packets, Terms};
use super::plan::Wishes;
use super::stack::Stack;
use super::state::{Place, State};
use super::undo::undo;
use crate::exit::{self, Exit, Failure, Result};
use crate::proxy::connect::news;
use crate::proxy::connect::way::Way;
use crate::serve::{raise_descriptors, systemd};
use crate::signal::Stop;
use crate::tun::{self, Batch, Device};
use crate::verbose::Verbosity;

/// MTU of the device, in bytes. TCP is ended here, so it may use all of it; senders of other packets learn by ICMP how much
/// fits.
const MTU: u16 = 1_500;
/// Interval at which new addresses of the proxy are looked for.
const LOOK: Duration = Duration::from_millis(250);
/// Maximum number of addresses of the proxy that lead around the tunnel.
const MAX_ADDRESSES: usize = 64;

/// Send all packets of this host through a proxy, over all networks at once
///
/// TCP connections end in this command and are carried on streams, everything else as IP packets. Routes and resolvers are put
/// back at the end; after a crash by the next start, or by `anabranch vpn clean`. Needs the capability CAP_NET_ADMIN
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Connect {
    #[command(flatten)]
    way: Way,
    /// Send only packets to this network through the tunnel; may be repeated. Without this option, all go there
    #[arg(long = "route", value_name = "NETWORK")]
    routes: Vec<IpNet>,
    /// Never send packets to this network through the tunnel; may be repeated
    #[arg(long = "exclude", value_name = "NETWORK")]
    excluded: Vec<IpNet>,
    /// Resolver to use meanwhile; may be repeated. Without this option, this host keeps its own
    #[arg(long = "dns", value_name = "IP")]
    resolvers: Vec<IpAddr>,
    /// Send nothing around the tunnel, also if it is lost or this command dies: until the next start or `anabranch vpn clean`,
    /// this host then reaches only the proxy. Local networks are cut off, too, unless they are excluded
    #[arg(long)]
    kill_switch: bool,
    /// Name of the TUN device
    #[arg(long, value_name = "NAME", default_value = "anabranch0")]
    device: String,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

pub(super) async fn run(options: Connect) -> Result {
    // Catches signals before anybody can know that the command runs.
    let mut stop = Stop::catch()?;
    raise_descriptors();
    let place = Place::take()?;
    let netlink = Netlink::open()?;
    let left = place.left();
    // A kill switch that a crash has left stays until the tunnel is there. Then the proxy's name cannot be resolved.
    let held = left.clone().filter(|left| options.kill_switch && options.is_for(left));
    if held.is_none() && (undo(&netlink, left.as_ref()).await? > 0 || left.is_some()) {
        exit::note("anabranch: undid what a VPN had left that was killed");
    }
    let mut host = Host { netlink, state: State::default(), wishes: options.wishes() };
    // The proxy may assign the same addresses again.
    let wanted = left.map(|left| left.addresses).unwrap_or_default();
    let start = Start { held: held.as_ref(), wanted: &wanted };
    let result = host.run(&options, &place, &start, &mut stop).await;
    if held.is_some() && !host.is_changed() {
        return result;
    }
    let undone = undo(&host.netlink, Some(&host.state)).await;
    if undone.is_ok() {
        place.leave();
    }
    result.and(undone.map(drop))
}

impl Connect {
    fn wishes(&self) -> Wishes {
        let (routes, excluded) = (self.routes.clone(), self.excluded.clone());
        Wishes { routes, excluded, kill_switch: self.kill_switch }
    }

    /// Returns whether a state is that of a VPN by way of the same proxy.
    fn is_for(&self, state: &State) -> bool {
        state.proxy == self.way.url() && !state.remotes.is_empty()
    }
}

/// State that a killed VPN has left for this one.
struct Start<'a> {
    /// State of a VPN whose kill switch still works.
    held: Option<&'a State>,
    /// Addresses in the tunnel.
    wanted: &'a [IpAddr],
}

/// This host, as the VPN changes it.
struct Host {
    netlink: Netlink,
    state: State,
    wishes: Wishes,
}

impl Host {
    /// Connects, and carries packets until a signal arrives.
    async fn run(&mut self, options: &Connect, place: &Place, start: &Start<'_>, stop: &mut Stop) -> Result {
        let device = Arc::new(Device::create(&options.device, MTU)?);
        let begun = async {
            let remotes = match start.held {
                Some(held) => held.remotes.clone(),
                None => options.way.resolve().await?,
            };
            let proxy = options.way.connect_around(&options.device, &remotes).await?;
            let open = packets::open(&proxy, start.wanted).await?;
            Ok::<_, Failure>((proxy, open, remotes))
        };
        let (proxy, open, remotes) = tokio::select! {
            begun = begun => begun?,
            () = stop.wait() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        if let Some(held) = start.held {
            undo(&self.netlink, Some(held)).await?;
        }
        options.way.url().clone_into(&mut self.state.proxy);
        self.state.remotes = remotes;
        self.state.addresses.clone_from(&open.terms.addresses);
        let result = match self.change(options, place, &open.terms, &device).await {
            Ok(()) => self.carry(&proxy, open, &device, stop).await,
            Err(failure) => Err(failure),
        };
        systemd::stopping();
        proxy.close().await;
        result
    }

    /// Returns whether something was changed that has to be undone.
    fn is_changed(&self) -> bool {
        !self.state.proxy.is_empty()
    }

    /// Sets addresses, routes and resolvers.
    async fn change(&mut self, options: &Connect, place: &Place, terms: &Terms, device: &Device) -> Result {
        for address in &terms.addresses {
            device.add_address((*address).into())?;
        }
        let resolvers = match options.resolvers.is_empty() {
            true => None,
            false => Some(Change::to(&options.resolvers)?),
        };
        if let Some(Change::File(resolver)) = &resolvers {
            self.state.resolver = Some(resolver.clone());
        }
        place.write(&self.state)?;
        for remote in &self.state.remotes {
            self.netlink.exclude(remote.ip().into()).await?;
        }
        let plan = self.wishes.plan(&terms.addresses, &terms.ranges);
        self.netlink.apply(&plan, device.index()?).await?;
        match &resolvers {
            Some(change) => change.make(&options.resolvers, device.name()),
            None => {
                if let Some(resolver) = dns::around().filter(|_| options.routes.is_empty()) {
                    exit::note(format_args!(
                        "anabranch: names are still resolved by {resolver}, around the tunnel; see --dns"
                    ));
                }
                Ok(())
            }
        }
    }

    /// Carries packets until a signal arrives or the device is gone.
    async fn carry(&mut self, proxy: &Proxy, open: Open, device: &Arc<Device>, stop: &mut Stop) -> Result {
        let (out, waiting) = mpsc::channel(tun::MAX_WAITING);
        let packets = Packets::new(proxy.clone(), open.terms.clone(), out.clone());
        let mut terms = packets.terms();
        let mut running = JoinSet::new();
        running.spawn(Arc::clone(device).write_all(waiting));
        running.spawn(Arc::clone(&packets).receive(Some(open)));
        running.spawn(news::tell_states(proxy.clone()));
        let stack = Stack::new(proxy.clone(), out, MTU.into());
        let mut reading = tokio::spawn(read(Arc::clone(device), stack, Outgoing::new(packets)));
        let mut current = terms.borrow_and_update().clone();
        let addresses: Vec<_> = current.addresses.iter().map(ToString::to_string).collect();
        exit::say(format_args!("connected {} {}", device.name(), addresses.join(" ")))?;
        systemd::ready();
        let mut look = tokio::time::interval(LOOK);
        let result = loop {
            tokio::select! {
                () = stop.wait() => break Ok(()),
                _ = &mut reading => break Err(Failure::new(Exit::Io, "the TUN device is gone")),
                Ok(()) = terms.changed() => {
                    let next = terms.borrow_and_update().clone();
                    if let Err(failure) = self.follow(&current, &next, device).await {
                        failure.say();
                    }
                    current = next;
                }
                _ = look.tick() => self.look_for_addresses(proxy).await,
            }
        };
        reading.abort();
        running.abort_all();
        result
    }

    /// Changes addresses and routes to what the proxy has told.
    async fn follow(&self, before: &Terms, now: &Terms, device: &Device) -> Result {
        for address in now.addresses.iter().filter(|address| !before.addresses.contains(address)) {
            device.add_address((*address).into())?;
        }
        // Without addresses for a while, programs keep theirs: the proxy may assign them again.
        if !now.addresses.is_empty() {
            let gone = before.addresses.iter().filter(|address| !now.addresses.contains(address));
            gone.for_each(|address| device.remove_address(*address));
        }
        let plan = self.wishes.plan(&now.addresses, &now.ranges);
        self.netlink.route(&plan.inside, &plan.blocked, device.index()?).await
    }

    /// Leads further addresses of the proxy, which it has announced, around the tunnel.
    async fn look_for_addresses(&mut self, proxy: &Proxy) {
        let open = proxy.connections().into_iter().flat_map(|connection| connection.paths());
        let mut seen: Vec<_> = open.map(|path| path.tuple.remote).collect();
        seen.extend(proxy.path_attempts().into_iter().map(|attempt| attempt.remote));
        for remote in unknown(&self.state.remotes, seen) {
            self.state.remotes.push(remote);
            if let Err(failure) = self.netlink.exclude(remote.ip().into()).await {
                failure.say();
            }
        }
    }
}

/// Returns the addresses that are not known yet, as long as there is room for them.
fn unknown(known: &[SocketAddr], seen: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut fresh: Vec<SocketAddr> = Vec::new();
    for remote in seen {
        let mut all = known.iter().chain(&fresh);
        if !all.any(|one| one.ip() == remote.ip()) && known.len() + fresh.len() < MAX_ADDRESSES {
            fresh.push(remote);
        }
    }
    fresh
}

/// Reads the packets of this host's programs, until the device is gone.
async fn read(device: Arc<Device>, mut stack: Stack, mut packets: Outgoing) {
    let mut batch = Batch::new();
    while device.read(&mut batch).await.is_ok() {
        for packet in batch.packets() {
            let Some(header) = PacketHeader::parse(packet) else { continue };
            // Fragments of TCP have no ports; they do not occur, because the device has the MTU of this host's connections.
            if header.protocol == transport_protocol::TCP && !header.is_later_fragment {
                stack.handle(&header, packet);
            } else {
                packets.send(&header, packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_max_addresses_lead_around_the_tunnel() {
        let address = |n: u16| SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 443));
        let known = [address(1)];
        assert_eq!(unknown(&known, vec![address(1), address(2), address(2)]), [address(2)]);
        let many = (0..1_000).map(address).collect();
        assert_eq!(unknown(&known, many).len(), MAX_ADDRESSES - known.len());
    }
}
