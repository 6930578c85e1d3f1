//! The first message of each side: the lab's [`Hello`] and the guest's [`Welcome`].

use std::net::SocketAddr;

use crate::codec::{Malformed, Reader, put_address, put_list, put_text};
use crate::{MAX_CREDENTIAL, MAX_PATHS};

/// Kind of a [`Hello`].
pub(crate) const HELLO: u8 = 1;
/// Kind of a [`Welcome`].
pub(crate) const WELCOME: u8 = 2;

/// End of the connection at which a guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The guest connects.
    Client,
    /// The guest accepts one connection.
    Server,
}

/// Addresses of a path, from the view of the guest that receives the [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The guest's own address.
    pub local: SocketAddr,
    /// The other end's address.
    pub remote: SocketAddr,
}

/// Work of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The client requests `bytes` bytes on one bidirectional stream: it sends their number in 8 bytes, big
    /// endian, and finishes the stream. The server answers with as many zero bytes and finishes the stream.
    Download {
        /// Number of requested bytes.
        bytes: u64,
    },
}

/// First message to a guest, which it receives before step 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol, [`crate::VERSION`].
    pub version: u16,
    /// End of the connection at which the guest runs.
    pub role: Role,
    /// Seed from which all randomness in the guest should follow.
    pub seed: u64,
    /// Paths. The first one carries the handshake. The client opens the others as early as it can.
    pub paths: Vec<Path>,
    /// Work of both ends.
    pub workload: Workload,
    /// Name in the server's certificate.
    pub server_name: String,
    /// Application protocol (ALPN).
    pub alpn: String,
    /// The server's self-signed certificate in DER. The client trusts no other certificate.
    pub certificate: Vec<u8>,
    /// The certificate's private key, PKCS #8 in DER; empty for the client.
    pub key: Vec<u8>,
}

/// Answer of a guest to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Version of the protocol that the guest speaks.
    pub version: u16,
    /// Name and version of the stack, for human readers.
    pub name: String,
}

impl Hello {
    /// Appends the message without its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(HELLO);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.push(u8::from(self.role == Role::Server));
        out.extend_from_slice(&self.seed.to_le_bytes());
        out.push(self.paths.len().min(MAX_PATHS) as u8);
        for path in self.paths.iter().take(MAX_PATHS) {
            put_address(out, path.local);
            put_address(out, path.remote);
        }
        let Workload::Download { bytes } = self.workload;
        out.push(1);
        out.extend_from_slice(&bytes.to_le_bytes());
        put_text(out, &self.server_name);
        put_text(out, &self.alpn);
        put_list(out, &self.certificate, MAX_CREDENTIAL);
        put_list(out, &self.key, MAX_CREDENTIAL);
    }

    /// Reads the message without its length.
    ///
    /// # Errors
    /// Fails if the message violates the protocol or has another version.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader(message);
        if fields.u8()? != HELLO {
            return Err(Malformed("the first message is no hello"));
        }
        let version = fields.u16()?;
        if version != crate::VERSION {
            return Err(Malformed("a hello of another version"));
        }
        let role = match fields.u8()? {
            0 => Role::Client,
            1 => Role::Server,
            _ => return Err(Malformed("a role is neither client nor server")),
        };
        let seed = fields.u64()?;
        let count = usize::from(fields.u8()?);
        if !(1..=MAX_PATHS).contains(&count) {
            return Err(Malformed("a hello has no paths, or more than MAX_PATHS"));
        }
        let path = |_| Ok(Path { local: fields.address()?, remote: fields.address()? });
        let paths = (0..count).map(path).collect::<Result<_, _>>()?;
        let workload = match fields.u8()? {
            1 => Workload::Download { bytes: fields.u64()? },
            _ => return Err(Malformed("an unknown workload")),
        };
        let (server_name, alpn) = (fields.text()?.to_owned(), fields.text()?.to_owned());
        let certificate = fields.list(MAX_CREDENTIAL, "a certificate is too long")?.to_vec();
        let key = fields.list(MAX_CREDENTIAL, "a key is too long")?.to_vec();
        fields.end()?;
        Ok(Self { version, role, seed, paths, workload, server_name, alpn, certificate, key })
    }
}

impl Welcome {
    /// Appends the message without its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(WELCOME);
        out.extend_from_slice(&self.version.to_le_bytes());
        put_text(out, &self.name);
    }

    /// Reads the message without its length.
    ///
    /// # Errors
    /// Fails if the message violates the protocol.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader(message);
        if fields.u8()? != WELCOME {
            return Err(Malformed("the first answer is no welcome"));
        }
        let (version, name) = (fields.u16()?, fields.text()?.to_owned());
        fields.end()?;
        Ok(Self { version, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let path = |last| Path {
            local: SocketAddr::from(([10, 0, last, 2], 40_000)),
            remote: SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 443)),
        };
        Hello {
            version: crate::VERSION,
            role: Role::Server,
            seed: 0x0123_4567_89ab_cdef,
            paths: vec![path(1), path(2)],
            workload: Workload::Download { bytes: 50_000_000 },
            server_name: "server.lab".to_owned(),
            alpn: "lab".to_owned(),
            certificate: vec![0x30; 300],
            key: vec![7; 48],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut message = Vec::new();
        hello().encode(&mut message);
        assert_eq!(Hello::decode(&message), Ok(hello()));
        for end in 0..message.len() {
            assert!(Hello::decode(&message[..end]).is_err(), "{end} bytes of it");
        }
        message.push(0);
        assert_eq!(Hello::decode(&message), Err(Malformed("a message has bytes behind its last field")));
        let mut message = Vec::new();
        let welcome = Welcome { version: 3, name: "é".repeat(MAX_CREDENTIAL) };
        welcome.encode(&mut message);
        let read = Welcome::decode(&message).unwrap();
        assert_eq!((read.version, read.name.len()), (3, crate::MAX_TEXT));
    }

    #[test]
    fn more_paths_than_max_paths_are_refused() {
        let mut message = Vec::new();
        hello().encode(&mut message);
        // The number of paths follows the kind, the version, the role and the seed.
        for count in [0, MAX_PATHS as u8 + 1] {
            message[12] = count;
            let fault = Malformed("a hello has no paths, or more than MAX_PATHS");
            assert_eq!(Hello::decode(&message), Err(fault));
        }
    }
}
