//! The interop cases a client can be asked for.

use std::str::FromStr;

macro_rules! cases {
    ($($(#[$doc:meta])* $case:ident = $name:literal),* $(,)?) => {
        /// Interop cases a client can be asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Case { $($(#[$doc])* $case),* }

        impl Case {
            /// Returns the name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$case => $name),* }
            }
        }

        impl FromStr for Case {
            type Err = String;
            fn from_str(name: &str) -> Result<Self, String> {
                match name { $($name => Ok(Self::$case),)* _ => Err(format!("unknown case {name}")) }
            }
        }
    };
}

cases! {
    /// Connect and do the work, if any.
    Handshake = "handshake",
    /// Connect and do the work.
    Transfer = "transfer",
    /// Many small streams.
    Multiplexing = "multiplexing",
    /// A second connection from a session ticket.
    Resumption = "resumption",
    /// A second connection whose work starts in 0-RTT.
    ZeroRtt = "zerortt",
    /// Update keys during the work.
    KeyUpdate = "keyupdate",
    /// Only TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20 = "chacha20",
    /// QUIC version 2.
    V2 = "v2",
    /// The address changes under the client, which does not know (a NAT rebinding).
    Rebind = "rebind",
    /// The client moves to another socket.
    Migration = "migration",
    /// DATAGRAM frames.
    Datagram = "datagram",
    /// Offer a version the server does not have.
    VersionNegotiation = "versionnegotiation",
    /// Watch the ECN marks.
    Ecn = "ecn",
}
