//! Congestion control: the number of bytes that may be in flight on one path.
//!
//! To add a controller, write a file that implements [`Controller`] and add one line to `registry!` below. A
//! program supplies its own controller with a [`ControllerFactory`] in [`Algorithm::Custom`].

mod aimd;
mod custom;
mod exit;
mod hystart;
mod jitter;
mod plateau;
#[cfg(feature = "research")]
mod rise;
mod rounds;

use core::fmt;
use core::time::Duration;

use anabranch_wire::{Time, algorithms};

pub use self::custom::ControllerFactory;
pub use crate::rate::RateSample;
use crate::rtt::Rtt;

/// Minimum congestion window in packets (RFC 9002 §7.2, kMinimumWindow).
pub(crate) const MIN_WINDOW_PACKETS: u64 = 2;

/// Initial state of a controller.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Start {
    /// Current time.
    pub now: Time,
    /// Initial window in bytes.
    pub window: u64,
    /// MTU in bytes of UDP payload.
    pub mtu: u64,
    /// Initial round-trip time, assumed before the first sample.
    pub rtt: Duration,
    /// Seed of the controller's jitter, if it has any.
    pub seed: u64,
}

/// State of a path for the coupled controllers of its siblings (RFC 6356). OLIA and BALIA also use the bytes
/// between losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sibling {
    /// Congestion window in bytes.
    pub window: u64,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// MTU in bytes of UDP payload.
    pub mtu: u16,
    /// Bytes acknowledged since the last congestion event.
    pub bytes_since_loss: u64,
    /// Bytes acknowledged between the last two congestion events.
    pub bytes_between_losses: u64,
}

/// Event: a packet that counts towards bytes in flight was sent.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Departure {
    /// Current time.
    pub now: Time,
    /// Size of the packet in bytes.
    pub bytes: u64,
    /// Bytes in flight before the packet.
    pub in_flight: u64,
    /// `true` if the sender had run out of data before it sent the packet.
    pub app_limited: bool,
    /// Bytes delivered on the path so far.
    pub delivered: u64,
}

/// Event: packets were acknowledged.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Acked<'a> {
    /// Current time.
    pub now: Time,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Newly acknowledged bytes that were sent after the last congestion event began. Only these may grow the
    /// window (RFC 9002 §7.3.2).
    pub growth: u64,
    /// `true` if the window was fully used, so that it may grow (RFC 9002 §7.8).
    pub utilised: bool,
    /// Time at which the newest of the packets was sent.
    pub sent_time: Time,
    /// Bytes in flight before the acknowledgment.
    pub prior_in_flight: u64,
    /// Bytes in flight after the acknowledgment.
    pub in_flight: u64,
    /// Bytes delivered on the path so far.
    pub delivered: u64,
    /// MTU in bytes.
    pub mtu: u64,
    /// Round-trip time of the path, updated by this acknowledgment.
    pub rtt: &'a Rtt,
    /// Round-trip time sample of this acknowledgment.
    pub rtt_sample: Option<Duration>,
    /// Delivery rate sample of this acknowledgment.
    pub sample: RateSample,
    /// State of this path for coupled controllers.
    pub own: Sibling,
}

/// Event: a packet that counted towards bytes in flight was lost. There is one event for each such packet,
/// after the [`Congested`] event that its loss may have caused.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LostPacket {
    /// Time at which the loss was detected.
    pub now: Time,
    /// Size of the packet in bytes.
    pub bytes: u64,
    /// Bytes in flight just after the packet was sent.
    pub in_flight: u64,
    /// Bytes lost on the path since the packet was sent, including the packet.
    pub lost_since: u64,
    /// `true` if the sender had run out of data when the packet was sent.
    pub app_limited: bool,
    /// Bytes delivered on the path so far.
    pub delivered: u64,
    /// MTU in bytes.
    pub mtu: u64,
}

/// Congestion event. It occurs at most once per round trip (RFC 9002 §7.3.2).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Congested {
    /// Time at which congestion was detected.
    pub now: Time,
    /// Send time of the packet whose loss or CE mark began the event.
    pub sent_time: Time,
    /// `true` if CE marks reported the congestion, `false` if a loss did.
    pub ce: bool,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes delivered on the path so far.
    pub delivered: u64,
    /// MTU in bytes.
    pub mtu: u64,
    /// State of this path for coupled controllers.
    pub own: Sibling,
}

