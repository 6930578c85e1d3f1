//! Networks whose packets go through the tunnel, and those whose packets go around it.

use std::net::IpAddr;

use ipnet::IpNet;

/// Networks with link scope, to which packets always go around the tunnel. IPv6 needs them for neighbour discovery.
const LINK: [&str; 4] = ["169.254.0.0/16", "224.0.0.0/24", "fe80::/10", "ff00::/8"];

/// Choices of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// Networks whose packets go through the tunnel; all packets do if the list is empty.
    pub(super) routes: Vec<IpNet>,
    /// Networks whose packets go around the tunnel.
    pub(super) excluded: Vec<IpNet>,
    pub(super) kill_switch: bool,
}

/// Routes and rules of a VPN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Networks with a route into the tunnel.
    pub(super) inside: Vec<IpNet>,
    /// Networks with an unreachable route, which has effect while there is no route into the tunnel.
    pub(super) blocked: Vec<IpNet>,
    /// Networks with a rule that leads around the tunnel.
    pub(super) outside: Vec<IpNet>,
    /// `true` if this host's other routes, except default routes, precede those into the tunnel. So its local networks stay
    /// reachable directly.
    pub(super) keeps_local: bool,
}

impl Wishes {
    /// Returns the plan. `own` are the addresses of this host in the tunnel. Networks to which the proxy forwards no packets have
    /// routes into the tunnel, too, so that packets to them do not go around it.
    pub(super) fn plan(&self, own: &[IpAddr]) -> Plan {
        let is_full = self.routes.is_empty();
        let all = [IpNet::new_assert([0; 4].into(), 0), IpNet::new_assert([0; 16].into(), 0)];
        let wanted = if is_full { all.to_vec() } else { self.routes.clone() };
        let has = |net: &IpNet| own.iter().any(|address| address.is_ipv4() == net.addr().is_ipv4());
        let inside = wanted.iter().filter(|net| has(net)).copied().collect();
        let blocked = match self.kill_switch {
            true => wanted,
            // Otherwise packets of a family without an address would go around the tunnel.
            false if is_full => wanted.into_iter().filter(|net| !has(net)).collect(),
            false => Vec::new(),
        };
        let link = LINK.iter().filter_map(|net| net.parse().ok());
        let outside = link.chain(self.excluded.iter().copied()).collect();
        Plan { inside, blocked, outside, keeps_local: is_full && !self.kill_switch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn own(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn everything_goes_through_the_tunnel_but_what_is_excluded() {
        let wishes = Wishes { excluded: nets(&["192.0.2.0/24"]), ..Wishes::default() };
        let plan = wishes.plan(&own(&["10.9.0.2", "fd00:9::2"]));
        assert_eq!(plan.inside, nets(&["0.0.0.0/0", "::/0"]));
        assert_eq!((plan.blocked.len(), plan.keeps_local), (0, true));
        assert!(plan.outside.contains(&nets(&["192.0.2.0/24"])[0]) && plan.outside.len() == LINK.len() + 1);
        // A family without an address is blocked.
        let plan = wishes.plan(&own(&["10.9.0.2"]));
        assert_eq!((plan.inside, plan.blocked), (nets(&["0.0.0.0/0"]), nets(&["::/0"])));
    }

    #[test]
    fn a_kill_switch_blocks_what_the_tunnel_does_not_take() {
        let wishes = Wishes { kill_switch: true, ..Wishes::default() };
        let plan = wishes.plan(&own(&["10.9.0.2", "fd00:9::2"]));
        assert_eq!((plan.blocked, plan.keeps_local), (nets(&["0.0.0.0/0", "::/0"]), false));
        let split = Wishes { routes: nets(&["10.0.0.0/8"]), ..wishes };
        let plan = split.plan(&own(&["10.9.0.2"]));
        assert_eq!((plan.inside, plan.blocked), (nets(&["10.0.0.0/8"]), nets(&["10.0.0.0/8"])));
    }

    #[test]
    fn a_split_tunnel_takes_the_networks_that_the_user_names() {
        let split = Wishes { routes: nets(&["10.0.0.0/8", "fd00::/8"]), ..Wishes::default() };
        let plan = split.plan(&own(&["10.9.0.2"]));
        assert_eq!((plan.inside, plan.keeps_local), (nets(&["10.0.0.0/8"]), false));
        assert_eq!(plan.blocked, []);
    }
}
