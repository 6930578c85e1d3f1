//! A connection follows the host's routing table if the application did not choose its local address (RFC
//! 9000 §9). A task migrates such connections when addresses or routes change, or when their network falls
//! silent and another one works.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use anabranch_transport::FourTuple;
use tokio::sync::Notify;
use tracing::debug;

use super::allowed::{reaches, source_for};
use super::interface::Interface;
use super::interfaces::{InterfaceChanges, snapshot};
use super::policy::PathPolicy;
use super::{Lease, LocalAddress, unspecified_for};
use crate::connection_inner::{ConnectionInner, State};
use crate::driver_handle::DriverHandle;
use crate::endpoint_inner::EndpointInner;
use crate::log::PATH;

/// Manages the connections of an endpoint that follow the routing table, until none is left.
pub(crate) async fn follow(endpoint: Weak<EndpointInner>, wake: Arc<Notify>) {
    let mut watch = InterfaceChanges::of_routes();
    loop {
        tokio::select! {
            () = watch.changed() => {}
            () = wake.notified() => {}
        }
        let Some(endpoint) = endpoint.upgrade() else { return };
        // The driver detects in its next turn whether the host was asleep.
        endpoint.driver.wake();
        let (begun, connections) = endpoint.census();
        let connections: Vec<_> = connections
            .into_iter()
            .filter(|connection| connection.with_state(|state| state.follows()))
            .collect();
        if connections.is_empty() && endpoint.table().stop_following(begun) {
            return;
        }
        let interfaces = snapshot().await;
        for connection in connections {
            look_after(&endpoint, &connection, &interfaces);
        }
    }
}

impl State {
    fn follows(&self) -> bool {
        self.paths.roaming.is_some() && self.ended.is_none()
    }

    fn hold_roaming(&mut self, local: SocketAddr, lease: Option<Arc<Lease>>) {
        if let (Some(roaming), Some(lease)) = (&mut self.paths.roaming, lease) {
            roaming.hold(local, lease);
        }
    }
}

/// State of a connection that decides the next step.
#[derive(Clone, Debug)]
struct Situation {
    /// The path's addresses, without IPv4-mapped IPv6 addresses.
    local: IpAddr,
    remote: SocketAddr,
    /// `true` if the local address is on an interface that is up.
    is_usable: bool,
    /// Local address that the routing table selects for the remote one.
    route: Option<IpAddr>,
    is_silent: bool,
    is_managed: bool,
}

/// Next step for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The path stays where it is, and unacknowledged data is sent again.
    Stay,
    /// The path moves to this address at once.
    Relocate(IpAddr),
    /// The path moves to this address if the server responds there.
    Prefer(IpAddr),
    /// Other addresses are probed.
    Ask,
}

impl Situation {
    fn step(&self) -> Step {
        match self.route {
            Some(source) if source != self.local && !self.is_usable => Step::Relocate(source),
            _ if self.is_managed => Step::Stay,
            // The routing table may name an address that was found silent before.
            Some(_) if self.is_silent => Step::Ask,
            Some(source) if source == self.local => Step::Stay,
            Some(source) => Step::Prefer(source),
            None => Step::Ask,
        }
    }
}

fn look_after(endpoint: &Arc<EndpointInner>, connection: &Arc<ConnectionInner>, interfaces: &[Interface]) {
    let Some(Looked { tuple, is_silent, is_managed, remotes }) = connection.with_state(look) else { return };
    let remote = canonical(tuple.remote);
    let local = tuple.local.ip().to_canonical();
    let is_usable = interfaces.is_empty() || interfaces.iter().any(|one| one.addresses.contains(&local));
    let situation = Situation { local, remote, is_usable, route: source_for(remote), is_silent, is_managed };
    let now = endpoint.driver.now();
    let step = situation.step();
    debug!(target: PATH, parent: &connection.span(), %local, %remote, is_usable, is_silent, ?step, "routes have changed, or a path is silent");
    match step {
        Step::Stay => connection.update(|state| state.core.try_again(now)),
        Step::Relocate(source) => {
            if let Some((local, lease)) = endpoint.driver.place_for(tuple, source) {
                connection.update(|state| {
                    state.hold_roaming(local, lease);
                    // Without a spare connection ID, or before the handshake is confirmed, the system chooses
                    // the source address of the packets that are sent again. The server sees this as a NAT
                    // rebinding.
                    if state.core.relocate(now, local).is_err() {
                        state.core.try_again(now);
                    }
                });
            }
        }
        Step::Prefer(source) => {
            if connection
                .with_state(|state| state.paths.roaming.as_mut().is_some_and(|one| one.may_try(now, source)))
                && let Some((local, lease)) = endpoint.driver.place_for(tuple, source)
            {
                connection.update(|state| {
                    state.hold_roaming(local, lease);
                    let tuple = FourTuple { local, remote: tuple.remote };
                    let _ = state.core.migrate_to(now, tuple);
                });
            }
        }
        Step::Ask => ask(endpoint, connection, &situation, interfaces, &remotes),
    }
}

