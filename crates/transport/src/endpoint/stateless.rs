//! Stateless responses of an endpoint: Version Negotiation, Retry, refusal, stateless reset.

use std::time::Duration;

use anabranch_tls::{TAG_LEN, initial_keys, retry_tag};
use anabranch_wire::{
    ConnectionClose, ConnectionId, Format, Frame, NewLong, NewNumber, PacketKind, ResetToken, Side, Time,
    TransportErrorCode, Version, Writer, write_retry, write_version_negotiation,
};

use crate::datagram_io::{FourTuple, Transmit};
use crate::random::Random;

/// Minimum size of a datagram that is answered by a stateless reset, in bytes. The reset is at least one byte
/// shorter than the datagram, and must still have its minimum length.
pub const MIN_RESET_TRIGGER: usize = MIN_RESET_LEN + 1;
/// Minimum length of a stateless reset, in bytes: 5 unpredictable bytes and the token (RFC 9000 §10.3).
pub const MIN_RESET_LEN: usize = 21;
/// Maximum length of a stateless reset, in bytes. If two endpoints reset each other's resets, these shrink
/// until the exchange ends.
pub const MAX_RESET_LEN: usize = 42;
/// Maximum average rate of stateless resets, per second.
pub const RESETS_PER_SECOND: u32 = 1_000;
/// Maximum average rate of Version Negotiation packets, per second.
pub const NEGOTIATIONS_PER_SECOND: u32 = 1_000;
/// Maximum average rate of refusals, per second. Further clients get no response.
pub const REFUSALS_PER_SECOND: u32 = 1_000;
/// Maximum number of responses of one kind that may be sent at once.
pub const BURST: u32 = 100;

/// A stateless response, which the driver sends unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// Addresses and length.
    pub transmit: Transmit,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

impl Response {
    /// Creates the response to a datagram with the addresses `tuple`.
    pub(super) fn new(tuple: FourTuple, bytes: Vec<u8>) -> Self {
        let transmit = Transmit { tuple, ecn: None, len: bytes.len(), segment_size: bytes.len() };
        Self { transmit, bytes }
    }
}

/// Rate limit of responses of one kind.
#[derive(Debug)]
pub(super) struct Budget {
    interval: Duration,
    /// Time at which the whole burst is available again. Each response moves it later by `interval`.
    spent: Time,
}

impl Budget {
    pub(super) fn per_second(answers: u32) -> Self {
        Self { interval: Duration::from_secs(1) / answers.max(1), spent: Time::ZERO }
    }

    /// Consumes one response of the budget. Returns whether one was available.
    pub(super) fn take(&mut self, now: Time) -> bool {
        let spent = self.spent.max(now) + self.interval;
        let within = spent.saturating_since(now) <= self.interval * BURST;
        if within {
            self.spent = spent;
        }
        within
    }
}

/// Returns the Version Negotiation packet in response to a packet of an unknown version with these connection
/// IDs (RFC 9000 §6.1).
pub(super) fn version_negotiation(
    random: &mut Random,
    versions: &[Version],
    grease: bool,
    dcid: &[u8],
    scid: &[u8],
) -> Vec<u8> {
    let mut versions = versions.to_vec();
    let [seed, position, grease_seed @ ..] = random.bytes::<6>();
    if grease {
        // RFC 9000 §6.3: a reserved version ensures that clients ignore unknown versions.
        let at = usize::from(position) % (versions.len() + 1);
        versions.insert(at, Version::grease(u32::from_be_bytes(grease_seed)));
    }
    let mut out = Vec::new();
    write_version_negotiation(&mut out, scid, dcid, &versions, seed);
    out
}

/// Returns a Retry (RFC 9000 §17.2.5) for the client with the connection ID `client`, whose Initial was sent
/// to `original_dcid`.
pub(super) fn retry(
    format: &Format,
    client: &ConnectionId,
    original_dcid: &ConnectionId,
    retry_scid: &ConnectionId,
    token: &[u8],
    seed: u8,
) -> Vec<u8> {
    let mut out = Vec::new();
    write_retry(format, &mut out, client, retry_scid, token, seed);
    let tag = retry_tag(format, original_dcid, &out);
    out.extend_from_slice(&tag);
    out
}

/// Returns a stateless reset in response to a datagram of `trigger_len` bytes; `None` if the datagram is too
/// short (RFC 9000 §10.3.3).
pub(super) fn reset(random: &mut Random, token: &ResetToken, trigger_len: usize) -> Option<Vec<u8>> {
    if trigger_len < MIN_RESET_TRIGGER {
        return None;
    }
    let unpredictable: [u8; MAX_RESET_LEN] = random.bytes();
    let len = (trigger_len - 1).min(MAX_RESET_LEN);
    let mut out = unpredictable[..len - token.0.len()].to_vec();
    // A short header: form bit 0, fixed bit 1.
    out[0] = out[0] & 0x3f | 0x40;
    out.extend_from_slice(&token.0);
    Some(out)
}

/// Maximum length of a refusal, in bytes: a header with two connection IDs, a short frame and the tag.
const MAX_REFUSAL_LEN: usize = 128;

/// Returns an Initial packet with CONNECTION_CLOSE, sent before a connection is created (RFC 9000 §5.2.2,
/// §10.2.3). Its Destination Connection ID is `client`. The keys are derived from `initial_dcid`, the
/// Destination Connection ID of the client's Initial.
pub(super) fn refusal(
    format: &Format,
    initial_dcid: &ConnectionId,
    client: &ConnectionId,
    code: TransportErrorCode,
) -> Option<Vec<u8>> {
    let keys = initial_keys(format, initial_dcid, Side::Server).local;
    let kind = PacketKind::Initial;
    let mut packet = vec![0; MAX_REFUSAL_LEN];
    // The Source Connection ID is the one that the client chose for the server: no connection exists that
    // could have issued another.
    let outgoing = format.write_long(
        &mut packet,
        &NewLong {
            kind,
            dcid: client,
            scid: initial_dcid,
            token: &[],
            number: NewNumber { pn: 0, unacked: 1, announced: None },
            fixed_bit: true,
        },
    )?;
    let mut payload = Writer::new(packet.get_mut(outgoing.header_len..)?, format.direction);
    let close = ConnectionClose { application: false, code: code.into(), frame_type: 0, reason: &[] };
    payload.frame(&Frame::ConnectionClose(close)).ok()?;
    // Packet number and payload together must be long enough for the header protection sample.
    payload.pad_to(4);
    let len = outgoing.header_len + payload.len() + TAG_LEN;
    packet.truncate(len);
    format.set_length(&mut packet, &outgoing);
    keys.packet.seal(anabranch_wire::PathId::ZERO, 0, outgoing.header_len, &mut packet);
    let sample = format.sample(&packet, kind, outgoing.pn_offset)?;
    format.mask(&mut packet, &outgoing, &keys.header.mask(&sample));
    Some(packet)
}
