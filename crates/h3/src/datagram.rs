//! HTTP datagrams (RFC 9297) for the h3-datagram crate.

use std::task::{Context, Poll};

use anabranch::SendDatagramError;
use bytes::{Buf, Bytes};
use h3_datagram::ConnectionErrorIncoming;
use h3_datagram::datagram::EncodedDatagram;
use h3_datagram::quic_traits::{
    DatagramConnectionExt, RecvDatagram, SendDatagram, SendDatagramErrorIncoming,
};

use crate::Connection;
use crate::error::connection_error;

/// Sender of a connection's datagrams.
///
/// Datagrams are unreliable. If the queue is full, a datagram is dropped without an error.
#[derive(Clone, Debug)]
pub struct SendDatagramHandler(anabranch::Connection);

/// Receiver of a connection's datagrams.
#[derive(Clone, Debug)]
pub struct RecvDatagramHandler(anabranch::Connection);

impl<B: Buf> DatagramConnectionExt<B> for Connection {
    type SendDatagramHandler = SendDatagramHandler;
    type RecvDatagramHandler = RecvDatagramHandler;

    fn send_datagram_handler(&self) -> SendDatagramHandler {
        SendDatagramHandler(self.0.0.clone())
    }

    fn recv_datagram_handler(&self) -> RecvDatagramHandler {
        RecvDatagramHandler(self.0.0.clone())
    }
}

impl<B: Buf> SendDatagram<B> for SendDatagramHandler {
    fn send_datagram<T: Into<EncodedDatagram<B>>>(
        &mut self,
        data: T,
    ) -> Result<(), SendDatagramErrorIncoming> {
        let mut message: EncodedDatagram<B> = data.into();
        let message = message.copy_to_bytes(message.remaining());
        match self.0.send_datagram(message) {
            // The traits have no error for a full queue.
            Ok(()) | Err(SendDatagramError::Blocked) => Ok(()),
            Err(SendDatagramError::TooLarge) => Err(SendDatagramErrorIncoming::TooLarge),
            Err(SendDatagramError::ConnectionLost(error)) => {
                Err(SendDatagramErrorIncoming::ConnectionError(connection_error(error)))
            }
            Err(_) => Err(SendDatagramErrorIncoming::NotAvailable),
        }
    }
}

impl RecvDatagram for RecvDatagramHandler {
    type Buffer = Bytes;

    fn poll_incoming_datagram(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, ConnectionErrorIncoming>> {
        self.0.poll_read_datagram(cx).map_err(connection_error)
    }
}
