//! Lower bound of a server's cost: the TLS of a full QUIC handshake alone, in memory.
//!
//! It is rustls with aws-lc, as our stack and quinn use it, with the benchmark's certificate, X25519,
//! TLS_AES_128_GCM_SHA256 and number of tickets. Packets, their protection and sockets are left out. Rust code
//! uses the system's allocator.

use std::sync::Arc;
use std::time::Duration;

use anabranch_tls::rustls::client::Resumption;
use anabranch_tls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use anabranch_tls::rustls::pki_types::pem::PemObject;
use anabranch_tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use anabranch_tls::rustls::quic::{self, Version};
use anabranch_tls::rustls::server::ServerSessionMemoryCache;
use anabranch_tls::rustls::{ClientConfig, RootCertStore, ServerConfig, version};

use crate::Error;
use crate::stacks::Identity;

/// Length of encoded transport parameters, about that of the measured stacks.
const PARAMETERS: usize = 80;

/// Number of sessions that the server stores if it issues tickets.
const SESSIONS: usize = 4096;

/// Configurations of both endpoints.
pub(super) struct Floor {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Floor {
    pub(super) fn new(identity: &Identity, tickets: u32) -> Result<Self, Error> {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![aws_lc_rs::kx_group::X25519],
            ..aws_lc_rs::default_provider()
        });
        let certificate = CertificateDer::from_pem_file(identity.certificate())?;
        let key = PrivateKeyDer::from_pem_file(identity.key())?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"perf".to_vec()];
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        server.alpn_protocols = vec![b"perf".to_vec()];
        server.send_tls13_tickets = tickets as usize;
        server.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// Makes `count` handshakes. Returns their number per CPU second of the server's calls.
    pub(super) fn measure(&self, count: u64) -> Result<f64, Error> {
        let mut clock = Clock::default();
        for _ in 0..count {
            self.handshake(&mut clock)?;
        }
        Ok(count as f64 / clock.spent.as_secs_f64())
    }

    /// Makes a handshake. Returns the number of bytes that the server sends after it, which are its tickets.
    fn handshake(&self, clock: &mut Clock) -> Result<usize, Error> {
        let (parameters, name) = (vec![0x5a; PARAMETERS], ServerName::try_from("localhost")?);
        let client = Arc::clone(&self.client);
        let mut client = quic::ClientConnection::new(client, Version::V1, name, parameters.clone())?;
        let mut server = clock
            .charge(|| quic::ServerConnection::new(Arc::clone(&self.server), Version::V1, parameters))?;
        let mut tickets = 0;
        while client.is_handshaking() || server.is_handshaking() {
            for flight in flights(|out| client.write_hs(out)) {
                clock.charge(|| server.read_hs(&flight))?;
            }
            let ended = !server.is_handshaking();
            let answers = clock.charge(|| flights(|out| server.write_hs(out)));
            for flight in &answers {
                tickets += if ended { flight.len() } else { 0 };
                client.read_hs(flight)?;
            }
            if answers.is_empty() && server.is_handshaking() {
                return Err("a handshake of the floor stalled".into());
            }
        }
        clock.charge(|| drop(server));
        Ok(tickets)
    }
}

/// Returns the handshake data that a connection has to send, one piece for each encryption level.
fn flights(mut write: impl FnMut(&mut Vec<u8>) -> Option<quic::KeyChange>) -> Vec<Vec<u8>> {
    let mut flights = Vec::new();
    loop {
        let mut bytes = Vec::new();
        let more = write(&mut bytes).is_some();
        if !bytes.is_empty() {
            flights.push(bytes);
        }
        if !more {
            return flights;
        }
    }
}

/// CPU time of this thread that chosen calls took.
#[derive(Default)]
struct Clock {
    spent: Duration,
}

impl Clock {
    fn charge<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let before = thread_time();
        let result = work();
        self.spent += thread_time().saturating_sub(before);
        result
    }
}

/// Returns the CPU time of this thread so far.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer leads to a value that lives until the call returns.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_issues_as_many_tickets_as_it_is_told() {
        let identity = Identity::new().unwrap();
        let [none, one, two] = [0, 1, 2].map(|tickets| {
            let mut clock = Clock::default();
            let sent = Floor::new(&identity, tickets).unwrap().handshake(&mut clock).unwrap();
            assert!(clock.spent > Duration::ZERO);
            sent
        });
        assert!(none == 0 && one > 0 && two == 2 * one, "{none} {one} {two}");
    }

    #[test]
    fn handshakes_have_a_rate() {
        let rate = Floor::new(&Identity::new().unwrap(), 0).unwrap().measure(3).unwrap();
        assert!((1.0..1e6).contains(&rate), "{rate}");
    }
}
