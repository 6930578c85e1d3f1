//! Access list of the targets to which the proxy connects.
//!
//! A name is checked before it is resolved, and each of its addresses before the proxy connects to it. So a name does not give
//! access to a private network even if its owner publishes private addresses for it (DNS rebinding).

mod forbidden;
mod rule;

use std::net::IpAddr;

use anabranch_wire::configuration;

pub use self::forbidden::is_forbidden;
pub use self::rule::{InvalidRule, Rule};

use super::refusal::{Cause, Refusal};
use crate::proxy::client::Target;

configuration! {
    /// Access list of a proxy. By default every target is allowed whose address is public, see [`is_forbidden`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Access {
        /// Targets that are denied even if other lists allow them.
        lend deny, with_deny: Vec<Rule> => [Rule] = Vec::new();
        /// Networks that are allowed although they are not public. Rules with names have no effect here, because the owner of a
        /// name chooses its addresses.
        lend allow, with_allow: Vec<Rule> => [Rule] = Vec::new();
        /// Targets that are allowed; if the list is empty, all are.
        lend only, with_only: Vec<Rule> => [Rule] = Vec::new();
    }
}

impl Access {
    /// Checks a target before its name is resolved.
    ///
    /// # Errors
    /// Fails if a rule denies the name and port, or if the rules of `only` exclude the target whatever its address is.
    pub(super) fn check_target(&self, target: &Target) -> Result<(), Refusal> {
        let (host, port) = (target.host(), target.port());
        let denied = self.deny.iter().any(|rule| rule.covers_name(&host, port));
        let allowed = self.only.is_empty()
            || self
                .only
                .iter()
                .any(|rule| rule.has_port(port) && (rule.is_network() || rule.covers_name(&host, port)));
        if denied || !allowed {
            return Err(Refusal::new(Cause::Denied, "the access list denies the target"));
        }
        Ok(())
    }

    /// Returns whether the proxy may connect to this address of `target`.
    pub(super) fn allows(&self, target: &Target, address: IpAddr) -> bool {
        let (host, port) = (target.host(), target.port());
        let embedded = forbidden::embedded(address);
        let forms = || std::iter::once(address).chain(embedded.map(IpAddr::V4));
        let denied = self.deny.iter().any(|rule| forms().any(|form| rule.covers_address(form, port)));
        let public =
            !is_forbidden(address) || self.allow.iter().any(|rule| rule.covers_address(address, port));
        let wanted = self.only.is_empty()
            || self
                .only
                .iter()
                .any(|rule| rule.covers_address(address, port) || rule.covers_name(&host, port));
        !denied && public && wanted
    }

    /// Returns whether IP packets to this address and destination port are forwarded. A rule for some ports covers packets whose
    /// destination port is among them. Packets without a known port, such as ICMP and fragments other than the first, are covered
    /// only by rules for all ports. Rules with names cover no packets.
    pub(super) fn allows_packet(&self, address: IpAddr, port: Option<u16>) -> bool {
        let embedded = forbidden::embedded(address);
        let forms = || std::iter::once(address).chain(embedded.map(IpAddr::V4));
        let denied = self.deny.iter().any(|rule| forms().any(|form| rule.covers_packet(form, port)));
        let public =
            !is_forbidden(address) || self.allow.iter().any(|rule| rule.covers_packet(address, port));
        let wanted = self.only.is_empty() || self.only.iter().any(|rule| rule.covers_packet(address, port));
        !denied && public && wanted
    }
}

#[cfg(test)]
mod tests;
