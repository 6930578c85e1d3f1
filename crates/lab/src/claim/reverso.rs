//! Claims of "Improving Encrypted Transport Protocol Designs: Deep Dive on the QUIC Case".
//!
//! Most claims are about processor time, which a simulation does not show. `anabranch-bench claims` measures
//! it, and this module judges the results.

use serde::Deserialize;

use super::{Claim, Paper, Verdict};
use crate::stats::median;

/// The paper with its claims.
pub(super) const PAPER: Paper = Paper {
    name: "reverso",
    title: "Improving Encrypted Transport Protocol Designs: Deep Dive on the QUIC Case",
    ablations: &[],
    claims: &[R1, R2, R3, R4, R5],
    further: |_| &[],
};

const NOT_MEASURED: Option<&str> = Some("is about the time of a processor, and nothing was measured");
const LOOPBACK: &str = "is about networks in the wild; a download over loopback says nothing about them";
const HALF: &str = "half of the paper's gain: version 1 of the reference moves its bytes more often than ours, so there is less to win here";

/// Creates a claim that is judged by measurements instead of simulated runs.
const fn measured(id: &'static str, shown: &'static str, text: &'static str) -> Claim {
    Claim { id, shown, text, threshold: "", reason: HALF, needs: &[], judge: |_| None, beyond: NOT_MEASURED }
}

const R1: Claim = Claim {
    threshold: "mean of our ratios ≤ 0.87, and VReverso faster at every batch",
    ..measured("R1", "receive path", "batches of 10 to 150 packets: VReverso takes 0.74 of version 1's time")
};

const R2: Claim = Claim {
    threshold: "our throughput ≥ 15 % higher",
    ..measured("R2", "receive path", "windows of 10 packets: throughput is 30 % higher over VReverso")
};

const R3: Claim = Claim {
    threshold: "our ratio ≤ 0.81 with either allocator",
    ..measured("R3", "HTTP/3", "2.5 MB over 80 streams: VReverso takes 0.62 of version 1's time")
};

const R4: Claim = Claim {
    threshold: "our share from 0.25 to 0.75",
    reason: "\"about half\" is read as a quarter to three quarters",
    ..measured("R4", "download", "on a download VReverso gains about half of what recvmmsg gains")
};

const R5: Claim = Claim {
    threshold: "more than 99.5 % of the packets in order",
    reason: "the paper's figure",
    beyond: Some(LOOPBACK),
    ..measured("R5", "in the wild", "more than 99.5 % of all packets arrive in order")
};

/// Output of `anabranch-bench claims --json -`. Ratios are VReverso's time over version 1's. The ratios of
/// the reference implementation are missing if it is not built.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Measured {
    receive: Vec<Receive>,
    pages: Vec<Pages>,
    download: Download,
    /// Load average of the machine during the measurement.
    load: Option<f64>,
}

/// Result for the receive path with batches of `batch` packets: the ratio of VReverso's time to version 1's,
/// for this library and for the reference implementation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Receive {
    batch: u64,
    ours: f64,
    reference: Option<f64>,
}

/// Result for responses over HTTP/3 with one allocator, as in [`Receive`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Pages {
    allocator: String,
    ours: f64,
    reference: Option<f64>,
}

/// Downloads over loopback: CPU seconds of the client per GB.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Download {
    v1_one: f64,
    v1_mmsg: f64,
    v1_many: f64,
    reverso_one: f64,
    reverso_many: f64,
    ordered: Option<f64>,
}

