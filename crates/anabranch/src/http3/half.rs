//! State of one half of a request.

use std::sync::Arc;

use anabranch_http3::Code;

use super::datagrams::Datagrams;
use super::exchange::Exchange;

/// Reference of one half to its request, and the state of that half.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) exchange: Arc<Exchange>,
    pub(super) is_server: bool,
    /// `true` once this half's direction has ended.
    pub(super) is_over: bool,
}

impl Half {
    pub(super) fn client(exchange: Arc<Exchange>) -> Self {
        Self { exchange, is_server: false, is_over: false }
    }

    pub(super) fn server(exchange: Arc<Exchange>) -> Self {
        Self { exchange, is_server: true, is_over: false }
    }

    /// Returns the request's datagrams.
    pub(super) fn datagrams(&self) -> Datagrams {
        Datagrams::new(Arc::clone(&self.exchange))
    }

    /// Returns the error code with which this half's direction must end if the half is dropped now; `None` if
    /// the direction has ended. The code is `of_server` on a server and H3_REQUEST_CANCELLED on a client.
    pub(super) fn code_of_drop(&self, of_server: Code) -> Option<Code> {
        (!self.is_over).then_some(if self.is_server { of_server } else { Code::REQUEST_CANCELLED })
    }
}
