//! This host, as a VPN changes it: addresses, routes, rules and resolvers.

use std::net::IpAddr;
use std::sync::Arc;

use super::around::{Around, Reason};
use super::dns;
use super::netlink::Netlink;
use super::packets::Terms;
use super::plan::{Plan, Wishes};
use super::record::Record;
use super::resolvers::Resolvers;
use crate::exit::{self, Result};
use crate::tun::Device;

/// Parts of the host that a VPN changes. They outlive a VPN that cannot start.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) netlink: Netlink,
    pub(super) around: Around,
    pub(super) record: Arc<Record>,
}

/// Routes, exclusions, kill switch and resolvers that the user asks for. A reload of the configuration changes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) wishes: Wishes,
    pub(super) resolvers: Vec<IpAddr>,
}

/// This host with its changes.
pub(super) struct Host {
    tools: Tools,
    device: Arc<Device>,
    /// Index of the device.
    index: u32,
    wanted: Wanted,
    terms: Terms,
    plan: Plan,
    resolvers: Resolvers,
}

impl Wanted {
    /// Returns the names of the options that differ.
    pub(super) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let (one, two) = (&self.wishes, &other.wishes);
        let differences = [
            ("route", one.routes != two.routes),
            ("exclude", one.excluded != two.excluded),
            ("dns", self.resolvers != other.resolvers),
            ("kill_switch", one.kill_switch != two.kill_switch),
        ];
        differences.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

impl Host {
    /// Creates this value. Nothing is changed yet.
    ///
    /// # Errors
    /// Fails if the device is gone.
    pub(super) fn new(tools: Tools, device: Arc<Device>) -> Result<Self> {
        let resolvers = Resolvers::new(Arc::clone(&tools.record), device.name());
        let index = device.index()?;
        let (wanted, terms, plan) = (Wanted::default(), Terms::default(), Plan::default());
        Ok(Self { tools, device, index, wanted, terms, plan, resolvers })
    }

    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Returns the name of the TUN device.
    pub(super) fn device(&self) -> &str {
        self.device.name()
    }

    /// Returns this host's addresses in the tunnel.
    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.terms.addresses
    }

    /// Sets addresses, routes and resolvers for the first time.
    ///
    /// # Errors
    /// Fails if the system refuses. What was changed until then has to be undone.
    pub(super) async fn begin(&mut self, wanted: &Wanted, terms: &Terms) -> Result {
        self.set_terms(terms)?;
        self.set(wanted).await?;
        self.tools.around.sweep(&self.plan).await?;
        if wanted.resolvers.is_empty()
            && wanted.wishes.routes.is_empty()
            && let Some(resolver) = dns::around()
        {
            exit::note(format_args!(
                "anabranch: names are still resolved by {resolver}, around the tunnel; see --dns"
            ));
        }
        if let Some(part) = terms.missing(&self.plan.inside) {
            exit::note(format_args!(
                "anabranch: the proxy carries nothing but TCP to some networks, {part} among them; packets to them are refused"
            ));
        }
        Ok(())
    }

    /// Changes routes and resolvers to what the user wants now.
    ///
    /// # Errors
    /// Fails if the system refuses. Everything is as before then.
    pub(super) async fn change(&mut self, wanted: &Wanted) -> Result {
        let before = self.wanted.clone();
        let changed = self.set(wanted).await;
        if changed.is_err()
            && let Err(failure) = self.set(&before).await
        {
            failure.say();
        }
        changed
    }

    /// Changes addresses and routes to what the proxy has told.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub(super) async fn follow(&mut self, terms: &Terms) -> Result {
        // Without addresses for a while, programs keep theirs: the proxy may assign them again.
        if terms.addresses.is_empty() {
            return Ok(());
        }
        self.set_terms(terms)?;
        let wanted = self.wanted.clone();
        self.set(&wanted).await
    }

    fn set_terms(&mut self, terms: &Terms) -> Result {
        let before = std::mem::replace(&mut self.terms, terms.clone());
        self.tools.record.update(|state| state.addresses.clone_from(&terms.addresses))?;
        for address in terms.addresses.iter().filter(|address| !before.addresses.contains(address)) {
            self.device.add_address((*address).into())?;
        }
        let gone = before.addresses.iter().filter(|address| !terms.addresses.contains(address));
        gone.for_each(|address| self.device.remove_address(*address));
        Ok(())
    }

    async fn set(&mut self, wanted: &Wanted) -> Result {
        let plan = wanted.wishes.plan(&self.terms.addresses);
        // If this fails on the way, the next change begins with what was wanted here.
        let before = std::mem::replace(&mut self.plan, plan);
        for network in &self.plan.outside {
            self.tools.around.lead(*network, Reason::Plan).await?;
        }
        self.tools.netlink.change(&before, &self.plan, self.index).await?;
        for network in before.outside.iter().filter(|network| !self.plan.outside.contains(network)) {
            self.tools.around.leave(*network, Reason::Plan).await?;
        }
        self.resolvers.set(&wanted.resolvers)?;
        self.wanted = wanted.clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_the_names_of_options() {
        let wishes = Wishes { kill_switch: true, ..Wishes::default() };
        let one = Wanted { wishes, resolvers: vec![[9, 9, 9, 9].into()] };
        assert_eq!(one.differences(&Wanted::default()), ["dns", "kill_switch"]);
        assert_eq!(one.differences(&one), [""; 0]);
        let excluded = vec!["192.0.2.0/24".parse().unwrap()];
        let routes = excluded.clone();
        let other = Wanted { wishes: Wishes { routes, excluded, kill_switch: true }, ..one.clone() };
        assert_eq!(other.differences(&one), ["route", "exclude"]);
    }
}
