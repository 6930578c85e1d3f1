//! Terms of a UDP flow: a deadline of its datagrams, and copies of them on a second path. They are an extension of RFC 9298
//! between a client and a proxy of this project.
//!
//! A client requests the terms in the field `anabranch-flow` of its request, and a proxy that supports the extension repeats
//! the field in its response. If both fields have `copies`, the HTTP datagrams of both directions consist of the context
//! ID 2, a number of four bytes, and the payload. The sender sends each datagram on two paths, and the receiver delivers
//! each number once. A proxy without the extension ignores the field, and both ends then follow RFC 9298 alone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, DictSerializer, Dictionary, ListEntry, Parser, key_ref};

use crate::DatagramTerms;
use crate::lock::lock;

/// Field of a request and its response: a dictionary (RFC 9651 §3.2) with `copies` and `deadline`, in milliseconds.
pub(super) const FIELD: HeaderName = HeaderName::from_static("anabranch-flow");
/// Context ID of numbered payloads. Even context IDs are allocated by the client (RFC 9298 §4).
pub(super) const COPIES: u8 = 2;
/// Length of the context ID and the number in front of a payload, in bytes.
pub(super) const PREFIX: usize = 5;
/// Number of the latest payload numbers among which a receiver recognises duplicates. Payloads with older numbers are
/// dropped.
const MAX_WINDOW: u32 = 1_024;
/// Maximum deadline of datagrams; a longer one is reduced to it.
const MAX_DEADLINE: Duration = Duration::from_secs(10);
/// Deadline of datagrams without another one in the terms: a datagram that has waited for longer is dropped instead of
/// sent, because a longer queue would only delay all datagrams.
const LIFETIME: Duration = Duration::from_millis(250);

/// Terms of a UDP flow that a client requests: copies of its datagrams, and their deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTerms {
    copies: bool,
    deadline: Option<Duration>,
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
        Self { deadline: Some(deadline.clamp(Duration::from_millis(1), MAX_DEADLINE)), ..self }
    }

    /// Returns these terms without copies.
    pub(super) fn without_copies(self) -> Self {
        Self { copies: false, ..self }
    }

    /// Returns whether each datagram is to be sent on two paths.
    pub fn has_copies(&self) -> bool {
        self.copies
    }

    /// Returns the time after which datagrams that wait to be sent are dropped, if one was set.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Returns the terms in a message's fields. A malformed field or member is ignored.
    pub(super) fn of(fields: &HeaderMap) -> Self {
        let text = fields.get(FIELD).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let Ok(members) = Parser::new(text).parse::<Dictionary>() else { return Self::default() };
        let item = |name: &str| match members.get(name) {
            Some(ListEntry::Item(item)) => Some(&item.bare_item),
            _ => None,
        };
        let copies = matches!(item("copies"), Some(BareItem::Boolean(true)));
        let deadline = match item("deadline") {
            Some(BareItem::Integer(millis)) => {
                u64::try_from(i64::from(*millis)).ok().filter(|millis| *millis > 0)
            }
            _ => None,
        };
        let terms = Self { copies, deadline: None };
        deadline.map_or(terms, |millis| terms.with_deadline(Duration::from_millis(millis)))
    }

    /// Returns the field's value; `None` for the default terms.
    pub(super) fn value(&self) -> Option<HeaderValue> {
        let mut members = DictSerializer::new();
        if self.copies {
            let _ = members.bare_item(key_ref("copies"), true);
        }
        if let Some(deadline) = self.deadline {
            let millis = u16::try_from(deadline.as_millis()).unwrap_or(u16::MAX);
            let _ = members.bare_item(key_ref("deadline"), millis);
        }
        members.finish().and_then(|value| HeaderValue::try_from(value).ok())
    }

    /// Returns the terms of the flow's DATAGRAM frames.
    pub(super) fn datagrams(&self) -> DatagramTerms {
        let terms = DatagramTerms::default().with_lifetime(self.deadline.unwrap_or(LIFETIME));
        if self.copies { terms.with_copy() } else { terms }
    }
}

