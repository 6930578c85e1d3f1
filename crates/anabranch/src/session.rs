//! Application protocols that take over the streams and datagrams of a connection.

use std::any::Any;
use std::task::Waker;

use anabranch_transport::stream::StreamEvent;
use anabranch_transport::{Connection, ConnectionError};
use anabranch_wire::Time;

/// A session of an application protocol on one connection, whose streams and datagrams are the session's from
/// its beginning on.
pub(crate) trait Session: Any + Send {
    /// Takes over an event of a stream.
    fn on_stream_event(&mut self, now: Time, core: &mut Connection, event: StreamEvent);

    /// Takes over DATAGRAM frames that have arrived.
    fn on_datagrams(&mut self, now: Time, core: &mut Connection);

    /// Gathers the tasks that the session's events wake. An error is the connection's end: the peer has made
    /// it impossible to go on, and the connection was closed for that.
    fn wake(
        &mut self,
        now: Time,
        core: &mut Connection,
        woken: &mut Vec<Waker>,
    ) -> Result<(), ConnectionError>;

    /// Gathers all tasks that wait: the connection is over.
    fn end(&mut self, woken: &mut Vec<Waker>);

    /// Gives the code with which the connection closes when nobody is left to use it.
    fn close_code(&self) -> u64;
}
