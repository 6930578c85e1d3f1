//! Routes and rules of this host, by rtnetlink(7).
//!
//! Routes and rules bear a protocol number of their own, by which they are found again after a crash.

use std::net::IpAddr;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAttribute, RouteProtocol, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion, RouteMessageBuilder};

use super::plan::Plan;
use crate::exit::{Exit, Failure, Result};

/// Mark of our routes and rules.
const MARK: RouteProtocol = RouteProtocol::Other(0xab);
/// Table of our routes.
const TABLE: u32 = 0xab_ab;
/// Priorities of our rules, before those of the tables `main` and `default`.
const OUTSIDE: u32 = 5_200;
const LOCAL: u32 = 5_210;
const INSIDE: u32 = 5_220;
const END: u32 = 5_290;
/// Metrics of routes into the tunnel and of those that lead nowhere.
const PREFERRED: u32 = 1;
const LAST: u32 = u32::MAX - 1;

/// Connection to the kernel.
#[derive(Clone)]
pub(super) struct Netlink(Handle);

impl Netlink {
    /// Connects to the kernel.
    ///
    /// # Errors
    /// Fails if there is no netlink.
    pub(super) fn open() -> Result<Self> {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(|error| Failure::io("cannot open netlink", &error))?;
        tokio::spawn(connection);
        Ok(Self(handle))
    }

    /// Sets the routes and rules of a plan.
    ///
    /// # Errors
    /// Fails if the kernel refuses. What was set until then stays, for [`Netlink::undo`].
    pub(super) async fn apply(&self, plan: &Plan, device: u32) -> Result {
        self.route(&plan.inside, &plan.blocked, device).await?;
        for is_ipv4 in [true, false] {
            self.rule(is_ipv4, END, RuleAction::Nop, vec![]).await?;
            let table = vec![RuleAttribute::Table(TABLE)];
            self.rule(is_ipv4, INSIDE, RuleAction::ToTable, table).await?;
            if plan.keeps_local {
                // Only the default route of the table `main` is passed over.
                let suppress = vec![RuleAttribute::SuppressPrefixLen(0)];
                self.rule(is_ipv4, LOCAL, RuleAction::ToTable, suppress).await?;
            }
        }
        for network in &plan.outside {
            self.exclude(*network).await?;
        }
        Ok(())
    }

    /// Sets the routes into the tunnel, and those that lead nowhere.
    pub(super) async fn route(&self, inside: &[IpNet], blocked: &[IpNet], device: u32) -> Result {
        for network in inside {
            let route = route(*network).priority(PREFERRED).output_interface(device);
            self.add_route(route, *network).await?;
        }
        for network in blocked {
            self.add_route(route(*network).priority(LAST).kind(RouteType::Unreachable), *network).await?;
        }
        Ok(())
    }

    async fn add_route(&self, route: RouteMessageBuilder<IpAddr>, network: IpNet) -> Result {
        let added = self.0.route().add(route.build()).replace().execute().await;
        added.map_err(|error| failed(&format!("cannot set the route to {network}"), &error))
    }

    /// Leads packets to a network around the tunnel, by whatever routes and rules this host has otherwise.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub(super) async fn exclude(&self, network: IpNet) -> Result {
        let mut attributes = vec![RuleAttribute::Goto(END)];
        if network.prefix_len() > 0 {
            attributes.push(RuleAttribute::Destination(network.network()));
        }
        self.rule_to(network, OUTSIDE, RuleAction::Goto, attributes).await
    }

    async fn rule(
        &self,
        is_ipv4: bool,
        priority: u32,
        action: RuleAction,
        more: Vec<RuleAttribute>,
    ) -> Result {
        let all = if is_ipv4 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        self.rule_to(IpNet::new_assert(all, 0), priority, action, more).await
    }

    async fn rule_to(
        &self,
        network: IpNet,
        priority: u32,
        action: RuleAction,
        more: Vec<RuleAttribute>,
    ) -> Result {
        let mut request = self.0.rule().add().action(action).priority(priority);
        let message = request.message_mut();
        message.header.family = family(network.addr());
        message.header.dst_len = network.prefix_len();
        message.attributes.push(RuleAttribute::Protocol(MARK));
        message.attributes.extend(more);
        match request.execute().await {
            Err(error) if is(&error, nix::errno::Errno::EEXIST) => Ok(()),
            added => added.map_err(|error| failed("cannot set a routing rule", &error)),
        }
    }

    /// Removes all of our routes and rules. Returns their number.
    ///
    /// # Errors
    /// Fails if the kernel refuses to remove one.
    pub(super) async fn undo(&self) -> Result<usize> {
        let mut count = 0;
        for version in [IpVersion::V4, IpVersion::V6] {
            let rules: Vec<RuleMessage> = self
                .0
                .rule()
                .get(version.clone())
                .execute()
                .try_collect()
                .await
                .map_err(|error| failed("cannot read the routing rules", &error))?;
            for rule in rules.into_iter().filter(is_ours) {
                let removed = self.0.rule().del(rule).execute().await;
                removed.map_err(|error| failed("cannot remove a routing rule", &error))?;
                count += 1;
            }
            let filter = match version {
                IpVersion::V4 => RouteMessageBuilder::<std::net::Ipv4Addr>::new().build(),
                IpVersion::V6 => RouteMessageBuilder::<std::net::Ipv6Addr>::new().build(),
            };
            let routes: Vec<_> = self
                .0
                .route()
                .get(filter)
                .execute()
                .try_collect()
                .await
                .map_err(|error| failed("cannot read the routes", &error))?;
            let table = RouteAttribute::Table(TABLE);
            for route in routes.into_iter().filter(|route| route.attributes.contains(&table)) {
                match self.0.route().del(route).execute().await {
                    // It has vanished together with the device.
                    Err(error) if is(&error, nix::errno::Errno::ESRCH) => {}
                    removed => {
                        removed.map_err(|error| failed("cannot remove a route", &error))?;
                        count += 1;
                    }
                }
            }
        }
        Ok(count)
    }
}

/// Begins a route of ours.
fn route(network: IpNet) -> RouteMessageBuilder<IpAddr> {
    let builder = RouteMessageBuilder::<IpAddr>::new().table_id(TABLE).protocol(MARK);
    // The prefix length fits the family.
    builder.clone().destination_prefix(network.network(), network.prefix_len()).unwrap_or(builder)
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn is_ours(rule: &RuleMessage) -> bool {
    rule.attributes.contains(&RuleAttribute::Protocol(MARK))
}

fn is(error: &rtnetlink::Error, errno: nix::errno::Errno) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(message) if message.raw_code() == -(errno as i32))
}

fn failed(what: &str, error: &rtnetlink::Error) -> Failure {
    let failure = Failure::new(Exit::Io, format!("{what}: {error}"));
    match is(error, nix::errno::Errno::EPERM) {
        true => failure.with_exit(Exit::NotPermitted).or("run as root, or with the capability CAP_NET_ADMIN"),
        false => failure,
    }
}
