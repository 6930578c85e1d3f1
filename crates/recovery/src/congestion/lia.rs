//! Coupled congestion control with the Linked Increases Algorithm (RFC 6356).

use super::Sibling;
use super::aimd::{ONE, Rule, paths, share, total_rate};

/// LIA: all paths together are as aggressive as one NewReno flow on the best path, and no path is more
/// aggressive than NewReno.
#[derive(Clone, Debug)]
pub struct Lia;

impl Rule for Lia {
    /// Returns the increase of RFC 6356 §3. The RFC adds min(α/w_total, 1/w_i) packets for each packet
    /// acknowledged, where α = w_total · max(w_p/rtt_p²) / (Σ w_p/rtt_p)². For a whole window w_i, with x_p
    /// the path's share of the rate Σ w/rtt, that is min(max(x_p/rtt_p) · rtt_i · x_i, 1).
    fn increase(own: &Sibling, siblings: &[Sibling]) -> i64 {
        let total = total_rate(own, siblings);
        let best = paths(own, siblings).map(|path| {
            let scaled = u128::from(share(path, total)) * own.smoothed_rtt.as_nanos();
            scaled / path.smoothed_rtt.as_nanos().max(1)
        });
        // The cap of ONE² prevents overflow. With it, even the smallest share gives the largest increase, ONE.
        let best = best.max().unwrap_or(0).min(u128::from(ONE) * u128::from(ONE));
        let increase = best * u128::from(share(own, total)) / u128::from(ONE);
        u64::try_from(increase).unwrap_or(ONE).min(ONE).cast_signed()
    }
}
