//! Silence of the main path, as far as it is known.

use anabranch_wire::Time;

/// State of the search for silence on the main path.
#[derive(Debug, Default)]
pub(crate) struct Roaming {
    /// Somebody wants to know when the path falls silent.
    pub(crate) watches: bool,
    /// Stream bytes that had arrived when the path was last asked because it had become quiet.
    pub(crate) traffic: u64,
    /// Time at which a packet had last come when a probe timeout was over too soon after it to be called
    /// silence.
    pub(crate) suspected: Option<Time>,
    /// Other addresses are asked, because the path is silent.
    pub(crate) rescues: bool,
}
