//! State that both halves of a request share.

use std::sync::Arc;

use anabranch_http3::Code;

use super::datagrams::Datagrams;
use super::exchange::Exchange;

/// Hold of one half on its request.
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

    /// Returns the code that ends this half's direction if the half is dropped now, on a server `of_server`; `None`
    /// if the direction has ended.
    pub(super) fn code_of_drop(&self, of_server: Code) -> Option<Code> {
        (!self.is_over).then_some(if self.is_server { of_server } else { Code::REQUEST_CANCELLED })
    }
}