/// Measured numbers as text in one line, and the judgment: true if the numbers meet the threshold, or the
/// reason that the claim cannot be judged.
type Found = (String, Result<bool, &'static str>);

/// Function that returns the finding about a claim, if it was measured.
type Judge = fn(&Measured) -> Option<Found>;

/// Functions that judge the claims, each with the short name of its claim.
const JUDGES: [(&str, Judge); 5] = [
    ("R1", Measured::batches),
    ("R2", Measured::windows),
    ("R3", Measured::pages),
    ("R4", Measured::download),
    ("R5", Measured::order),
];

/// Number of packets in each batch of the claim about windows (R2).
const WINDOW: u64 = 10;

impl Measured {
    /// Returns true if measurements decide a claim instead of simulated runs.
    pub fn decides(claim: &Claim) -> bool {
        JUDGES.iter().any(|(id, _)| *id == claim.id)
    }

    /// Judges a claim of this paper.
    pub fn verdict(&self, claim: &Claim) -> Verdict {
        let judge = JUDGES.iter().find(|(id, _)| *id == claim.id);
        match judge.and_then(|(_, judge)| judge(self)) {
            Some((figure, holds)) => {
                let load = self.load.map_or(String::new(), |load| format!("; load average {load:.1}"));
                let figure = figure + &load;
                Verdict {
                    figure,
                    holds: holds.ok(),
                    why: holds.err().map(str::to_owned),
                    ..Verdict::default()
                }
            }
            None => {
                Verdict { why: Some("the measurements do not include it".to_owned()), ..Verdict::default() }
            }
        }
    }

    fn batches(&self) -> Option<Found> {
        let ours: Vec<f64> = self.receive.iter().map(|row| row.ours).collect();
        let reference: Vec<f64> = self.receive.iter().filter_map(|row| row.reference).collect();
        let mean = mean(&ours)?;
        let each: Vec<_> =
            self.receive.iter().map(|row| format!("{:.2} at {}", row.ours, row.batch)).collect();
        let figure =
            format!("{mean:.2} ({}); the reference {}", each.join(", "), said(self::mean(&reference)));
        Some((figure, Ok(mean <= 0.87 && ours.iter().all(|ratio| *ratio < 1.0))))
    }

    fn windows(&self) -> Option<Found> {
        let row = self.receive.iter().find(|row| row.batch == WINDOW)?;
        let gain = |ratio: f64| (1.0 / ratio - 1.0) * 100.0;
        let reference =
            row.reference.map_or("not built".to_owned(), |ratio| format!("{:+.0} %", gain(ratio)));
        Some((format!("{:+.0} %; the reference {reference}", gain(row.ours)), Ok(gain(row.ours) >= 15.0)))
    }

    fn pages(&self) -> Option<Found> {
        let worst = self.pages.iter().map(|row| row.ours).max_by(f64::total_cmp)?;
        let each = self.pages.iter().map(|row| {
            format!("{:.2} with malloc {} (the reference {})", row.ours, row.allocator, said(row.reference))
        });
        Some((each.collect::<Vec<_>>().join(", "), Ok(worst <= 0.81)))
    }

    fn download(&self) -> Option<Found> {
        let Download { v1_one, v1_mmsg, v1_many, reverso_one, reverso_many, .. } = self.download;
        let (recvmmsg, reverso) = (v1_one - v1_mmsg, v1_one - reverso_one);
        let all = format!(
            "client CPU s/GB: version 1 {v1_one:.3}, with recvmmsg {v1_mmsg:.3}, with GRO {v1_many:.3}; VReverso {reverso_one:.3}, \
             with both {reverso_many:.3}"
        );
        if recvmmsg <= 0.0 {
            return Some((all, Err("recvmmsg gains nothing here")));
        }
        let share = reverso / recvmmsg;
        Some((format!("{share:.2} of recvmmsg's gain; {all}"), Ok((0.25..=0.75).contains(&share))))
    }

    fn order(&self) -> Option<Found> {
        let ordered = self.download.ordered?;
        Some((format!("{:.2} % in order in a download over loopback", ordered * 100.0), Err(LOOPBACK)))
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    median(values).map(|_| values.iter().sum::<f64>() / values.len() as f64)
}

fn said(ratio: Option<f64>) -> String {
    ratio.map_or("not built".to_owned(), |ratio| format!("{ratio:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Measured {
        serde_json::from_str(include_str!("reverso.json")).unwrap()
    }

    fn verdict(measured: &Measured, id: &str) -> Verdict {
        measured.verdict(PAPER.claims.iter().find(|claim| claim.id == id).unwrap())
    }

    #[test]
    fn what_is_measured_is_judged() {
        let holds =
            |measured: &Measured| ["R1", "R2", "R3", "R4", "R5"].map(|id| verdict(measured, id).holds);
        assert_eq!(holds(&sample()), [Some(true), Some(true), Some(true), Some(true), None]);
        let r1 = verdict(&sample(), "R1");
        assert_eq!(
            r1.figure,
            "0.80 (0.80 at 10, 0.80 at 50, 0.80 at 150); the reference 0.72; load average 0.5"
        );
        assert_eq!(r1.why, None);
        assert!(verdict(&sample(), "R2").figure.starts_with("+25 %; the reference +39 %"));
        assert!(verdict(&sample(), "R4").figure.starts_with("0.50 of recvmmsg's gain; client CPU s/GB: "));
        let r5 = verdict(&sample(), "R5");
        assert!(r5.figure.starts_with("99.90 % in order") && r5.why.unwrap().contains("in the wild"));

        assert_eq!(JUDGES.map(|(id, _)| id), [R1, R2, R3, R4, R5].map(|claim| claim.id));
        // The mean meets the threshold, but VReverso is slower with one size of batches.
        let mut once = sample();
        (once.receive[0].ours, once.receive[1].ours, once.receive[2].ours) = (0.7, 0.7, 1.01);
        assert_eq!(verdict(&once, "R1").holds, Some(false));
        let mut slow = sample();
        slow.receive[2].ours = 1.01;
        slow.receive[0].ours = 0.88;
        slow.pages[1].ours = 0.82;
        slow.download.reverso_one = slow.download.v1_one;
        assert_eq!(holds(&slow), [Some(false), Some(false), Some(false), Some(false), None]);
        slow.receive.iter_mut().for_each(|row| row.reference = None);
        assert!(verdict(&slow, "R1").figure.contains("the reference not built"));
        slow.download.v1_mmsg = slow.download.v1_one;
        assert_eq!(verdict(&slow, "R4").holds, None);
        slow.receive.clear();
        assert_eq!((verdict(&slow, "R1").holds, verdict(&slow, "R2").holds), (None, None));
    }
}
