//! Restart without a failed request: the sockets of a running server pass to the next process, on a Unix socket.

mod heirs;
mod inheritance;
mod peer;

use std::time::Duration;

use anabranch::Endpoint;

pub(super) use self::heirs::{Goods, Heirs};
pub(super) use self::inheritance::{Inheritance, Legacy};
use crate::exit::note;

/// Maximum number of addresses that are handed over.
const MAX_ENDPOINTS: usize = 64;
/// Maximum length of the reason why nothing is handed over, in bytes.
const MAX_REASON: usize = 255;
/// Maximum time from the hand-over until the new process is ready.
const START: Duration = Duration::from_secs(60);

/// First byte of the old process: sockets follow, or a reason why not.
const GRANTED: u8 = 1;
const REFUSED: u8 = 0;
/// Byte of the new process once it accepts clients.
const READY: u8 = 1;

/// Numbers by which the new process knows descriptors again.
const TCP: u8 = 0;
const METRICS: u8 = 1;

/// Tells the old process that this one is ready, and takes its place for the next one.
pub(super) fn begin(inherited: Option<Inheritance>, heirs: Option<&mut Heirs>) {
    if let Some(inherited) = inherited
        && let Err(error) = inherited.tell_ready()
    {
        note(format_args!("anabranch: the old process ended before this one was ready: {error}"));
    }
    if let Some(heirs) = heirs
        && let Err(error) = heirs.open()
    {
        note(format_args!("anabranch: no further process can take over: {error}"));
    }
}

/// Waits until another process has taken the sockets over.
pub(super) async fn succeeded(heirs: Option<&Heirs>, goods: &Goods) {
    match heirs {
        Some(heirs) => heirs.succeeded(goods).await,
        None => std::future::pending().await,
    }
}

/// Waits until all processes have ended to which this one forwards packets.
pub(super) async fn older_ended(endpoints: &[Endpoint]) {
    for endpoint in endpoints {
        endpoint.older_ended().await;
    }
}
