//! Connections that were not told where to begin follow the host's routing table (RFC 9000 §9): the task that moves them when
//! addresses or routes change, or when a network falls silent and another one works.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anabranch_transport::FourTuple;
use anabranch_wire::Time;
use tokio::sync::Notify;
use tracing::debug;

use super::interfaces::{Watch, snapshot};
use super::plan::Interface;
use super::policy::PathPolicy;
use super::ways::{reaches, source_for};
use super::{Lease, LocalAddress};
use crate::endpoint::unspecified_for;
use crate::hub::Hub;
use crate::log::PATH;
use crate::member::{Member, State};

/// Wait after a move that was tried in vain although the addresses in use work; doubled by each.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(320);

/// What is known of a connection that follows the routing table.
#[derive(Debug)]
pub(crate) struct Roaming {
    /// Addresses that the application has named for the server.
    remotes: Vec<SocketAddr>,
    /// Nothing is heard, or cannot be sent.
    pub(crate) is_silent: bool,
    /// A path manager opens paths on other interfaces; the one path that is left moves only if its address is gone.
    pub(crate) is_managed: bool,
    /// No address that the routing table prefers is tried before, unless the one in use is gone.
    not_before: Time,
    wait: Duration,
    /// Where the last try began.
    tried: Option<IpAddr>,
    /// Sockets that were bound on the way, by the local address of those who use them.
    leases: Vec<(SocketAddr, Arc<Lease>)>,
}

impl Roaming {
    pub(crate) fn new(remotes: Vec<SocketAddr>) -> Box<Self> {
        let (not_before, wait) = (Time::ZERO, FIRST_WAIT);
        Box::new(Self {
            remotes,
            is_silent: false,
            is_managed: false,
            not_before,
            wait,
            tried: None,
            leases: Vec::new(),
        })
    }

    /// Lets go of sockets that are not used any longer; says whether there were any.
    pub(crate) fn release(&mut self, uses: impl Fn(SocketAddr) -> bool) -> bool {
        let before = self.leases.len();
        self.leases.retain(|(local, _)| uses(*local));
        self.leases.len() < before
    }
}

/// Looks after the connections of an endpoint until none is left that follows the routing table.
pub(crate) async fn follow(hub: Weak<Hub>, wake: Arc<Notify>) {
    let mut watch = Watch::of_routes();
    loop {
        tokio::select! {
            () = watch.changed() => {}
            () = wake.notified() => {}
        }
        let Some(hub) = hub.upgrade() else { return };
        // A host that was asleep is found out by the driver.
        hub.wake_driver();
        let (begun, members) = hub.census();
        let members: Vec<_> =
            members.into_iter().filter(|member| member.look(|state| state.follows())).collect();
        if members.is_empty() && hub.table().stop_following(begun) {
            return;
        }
        let interfaces = snapshot().await;
        for member in members {
            look_after(&hub, &member, &interfaces);
        }
    }
}

impl State {
    fn follows(&self) -> bool {
        self.roaming.is_some() && self.ended.is_none()
    }
}

/// A connection's situation.
#[derive(Clone, Debug)]
struct Situation {
    /// The path's addresses, in the form of their family.
    local: IpAddr,
    remote: SocketAddr,
    /// Whether the local address is on an interface that is up.
    is_usable: bool,
    /// The local address that the routing table names for the remote one.
    route: Option<IpAddr>,
    is_silent: bool,
    is_managed: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The path stays where it is, and sends again what has had no answer.
    Stay,
    /// It goes on there at once.
    Relocate(IpAddr),
    /// It moves there if the server answers there.
    Prefer(IpAddr),
    /// Others are asked whether they work.
    Ask,
}

impl Situation {
    fn step(&self) -> Step {
        match self.route {
            Some(source) if source != self.local && !self.is_usable => Step::Relocate(source),
            _ if self.is_managed => Step::Stay,
            // What the routing table names may be what was found silent before.
            Some(_) if self.is_silent => Step::Ask,
            Some(source) if source == self.local => Step::Stay,
            Some(source) => Step::Prefer(source),
            None => Step::Ask,
        }
    }
}

