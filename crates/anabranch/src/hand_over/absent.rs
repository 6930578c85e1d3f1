//! Systems on which sockets are not handed over: no other process has them.

use std::sync::Arc;
use std::task::Context;

use anabranch_transport::{Datagram, StoredDatagram};

use crate::socket::Socket;

#[derive(Clone, Copy)]
pub(crate) enum Origin {
    Network,
    Successor,
    Predecessor,
}

#[derive(Clone, Copy)]
#[expect(dead_code, reason = "there is no other process")]
pub(crate) enum Course {
    Here,
    Back,
    Forth,
}

#[derive(Debug, Default)]
pub(crate) struct Links;

#[derive(Debug, Default)]
pub(crate) struct Neighbours;

impl Neighbours {
    pub(crate) fn take(&self, _: &Links) {}

    pub(crate) fn receives(&self, _: &Arc<Socket>) -> bool {
        true
    }

    pub(crate) fn are_between(&self) -> bool {
        false
    }

    pub(crate) fn course(&self, _: Origin) -> Course {
        Course::Here
    }

    pub(crate) fn pass(&self, _: Course, _: &Datagram<'_>) {}

    pub(crate) fn receive(&self, _: &mut Context<'_>, _: Origin) -> (Vec<StoredDatagram>, bool) {
        (Vec::new(), false)
    }
}
