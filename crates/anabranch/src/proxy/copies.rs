//! Terms of a UDP flow: a deadline of its datagrams, copies of them on a second path, and their order. They are an extension of
//! RFC 9298 between a client and a proxy of this project.
//!
//! A client requests the terms in the field `anabranch-flow` of its request, and a proxy that supports the extension repeats
//! the field in its response. If both fields have `copies` or `order`, the HTTP datagrams of both directions consist of the context
//! ID 2, a number of four bytes that begins at zero, and the payload. With `copies`, the sender sends each datagram on two paths.
//! The receiver delivers each number once, and with `order` in ascending order. A proxy without the extension ignores the field, and
//! both ends then follow RFC 9298 alone.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, DictSerializer, Dictionary, ListEntry, Parser, key_ref};

use crate::DatagramTerms;
use crate::lock::lock;
use crate::sync::Mutex;

/// Field of a request and its response: a dictionary (RFC 9651 §3.2) with `copies`, and with `deadline` and `order` in
/// milliseconds.
pub(super) const FIELD: HeaderName = HeaderName::from_static("anabranch-flow");
/// Context ID of numbered payloads. Even context IDs are allocated by the client (RFC 9298 §4).
pub(super) const NUMBERED: u8 = 2;
/// Length of the context ID and the number in front of a payload, in bytes.
pub(super) const PREFIX: usize = 5;
/// Number of the latest payload numbers among which a receiver recognises duplicates. Payloads with older numbers are
/// dropped.
const MAX_WINDOW: u32 = 4_096;
/// Maximum deadline of datagrams; a longer one is reduced to it.
const MAX_DEADLINE: Duration = Duration::from_secs(10);
/// Maximum time for which a payload waits for payloads with smaller numbers; a longer time in the terms is reduced to it.
const MAX_HOLD: Duration = Duration::from_secs(1);
/// Deadline of datagrams without another one in the terms: a datagram that has waited for longer is dropped instead of
/// sent, because a longer queue would only delay all datagrams.
pub(super) const LIFETIME: Duration = Duration::from_millis(250);

/// Terms of a UDP flow that a client requests: copies of its datagrams, and their deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTerms {
    copies: bool,
    deadline: Option<Millis>,
    order: Option<Millis>,
}

/// Number of milliseconds.
type Millis = NonZeroU16;

/// Returns a time in milliseconds, from 1 to `max`.
fn millis(time: Duration, max: Duration) -> Option<Millis> {
    let millis = time.clamp(Duration::from_millis(1), max).as_millis();
    NonZeroU16::new(u16::try_from(millis).unwrap_or(u16::MAX))
}

fn duration(millis: Millis) -> Duration {
    Duration::from_millis(millis.get().into())
}

impl FlowTerms {
    /// Requests that each datagram is sent on two paths. Copies are sent only if the proxy removes duplicates, as
    /// `anabranch proxy serve` does.
    #[must_use]
    pub fn with_copies(self) -> Self {
        Self { copies: true, ..self }
    }