fn look_after(hub: &Arc<Hub>, member: &Arc<Member>, interfaces: &[Interface]) {
    let Some(Looked { tuple, is_silent, is_managed, remotes }) = member.look(look) else { return };
    let remote = canonical(tuple.remote);
    let local = tuple.local.ip().to_canonical();
    let is_usable = interfaces.is_empty() || interfaces.iter().any(|one| one.addresses.contains(&local));
    let situation = Situation { local, remote, is_usable, route: source_for(remote), is_silent, is_managed };
    let now = hub.clock.now();
    let step = situation.step();
    debug!(target: PATH, parent: &member.span(), %local, %remote, is_usable, is_silent, ?step, "routes have changed, or a path is silent");
    match step {
        Step::Stay => member.change(|state| state.core.try_again(now)),
        Step::Relocate(source) => {
            if let Some((local, lease)) = hub.place_for(tuple, source) {
                member.change(|state| {
                    state.hold_roaming(local, lease);
                    // Without a connection ID to spare, or before the handshake is confirmed, the system finds a way for
                    // what has to be sent, and the server takes it for a NAT's doing.
                    if state.core.relocate(now, local).is_err() {
                        state.core.try_again(now);
                    }
                });
            }
        }
        Step::Prefer(source) => {
            if member.look(|state| state.may_try(now, source))
                && let Some((local, lease)) = hub.place_for(tuple, source)
            {
                member.change(|state| {
                    state.hold_roaming(local, lease);
                    let tuple = FourTuple { local, remote: tuple.remote };
                    let _ = state.core.migrate_to(now, tuple);
                });
            }
        }
        Step::Ask => ask(hub, member, &situation, interfaces, &remotes),
    }
}

/// The path that a connection has alone, and what else is known of it.
struct Looked {
    tuple: FourTuple,
    is_silent: bool,
    is_managed: bool,
    remotes: Vec<SocketAddr>,
}

fn look(state: &mut State) -> Option<Looked> {
    let Some(roaming) = &mut state.roaming else { return None };
    if !state.core.is_confirmed() {
        return None;
    }
    let is_silent = std::mem::take(&mut roaming.is_silent);
    let is_managed = roaming.is_managed;
    let mut remotes = roaming.remotes.clone();
    remotes.extend(state.core.other_addresses());
    let mut open = state.core.paths().filter(|path| state.core.is_path_open(path.id).is_some());
    let path = open.next()?;
    // Several paths make up for each other.
    if open.next().is_some() {
        None
    } else {
        Some(Looked { tuple: path.tuple, is_silent, is_managed, remotes })
    }
}

impl State {
    /// Whether an address that the routing table prefers may be tried, which is done ever more rarely as long as it is in vain.
    fn may_try(&mut self, now: Time, source: IpAddr) -> bool {
        let Some(roaming) = &mut self.roaming else { return false };
        if roaming.tried == Some(source) && now < roaming.not_before {
            return false;
        }
        let again = roaming.tried == Some(source);
        roaming.wait = if again { (roaming.wait * 2).min(LONGEST_WAIT) } else { FIRST_WAIT };
        roaming.not_before = now + roaming.wait;
        roaming.tried = Some(source);
        true
    }

    fn hold_roaming(&mut self, local: SocketAddr, lease: Option<Arc<Lease>>) {
        if let (Some(roaming), Some(lease)) = (&mut self.roaming, lease) {
            roaming.leases.push((local, lease));
        }
    }
}

