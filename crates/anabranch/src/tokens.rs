//! Tokens by which servers recognize a client's address (RFC 9000 §8.1.3).

use std::collections::VecDeque;

use anabranch_wire::Version;
use bytes::Bytes;

/// Tokens that are kept; the oldest make way.
const MAX_TOKENS: usize = 256;
/// Of one server, so that it cannot push out those of others.
const MAX_TOKENS_OF_SERVER: usize = 4;
/// Bytes of a token that is worth keeping: a longer one would crowd the ClientHello out of the first
/// datagram.
const MAX_TOKEN_BYTES: usize = 512;

/// By this a server recognizes the address of a client that it has met before (NEW_TOKEN, RFC 9000 §8.1.3).
/// Whoever has it can be told from others: it is to be kept like a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressToken {
    /// Name of the server that gave it.
    pub server_name: String,
    /// The version of the connection that it came by.
    pub version: Version,
    /// Token to present to the server.
    pub token: Bytes,
}

/// Tokens that servers gave to clients of this endpoint for later connections, in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct TokenStore(VecDeque<AddressToken>);

impl AddressToken {
    /// Returns whether the token is for this server and version: only for the server that gave it (RFC 9000
    /// §8.1.3), and only for the version that it came by (RFC 9369 §5).
    fn is_for(&self, server_name: &str, version: Version) -> bool {
        self.server_name == server_name && self.version == version
    }
}

impl TokenStore {
    /// Gives all of them, oldest first.
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

    /// Takes the newest token for this server. It is used only once: a second use would reveal that both
    /// connections belong to one client.
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
