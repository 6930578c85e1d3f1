//! Detection of silence on a client's main path.

use anabranch_wire::Time;

/// State of the detection of silence on the main path.
#[derive(Debug, Default)]
pub(crate) struct Roaming {
    /// `true` if the application requested events when the main path falls silent.
    pub(crate) watches: bool,
    /// Number of stream bytes that had arrived when the path was last probed because no more data arrived.
    pub(crate) traffic: u64,
    /// Arrival time of the last packet, if a probe timeout expired too soon after it to be reported as
    /// silence.
    pub(crate) suspected: Option<Time>,
    /// `true` while other addresses are being validated because the path is silent.
    pub(crate) rescues: bool,
}
