//! Limits of a server that a client remembers with a session and that apply to its early data.

use anabranch_wire::{Side, TransportParameters};

/// Number of limits.
const LIMITS: usize = 8;

/// Length of encoded limits, in bytes.
const LEN: usize = LIMITS * size_of::<u64>();

/// Transport parameters that a server must not reduce if it accepts early data (RFC 9000 §7.4.1, RFC 9221
/// §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits([u64; LIMITS]);

impl Limits {
    /// Reads the limits from a server's encoded transport parameters. Parameters that cannot be decoded count
    /// as zero.
    pub(super) fn of(parameters: &[u8]) -> Self {
        let Ok(parameters) = TransportParameters::decode(Side::Server, parameters) else {
            return Self::default();
        };
        Self([
            parameters.active_connection_id_limit,
            parameters.initial_max_data,
            parameters.initial_max_stream_data_bidi_local,
            parameters.initial_max_stream_data_bidi_remote,
            parameters.initial_max_stream_data_uni,
            parameters.initial_max_streams_bidi,
            parameters.initial_max_streams_uni,
            parameters.max_datagram_frame_size,
        ])
    }

    /// Puts the limits in front of a session.
    pub(super) fn bind(&self, session: &[u8]) -> Vec<u8> {
        self.0.iter().flat_map(|limit| limit.to_be_bytes()).chain(session.iter().copied()).collect()
    }

    /// Returns the session that [`Self::bind`] was given, unless one of these limits is lower than that of
    /// the session.
    pub(super) fn release(&self, mut bound: Vec<u8>) -> Option<Vec<u8>> {
        let (remembered, _) = bound.split_at_checked(LEN)?;
        let remembered = remembered.chunks_exact(size_of::<u64>());
        let kept = remembered.zip(&self.0).all(|(then, now)| then <= &now.to_be_bytes()[..]);
        kept.then(|| bound.split_off(LEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_released_unless_a_limit_is_lower() {
        let then = Limits([300; LIMITS]);
        let bound = then.bind(b"session");
        for (now, released) in [(300, true), (301, true), (512, true), (299, false), (44, false), (0, false)]
        {
            for limit in 0..LIMITS {
                let mut limits = then;
                limits.0[limit] = now;
                assert_eq!(limits.release(bound.clone()).as_deref(), released.then_some(&b"session"[..]));
            }
        }
        assert_eq!(Limits::default().release(vec![0; LEN - 1]), None, "no session of this server");
        assert_eq!(Limits::of(b"not parameters"), Limits::default());
    }
}