    /// Sets the time after which a datagram that waits to be sent is dropped, between 1 ms and 10 s. The default is 250 ms.
    /// It holds for datagrams of the client, and for those of the proxy if that is `anabranch proxy serve`.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline: millis(deadline, MAX_DEADLINE), ..self }
    }

    /// Requests that both ends deliver payloads in the order in which they were sent, which `anabranch proxy serve` supports. A
    /// payload waits at most `hold`, between 1 ms and 1 s, for payloads with smaller numbers.
    #[must_use]
    pub fn with_order(self, hold: Duration) -> Self {
        Self { order: millis(hold, MAX_HOLD), ..self }
    }

    /// Returns these terms without copies and order as far as the terms in the proxy's response, `agreed`, lack them.
    pub(super) fn as_agreed(self, agreed: Self) -> Self {
        let order = if agreed.order.is_some() { self.order } else { None };
        Self { copies: self.copies && agreed.copies, order, ..self }
    }

    /// Returns whether payloads are numbered.
    pub(super) fn has_numbers(&self) -> bool {
        self.copies || self.order.is_some()
    }

    /// Returns the maximum time for which a payload waits for payloads with smaller numbers; `None` if payloads are delivered as
    /// they arrive.
    pub fn order(&self) -> Option<Duration> {
        self.order.map(duration)
    }

    /// Returns whether each datagram is to be sent on two paths.
    pub fn has_copies(&self) -> bool {
        self.copies
    }

    /// Returns the time after which datagrams that wait to be sent are dropped, if one was set.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline.map(duration)
    }

    /// Returns the terms in a message's fields. A malformed field or member is ignored. Several lines of the field are one
    /// dictionary (RFC 9651 §4.2).
    pub(super) fn of(fields: &HeaderMap) -> Self {
        let lines: Result<Vec<_>, _> = fields.get_all(FIELD).iter().map(HeaderValue::to_str).collect();
        let text = lines.unwrap_or_default().join(", ");
        let Ok(members) = Parser::new(&text).parse::<Dictionary>() else { return Self::default() };
        let item = |name: &str| match members.get(name) {
            Some(ListEntry::Item(item)) => Some(&item.bare_item),
            _ => None,
        };
        let copies = matches!(item("copies"), Some(BareItem::Boolean(true)));
        let time = |name: &str| match item(name) {
            Some(BareItem::Integer(millis)) => {
                let millis = u64::try_from(i64::from(*millis)).ok().filter(|millis| *millis > 0);
                millis.map(Duration::from_millis)
            }
            _ => None,
        };
        let terms = Self { copies, deadline: None, order: None };
        let terms = time("deadline").map_or(terms, |deadline| terms.with_deadline(deadline));
        time("order").map_or(terms, |hold| terms.with_order(hold))
    }

    /// Returns the field's value; `None` for the default terms.
    pub(super) fn value(&self) -> Option<HeaderValue> {
        let mut members = DictSerializer::new();
        if self.copies {
            let _ = members.bare_item(key_ref("copies"), true);
        }
        if let Some(deadline) = self.deadline {
            let _ = members.bare_item(key_ref("deadline"), deadline.get());
        }
        if let Some(hold) = self.order {
            let _ = members.bare_item(key_ref("order"), hold.get());
        }
        members.finish().and_then(|value| HeaderValue::try_from(value).ok())
    }

    /// Returns the terms of the flow's DATAGRAM frames.
    pub(super) fn datagrams(&self) -> DatagramTerms {
        let terms = DatagramTerms::default().with_lifetime(self.deadline().unwrap_or(LIFETIME));
        let terms = if self.order.is_some() { terms.with_restored_order() } else { terms };
        if self.copies { terms.with_copy() } else { terms }
    }
}

/// Numbers of the payloads in both directions of one flow.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: AtomicU32,
    window: Mutex<Window>,
}

impl Numbers {
    /// Returns the context ID and the number in front of the next payload.
    pub(super) fn prefix(&self) -> [u8; PREFIX] {
        let [a, b, c, d] = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        [NUMBERED, a, b, c, d]
    }

    /// Returns and records the number of a received datagram, whose prefix has [`PREFIX`] bytes. Returns `None` if the datagram is a
    /// duplicate, is older than the window, has another context ID, or is too short.
    pub(super) fn first(&self, datagram: &[u8]) -> Option<u32> {
        number(datagram).filter(|number| lock(&self.window).admit(*number))
    }
}

/// Returns the number of a datagram with a prefix of [`PREFIX`] bytes; `None` if it has another context ID or is too short.
pub(super) fn number(datagram: &[u8]) -> Option<u32> {
    let (prefix, _) = datagram.split_first_chunk::<PREFIX>()?;
    let [context, a, b, c, d] = *prefix;
    (context == NUMBERED).then_some(u32::from_be_bytes([a, b, c, d]))
}

/// The last [`MAX_WINDOW`] numbers, and which of them were received. Numbers wrap around at 2³².
#[derive(Debug)]
struct Window {
    /// Largest number received so far, in serial number order; `None` before the first one.
    largest: Option<u32>,
    /// One bit for each of the last [`MAX_WINDOW`] numbers, set if it was received; the index is the number modulo that.
    seen: Box<[u64; MAX_WINDOW as usize / 64]>,
}

impl Default for Window {
    fn default() -> Self {
        Self { largest: None, seen: Box::new([0; MAX_WINDOW as usize / 64]) }
    }
}

impl Window {
    /// Records a number. Returns whether it is within the window or ahead of it, and is received for the first time.
    fn admit(&mut self, number: u32) -> bool {
        let largest = self.largest.unwrap_or(number.wrapping_sub(1));
        let ahead = number.wrapping_sub(largest).cast_signed();
        if ahead > 0 {
            for passed in 0..ahead.cast_unsigned().min(MAX_WINDOW) {
                self.mark(number.wrapping_sub(passed), false);
            }
            self.largest = Some(number);
        } else if ahead.unsigned_abs() >= MAX_WINDOW || self.mark(number, true) {
            return false;
        }
        self.mark(number, true);
        true
    }

    /// Sets or clears the bit of a number. Returns whether it was set before.
    fn mark(&mut self, number: u32, is_seen: bool) -> bool {
        let (word, bit) = ((number % MAX_WINDOW / 64) as usize, 1_u64 << (number % 64));
        let Some(word) = self.seen.get_mut(word) else { return true };
        let before = *word & bit != 0;
        *word = if is_seen { *word | bit } else { *word & !bit };
        before
    }
}

#[cfg(test)]
mod tests;
