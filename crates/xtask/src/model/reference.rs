//! Second implementation of a link, event by event, whose rules can be switched. Both the lab's link and
//! ns-3's are compared with it.

use std::collections::VecDeque;

use anabranch_lab::link::Limit;

use super::train::{Arrival, Train};

/// Rules in which links may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Number of bytes on the wire in addition to the IP packet.
    pub(super) framing: u32,
    /// `true` if serialization times are computed in seconds with 64 binary fraction digits, truncated.
    pub(super) fixed_point: bool,
    /// `true` if a packet that is sent at the instant at which a transmission ends finds the queue as it was
    /// before that end.
    pub(super) sends_first: bool,
    /// `true` if a packet that finds an idle transmitter passes through the queue as well, and is dropped if
    /// it does not fit.
    pub(super) through_queue: bool,
}

/// Rule in which ns-3's link differs from the lab's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Framing,
    SendsFirst,
    FixedPoint,
    ThroughQueue,
}

impl Rule {
    /// Describes the rule in one line.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Framing => "2 bytes of PPP around each packet",
            Self::SendsFirst => "in one instant, a send scheduled earlier precedes the transmission's end",
            Self::FixedPoint => "halves of a nanosecond that 64 binary digits of a second hold round up",
            Self::ThroughQueue => "packets pass through the queue even if nothing waits",
        }
    }
}

impl Rules {
    /// Rules of the lab's link.
    pub(super) const LAB: Self =
        Self { framing: 0, fixed_point: false, sends_first: false, through_queue: false };

    /// Returns these rules with one of them replaced by ns-3's.
    pub(super) fn with(self, rule: Rule) -> Self {
        match rule {
            Rule::Framing => Self { framing: super::train::PPP, ..self },
            Rule::SendsFirst => Self { sends_first: true, ..self },
            Rule::FixedPoint => Self { fixed_point: true, ..self },
            Rule::ThroughQueue => Self { through_queue: true, ..self },
        }
    }

    /// Returns the nanoseconds that the transmission of `bytes` takes.
    fn serialization(self, bytes: u64, rate: u64) -> u64 {
        const NANOS: u128 = 1_000_000_000;
        let (bits, rate) = (u128::from(bytes) * 8, u128::from(rate));
        let nanos = if self.fixed_point {
            let seconds = (bits << 64) / rate;
            (seconds * NANOS + (1 << 63)) >> 64
        } else {
            let (whole, rest) = (bits * NANOS / rate, bits * NANOS % rate);
            whole + u128::from(rest * 2 > rate)
        };
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Transmitter and queue. The queue contains the packets' indices.
struct Link<'a> {
    train: &'a Train,
    rules: Rules,
    /// End of the current transmission, and the index of its packet.
    busy: Option<(u64, usize)>,
    queue: VecDeque<usize>,
    arrivals: Vec<Arrival>,
}

/// Returns the arrivals of the train's packets under these rules.
pub(super) fn run(train: &Train, rules: Rules) -> Vec<Arrival> {
    let arrivals = vec![None; train.packets.len()];
    let mut link = Link { train, rules, busy: None, queue: VecDeque::new(), arrivals };
    for (index, packet) in train.packets.iter().enumerate() {
        while let Some((end, _)) = link.busy.filter(|(end, _)| link.ends_before(*end, packet.at)) {
            link.end(end);
        }
        link.send(packet.at, index);
    }
    while let Some((end, _)) = link.busy {
        link.end(end);
    }
    link.arrivals
}

impl Link<'_> {
    fn ends_before(&self, end: u64, sent: u64) -> bool {
        if self.rules.sends_first { end < sent } else { end <= sent }
    }

    fn size(&self, index: usize) -> u64 {
        u64::from(self.train.packets[index].size + self.rules.framing)
    }

    fn send(&mut self, at: u64, index: usize) {
        let fits = match self.train.limit {
            Limit::Packets(limit) => self.queue.len() < limit,
            Limit::Bytes(limit) => {
                self.queue.iter().chain([&index]).map(|waits| self.size(*waits)).sum::<u64>() <= limit
            }
        };
        if self.busy.is_none() && (fits || !self.rules.through_queue) {
            self.begin(at, index);
        } else if fits {
            self.queue.push_back(index);
        }
    }

    fn begin(&mut self, at: u64, index: usize) {
        let end = at + self.rules.serialization(self.size(index), self.train.rate);
        self.arrivals[index] = Some(end + self.train.delay);
        self.busy = Some((end, index));
    }

    fn end(&mut self, at: u64) {
        self.busy = None;
        if let Some(next) = self.queue.pop_front() {
            self.begin(at, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::train::Packet;
    use super::*;

    /// Returns the arrivals of packets of 1000 bytes at 8 Mbit/s, which take 1 ms each, with a queue of one
    /// packet.
    fn arrivals(rules: Rules, sent_us: &[u64]) -> Vec<Arrival> {
        let packets = sent_us.iter().map(|at| Packet { at: at * 1_000, size: 1000 }).collect();
        let limit = Limit::Packets(1);
        run(&Train { rate: 8_000_000, delay: 5, limit, sends_first: false, packets }, rules)
    }

    #[test]
    fn each_rule_changes_what_it_says() {
        let lab = Rules::LAB;
        assert_eq!(
            arrivals(lab, &[0, 0, 0, 1_000]),
            [Some(1_000_005), Some(2_000_005), None, Some(3_000_005)]
        );
        let sends_first = lab.with(Rule::SendsFirst);
        assert_eq!(arrivals(sends_first, &[0, 0, 1_000]), [Some(1_000_005), Some(2_000_005), None]);
        assert_eq!(arrivals(lab.with(Rule::Framing), &[0]), [Some(1_002_005)]);
    }

    #[test]
    fn halves_round_as_their_digits_allow() {
        let fixed = Rules::LAB.with(Rule::FixedPoint);
        // 976562.5 ns are 2^-10 s; 154687.5 ns are not a finite binary fraction of a second.
        let times = |rules: Rules| [rules.serialization(125, 1_024_000), rules.serialization(99, 5_120_000)];
        assert_eq!(times(Rules::LAB), [976_562, 154_687]);
        assert_eq!(times(fixed), [976_563, 154_687]);
        assert_eq!(fixed.serialization(1, 3_000_000), 2_667);
    }

    #[test]
    fn a_queue_without_room_drops_only_what_passes_through_it() {
        let packets = vec![Packet { at: 0, size: 1000 }; 2];
        let train = Train { rate: 8_000, delay: 0, limit: Limit::Bytes(999), sends_first: false, packets };
        assert_eq!(run(&train, Rules::LAB), [Some(1_000_000_000), None]);
        assert_eq!(run(&train, Rules::LAB.with(Rule::ThroughQueue)), [None, None]);
    }
}