/// Snapshot of a single-path connection: its path, and the state that decides whether it migrates.
struct Looked {
    tuple: FourTuple,
    is_silent: bool,
    is_managed: bool,
    remotes: Vec<SocketAddr>,
}

fn look(state: &mut State) -> Option<Looked> {
    let Some(roaming) = &mut state.paths.roaming else { return None };
    if !state.core.is_confirmed() {
        return None;
    }
    let is_silent = std::mem::take(&mut roaming.is_silent);
    let is_managed = roaming.is_managed;
    let mut remotes = roaming.remotes().to_vec();
    remotes.extend(state.core.other_addresses());
    let mut open = state.core.paths().filter(|path| state.core.is_path_open(path.id).is_some());
    let path = open.next()?;
    // Several paths can replace each other, so none needs to move.
    if open.next().is_some() {
        None
    } else {
        Some(Looked { tuple: path.tuple, is_silent, is_managed, remotes })
    }
}

/// Probes other interfaces and the server's other addresses.
fn ask(
    endpoint: &Arc<EndpointInner>,
    connection: &Arc<ConnectionInner>,
    situation: &Situation,
    interfaces: &[Interface],
    remotes: &[SocketAddr],
) {
    let now = endpoint.driver.now();
    for (local, remote) in others(situation, interfaces, remotes, source_for) {
        if connection
            .with_state(|state| state.core.paths().any(|path| state.core.is_asked(path.id, local.ip, remote)))
        {
            continue;
        }
        let Ok((lease, tuple)) = endpoint.driver.place(&local, remote) else { continue };
        let asked = connection.update(|state| {
            let asked = state.core.rescue(now, tuple);
            if asked.is_ok() {
                state.hold_roaming(tuple.local, Some(lease));
            }
            asked
        });
        if asked.is_err() {
            break;
        }
    }
    endpoint.driver.drop_unleased();
}

/// Returns other pairs of local address and server address to probe, most preferred first.
fn others(
    situation: &Situation,
    interfaces: &[Interface],
    remotes: &[SocketAddr],
    source_for: impl Fn(SocketAddr) -> Option<IpAddr>,
) -> Vec<(LocalAddress, SocketAddr)> {
    let mut found: Vec<(LocalAddress, SocketAddr)> = Vec::new();
    let mut add = |local: LocalAddress, remote| {
        if !found.iter().any(|(ip, other)| ip.ip == local.ip && *other == remote) {
            found.push((local, remote));
        }
    };
    let remotes = remotes.iter().map(|remote| canonical(*remote)).chain([situation.remote]);
    for remote in remotes {
        let source = source_for(remote);
        if let Some(source) = source.filter(|source| (*source, remote) != (situation.local, situation.remote))
        {
            add(LocalAddress::from(source), remote);
        }
    }
    let usable = PathPolicy::default().usable(interfaces);
    let own = |addresses: &[IpAddr]| addresses.contains(&situation.local);
    let is_own = |name: &str| interfaces.iter().any(|one| one.name == name && own(&one.addresses));
    for origin in usable.iter().filter(|origin| !is_own(&origin.interface)) {
        let fitting = origin.addresses.iter().find(|local| reaches(**local, situation.remote));
        if let Some(local) = fitting {
            add(LocalAddress::from(*local).on_interface(origin.interface.clone()), situation.remote);
        }
    }
    found
}

impl DriverHandle {
    /// Returns a local address with the IP address `source` for the path with the four-tuple `tuple`. The
    /// address belongs to the path's own socket if that socket serves `source`. Otherwise it belongs to the
    /// endpoint's own socket if this socket is bound to a wildcard address, or else to another socket on a
    /// wildcard address.
    fn place_for(&self, tuple: FourTuple, source: IpAddr) -> Option<(SocketAddr, Option<Arc<Lease>>)> {
        let mapped = |ip: IpAddr| match ip {
            IpAddr::V4(v4) if tuple.remote.is_ipv6() => v4.to_ipv6_mapped().into(),
            ip => ip,
        };
        let mut sockets = self.sockets();
        let local = SocketAddr::new(mapped(source), tuple.local.port());
        if let Some(lease) = sockets.lease_for(local) {
            return Some((local, Some(lease)));
        }
        let own = sockets.own().local_addr();
        if own.ip().is_unspecified() && own.is_ipv4() == tuple.remote.is_ipv4() {
            return Some((SocketAddr::new(local.ip(), own.port()), None));
        }
        drop(sockets);
        let (lease, placed) =
            self.place(&LocalAddress::from(unspecified_for(tuple.remote)), tuple.remote).ok()?;
        Some((SocketAddr::new(local.ip(), placed.local.port()), Some(lease)))
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests;
