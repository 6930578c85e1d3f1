//! Routes and routing rules of this host, by rtnetlink(7).
//!
//! All routes are in a table of their own, and all rules have a protocol number of their own, by which they
//! are found again after a crash.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt;
use ipnet::IpNet;
use nix::errno::Errno;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion, RouteMessageBuilder};

use super::plan::Plan;
use crate::exit::{Exit, Failure, Result};

/// Protocol number of the VPN's routes and rules.
const MARK: RouteProtocol = RouteProtocol::Other(0xab);
/// Number of the table with the VPN's routes.
const TABLE: u32 = 0xab_ab;
/// Priorities of the VPN's rules, which precede those of the tables `main` and `default`: networks that go
/// around the tunnel, this host's own routes, the table of the tunnel, and the destination of `goto`.
const OUTSIDE: u32 = 5_200;
const LOCAL: u32 = 5_210;
const INSIDE: u32 = 5_220;
const END: u32 = 5_290;
/// Metric of routes into the tunnel and, below, of unreachable routes, which have effect without the former.
const PREFERRED: u32 = 1;
const LAST: u32 = u32::MAX - 1;

/// Connection to the kernel.
#[derive(Clone, Debug)]
pub(super) struct Netlink(Handle);

impl Netlink {
    /// Connects to the kernel.
    ///
    /// # Errors
    /// Fails if no netlink socket can be opened.
    pub(super) fn open() -> Result<Self> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|error| Failure::io("cannot open netlink", &error))?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    /// Turns the routes and rules of one plan into those of another, but for the networks that lead around the tunnel. What is
    /// there already stays, and what is gone already is no failure.
    ///
    /// # Errors
    /// Fails if the kernel refuses. What was changed until then stays, for [`Netlink::undo`].
    pub(super) async fn change(&self, before: &Plan, after: &Plan, device: u32) -> Result {
        // New entries are added before old ones are removed, so that no packet takes another route meanwhile.
        for network in less(&after.inside, &before.inside) {
            self.add_route(inside(network, device), network).await?;
        }
        for network in less(&after.blocked, &before.blocked) {
            self.add_route(blocked(network), network).await?;
        }
        for is_ipv4 in [true, false] {
            self.add_rule(end(is_ipv4)).await?;
            match after.keeps_local {
                true => self.add_rule(local(is_ipv4)).await?,
                false if before.keeps_local => self.remove_rule(local(is_ipv4)).await?,
                false => {}
            }
            self.add_rule(inside_rule(is_ipv4)).await?;
        }
        for network in less(&before.inside, &after.inside) {
            self.remove_route(inside(network, device), network).await?;
        }
        for network in less(&before.blocked, &after.blocked) {
            self.remove_route(blocked(network), network).await?;
        }
        Ok(())
    }

    async fn add_route(&self, route: RouteMessageBuilder<IpAddr>, network: IpNet) -> Result {
        let added = self.0.route().add(route.build()).replace().execute().await;
        added.map_err(|error| failed(&format!("cannot set the route to {network}"), &error))
    }

    async fn remove_route(&self, route: RouteMessageBuilder<IpAddr>, network: IpNet) -> Result {
        match self.0.route().del(route.build()).execute().await {
            Err(error) if is(&error, Errno::ESRCH) => Ok(()),
            removed => {
                removed.map_err(|error| failed(&format!("cannot remove the route to {network}"), &error))
            }
        }
    }

    /// Leads packets to a network around the tunnel, by whatever routes and rules this host has otherwise.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub(super) async fn exclude(&self, network: IpNet) -> Result {
        self.add_rule(outside(network)).await
    }

    /// Removes the rule that leads packets to a network around the tunnel.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub(super) async fn include(&self, network: IpNet) -> Result {
        self.remove_rule(outside(network)).await
    }

    async fn add_rule(&self, rule: RuleMessage) -> Result {
        let mut request = self.0.rule().add();
        *request.message_mut() = rule;
        match request.execute().await {
            Err(error) if is(&error, Errno::EEXIST) => Ok(()),
            added => added.map_err(|error| failed("cannot set a routing rule", &error)),
        }
    }

    async fn remove_rule(&self, rule: RuleMessage) -> Result {
        match self.0.rule().del(rule).execute().await {
            Err(error) if is(&error, Errno::ENOENT) => Ok(()),
            removed => removed.map_err(|error| failed("cannot remove a routing rule", &error)),
        }
    }

    /// Removes all of our routes and rules. Returns their number.
    ///
    /// # Errors
    /// Fails if the kernel refuses to remove one.
    pub(super) async fn undo(&self) -> Result<usize> {
        self.remove(|_| true, |_| true).await
    }

    /// Removes those of our routes and rules that neither belong to the plan nor lead `outside` around the tunnel.
    ///
    /// # Errors
    /// Fails if the kernel refuses to remove one.
    pub(super) async fn sweep(&self, plan: &Plan, outside: &BTreeSet<IpNet>) -> Result {
        let is_stale_rule = |rule: &RuleMessage| match priority(rule) {
            Some(OUTSIDE) => !destination(rule).is_some_and(|network| outside.contains(&network)),
            Some(LOCAL) => !plan.keeps_local,
            priority => !matches!(priority, Some(INSIDE | END)),
        };
        let is_stale_route = |route: &RouteMessage| {
            let networks = match metric(route) {
                Some(PREFERRED) => &plan.inside,
                _ => &plan.blocked,
            };
            !target(route).is_some_and(|network| networks.contains(&network))
        };
        self.remove(is_stale_rule, is_stale_route).await.map(drop)
    }

    /// Removes those of our rules and routes that these functions choose. Returns their number.
    async fn remove(
        &self,
        has_rule: impl Fn(&RuleMessage) -> bool,
        has_route: impl Fn(&RouteMessage) -> bool,
    ) -> Result<usize> {
        let mut count = 0;
        for version in [IpVersion::V4, IpVersion::V6] {
            for rule in self.rules(version.clone()).await?.into_iter().filter(&has_rule) {
                let removed = self.0.rule().del(rule).execute().await;
                removed.map_err(|error| failed("cannot remove a routing rule", &error))?;
                count += 1;
            }
            for route in self.routes(version).await?.into_iter().filter(&has_route) {
                match self.0.route().del(route).execute().await {
                    // It has vanished together with the device.
                    Err(error) if is(&error, Errno::ESRCH) => {}
                    removed => {
                        removed.map_err(|error| failed("cannot remove a route", &error))?;
                        count += 1;
                    }
                }
            }
        }
        Ok(count)
    }

    /// Returns our rules.
    async fn rules(&self, version: IpVersion) -> Result<Vec<RuleMessage>> {
        let rules = self.0.rule().get(version).execute().try_collect().await;
        let rules: Vec<RuleMessage> =
            rules.map_err(|error| failed("cannot read the routing rules", &error))?;
        Ok(rules.into_iter().filter(is_ours).collect())
    }

    /// Returns the routes in our table.
    async fn routes(&self, version: IpVersion) -> Result<Vec<RouteMessage>> {
        let filter = match version {
            IpVersion::V4 => RouteMessageBuilder::<Ipv4Addr>::new().build(),
            IpVersion::V6 => RouteMessageBuilder::<Ipv6Addr>::new().build(),
        };
        let routes = self.0.route().get(filter).execute().try_collect().await;
        let routes: Vec<RouteMessage> = routes.map_err(|error| failed("cannot read the routes", &error))?;
        let table = RouteAttribute::Table(TABLE);
        Ok(routes.into_iter().filter(|route| route.attributes.contains(&table)).collect())
    }
}

