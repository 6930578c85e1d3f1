//! Metrics for Prometheus. The number of values of each label is bounded, regardless of clients.

mod figures;
mod memory;
mod paths;
mod scrape;

pub(super) use self::figures::{Handshake, Metrics, Transport};
pub(crate) use self::paths::{Paths, Watched};
pub(crate) use self::scrape::serve;
