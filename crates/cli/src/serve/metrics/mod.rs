//! Figures for Prometheus. Each label has few values, whatever clients do.

mod figures;
mod memory;
mod paths;
mod scrape;

pub(super) use self::figures::{Handshake, Metrics, Transport};
pub(super) use self::scrape::serve;
