//! Limits on the cost of a server's clients.

use std::time::Duration;

use anabranch_wire::configuration;

configuration! {
    /// Bounds on what the clients of a [`Server`](super::Server) may hold and for how long.
    ///
    /// What a client may send ahead of being read is bounded by the transport's windows, how many requests it
    /// may have open by [`StreamsConfig::max_bidi`](crate::transport::stream::StreamsConfig::max_bidi), and
    /// what is sent ahead of its acknowledgments by
    /// [`StreamsConfig::send_buffer`](crate::transport::stream::StreamsConfig::send_buffer).
    ///
    /// Time in which the server serves other streams of a connection, or in which its link carries what it
    /// can, counts against no client. A link that is dead for a while counts like a client that does nothing;
    /// with the defaults the connection's own idle timeout ends first what any of these bounds would end.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// Connections at the same time; others are refused.
        copy max_connections, with_max_connections: usize = 65_536;
        /// Requests of one connection that are being answered at the same time; others wait.
        copy max_handlers, with_max_handlers: usize = 128;
        /// Maximum time that a connection may be without a request before it is closed, its handshake
        /// included. A connection on which responses are still being sent has requests.
        copy idle_timeout, with_idle_timeout: Duration = Duration::from_secs(60);
        /// Maximum time from the opening of a request's stream to the end of the request's head. Time in
        /// which the connection brings `min_rate` does not count.
        copy header_timeout, with_header_timeout: Duration = Duration::from_secs(60);
        /// Bytes per second that a connection has to bring, all its streams together, while the server waits
        /// for the content of one of its requests. Tunnels (CONNECT) are exempt, and so are requests that the
        /// server has begun to answer. 0: any speed will do.
        copy min_rate, with_min_rate: u64 = 100;
        /// Maximum time for which a connection may fall short of `min_rate`.
        copy grace, with_grace: Duration = Duration::from_secs(60);
        /// Maximum time for which a client may take nothing of a response that it requested, although
        /// everything that it allowed has been sent. After that the stream is reset with H3_EXCESSIVE_LOAD.
        /// Tunnels (CONNECT) are exempt. Zero: as long as the connection lives.
        copy stall_timeout, with_stall_timeout: Duration = Duration::from_secs(300);
        /// Bytes that responses whose clients take nothing may hold in memory, over all connections that
        /// share a [`StalledResponses`](super::StalledResponses). Beyond that, those are reset first that
        /// have been stalled for the longest time. What a response holds is the piece of its body that waits
        /// to be sent and what has not been acknowledged of it.
        copy max_stalled_bytes, with_max_stalled_bytes: u64 = 256 << 20;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody is to blame for a link that carries nothing for as long as a connection survives that.
    #[test]
    fn a_dead_link_is_given_up_by_the_transport_first() {
        let survives = anabranch_transport::TransportConfig::default().max_idle_timeout().unwrap_or_default();
        let Limits { idle_timeout, header_timeout, grace, stall_timeout, .. } = Limits::default();
        for limit in [idle_timeout, header_timeout, grace, stall_timeout] {
            assert!(limit >= 2 * survives, "{limit:?} of {survives:?}");
        }
    }
}