/// Asks on other interfaces and at the server's other addresses whether they work.
fn ask(
    hub: &Arc<Hub>,
    member: &Arc<Member>,
    situation: &Situation,
    interfaces: &[Interface],
    remotes: &[SocketAddr],
) {
    let now = hub.clock.now();
    for (local, remote) in others(situation, interfaces, remotes, source_for) {
        if member.look(|state| state.core.paths().any(|path| state.core.is_asked(path.id, local.ip, remote)))
        {
            continue;
        }
        let Ok((lease, tuple)) = hub.place(&local, remote) else { continue };
        let asked = member.change(|state| {
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
    hub.table().drop_unleased();
    hub.wake_driver();
}

/// Where else the server may be reached from, most preferred first.
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

impl Hub {
    /// A local address with the IP address `source` for the path that runs over `tuple`: on the socket that it uses, or else on the
    /// endpoint's own or on another one, if there is one that is bound to no address.
    fn place_for(&self, tuple: FourTuple, source: IpAddr) -> Option<(SocketAddr, Option<Arc<Lease>>)> {
        let mapped = |ip: IpAddr| match ip {
            IpAddr::V4(v4) if tuple.remote.is_ipv6() => v4.to_ipv6_mapped().into(),
            ip => ip,
        };
        let table = self.table();
        let local = SocketAddr::new(mapped(source), tuple.local.port());
        if let Some(lease) = table.lease_for(local) {
            return Some((local, Some(lease)));
        }
        let own = table.socket().local_addr();
        if own.ip().is_unspecified() && own.is_ipv4() == tuple.remote.is_ipv4() {
            return Some((SocketAddr::new(local.ip(), own.port()), None));
        }
        drop(table);
        let (lease, placed) =
            self.place(&LocalAddress::from(unspecified_for(tuple.remote)), tuple.remote).ok()?;
        Some((SocketAddr::new(local.ip(), placed.local.port()), Some(lease)))
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIFI: [u8; 4] = [192, 0, 2, 7];
    const LTE: [u8; 4] = [198, 51, 100, 7];

    fn situation(is_usable: bool, route: Option<[u8; 4]>, is_silent: bool) -> Situation {
        let remote = "203.0.113.1:443".parse().unwrap();
        Situation {
            local: WIFI.into(),
            remote,
            is_usable,
            route: route.map(IpAddr::from),
            is_silent,
            is_managed: false,
        }
    }

    /// The others are opened on other interfaces by somebody else: two paths would end up on one.
    #[test]
    fn the_last_path_of_several_stays_where_it_can() {
        let step =
            |usable, route, silent| Situation { is_managed: true, ..situation(usable, route, silent) }.step();
        assert_eq!(step(true, Some(LTE), false), Step::Stay);
        assert_eq!(step(true, Some(LTE), true), Step::Stay);
        assert_eq!(step(true, None, true), Step::Stay);
        assert_eq!(step(false, Some(LTE), false), Step::Relocate(LTE.into()));
    }

    #[test]
    fn the_routing_table_decides() {
        let step = |usable, route, silent| situation(usable, route, silent).step();
        assert_eq!(step(true, Some(WIFI), false), Step::Stay);
        assert_eq!(step(true, Some(LTE), false), Step::Prefer(LTE.into()));
        assert_eq!(step(true, Some(LTE), true), Step::Ask);
        assert_eq!(step(false, Some(LTE), false), Step::Relocate(LTE.into()));
        assert_eq!(step(true, Some(WIFI), true), Step::Ask);
        assert_eq!(step(true, None, false), Step::Ask);
    }

    #[test]
    fn other_families_and_interfaces_are_asked() {
        let interface = |name: &str, addresses: &[&str]| Interface {
            name: name.into(),
            addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
            idle_addresses: Vec::new(),
            is_up: true,
        };
        let interfaces = [
            interface("lo", &["127.0.0.1", "::1"]),
            interface("wlan0", &["192.0.2.7", "2001:db8:1::7"]),
            interface("wwan0", &["198.51.100.7"]),
        ];
        let v6: SocketAddr = "[2001:db8::1]:443".parse().unwrap();
        let remotes = ["203.0.113.1:443".parse().unwrap(), v6];
        let source = |remote: SocketAddr| remote.is_ipv6().then(|| "2001:db8:1::7".parse().unwrap());
        let found = others(&situation(true, Some(WIFI), true), &interfaces, &remotes, source);
        let found: Vec<_> = found
            .into_iter()
            .map(|(local, remote)| (local.ip.to_string(), local.interface, remote.is_ipv6()))
            .collect();
        let wwan = ("198.51.100.7".to_owned(), Some("wwan0".to_owned()), false);
        assert_eq!(found, [("2001:db8:1::7".to_owned(), None, true), wwan]);
    }

    #[test]
    fn what_the_table_prefers_in_vain_is_tried_ever_more_rarely() {
        let mut roaming = Roaming::new(Vec::new());
        roaming.leases.push(("192.0.2.7:1".parse().unwrap(), Arc::new(Lease::bound(lone_socket()))));
        assert!(roaming.release(|_| false) && !roaming.release(|_| false));
    }

    fn lone_socket() -> Arc<crate::socket::Socket> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        Arc::new(crate::socket::Socket::bind("127.0.0.1:0".parse().unwrap()).unwrap())
    }
}