/// Numbers of the payloads that are sent twice, in both directions of one flow.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: AtomicU32,
    window: Mutex<Window>,
}

impl Numbers {
    /// Returns the context ID and the number in front of the next payload.
    pub(super) fn prefix(&self) -> [u8; PREFIX] {
        let [a, b, c, d] = self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        [COPIES, a, b, c, d]
    }

    /// Returns the length of the prefix of a received datagram, and records its number. Returns `None` if the datagram is a
    /// duplicate, is older than the window, has another context ID, or is too short.
    pub(super) fn first(&self, datagram: &[u8]) -> Option<usize> {
        let (prefix, _) = datagram.split_first_chunk::<PREFIX>()?;
        let [context, a, b, c, d] = *prefix;
        let is_first = context == COPIES && lock(&self.window).admit(u32::from_be_bytes([a, b, c, d]));
        is_first.then_some(PREFIX)
    }
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
mod tests {
    use super::*;

    fn of(value: &str) -> FlowTerms {
        let mut fields = HeaderMap::new();
        fields.insert(FIELD, value.parse().unwrap());
        FlowTerms::of(&fields)
    }

    #[test]
    fn wishes_are_written_and_read() {
        let terms = FlowTerms::default();
        assert_eq!((terms.value(), FlowTerms::of(&HeaderMap::new())), (None, terms));
        let deadline = Duration::from_millis(50);
        for (terms, text) in [
            (terms.with_copies(), "copies"),
            (terms.with_deadline(deadline), "deadline=50"),
            (terms.with_copies().with_deadline(deadline), "copies, deadline=50"),
        ] {
            assert_eq!(terms.value().unwrap(), text);
            assert_eq!(of(text), terms);
        }
        assert_eq!(of("other=1, copies=?1;x, deadline=50"), terms.with_copies().with_deadline(deadline));
        assert_eq!(of("deadline=999999999").deadline(), Some(MAX_DEADLINE));
        for nothing in ["", "copies=?0", "copies=1", "deadline=0", "deadline=-5", "deadline=1.5", "copies, ="]
        {
            assert_eq!(of(nothing), terms, "{nothing}");
        }
    }

    #[test]
    fn each_number_is_admitted_once_among_max_window() {
        for first in [0, u32::MAX - 700] {
            let mut window = Window::default();
            for n in (0..3 * MAX_WINDOW).map(|n| first.wrapping_add(n)) {
                assert!(window.admit(n), "{n}");
                assert!(!window.admit(n), "{n}");
            }
            // Later numbers may arrive first.
            let next = first.wrapping_add(3 * MAX_WINDOW);
            assert!(window.admit(next.wrapping_add(5)) && window.admit(next) && !window.admit(next));
            assert!(window.admit(next.wrapping_add(4)) && !window.admit(next.wrapping_add(5)));
            // Numbers older than the window are dropped.
            assert!(window.admit(next.wrapping_add(MAX_WINDOW)));
            assert!(window.admit(next.wrapping_add(1)) && !window.admit(next), "{next}");
            // After a leap, all earlier numbers are older than the window.
            assert!(window.admit(next.wrapping_add(1 << 30)) && !window.admit(next.wrapping_add(2)));
        }
    }

    #[test]
    fn numbered_payloads_have_a_prefix() {
        let (from, to) = (Numbers::default(), Numbers::default());
        let [one, two] = [from.prefix(), from.prefix()];
        assert_eq!((one, two), ([2, 0, 0, 0, 0], [2, 0, 0, 0, 1]));
        assert_eq!([to.first(&two), to.first(&one), to.first(&one)], [Some(PREFIX), Some(PREFIX), None]);
        for bad in [&b""[..], b"\x02\0\0\0", b"\0\0\0\0\x07"] {
            assert_eq!(to.first(bad), None);
        }
    }
}
