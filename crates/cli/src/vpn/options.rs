//! Options of `anabranch vpn connect`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch::proxy::client::Resolve;
use clap::Args;
use ipnet::IpNet;

use super::host::Wanted;
use super::plan::Wishes;
use super::remotes::Lookup;
use super::state::State;
use crate::exit::{self, Result};
use crate::options::network;
use crate::proxy::connect::link::Fresh;
use crate::proxy::connect::seeing::Seeing;
use crate::proxy::connect::seen::Seen;
use crate::proxy::connect::way::{Dial, Way};
use crate::tun::Device;

/// MTU of the device, in bytes. TCP is ended here, so it may use all of it; senders of other packets learn by ICMP how much
/// fits.
pub(super) const MTU: u16 = 1_500;

/// Send all packets of this host through a proxy, over all networks at once
///
/// TCP connections end in this command and are carried on streams, everything else as IP packets. Routes and resolvers are put
/// back at the end; after a crash by the next start, or by `anabranch vpn clean`. Needs the capability CAP_NET_ADMIN
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Connect {
    #[command(flatten)]
    pub(super) way: Way,
    /// Send only packets to this network through the tunnel; may be repeated. Without this option, all go there
    #[arg(long = "route", value_name = "NETWORK", value_parser = network)]
    routes: Vec<IpNet>,
    /// Never send packets to this network through the tunnel; may be repeated
    #[arg(long = "exclude", value_name = "NETWORK", value_parser = network)]
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
    pub(super) device: String,
    #[command(flatten)]
    pub(super) seeing: Seeing,
}

impl Connect {
    /// Checks the options and the files that they name.
    pub(crate) fn check(&self) -> Result {
        Device::check_name(&self.device)?;
        self.way.check()
    }

    /// Connects to the proxy, by way of addresses that lead around the tunnel. Returns them, too. `device` is the TUN device.
    pub(super) async fn dial(
        &self,
        dial: Dial,
        device: &str,
        lookup: Arc<Lookup>,
        seen: Seen,
    ) -> Result<(Fresh, Vec<SocketAddr>)> {
        let print = self.way.print();
        let proxy = self.way.connect_around(dial, device, Arc::clone(&lookup) as Arc<dyn Resolve>).await?;
        Ok((Fresh::new(&self.way, print, proxy, seen), lookup.found()))
    }

    /// Returns what the user wants of this host.
    pub(super) fn wanted(&self) -> Wanted {
        let (routes, excluded) = (self.routes.clone(), self.excluded.clone());
        let wishes = Wishes { routes, excluded, kill_switch: self.kill_switch };
        Wanted { wishes, resolvers: self.resolvers.clone() }
    }

    /// Returns whether the kill switch of a killed VPN with this state stays: this one has one, too, and the same proxy.
    pub(super) fn keeps(&self, state: &State) -> bool {
        self.kill_switch && state.proxy == self.way.url() && !state.remotes.is_empty()
    }
}
