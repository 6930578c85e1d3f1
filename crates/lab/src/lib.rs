//! Deterministic discrete-event simulation of a network. Links are chains of small elements, hosts run real
//! endpoints in virtual time, and all randomness follows from one seed.
//!
//! ```
//! use anabranch_lab::app::{Dial, DownloadClient, DownloadServer};
//! use anabranch_lab::pair::{Pair, PairConfig};
//! use anabranch_wire::Time;
//!
//! let config = PairConfig::new(7, ["20mbit/30ms/0.5%".parse()?]);
//! let client = |_: &_, client, tuple| DownloadClient::new(Dial::new(client, tuple), &[1_000_000]);
//! let mut pair = Pair::new(&config, client, DownloadServer::default(), |_| ())?;
//! let host = pair.client;
//! pair.sim.run(Time::from_millis(60_000), |sim| sim.application::<DownloadClient>(host).is_done());
//! let finished = pair.sim.application::<DownloadClient>(host).finished;
//! assert!(finished.is_some_and(|at| at > Time::from_millis(400)), "20 Mbit/s carry 1 MB in 400 ms at best");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`scenario`] follows from a seed alone: the network, the configurations, the applications' actions and
//! the disturbances. `cargo run --release -p anabranch-lab --example seeds -- 10000` runs 10000 seeds, `-- 1
//! SEED` repeats one. A [`model`] does the same for one connection with several paths.
//!
//! The same links also run in real time as a UDP [`relay`], so that other implementations can be tested over
//! them. Programs that need only the relay can disable the feature `sim`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "sim")]
pub mod app;
#[cfg(feature = "experiments")]
pub mod claim;
#[cfg(feature = "sim")]
pub mod design;
#[cfg(feature = "experiments")]
pub mod difference;
pub mod events;
#[cfg(feature = "experiments")]
pub mod experiment;
#[cfg(feature = "sim")]
pub mod failover;
#[cfg(feature = "figures")]
pub mod figure;
#[cfg(feature = "sim")]
pub mod fluid;
#[cfg(feature = "sim")]
pub mod guest;
pub mod link;
#[cfg(feature = "sim")]
mod log;
#[cfg(feature = "sim")]
pub mod model;
#[cfg(feature = "sim")]
pub mod network;
#[cfg(feature = "sim")]
pub mod node;
pub mod packet;
#[cfg(feature = "sim")]
pub mod pair;
#[cfg(feature = "experiments")]
pub mod plan;
#[cfg(feature = "experiments")]
pub mod profile;
pub mod random;
#[cfg(feature = "experiments")]
pub mod record;
#[cfg(feature = "experiments")]
mod registry;
#[cfg(feature = "experiments")]
pub mod regret;
pub mod relay;
#[cfg(feature = "figures")]
pub mod report;
#[cfg(feature = "experiments")]
pub mod run;
#[cfg(feature = "sim")]
pub mod scenario;
#[cfg(feature = "sim")]
pub mod seeds;
#[cfg(feature = "experiments")]
pub mod share;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "experiments")]
pub mod stack;
pub mod stats;
#[cfg(feature = "experiments")]
pub mod store;
#[cfg(feature = "experiments")]
pub mod sweep;
#[cfg(feature = "sim")]
pub mod tls;
#[cfg(feature = "sim")]
pub mod trace;
#[cfg(feature = "sim")]
pub mod transfer;
#[cfg(feature = "sim")]
pub mod tunnel;

pub use anabranch_wire::Time;
