//! Limits on the resources that a server's clients can use.

use std::time::Duration;

use anabranch_wire::configuration;

configuration! {
    /// Limits on the resources that the clients of a [`Server`](super::Server) can hold, and for how long.
    ///
    /// Other bounds are those of the transport: its flow control windows bound unread data,
    /// [`StreamsConfig::max_bidi`](crate::transport::stream::StreamsConfig::max_bidi) bounds the number of
    /// open requests, and
    /// [`StreamsConfig::send_buffer`](crate::transport::stream::StreamsConfig::send_buffer) bounds
    /// unacknowledged data.
    ///
    /// Time does not count against a client while the server serves other streams of its connection, or while
    /// its link is fully used. A link that is dead for a while counts like a client that does nothing. With
    /// the defaults, the connection's own idle timeout expires before any of these limits does.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// Maximum number of connections; further ones are refused.
        copy max_connections, with_max_connections: usize = 65_536;
        /// Maximum number of requests of one connection that are processed at the same time; others wait.
        copy max_handlers, with_max_handlers: usize = 128;
        /// Maximum time that a connection may be idle, including its handshake, before it is closed. A
        /// connection is idle while no request is processed and the client acknowledges no further data of
        /// responses.
        copy idle_timeout, with_idle_timeout: Duration = Duration::from_secs(60);
        /// Maximum time from the opening of a request's stream to the end of its header section. Time in
        /// which the connection delivers data at `min_rate` does not count.
        copy header_timeout, with_header_timeout: Duration = Duration::from_secs(60);
        /// Minimum rate in bytes per second at which a connection must deliver data on all its streams
        /// together. It applies while the server waits for the content of one of the connection's requests.
        /// Tunnels (CONNECT) are exempt, and so are requests whose response has begun. With 0 there is no
        /// minimum.
        copy min_rate, with_min_rate: u64 = 100;
        /// Maximum time for which a connection may fall short of `min_rate`.
        copy grace, with_grace: Duration = Duration::from_secs(60);
        /// Maximum time for which a client may read nothing of a response, although everything that its flow
        /// control allowed has been sent. The stream is then reset with H3_EXCESSIVE_LOAD. Tunnels (CONNECT)
        /// are exempt. With zero there is no limit.
        copy stall_timeout, with_stall_timeout: Duration = Duration::from_secs(300);
        /// Maximum number of bytes that stalled responses may hold in memory, over all connections that share
        /// a [`StalledResponses`](super::StalledResponses). Beyond it, the responses that have been stalled
        /// for the longest time are reset first. A response holds the piece of its body that waits to be
        /// sent, and its unacknowledged data.
        copy max_stalled_bytes, with_max_stalled_bytes: u64 = 256 << 20;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the transport's idle timeout expires before any limit, so that no client is blamed for a
    /// dead link.
    #[test]
    fn a_dead_link_is_given_up_by_the_transport_first() {
        let survives = anabranch_transport::TransportConfig::default().max_idle_timeout().unwrap_or_default();
        let Limits { idle_timeout, header_timeout, grace, stall_timeout, .. } = Limits::default();
        for limit in [idle_timeout, header_timeout, grace, stall_timeout] {
            assert!(limit >= 2 * survives, "{limit:?} of {survives:?}");
        }
    }
}
