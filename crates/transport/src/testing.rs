//! Datagrams between two endpoints, for tests that deliver them by hand.

use anabranch_wire::{Ecn, Time};

use crate::{Datagram, Endpoint, FourTuple, TransmitBuf};

/// Datagram in transit.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    /// Arrival time.
    pub(crate) at: Time,
    /// Addresses from the receiver's point of view.
    pub(crate) tuple: FourTuple,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) bytes: Vec<u8>,
}

/// Returns all datagrams that `endpoint` sends now. They arrive immediately.
pub(crate) fn drain(endpoint: &mut Endpoint, now: Time) -> Vec<Flying> {
    let mut sent = Vec::new();
    let mut buf = TransmitBuf::new(16);
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buf) {
        let tuple = FourTuple { local: transmit.tuple.remote, remote: transmit.tuple.local };
        let datagrams = buf.filled(&transmit).chunks(transmit.segment_size);
        sent.extend(datagrams.map(|bytes| Flying {
            at: now,
            tuple,
            ecn: transmit.ecn,
            bytes: bytes.to_vec(),
        }));
    }
    sent
}

/// Passes these datagrams to `endpoint`, in batches of at most `most`.
pub(crate) fn deliver(endpoint: &mut Endpoint, now: Time, mut datagrams: Vec<Flying>, most: usize) {
    let mut batch: Vec<Datagram<'_>> = datagrams
        .iter_mut()
        .map(|flying| Datagram { tuple: flying.tuple, ecn: flying.ecn, payload: &mut flying.bytes })
        .collect();
    batch.chunks_mut(most).for_each(|part| endpoint.handle_batch(now, part));
}
