//! Settings that an application may choose.

use anabranch_wire::configuration;

configuration! {
    /// Limits and features of an HTTP/3 session, the same for both roles.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Largest field section that is taken from the peer, *decoded*: name, value and 32 bytes for each
        /// line (RFC 9114 §4.2.2). The peer is told.
        copy max_field_section_size, with_max_field_section_size: u64 = 64 * 1024;
        /// Most field lines in a section that is taken from the peer.
        copy max_fields, with_max_fields: usize = 256;
        /// Bytes of dynamic table that the peer's encoder may use (RFC 9204 §3.2.3).
        copy qpack_max_table_capacity, with_qpack_max_table_capacity: u64 = 4096;
        /// Streams that may wait for the peer's encoder stream (RFC 9204 §2.1.2).
        copy qpack_blocked_streams, with_qpack_blocked_streams: u64 = 16;
        /// Server: accept extended CONNECT (RFC 9220).
        copy enable_connect_protocol, with_enable_connect_protocol: bool = true;
        /// Exchange HTTP datagrams (RFC 9297); needs DATAGRAM frames of the transport, too.
        copy h3_datagram, with_h3_datagram: bool = true;
        /// Send frames, settings and streams of reserved types now and then, so that peers keep ignoring what
        /// they do not know (RFC 9114 §7.2.8).
        copy grease, with_grease: bool = true;
    }
}
