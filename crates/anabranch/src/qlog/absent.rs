//! Stand-in for traces in a library without the feature `qlog`.

use anabranch_transport::trace::{Observer, TraceEvent};
use anabranch_wire::{ConnectionId, Side, Time};

/// Settings of traces; empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces;

/// A trace, which is never created.
#[derive(Clone, Debug)]
pub(crate) struct Trace;

impl Traces {
    /// Returns the settings. No environment variable is read.
    pub(crate) fn from_environment() -> Self {
        Self
    }

    /// Creates no trace.
    pub(crate) fn begin(&self, _: Side, _: Option<ConnectionId>) -> Option<Trace> {
        None
    }
}

impl Observer for Trace {
    fn event(&mut self, _: Time, _: &TraceEvent<'_>) {}
}

#[cfg(feature = "http3")]
impl anabranch_http3::trace::Observer for Trace {
    fn event(&mut self, _: Time, _: &anabranch_http3::trace::TraceEvent<'_>) {}
}
