//! Settings that an application can choose.

use anabranch_wire::configuration;

configuration! {
    /// Limits and features of an HTTP/3 session, the same for both roles.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Config {
        /// Maximum size of a field section from the peer, in bytes *after decoding*: name, value and 32 bytes
        /// for each field line (RFC 9114 §4.2.2). SETTINGS announce it to the peer.
        copy max_field_section_size, with_max_field_section_size: u64 = 64 * 1024;
        /// Maximum number of field lines in a section from the peer.
        copy max_fields, with_max_fields: usize = 256;
        /// Maximum capacity of the dynamic table of the peer's encoder, in bytes (RFC 9204 §3.2.3).
        copy qpack_max_table_capacity, with_qpack_max_table_capacity: u64 = 4096;
        /// Maximum number of streams that may be blocked on the peer's encoder stream (RFC 9204 §2.1.2).
        copy qpack_blocked_streams, with_qpack_blocked_streams: u64 = 16;
        /// `true` if a server accepts extended CONNECT (RFC 9220).
        copy enable_connect_protocol, with_enable_connect_protocol: bool = true;
        /// `true` if HTTP datagrams are exchanged (RFC 9297). They also require the DATAGRAM frames of the
        /// transport.
        copy h3_datagram, with_h3_datagram: bool = true;
        /// `true` if the session occasionally sends frames, settings and streams of reserved types, so that
        /// peers keep ignoring unknown types (RFC 9114 §7.2.8).
        copy grease, with_grease: bool = true;
    }
}
