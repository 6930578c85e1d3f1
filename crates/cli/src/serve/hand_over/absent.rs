//! Systems on which sockets are not handed over.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use anabranch::{Endpoint, EndpointConfig, ServerConfig};

use super::sockets::Sockets;
use crate::exit::{Exit, Failure, Result};

#[derive(Default)]
pub(super) struct Goods {
    pub(super) endpoints: Vec<Endpoint>,
}

impl Goods {
    pub(super) fn of_tcp(_: bool, _: &[TcpListener], _: Option<&TcpListener>) -> Result<Self> {
        Ok(Self::default())
    }
}

pub(super) struct Heirs(Infallible);

impl Heirs {
    pub(super) fn bind(_: &Path) -> Result<Self> {
        Err(Failure::new(Exit::Usage, "--handover needs Linux"))
    }
}

pub(super) struct Legacy(Infallible);

impl Legacy {
    pub(super) fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        match self.0 {}
    }

    pub(super) fn workers(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn take_over(self, _: &EndpointConfig, _: ServerConfig) -> io::Result<Endpoint> {
        match self.0 {}
    }
}

pub(super) struct Inheritance(Infallible);

impl Inheritance {
    #[expect(clippy::unused_async, reason = "it waits on other systems")]
    pub(super) async fn receive(_: &Path) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(super) fn sockets(&mut self, _: bool) -> Sockets {
        match self.0 {}
    }

    pub(super) fn scraped(&mut self, _: Option<SocketAddr>) -> Option<TcpListener> {
        match self.0 {}
    }

    pub(super) fn take_legacies(&mut self) -> Vec<Legacy> {
        match self.0 {}
    }
}

pub(super) fn begin(_: Option<Inheritance>, _: Option<&mut Heirs>) {}

pub(super) async fn succeeded(_: Option<&Heirs>, _: &Goods) {
    std::future::pending().await
}

#[expect(clippy::unused_async, reason = "it waits on other systems")]
pub(super) async fn older_ended(_: &[Endpoint]) {}
