//! Messages of steps and of their answers.

use std::net::SocketAddr;

use crate::codec::{Malformed, Reader, put_address, put_list, put_text};
use crate::{MAX_DATAGRAMS, MAX_PAYLOAD};

/// Kind of a [`Step`].
const STEP: u8 = 3;
/// Kind of an [`Answer`].
const ANSWER: u8 = 4;
/// Value that stands for an absent number.
const NONE: u64 = u64::MAX;

const CONNECTED: u8 = 1;
const DONE: u8 = 2;
const FAILED: u8 = 4;

/// A UDP datagram on its way to or from a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The guest's address.
    pub local: SocketAddr,
    /// The other end's address.
    pub remote: SocketAddr,
    /// The two ECN bits of the IP header (RFC 3168 §5): 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// UDP payload.
    pub payload: &'a [u8],
}

/// Message to a guest: the simulation starts, datagrams arrive, or the guest's deadline is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Number of the step, from 0 on. Step 0 is the start of the simulation.
    pub number: u64,
    /// Current time in nanoseconds since the start of the simulation.
    pub now: u64,
    /// Datagrams that arrive at this instant, in order of arrival; empty if the deadline is reached.
    pub datagrams: Vec<Datagram<'a>>,
}

/// State of a guest after a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time in nanoseconds of the next step if no datagram arrives earlier; not before the current time.
    /// `None` if the guest has no deadline.
    pub deadline: Option<u64>,
    /// Number of bytes of the workload that the guest's application has received so far.
    pub delivered: u64,
    /// Number of stream bytes that the guest has sent again so far, if its stack counts them.
    pub repeated: Option<u64>,
    /// Number of packets that the guest has declared lost so far, if its stack counts them.
    pub lost: Option<u64>,
    /// `true` once the handshake is complete.
    pub connected: bool,
    /// `true` once the client has received the whole workload.
    pub done: bool,
    /// Reason that the guest cannot do its work, in one line; `None` if it can.
    pub failure: Option<String>,
}

impl Progress {
    /// Returns the state of a guest that cannot do its work.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { failure: Some(reason.into()), ..Self::default() }
    }
}

/// Answer of a guest to a [`Step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Number of the step.
    pub number: u64,
    /// State of the guest.
    pub progress: Progress,
    /// Datagrams that the guest sends, in order of sending.
    pub datagrams: Vec<Datagram<'a>>,
}

impl<'a> Step<'a> {
    /// Appends the message without its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(STEP);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.now.to_le_bytes());
        put_datagrams(out, &self.datagrams);
    }

    /// Reads the message without its length.
    ///
    /// # Errors
    /// Fails if the message violates the protocol.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Reader(message);
        if fields.u8()? != STEP {
            return Err(Malformed("a message is no step"));
        }
        Ok(Self { number: fields.u64()?, now: fields.u64()?, datagrams: datagrams(fields)? })
    }
}

impl<'a> Answer<'a> {
    /// Appends the message without its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_head(out, self.number, &self.progress);
        put_datagrams(out, &self.datagrams);
    }

    /// Reads the message without its length.
    ///
    /// # Errors
    /// Fails if the message violates the protocol.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Reader(message);
        if fields.u8()? != ANSWER {
            return Err(Malformed("an answer has another kind"));
        }
        let number = fields.u64()?;
        let flags = fields.u8()?;
        if flags & !(CONNECTED | DONE | FAILED) != 0 {
            return Err(Malformed("an answer has unknown flags"));
        }
        let [deadline, delivered, repeated, lost] =
            [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let there = |number| (number != NONE).then_some(number);
        let reason = fields.text()?;
        let progress = Progress {
            deadline: there(deadline),
            delivered,
            repeated: there(repeated),
            lost: there(lost),
            connected: flags & CONNECTED != 0,
            done: flags & DONE != 0,
            failure: (flags & FAILED != 0).then(|| reason.to_owned()),
        };
        Ok(Self { number, progress, datagrams: datagrams(fields)? })
    }
}

