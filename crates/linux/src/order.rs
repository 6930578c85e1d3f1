//! Messages between the host and its guest: an [`Order`] in a file, a [`Report`] in a line on the console.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::stack::{Control, Stack, Transport};

/// Maximum number of paths of an order.
pub(crate) const MAX_PATHS: usize = 8;
/// Maximum number of changes of a direction of a path.
pub(crate) const MAX_CHANGES: usize = 10_000;
/// Maximum number of requests of an order.
pub(crate) const MAX_REQUESTS: u32 = 100_000;
/// Maximum number of datagrams of a train.
pub(crate) const MAX_PACKETS: u32 = 10_000;
/// Maximum number of other connections of a competition.
pub(crate) const MAX_OTHERS: u32 = 64;

/// Start of the line with the report on the console, which also shows messages of the kernel.
pub(crate) const MARK: &str = "anabranch-report ";

/// One experiment: a stack, the links, and the work of the applications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The transport and its settings.
    pub stack: Stack,
    /// The links; the first one carries the first SYN.
    pub paths: Vec<Link>,
    /// Work of the applications.
    pub work: Work,
    /// Virtual time after which the run has failed, in nanoseconds.
    pub deadline_ns: u64,
    /// Seed of the losses and of all randomness in the kernel.
    pub seed: u64,
}

/// A link in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Direction from the client to the server.
    pub up: Way,
    /// Direction from the server to the client.
    pub down: Way,
}

/// One direction of a link: a drop-tail queue in front of a transmitter, a delay, and random losses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Properties at the start.
    pub first: Properties,
    /// Maximum number of packets that wait in front of the transmitter; the one in transmission is not
    /// counted.
    pub queue_packets: u32,
    /// Later properties, in order of time. Each has the time since the client's first packet in nanoseconds.
    pub changes: Vec<(u64, Properties)>,
}

/// Properties of a direction that may change over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Properties {
    /// Bits per second.
    pub rate_bps: u64,
    /// Constant delay in nanoseconds.
    pub delay_ns: u64,
    /// Share of packets that are lost, 0.0 to 1.0.
    pub loss: f64,
}

/// Work of the applications.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// The client requests `bytes` bytes.
    Download {
        /// Number of bytes of the answer.
        bytes: u64,
    },
    /// The client sends `bytes` bytes.
    Upload {
        /// Number of bytes that the client sends.
        bytes: u64,
    },
    /// The client sends small requests at fixed intervals on one connection, regardless of outstanding
    /// answers.
    Requests {
        /// Number of bytes of each request.
        request: u64,
        /// Number of bytes of each answer.
        answer: u64,
        /// Nanoseconds from one request to the next.
        every_ns: u64,
        /// Number of requests.
        count: u32,
    },
    /// The client downloads while other connections do the same, each with TCP over the first path. All use
    /// the same TLS.
    Competition {
        /// Number of other connections.
        others: u32,
        /// Congestion control of the other connections.
        control: Control,
        /// Time for which all connections send, in nanoseconds.
        length_ns: u64,
        /// `true` if all paths of the client share the first path's link. The links of its other paths then
        /// do not exist.
        one_link: bool,
    },
    /// The server sends the datagrams of a [`train`](crate::train::train) over the first path, without a
    /// connection.
    Train {
        /// Seed of the train.
        seed: u64,
        /// Number of datagrams.
        packets: u32,
    },
}

/// Measurements of one experiment. Times are nanoseconds of virtual time since the client's first SYN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Reason for the failure; empty if the run succeeded.
    pub failure: String,
    /// Release of the guest's kernel, as in `uname -r`.
    pub kernel: String,
    /// Time at which the connection was ready for data, TLS included.
    pub handshake_ns: Option<u64>,
    /// Time at which the last byte arrived.
    pub last_byte_ns: Option<u64>,
    /// Time at which each request was made, and the delay of its answer.
    pub requests_ns: Vec<(u64, u64)>,
    /// Bytes that each connection of a competition received, the first connection's first.
    pub flows: Vec<u64>,
    /// Counts of each path, at the end that sends most of the data.
    pub paths: Vec<PathReport>,
    /// Times at which each datagram of a train left and arrived; `None` if it did not arrive.
    pub train: Vec<(u64, Option<u64>)>,
    /// Number of packets that each path's full queue dropped, in the direction to the end that receives most
    /// of the data.
    pub overflows: Vec<u64>,
}

/// Counts of the connection or subflow on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReport {
    /// Number of payload bytes sent, including repeated ones.
    pub sent_bytes: u64,
    /// Number of payload bytes sent again by this subflow.
    pub repeated_bytes: u64,
    /// Number of segments sent again.
    pub repeated_segments: u64,
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u64,
    /// Receive window that the peer advertised last, in bytes.
    pub window: u64,
}

