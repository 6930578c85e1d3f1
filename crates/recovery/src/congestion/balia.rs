//! Coupled congestion control with the Balanced Linked Adaptation algorithm
//! (draft-walid-mptcp-congestion-control-04).

use super::Sibling;
use super::aimd::{ONE, Rule, paths, share, total_rate};

/// BALIA: a compromise between LIA's responsiveness and OLIA's friendliness to other flows.
#[derive(Clone, Debug)]
pub struct Balia;

impl Rule for Balia {
    /// Returns the draft's increase. The draft adds x_i/rtt_i / (Σ x_p)² · (1 + α)/2 · (4 + α)/5 packets for
    /// each packet acknowledged, where x = w/rtt and α = max(x_p)/x_i. For a whole window w_i, with x as
    /// shares of the sum, that is (x_i + max) · (4·x_i + max) / 10.
    fn increase(own: &Sibling, siblings: &[Sibling]) -> i64 {
        let (share, largest) = shares(own, siblings);
        let product = u128::from(share + largest) * u128::from(4 * share + largest);
        let increase = product / 10 / u128::from(ONE);
        u64::try_from(increase).unwrap_or(ONE).min(ONE).cast_signed()
    }

    /// Reduces the window by w/2 · min(α, 3/2), as in the draft: by half on the fastest path, and by up to
    /// three quarters on slower ones.
    fn reduced(own: &Sibling, siblings: &[Sibling]) -> u64 {
        let (share, largest) = shares(own, siblings);
        if share == 0 {
            return own.window / 4;
        }
        let kept = 4 * share - (2 * largest).min(3 * share);
        let window = u128::from(own.window) * u128::from(kept) / u128::from(4 * share);
        u64::try_from(window).unwrap_or(own.window)
    }
}

/// Returns the path's share of the connection's rate, and the largest share of any path.
fn shares(own: &Sibling, siblings: &[Sibling]) -> (u64, u64) {
    let total = total_rate(own, siblings);
    let largest = paths(own, siblings).map(|path| share(path, total)).max().unwrap_or(0);
    (share(own, total), largest)
}
