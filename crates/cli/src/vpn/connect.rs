//! `anabranch vpn connect`: routes of this host into a tunnel, and the transfer of its packets.

use std::net::IpAddr;
use std::sync::Arc;

use super::around::Around;
use super::carry::{self, Connected, Signals};
use super::host::Tools;
use super::netlink::Netlink;
use super::options::{Connect, MTU};
use super::packets;
use super::record::Record;
use super::remotes::Remotes;
use super::state::{Place, State};
use super::undo::{restore_resolvers, undo};
use crate::exit::{self, Exit, Failure, Result};
use crate::proxy::config::Configured;
use crate::proxy::connect::seen::{Kind, Seen};
use crate::proxy::connect::way::Dial;
use crate::serve::raise_descriptors;
use crate::signal::{Again, Stop};
use crate::tun::Device;

/// Name of the command in its state.
const ROLE: &str = "vpn";

pub(super) async fn run(configured: Configured<Connect>) -> Result {
    let options = configured.read()?;
    // Catches signals before anybody can know that the command runs.
    let (stop, again) = Again::catch(configured.has_file())?;
    let mut signals = Signals { stop, again };
    raise_descriptors();
    let place = Place::take()?;
    let netlink = Netlink::open()?;
    let left = place.left();
    // A kill switch that a crash has left stays until the tunnel is there. Then the proxy's name cannot be resolved.
    let held = left.clone().filter(|left| options.keeps(left));
    if held.is_none() && (undo(&netlink, left.as_ref()).await? > 0 || left.is_some()) {
        exit::note("anabranch: undid what a VPN had left that was killed");
    }
    let around = Around::new(netlink.clone());
    let tools = Tools { netlink, around, record: Arc::new(Record::new(place)) };
    // The proxy may assign the same addresses again.
    let start = Start { held: held.as_ref(), addresses: left.map(|left| left.addresses).unwrap_or_default() };
    let result = match start.connect(&options, &tools, &mut signals.stop).await {
        Ok(connected) => carry::run(connected, &options, &configured, &tools, &mut signals).await,
        Err(failure) => Err(failure),
    };
    tools.around.close().await;
    if held.is_some() && tools.record.is_empty() {
        return result;
    }
    let undone = undo(&tools.netlink, Some(&tools.record.state())).await;
    if undone.is_ok() {
        tools.record.leave();
    }
    result.and(undone.map(drop))
}

/// State that a killed VPN has left for this one.
struct Start<'a> {
    /// State of the killed VPN whose kill switch is kept; `None` if there is none.
    held: Option<&'a State>,
    /// Addresses in the tunnel.
    addresses: Vec<IpAddr>,
}

impl Start<'_> {
    /// Connects to the proxy, and opens a tunnel for packets. Addresses, routes and resolvers are not changed yet.
    async fn connect(&self, options: &Connect, tools: &Tools, stop: &mut Stop) -> Result<Connected> {
        let bound = options.seeing.bind(ROLE)?;
        let device = Arc::new(Device::create(&options.device, MTU)?);
        let mut remotes = Remotes::new(tools.around.clone(), Arc::clone(&tools.record));
        let known = self.held.map(|held| held.remotes.clone()).unwrap_or_default();
        let begun = async {
            let lookup = remotes.lookup(options.way.url(), known);
            let (fresh, found) =
                options.dial(Dial::First, &options.device, lookup, Seen::of(Kind::OF_VPN)).await?;
            let open = packets::open(fresh.client(), &self.addresses).await?;
            Ok::<_, Failure>((fresh, found, open))
        };
        let (fresh, found, open) = tokio::select! {
            begun = begun => begun?,
            () = stop.wait() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        if let Some(held) = self.held {
            // Routes and rules are removed after those of this VPN are there, so that the kill switch has no gap.
            restore_resolvers(held)?;
        }
        tools.record.update(|state| {
            options.way.url().clone_into(&mut state.proxy);
            state.remotes = found;
        })?;
        Ok(Connected { device, bound, remotes, fresh, open })
    }
}