/// Phase of a controller, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Exponential growth.
    SlowStart,
    /// HyStart++'s slower growth, while it checks whether slow start should end (RFC 9406).
    ConservativeSlowStart,
    /// Slow growth.
    CongestionAvoidance,
    /// Waiting until the packets sent before a congestion event are acknowledged or lost.
    Recovery,
    /// BBR: finding the bandwidth.
    Startup,
    /// BBR: emptying the queue that Startup built.
    Drain,
    /// BBR: sending below the estimated rate to drain the queue.
    ProbeBwDown,
    /// BBR: sending at the estimated rate.
    ProbeBwCruise,
    /// BBR: filling the pipe before probing for bandwidth.
    ProbeBwRefill,
    /// BBR: probing for more bandwidth.
    ProbeBwUp,
    /// BBR: measuring the round-trip time with an empty queue.
    ProbeRtt,
}

impl State {
    /// Returns the phase's name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlowStart => "slow_start",
            Self::ConservativeSlowStart => "conservative_slow_start",
            Self::CongestionAvoidance => "congestion_avoidance",
            Self::Recovery => "recovery",
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::ProbeBwDown => "probe_bw_down",
            Self::ProbeBwCruise => "probe_bw_cruise",
            Self::ProbeBwRefill => "probe_bw_refill",
            Self::ProbeBwUp => "probe_bw_up",
            Self::ProbeRtt => "probe_rtt",
        }
    }
}

/// Congestion controller of one path. The caller decides which packets are lost, when a congestion event
/// begins, and whether it was spurious. `siblings` are the connection's other open paths.
pub trait Controller: fmt::Debug + Send {
    /// Returns whether the controller uses `siblings`. If not, the caller need not collect them.
    fn is_coupled(&self) -> bool {
        false
    }

    /// Counts a packet that is sent.
    fn on_sent(&mut self, _packet: &Departure) {}

