//! Captured connections on a system that has no rules for them.

use std::net::SocketAddr;

use clap::Args;
use tokio::net::TcpStream;

use super::Shared;
use super::local::Local;
use crate::exit::{Exit, Failure, Result};

/// Options for connections that are captured, of which there are none.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Transparent {}

/// Networks whose connections are captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Networks {}

/// Rules of the kernel.
#[derive(Debug)]
pub(super) enum Capture {}

impl Transparent {
    pub(super) fn is_empty(&self) -> bool {
        true
    }

    pub(super) fn networks(&self) -> &Networks {
        &Networks {}
    }

    pub(super) fn mark(&self) -> Option<u32> {
        None
    }

    pub(super) fn places(&self) -> Result<Vec<(SocketAddr, bool)>> {
        Ok(Vec::new())
    }
}

impl Networks {
    pub(super) fn differences(&self, _other: &Self) -> Vec<&'static str> {
        Vec::new()
    }
}

impl Capture {
    pub(super) async fn begin(_port: SocketAddr, _networks: Networks) -> Result<Self> {
        Err(Failure::new(Exit::Usage, "connections can be captured on Linux only"))
    }
}

/// Binds no port.
pub(super) fn bind(_address: SocketAddr, _must: bool) -> Result<Option<Local>> {
    Ok(None)
}

/// Drops the connection.
pub(super) async fn serve(_program: TcpStream, _shared: &Shared) {}
