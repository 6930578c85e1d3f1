//! Removal of a VPN's changes to this host: at its end, at the start of the next one, and by `anabranch vpn
//! clean`.

use clap::Args;

use super::netlink::Netlink;
use super::state::{Place, State};
use crate::exit::{self, Result};

/// Undo the changes of a VPN that could not undo them itself, for instance because it was killed
#[derive(Args, Debug)]
#[command(after_help = exit::STATUSES)]
pub(crate) struct Clean {}

pub(super) async fn run(_options: &Clean) -> Result {
    let place = Place::take()?;
    let netlink = Netlink::open()?;
    let left = place.left();
    let count = undo(&netlink, left.as_ref()).await?;
    let resolvers = if left.is_some_and(|left| left.resolver.is_some()) { ", and the resolvers" } else { "" };
    place.leave();
    exit::say(match count {
        0 if resolvers.is_empty() => "nothing was left".to_owned(),
        count => format!("removed {count} routes and rules{resolvers}"),
    })
}

/// Removes routes and rules, and restores the resolvers. Returns the number of removed routes and rules.
pub(super) async fn undo(netlink: &Netlink, state: Option<&State>) -> Result<usize> {
    let undone = netlink.undo().await;
    // If routes or rules cannot be removed, the resolvers are restored nevertheless.
    let resolved = state.map_or(Ok(()), restore_resolvers);
    let count = undone?;
    resolved.map(|()| count)
}

/// Restores the resolvers.
pub(super) fn restore_resolvers(state: &State) -> Result {
    state.resolver.as_ref().map_or(Ok(()), super::dns::Resolver::undo)
}