/// Error in an order that a guest cannot carry out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub(crate) String);

impl Order {
    /// Checks that the guest can carry the order out.
    ///
    /// # Errors
    /// Fails if the order has no paths, or if one of its values is out of bounds.
    pub fn check(&self) -> Result<(), Unfit> {
        let fault = |what: String| Err(Unfit(what));
        if self.paths.is_empty() || self.paths.len() > MAX_PATHS {
            return fault(format!("{} paths: the guest has 1 to {MAX_PATHS}", self.paths.len()));
        }
        if !self.stack.takes_paths() && self.paths.len() > 1 {
            return fault(format!("{} uses one path, not {}", self.stack, self.paths.len()));
        }
        let ways = || self.paths.iter().flat_map(|link| [&link.up, &link.down]);
        if ways().any(|way| way.changes.len() > MAX_CHANGES) {
            return fault(format!("a path has more than {MAX_CHANGES} changes"));
        }
        let all = ways().flat_map(|way| way.changes.iter().map(|(_, later)| later).chain([&way.first]));
        for Properties { rate_bps, loss, .. } in all {
            if !(8..=1 << 40).contains(rate_bps) {
                return fault(format!("a rate of {rate_bps} bit/s: the guest's links have 8 to 10^12"));
            }
            if !(0.0..=1.0).contains(loss) {
                return fault(format!("a loss of {loss}: expected 0 to 1"));
            }
        }
        match self.work {
            Work::Requests { count, .. } if count > MAX_REQUESTS => {
                fault(format!("{count} requests: at most {MAX_REQUESTS}"))
            }
            Work::Competition { others, .. } if others > MAX_OTHERS => {
                fault(format!("{others} other connections: at most {MAX_OTHERS}"))
            }
            Work::Competition { .. } if self.stack.transport == Transport::Anabranch => {
                fault(format!("{} does not compete: use a TCP or Multipath TCP", self.stack))
            }
            Work::Train { packets, .. } if packets > MAX_PACKETS => {
                fault(format!("{packets} datagrams: at most {MAX_PACKETS}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the index of the link that a path is on.
    pub(crate) fn link_of(&self, path: usize) -> usize {
        match self.work {
            Work::Competition { one_link: true, .. } => 0,
            _ => path,
        }
    }

    /// Returns the number of links.
    pub(crate) fn links(&self) -> usize {
        (0..self.paths.len()).map(|path| self.link_of(path) + 1).max().unwrap_or_default()
    }

    /// Returns the virtual time after which the run has failed.
    pub fn deadline(&self) -> Duration {
        Duration::from_nanos(self.deadline_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(change: impl FnOnce(&mut Order)) -> Result<(), String> {
        let first = Properties { rate_bps: 1_000_000, delay_ns: 0, loss: 0.0 };
        let way = Way { first, queue_packets: 10, changes: Vec::new() };
        let mut order = Order {
            stack: "mptcp".parse().unwrap(),
            paths: vec![Link { up: way.clone(), down: way }; 2],
            work: Work::Download { bytes: 1 },
            deadline_ns: 1,
            seed: 1,
        };
        change(&mut order);
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
        order.check().map_err(|fault| fault.to_string())
    }

    #[test]
    fn an_order_that_no_guest_can_carry_out_is_refused_in_one_line() {
        assert_eq!(order(|_| ()), Ok(()));
        let later = Properties { rate_bps: 8, delay_ns: 0, loss: 0.0 };
        let work = |work| order(move |order| order.work = work);
        let competition =
            |others| Work::Competition { others, control: Control::Reno, length_ns: 1, one_link: true };
        assert_eq!(work(competition(MAX_OTHERS)), Ok(()));
        for fault in [
            order(|order| order.paths.clear()),
            order(|order| order.paths = vec![order.paths[0].clone(); MAX_PATHS + 1]),
            order(|order| order.stack = "tcp-cubic".parse().unwrap()),
            order(|order| order.paths[1].up.first.rate_bps = 7),
            order(|order| order.paths[1].up.first.loss = f64::from(3)),
            order(|order| order.paths[0].down.changes = vec![(1, Properties { loss: -1.0, ..later })]),
            order(|order| order.paths[0].down.changes = vec![(1, later); MAX_CHANGES + 1]),
            work(Work::Requests { request: 1, answer: 1, every_ns: 1, count: MAX_REQUESTS + 1 }),
            work(Work::Train { seed: 1, packets: MAX_PACKETS + 1 }),
            work(competition(MAX_OTHERS + 1)),
            order(|order| (order.stack, order.work) = ("anabranch".parse().unwrap(), competition(1))),
        ] {
            let fault = fault.unwrap_err();
            assert!(!fault.is_empty() && fault.lines().count() == 1, "{fault}");
        }
    }
}