/// Returns what is in the first list and not in the second one.
fn less(networks: &[IpNet], others: &[IpNet]) -> Vec<IpNet> {
    let others: BTreeSet<_> = others.iter().collect();
    networks.iter().filter(|network| !others.contains(network)).copied().collect()
}

/// Returns the route into the tunnel.
fn inside(network: IpNet, device: u32) -> RouteMessageBuilder<IpAddr> {
    route(network).priority(PREFERRED).output_interface(device)
}

/// Returns the route that leads nowhere.
fn blocked(network: IpNet) -> RouteMessageBuilder<IpAddr> {
    route(network).priority(LAST).kind(RouteType::Unreachable)
}

/// Begins a route of ours.
fn route(network: IpNet) -> RouteMessageBuilder<IpAddr> {
    let builder = RouteMessageBuilder::<IpAddr>::new().table_id(TABLE).protocol(MARK);
    // The prefix length fits the family.
    builder.clone().destination_prefix(network.network(), network.prefix_len()).unwrap_or(builder)
}

/// Returns the rule with which those end that lead around the tunnel.
fn end(is_ipv4: bool) -> RuleMessage {
    rule(all(is_ipv4), END, RuleAction::Nop, vec![])
}

/// Returns the rule that leads packets into the tunnel.
fn inside_rule(is_ipv4: bool) -> RuleMessage {
    rule(all(is_ipv4), INSIDE, RuleAction::ToTable, vec![RuleAttribute::Table(TABLE)])
}

