//! Coupled congestion control with the Opportunistic Linked Increases Algorithm (Khalili et al., CoNEXT 2012;
//! draft-khalili-mptcp-congestion-control-05).

use core::cmp::Ordering;

use super::Sibling;
use super::aimd::{ONE, Rule, paths, share, total_rate};

/// OLIA: windows in proportion to the paths' capacity, and a term α that moves traffic from the paths with
/// the largest windows to better ones.
#[derive(Clone, Debug)]
pub struct Olia;

impl Rule for Olia {
    /// Returns the draft's increase. The draft adds (w_i/rtt_i²) / (Σ w_p/rtt_p)² + α_i/w_i packets for each
    /// packet acknowledged. For a whole window w_i, with x_i the path's share of the rate Σ w/rtt, that is
    /// x_i² + α_i.
    fn increase(own: &Sibling, siblings: &[Sibling]) -> i64 {
        let share = share(own, total_rate(own, siblings));
        // Both factors are at most ONE, so the product cannot overflow.
        let linked = share * share / ONE;
        linked.cast_signed() + alpha(own, siblings)
    }
}

/// Returns α of the path `own`, in units of [`ONE`]. It is negative for the paths with the largest windows,
/// which share the loss equally. It is positive for the best of the other paths, which share the gain
/// equally.
fn alpha(own: &Sibling, siblings: &[Sibling]) -> i64 {
    let all = paths(own, siblings);
    let largest = all.clone().map(|path| path.window).max().unwrap_or(0);
    let Some(best) = all.clone().max_by(|a, b| by_quality(a, b)) else { return 0 };
    let is_collected = |path: &Sibling| path.window < largest && by_quality(path, best).is_eq();
    let count = |members: usize| i64::try_from(members).unwrap_or(i64::MAX);
    let number = count(all.clone().count());
    let collected = count(all.clone().filter(|path| is_collected(path)).count());
    let one = ONE.cast_signed();
    if collected == 0 {
        0
    } else if is_collected(own) {
        one / number.saturating_mul(collected)
    } else if own.window == largest {
        let largest_paths = count(all.filter(|path| path.window == largest).count());
        -(one / number.saturating_mul(largest_paths))
    } else {
        0
    }
}

/// Orders paths by the rate that a separate loss-based flow would reach on each. With ℓ bytes between losses,
/// this rate is proportional to √ℓ/rtt; ℓ/rtt² gives the same order (§3 of the paper).
fn by_quality(a: &Sibling, b: &Sibling) -> Ordering {
    let length = |path: &Sibling| u128::from(path.bytes_since_loss.max(path.bytes_between_losses));
    let squared =
        |path: &Sibling| path.smoothed_rtt.as_micros().saturating_mul(path.smoothed_rtt.as_micros());
    length(a).saturating_mul(squared(b)).cmp(&length(b).saturating_mul(squared(a)))
}
