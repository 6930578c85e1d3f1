//! Routes and routing rules of this host, by rtnetlink(7).
//!
//! All routes are in a table of their own, and all rules have a protocol number of their own, by which they
//! are found again after a crash.

use std::net::IpAddr;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAttribute, RouteProtocol, RouteType};
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

/// Netlink connection to the kernel.
#[derive(Clone)]
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

    /// Sets the routes and rules of a plan.
    ///
    /// # Errors
    /// Fails if the kernel refuses one. Those that were set before stay, and [`Netlink::undo`] removes them.
    pub(super) async fn apply(&self, plan: &Plan, device: u32) -> Result {
        self.route(&plan.inside, &plan.blocked, device).await?;
        for is_ipv4 in [true, false] {
            self.rule(is_ipv4, END, RuleAction::Nop, vec![]).await?;
            let table = vec![RuleAttribute::Table(TABLE)];
            self.rule(is_ipv4, INSIDE, RuleAction::ToTable, table).await?;
            if plan.keeps_local {
                // This rule uses all routes of the table `main` except the default route.
                let suppress = vec![RuleAttribute::SuppressPrefixLen(0)];
                self.rule(is_ipv4, LOCAL, RuleAction::ToTable, suppress).await?;
            }
        }
        for network in &plan.outside {
            self.exclude(*network).await?;
        }
        Ok(())
    }

    /// Adds routes into the tunnel for `inside`, and unreachable routes for `blocked`. Other routes of the
    /// VPN stay.
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

    /// Adds a rule by which packets to a network follow the host's other rules and routes, and so go around
    /// the tunnel.
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

    /// Removes all routes and rules of the VPN. Returns their number.
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
                    // The kernel has removed the route together with the device.
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

/// Returns a builder for a route of the VPN.
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