/// Returns the rule by which this host's own routes win. Only the default route of the table `main` is passed over.
fn local(is_ipv4: bool) -> RuleMessage {
    rule(all(is_ipv4), LOCAL, RuleAction::ToTable, vec![RuleAttribute::SuppressPrefixLen(0)])
}

/// Returns the rule that leads packets to a network around the tunnel.
fn outside(network: IpNet) -> RuleMessage {
    let mut attributes = vec![RuleAttribute::Goto(END)];
    if network.prefix_len() > 0 {
        attributes.push(RuleAttribute::Destination(network.network()));
    }
    rule(network, OUTSIDE, RuleAction::Goto, attributes)
}

fn rule(network: IpNet, priority: u32, action: RuleAction, more: Vec<RuleAttribute>) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family(network.addr());
    message.header.dst_len = network.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.action = action;
    message.attributes.extend([RuleAttribute::Priority(priority), RuleAttribute::Protocol(MARK)]);
    message.attributes.extend(more);
    message
}

/// Returns all addresses of a family.
fn all(is_ipv4: bool) -> IpNet {
    IpNet::new_assert(if is_ipv4 { [0; 4].into() } else { [0; 16].into() }, 0)
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn priority(rule: &RuleMessage) -> Option<u32> {
    rule.attributes.iter().find_map(|attribute| match attribute {
        RuleAttribute::Priority(priority) => Some(*priority),
        _ => None,
    })
}

/// Returns the network that a rule is for.
fn destination(rule: &RuleMessage) -> Option<IpNet> {
    let address = rule.attributes.iter().find_map(|attribute| match attribute {
        RuleAttribute::Destination(address) => Some(*address),
        _ => None,
    });
    let is_ipv4 = rule.header.family == AddressFamily::Inet;
    IpNet::new(address.unwrap_or(all(is_ipv4).addr()), rule.header.dst_len).ok()
}

fn metric(route: &RouteMessage) -> Option<u32> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Priority(metric) => Some(*metric),
        _ => None,
    })
}

/// Returns the network that a route is for.
fn target(route: &RouteMessage) -> Option<IpNet> {
    let address = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    });
    let is_ipv4 = route.header.address_family == AddressFamily::Inet;
    IpNet::new(address.unwrap_or(all(is_ipv4).addr()), route.header.destination_prefix_length).ok()
}

fn is_ours(rule: &RuleMessage) -> bool {
    rule.attributes.contains(&RuleAttribute::Protocol(MARK))
}

fn is(error: &rtnetlink::Error, errno: Errno) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(message) if message.raw_code() == -(errno as i32))
}

fn failed(what: &str, error: &rtnetlink::Error) -> Failure {
    let failure = Failure::new(Exit::Io, format!("{what}: {error}"));
    match is(error, Errno::EPERM) {
        true => failure.with_exit(Exit::NotPermitted).or("run as root, or with the capability CAP_NET_ADMIN"),
        false => failure,
    }
}
