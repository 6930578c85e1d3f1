//! Application protocols that handle the streams and datagrams of a connection.

use std::any::Any;
use std::task::Waker;

use anabranch_transport::stream::StreamEvent;
use anabranch_transport::{Connection, ConnectionError};
use anabranch_wire::{Time, VarInt};

/// Session of an application protocol on one connection. From its beginning on, it handles all streams and
/// datagrams of the connection.
pub(crate) trait Session: Any + Send {
    /// Handles an event of a stream.
    fn on_stream_event(&mut self, now: Time, core: &mut Connection, event: StreamEvent);

    /// Handles DATAGRAM frames that have arrived.
    fn on_datagrams(&mut self, now: Time, core: &mut Connection);

    /// Collects the wakers of the tasks that the session's events unblock.
    ///
    /// # Errors
    /// Fails if the peer violated the protocol. The connection has then been closed, and the error is the
    /// reason.
    fn wake(
        &mut self,
        now: Time,
        core: &mut Connection,
        woken: &mut Vec<Waker>,
    ) -> Result<(), ConnectionError>;

    /// Collects all waiting tasks, because the connection has ended.
    fn end(&mut self, woken: &mut Vec<Waker>);

    /// Returns the error code with which the connection closes when its last handle is dropped.
    fn close_code(&self) -> VarInt;
}
