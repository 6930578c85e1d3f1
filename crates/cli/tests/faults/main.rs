//! Faults of the field and real applications: networks that vanish, change and come back under `anabranch proxy connect`,
//! middleboxes, and ends that die or move; iperf3, dig, ssh and Chromium through forwards, proxies and the VPN. Each runs in
//! namespaces of its own, without root where users may create namespaces; it is skipped by name elsewhere, and where its
//! program is missing.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[cfg(feature = "vpn")]
mod applications;
#[cfg(feature = "vpn")]
mod browsers;
mod ends;
mod ends_change;
mod inside;
mod middleboxes;
mod nat;
mod network;
mod scenes;
mod transparent;
