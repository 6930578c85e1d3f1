//! NewReno (RFC 9002 §7.3, Appendix B).

use super::Sibling;
use super::aimd::{ONE, Rule};

/// NewReno: halves the window on congestion, and otherwise adds one packet per round trip.
#[derive(Clone, Debug)]
pub struct NewReno;

impl Rule for NewReno {
    const COUPLED: bool = false;

    fn increase(_own: &Sibling, _siblings: &[Sibling]) -> i64 {
        ONE.cast_signed()
    }
}
