//! What an application may choose.

/// Limits and features of an HTTP/3 session, the same for both roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Largest field section that is taken from the peer, *decoded*: name, value and 32 bytes for each line
    /// (RFC 9114 §4.2.2). The peer is told.
    pub max_field_section_size: u64,
    /// Most field lines in a section that is taken from the peer.
    pub max_fields: usize,
    /// Bytes of dynamic table that the peer's encoder may use (RFC 9204 §3.2.3).
    pub qpack_max_table_capacity: u64,
    /// Streams that may wait for the peer's encoder stream (RFC 9204 §2.1.2).
    pub qpack_blocked_streams: u64,
    /// Server: accept extended CONNECT (RFC 9220).
    pub enable_connect_protocol: bool,
    /// Exchange HTTP datagrams (RFC 9297); needs DATAGRAM frames of the transport, too.
    pub h3_datagram: bool,
    /// Send frames, settings and streams of reserved types now and then, so that peers keep ignoring what they do not
    /// know (RFC 9114 §7.2.8).
    pub grease: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_field_section_size: 64 * 1024,
            max_fields: 256,
            qpack_max_table_capacity: 4096,
            qpack_blocked_streams: 16,
            enable_connect_protocol: true,
            h3_datagram: true,
            grease: true,
        }
    }
}