    /// Counts acknowledged packets.
    fn on_acked(&mut self, ack: &Acked<'_>, siblings: &[Sibling]);

    /// Counts a lost packet. A loss-based controller needs only [`Self::on_congestion`].
    fn on_lost(&mut self, _packet: &LostPacket) {}

    /// Records that the sender keeps the path's queue short and that the last round-trip time was close to the minimum, so
    /// the minimum needs no other confirmation.
    fn on_short_queue(&mut self, _now: Time) {}

    /// Responds to a congestion event.
    fn on_congestion(&mut self, event: &Congested, siblings: &[Sibling]);

    /// Undoes the response to the last congestion event, because all of its losses were spurious.
    fn on_spurious(&mut self, now: Time);

    /// Reduces the window to the minimum after persistent congestion (RFC 9002 §7.6.2).
    fn on_persistent_congestion(&mut self, now: Time, mtu: u64);

    /// Returns the congestion window in bytes.
    fn window(&self) -> u64;

    /// Returns the pacing rate in bytes per second, if the controller sets it.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Returns the slow start threshold in bytes, if it is set.
    fn ssthresh(&self) -> Option<u64> {
        None
    }

    /// Returns the controller's phase.
    fn state(&self) -> State;
}

/// Generates from a list of controllers their variants, their names and the static dispatch.
macro_rules! declare {
    (@module [$($attribute:tt)*]) => {};
    (@module [$($attribute:tt)*] $module:ident) => {
        $($attribute)*
        mod $module;
    };
    (
        ($d:tt)
        $(
            $(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])?
            $variant:ident($type:ty) = $name:literal $(in mod $module:ident)?;
        )+
    ) => {
        $(declare! { @module [$(#[cfg($cfg)])?] $($module)? })+

        algorithms! {
            /// Choice of a path's congestion controller.
            Algorithm, "congestion controller", UnknownAlgorithm, CustomController(ControllerFactory) {
                $($(#[doc = $doc])* $(#[cfg($cfg)])? $variant = $name;)+
            }
        }

        /// Congestion controller of a path.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Congestion {
            $($(#[cfg($cfg)])? #[doc = $name] $variant(Box<$type>),)+
            /// Controller that the program supplies.
            Custom(CustomController, Box<dyn Controller>),
        }

        impl Congestion {
            pub(crate) fn new(algorithm: Algorithm, start: &Start) -> Self {
                match algorithm {
                    $($(#[cfg($cfg)])? Algorithm::$variant => Self::$variant(Box::new(<$type>::new(start))),)+
                    Algorithm::Custom(custom) => Self::Custom(custom, custom.0.build(start)),
                }
            }

            /// Returns the algorithm.
            pub const fn algorithm(&self) -> Algorithm {
                match self {
                    $($(#[cfg($cfg)])? Self::$variant(_) => Algorithm::$variant,)+
                    Self::Custom(custom, _) => Algorithm::Custom(*custom),
                }
            }
        }

        /// Calls a controller's method, without a virtual call unless the program supplied the controller.
        macro_rules! dispatch {
            ($d any:expr, $d controller:ident => $d call:expr) => {
                match $d any {
                    $($(#[cfg($cfg)])? Congestion::$variant($d controller) => $d call,)+
                    Congestion::Custom(_, $d controller) => $d call,
                }
            };
        }
    };
}

/// Passes the list to [`declare`], with a dollar sign that `declare` needs to define the macro `dispatch`.
macro_rules! registry {
    ($($entry:tt)+) => { declare! { ($) $($entry)+ } };
}

registry! {
    /// NewReno (RFC 9002 §7.3).
    NewReno(aimd::Aimd<newreno::NewReno>) = "newreno" in mod newreno;
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    Cubic(cubic::Cubic) = "cubic" in mod cubic;
    /// CUBIC as in the 2017 study of Multipath QUIC, for comparison: one connection takes the bandwidth of two.
    #[cfg(feature = "research")]
    Cubic2017(cubic::CubicLike<cubic::Study2017>) = "cubic-2017";
    /// CUBIC as in the 2022 study of packet number spaces, for comparison: β is 7/8, and slow start ends when
    /// the round-trip time has risen by a quarter.
    #[cfg(feature = "research")]
    Cubic2022(cubic::CubicLike<cubic::Study2022>) = "cubic-2022";
    /// `cubic-2022`, except that it responds to losses of packets that were in flight when slow start ended.
    #[cfg(feature = "research")]
    Cubic2022Strict(cubic::CubicLike<cubic::Study2022Strict>) = "cubic-2022-strict";
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    Bbr(bbr::Bbr) = "bbr" in mod bbr;
    /// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), for comparison. After losses it sends for
    /// one round trip only as many bytes as are delivered.
    #[cfg(feature = "research")]
    Bbr1(bbr1::Bbr1<bbr1::Conserving>) = "bbr1" in mod bbr1;
    /// `bbr1` that does not respond to losses unless congestion is persistent.
    #[cfg(feature = "research")]
    Bbr1Blind(bbr1::Bbr1<bbr1::Blind>) = "bbr1-blind";
    /// `bbr1` that also detects token-bucket policers, as the senders of Linux and of the 2022 study do.
    #[cfg(feature = "research")]
    Bbr1Policed(bbr1::Bbr1<bbr1::Policed>) = "bbr1-policed";
    /// LIA (RFC 6356): coupled. All paths together grow like one NewReno flow on the best path.
    Lia(aimd::Aimd<lia::Lia>) = "lia" in mod lia;
    /// OLIA (draft-khalili-mptcp-congestion-control): coupled. Moves traffic to the better paths.
    Olia(aimd::Aimd<olia::Olia>) = "olia" in mod olia;
    /// BALIA (draft-walid-mptcp-congestion-control): coupled. A compromise between LIA and OLIA.
    Balia(aimd::Aimd<balia::Balia>) = "balia" in mod balia;
}

impl Controller for Congestion {
    fn is_coupled(&self) -> bool {
        dispatch!(self, controller => controller.is_coupled())
    }

    fn on_sent(&mut self, packet: &Departure) {
        dispatch!(self, controller => controller.on_sent(packet));
    }

    fn on_acked(&mut self, ack: &Acked<'_>, siblings: &[Sibling]) {
        dispatch!(self, controller => controller.on_acked(ack, siblings));
    }

    fn on_lost(&mut self, packet: &LostPacket) {
        dispatch!(self, controller => controller.on_lost(packet));
    }

    fn on_short_queue(&mut self, now: Time) {
        dispatch!(self, controller => controller.on_short_queue(now));
    }

    fn on_congestion(&mut self, event: &Congested, siblings: &[Sibling]) {
        dispatch!(self, controller => controller.on_congestion(event, siblings));
    }

    fn on_spurious(&mut self, now: Time) {
        dispatch!(self, controller => controller.on_spurious(now));
    }

    fn on_persistent_congestion(&mut self, now: Time, mtu: u64) {
        dispatch!(self, controller => controller.on_persistent_congestion(now, mtu));
    }

    fn window(&self) -> u64 {
        dispatch!(self, controller => controller.window())
    }

    fn pacing_rate(&self) -> Option<u64> {
        dispatch!(self, controller => controller.pacing_rate())
    }

    fn ssthresh(&self) -> Option<u64> {
        dispatch!(self, controller => controller.ssthresh())
    }

    fn state(&self) -> State {
        dispatch!(self, controller => controller.state())
    }
}

/// Default controller; `docs/congestion.md` gives the reasons.
impl Default for Algorithm {
    fn default() -> Self {
        Self::Bbr
    }
}

/// Error: no controller has this name. [`Algorithm::NAMES`] lists the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown congestion controller; there are {}", Algorithm::NAMES.join(", "))
    }
}

impl std::error::Error for UnknownAlgorithm {}
