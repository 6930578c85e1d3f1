//! Extensible priorities (RFC 9218).

use std::convert::Infallible;
use std::fmt;

use anabranch_transport::stream;
use http::{HeaderMap, HeaderName};
use sfv::visitor::{
    DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ParameterVisitor,
};
use sfv::{BareItemFromInput, KeyRef};

/// Name of the header.
const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// Priority of a response: its urgency, and whether it can be processed incrementally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Priority {
    /// Urgency from 0 (most urgent) to 7. Larger values count as 7.
    pub urgency: u8,
    /// `true` if the client can process the response as it arrives.
    pub incremental: bool,
}

impl Priority {
    const MAX_URGENCY: u8 = 7;

    /// Creates a priority; an urgency above 7 counts as 7.
    pub const fn new(urgency: u8, incremental: bool) -> Self {
        Self { urgency, incremental }
    }

    /// Parses the value of a `priority` header or of a PRIORITY_UPDATE frame. A member that is absent, of
    /// another type or out of range has its default value. If the value is not a dictionary, both members
    /// have their default values (RFC 9218 §4).
    pub fn parse(value: &[u8]) -> Self {
        sfv::Parser::new(value).parse_dictionary_with_visitor(Members::default()).unwrap_or_default()
    }

    /// Priority of a request without a `priority` header: urgency 3, incremental. The default of RFC 9218 §4
    /// is not incremental: one download would wait for the end of another. A client that sends no priority
    /// has not asked for this order.
    pub const UNSAID: Self = Self { urgency: 3, incremental: true };

    /// Parses the `priority` header of a message; several header lines form one list. Returns
    /// [`Self::UNSAID`] if there is none.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut lines = headers.get_all(PRIORITY).iter();
        let (first, second) = (lines.next(), lines.next());
        match (first, second) {
            (None, _) => Self::UNSAID,
            (Some(line), None) => Self::parse(line.as_bytes()),
            _ => {
                let lines: Vec<&[u8]> =
                    headers.get_all(PRIORITY).iter().map(|line| line.as_bytes()).collect();
                Self::parse(&lines.join(&b", "[..]))
            }
        }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u={}", self.urgency.min(Self::MAX_URGENCY))?;
        f.write_str(if self.incremental { ", i" } else { "" })
    }
}

impl From<Priority> for stream::Priority {
    /// Converts an urgency from 7 to 0 to the transport's priority level from 0 to 7.
    fn from(priority: Priority) -> Self {
        let urgency = priority.urgency.min(Priority::MAX_URGENCY);
        Self::new(i32::from(Priority::MAX_URGENCY - urgency), priority.incremental)
    }
}

/// Visitor that reads the two known members of a dictionary. If a member occurs several times, its last value
/// counts.
#[derive(Default)]
struct Members(Priority);

impl<'de> DictionaryVisitor<'de> for Members {
    type Out = Priority;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Self::Error> {
        let default = Priority::default();
        Ok(match key.as_str() {
            "u" => {
                self.0.urgency = default.urgency;
                Some(Member::Urgency(&mut self.0.urgency))
            }
            "i" => {
                self.0.incremental = default.incremental;
                Some(Member::Incremental(&mut self.0.incremental))
            }
            _ => None,
        })
    }

    fn finish(self) -> Result<Self::Out, Self::Error> {
        Ok(self.0)
    }
}

/// Destination of a member's value.
enum Member<'a> {
    Urgency(&'a mut u8),
    Incremental(&'a mut bool),
}

impl<'de> EntryVisitor<'de> for Member<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Self::Error> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Self::Error> {
        Ok(Ignored)
    }
}

impl<'de> ItemVisitor<'de> for Member<'_> {
    type Out = ();
    type Error = Infallible;

    fn bare_item(
        self,
        item: BareItemFromInput<'de>,
    ) -> Result<impl ParameterVisitor<'de, Out = Self::Out>, Self::Error> {
        match (self, item) {
            (Self::Urgency(urgency), BareItemFromInput::Integer(value)) => {
                if let Ok(value @ 0..=Priority::MAX_URGENCY) = u8::try_from(value) {
                    *urgency = value;
                }
            }
            (Self::Incremental(incremental), BareItemFromInput::Boolean(value)) => *incremental = value,
            _ => {}
        }
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests;
