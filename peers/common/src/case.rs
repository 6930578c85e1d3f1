//! Interop cases of a client.

use std::str::FromStr;

macro_rules! cases {
    ($($(#[$doc:meta])* $case:ident = $name:literal),* $(,)?) => {
        /// Interop case of a client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Case { $($(#[$doc])* $case),* }

        impl Case {
            /// Returns the case's name on the command line.
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
    /// Connects, and does the work if there is any.
    Handshake = "handshake",
    /// Connects and does the work.
    Transfer = "transfer",
    /// Uses many small streams.
    Multiplexing = "multiplexing",
    /// Makes a second connection with a session ticket.
    Resumption = "resumption",
    /// Makes a second connection whose work starts in 0-RTT.
    ZeroRtt = "zerortt",
    /// Updates the keys during the work.
    KeyUpdate = "keyupdate",
    /// Offers only TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20 = "chacha20",
    /// Uses QUIC version 2.
    V2 = "v2",
    /// The client's address changes without its knowledge (a NAT rebinding).
    Rebind = "rebind",
    /// The client migrates to another socket.
    Migration = "migration",
    /// Exchanges DATAGRAM frames.
    Datagram = "datagram",
    /// Offers a version that the server does not support.
    VersionNegotiation = "versionnegotiation",
    /// Observes the ECN marks.
    Ecn = "ecn",
}