/// Appends the fields of an answer before its datagrams.
pub(crate) fn encode_head(out: &mut Vec<u8>, number: u64, progress: &Progress) {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    out.push(ANSWER);
    out.extend_from_slice(&number.to_le_bytes());
    out.push(
        flag(progress.connected, CONNECTED)
            | flag(progress.done, DONE)
            | flag(progress.failure.is_some(), FAILED),
    );
    let numbers = [
        progress.deadline.unwrap_or(NONE),
        progress.delivered,
        progress.repeated.unwrap_or(NONE),
        progress.lost.unwrap_or(NONE),
    ];
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    put_text(out, progress.failure.as_deref().unwrap_or_default());
}

/// Appends the number of datagrams and the datagrams, at most [`MAX_DATAGRAMS`].
fn put_datagrams(out: &mut Vec<u8>, datagrams: &[Datagram<'_>]) {
    let datagrams = &datagrams[..datagrams.len().min(MAX_DATAGRAMS)];
    out.extend_from_slice(&(datagrams.len() as u16).to_le_bytes());
    datagrams.iter().for_each(|datagram| put_datagram(out, datagram));
}

/// Appends one datagram.
pub(crate) fn put_datagram(out: &mut Vec<u8>, datagram: &Datagram<'_>) {
    put_address(out, datagram.local);
    put_address(out, datagram.remote);
    out.push(datagram.ecn);
    put_list(out, datagram.payload, MAX_PAYLOAD);
}

/// Reads the datagrams with which a message ends.
fn datagrams(mut fields: Reader<'_>) -> Result<Vec<Datagram<'_>>, Malformed> {
    let count = usize::from(fields.u16()?);
    if count > MAX_DATAGRAMS {
        return Err(Malformed("a message has more datagrams than MAX_DATAGRAMS"));
    }
    let mut datagrams = Vec::with_capacity(count);
    for _ in 0..count {
        let (local, remote, ecn) = (fields.address()?, fields.address()?, fields.u8()?);
        if ecn > 3 {
            return Err(Malformed("an ECN codepoint has more than two bits"));
        }
        let payload = fields.list(MAX_PAYLOAD, "a datagram is longer than MAX_PAYLOAD")?;
        datagrams.push(Datagram { local, remote, ecn, payload });
    }
    fields.end()?;
    Ok(datagrams)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(payload: &[u8]) -> Datagram<'_> {
        let address = |port| SocketAddr::from(([10, 0, 0, 1], port));
        Datagram { local: address(443), remote: address(40_000), ecn: 2, payload }
    }

    #[test]
    fn steps_and_answers_come_back() {
        let mut message = Vec::new();
        let step = Step { number: 7, now: 1_000_000, datagrams: vec![datagram(b"one"), datagram(b"")] };
        step.encode(&mut message);
        assert_eq!(Step::decode(&message).as_ref(), Ok(&step));
        assert!(Answer::decode(&message).is_err(), "a step is no answer");

        let progress = Progress { delivered: 5, repeated: Some(0), connected: true, ..Progress::default() };
        let states = [
            progress,
            Progress::failed("no"),
            Progress { deadline: Some(9), done: true, ..Progress::default() },
        ];
        for progress in states {
            let answer = Answer { number: 7, progress, datagrams: vec![datagram(&[1; 1472])] };
            let mut message = Vec::new();
            answer.encode(&mut message);
            assert_eq!(Answer::decode(&message).as_ref(), Ok(&answer));
            for end in 0..message.len() {
                assert!(Answer::decode(&message[..end]).is_err(), "{end} bytes of it");
            }
        }
    }

    #[test]
    fn more_than_max_datagrams_and_max_payload_are_refused() {
        let many = vec![datagram(b""); MAX_DATAGRAMS + 1];
        let mut message = Vec::new();
        Step { number: 0, now: 0, datagrams: many }.encode(&mut message);
        assert_eq!(Step::decode(&message).unwrap().datagrams.len(), MAX_DATAGRAMS, "it writes no more");
        let at = 1 + 8 + 8;
        message[at..at + 2].copy_from_slice(&(MAX_DATAGRAMS as u16 + 1).to_le_bytes());
        let fault = Malformed("a message has more datagrams than MAX_DATAGRAMS");
        assert_eq!(Step::decode(&message), Err(fault));

        let mut message = Vec::new();
        Step { number: 0, now: 0, datagrams: vec![datagram(&[0; MAX_PAYLOAD])] }.encode(&mut message);
        let at = message.len() - MAX_PAYLOAD - 2;
        message[at..at + 2].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(Step::decode(&message), Err(Malformed("a datagram is longer than MAX_PAYLOAD")));
    }
}
