//! Metrics for Prometheus. The number of values of each label is bounded, regardless of clients.

mod figures;
mod memory;
mod paths;
mod scrape;

pub(super) use self::figures::{Handshake, Metrics, Transport};
pub(super) use self::scrape::serve;
