//! Address validation tokens for later connections (NEW_TOKEN, RFC 9000 §8.1.3).

use std::collections::VecDeque;

use anabranch_wire::Version;
use bytes::Bytes;

/// Maximum number of stored tokens. Beyond it, the oldest one is removed.
const MAX_TOKENS: usize = 256;
/// Maximum number of stored tokens of one server, so that it cannot displace those of others.
const MAX_TOKENS_OF_SERVER: usize = 4;
/// Maximum length of a stored token in bytes. A longer one would leave the ClientHello too little room in the
/// first datagram.
const MAX_TOKEN_BYTES: usize = 512;

/// Token by which a server recognizes the address of a client that has connected before (NEW_TOKEN, RFC 9000
/// §8.1.3). It identifies the client, so it must be protected like a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressToken {
    /// Name of the server that issued the token.
    pub server_name: String,
    /// QUIC version of the connection that received the token.
    pub version: Version,
    /// Token to present to the server.
    pub token: Bytes,
}

/// Tokens that servers issued to clients of this endpoint for later connections, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct TokenStore(VecDeque<AddressToken>);

impl AddressToken {
    /// Creates a token that was kept outside the endpoint.
    pub fn new(server_name: impl Into<String>, version: Version, token: impl Into<Bytes>) -> Self {
        Self { server_name: server_name.into(), version, token: token.into() }
    }

    /// Returns whether the token may be used: only with the server that issued it (RFC 9000 §8.1.3), and only
    /// with the version of the connection that received it (RFC 9369 §5).
    fn is_for(&self, server_name: &str, version: Version) -> bool {
        self.server_name == server_name && self.version == version
    }
}

impl TokenStore {
    /// Returns all tokens, oldest first.
    pub(crate) fn all(&self) -> Vec<AddressToken> {
        self.0.iter().cloned().collect()
    }

    pub(crate) fn put(&mut self, new: AddressToken) {
        if new.token.len() > MAX_TOKEN_BYTES {
            return;
        }
        let theirs = |kept: &AddressToken| kept.server_name == new.server_name;
        if self.0.iter().filter(|kept| theirs(kept)).count() >= MAX_TOKENS_OF_SERVER {
            let oldest = self.0.iter().position(theirs);
            oldest.and_then(|at| self.0.remove(at));
        } else if self.0.len() >= MAX_TOKENS {
            self.0.pop_front();
        }
        self.0.push_back(new);
    }

    /// Removes and returns the newest token for this server and version. A token is used only once: a second
    /// use would reveal that both connections belong to one client.
    pub(crate) fn take(&mut self, server_name: &str, version: Version) -> Option<Bytes> {
        let at = self.0.iter().rposition(|kept| kept.is_for(server_name, version))?;
        self.0.remove(at).map(|kept| kept.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(n: usize) -> Bytes {
        Bytes::from(n.to_string())
    }

    fn from(server_name: &str, n: usize) -> AddressToken {
        AddressToken { server_name: server_name.to_owned(), version: Version::V1, token: token(n) }
    }

    #[test]
    fn tokens_are_for_one_server_and_version_and_good_once() {
        let mut store = TokenStore::default();
        store.put(from("a", 1));
        store.put(from("a", 2));
        assert_eq!(store.take("b", Version::V1), None);
        assert_eq!(store.take("a", Version::V2), None);
        assert_eq!(store.take("a", Version::V1), Some(token(2)));
        assert_eq!(store.take("a", Version::V1), Some(token(1)));
        assert_eq!(store.take("a", Version::V1), None);
    }

    #[test]
    fn the_store_is_bounded() {
        let mut store = TokenStore::default();
        store.put(from("quiet", 0));
        (0..1_000).for_each(|n| store.put(from("loud", n)));
        assert_eq!(store.0.len(), 1 + MAX_TOKENS_OF_SERVER);
        assert_eq!(store.take("loud", Version::V1), Some(token(999)));
        assert_eq!(store.take("quiet", Version::V1), Some(token(0)));
        (0..1_000).for_each(|n| store.put(from(&format!("server {n}"), n)));
        assert_eq!(store.0.len(), MAX_TOKENS);
        store.put(AddressToken { token: Bytes::from(vec![0; MAX_TOKEN_BYTES + 1]), ..from("greedy", 0) });
        assert_eq!(store.take("greedy", Version::V1), None);
    }
}
