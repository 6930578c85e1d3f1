//! `anabranch vpn clean`, and the same at the end and at the start of a VPN: this host as it was before.

use clap::Args;

use super::netlink::Netlink;
use super::state::{Place, State};
use crate::exit::{self, Result};

/// Undo what a VPN has left that could not do so itself, for instance because it was killed
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

/// Removes routes and rules, and puts the resolvers back. Returns the number of routes and rules.
pub(super) async fn undo(netlink: &Netlink, state: Option<&State>) -> Result<usize> {
    let undone = netlink.undo().await;
    // One failure does not keep the rest from being undone.
    let resolver = state.and_then(|state| state.resolver.as_ref());
    let resolved = resolver.map_or(Ok(()), super::dns::Resolver::undo);
    let count = undone?;
    resolved.map(|()| count)
}
