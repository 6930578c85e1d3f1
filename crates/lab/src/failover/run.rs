//! Running a kill schedule. A first run determines the time at which the path may die; a second run has the
//! kill in the link.

use core::ops::Range;
use core::time::Duration;

use anabranch_transport::TransportConfig;
use anabranch_wire::{PathId, Time};

use super::app::{Arrivals, Client, Order, Server};
use super::{Class, Dead, KillSchedule};
use crate::app::{Dial, PathOpener};
use crate::link::Blackout;
use crate::pair::{Pair, PairConfig};
use crate::sim::Simulation;
use crate::transfer::{Meter, PathTotals, further_tuple};

/// Time by which all paths must have round-trip samples.
const PATHS_BY: Time = Time::from_millis(10_000);
/// Maximum time from the kill until all data has arrived.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum time from the kill to the beginning of a wait that the kill is taken to have caused.
const WINDOW: Duration = Duration::from_secs(1);
/// Timer granularity (kGranularity, RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

/// Outcome of a [`KillSchedule`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The schedule's seed.
    pub seed: u64,
    /// Time at which the path died.
    pub killed: Time,
    /// Longest wait for new in-order bytes among those that the kill may have caused. Such a wait ends after
    /// the kill and begins at most one second after it.
    pub gap: Duration,
    /// Time at which that wait began.
    pub gap_began: Time,
    /// The dead path's PTO at the kill, at the end that sends data.
    pub pto: Duration,
    /// Minimum smoothed round-trip time of the other paths at the kill, at the same end; zero if the end has
    /// no sample yet.
    pub other_rtt: Duration,
    /// Minimum round-trip time of the other paths. For each path it is the sender's estimate, but at least
    /// the round trip over the empty link.
    pub round_trip: Duration,
    /// Bytes that never arrived.
    pub lost_bytes: u64,
    /// Bytes that were delivered twice or with wrong content.
    pub wrong_bytes: u64,
    /// Error that ended the transfer or the connection.
    pub failure: Option<String>,
    /// Hash of the network's trace, which is equal for equal runs.
    pub trace: u64,
}

impl Outcome {
    /// Returns the limit that the gap should not exceed: the dead path's PTO plus one round trip of another
    /// path, which is at least that of its empty link.
    pub fn limit(&self) -> Duration {
        self.pto + self.round_trip
    }

    /// Returns the limit with the sender's own estimate of the other paths' round-trip time. The estimate is
    /// zero before the first sample. It is too short if acknowledgments return on a shorter path: then no
    /// response can arrive within the limit.
    pub fn limit_as_known(&self) -> Duration {
        self.pto + self.other_rtt
    }
}

pub(super) fn run(
    schedule: &KillSchedule,
    transport: &TransportConfig,
    watch: bool,
) -> Result<Outcome, String> {
    // Both runs are identical until the kill, because they have the same seed.
    let killed = Stage::new(schedule, transport, None, false)?.sampled(schedule)? + schedule.after;
    let until = schedule.lasts.map_or(Time::from_nanos(u64::MAX), |lasts| killed + lasts);
    let mut stage = Stage::new(schedule, transport, Some(killed..until), watch)?;
    stage.sampled(schedule)?;
    stage.pair.sim.run(killed, |_| false);
    let Expectation { pto, other_rtt, round_trip } = stage.expectation(schedule, transport)?;
    let mut began = killed;
    if schedule.class == Class::Idle {
        began = killed + schedule.request_after;
        stage.pair.sim.run(began, |_| false);
        stage.pair.sim.with_node(stage.pair.client, Client::begin);
    }
    stage.finish(schedule, killed);
    let arrivals = stage.arrivals(schedule).clone();
    let failure = stage.client().failure.clone().or_else(|| stage.server().failure.clone());
    let (gap, gap_began) = longest_wait(&arrivals, killed, began, stage.pair.sim.now(), schedule.bytes);
    Ok(Outcome {
        seed: schedule.seed,
        killed,
        gap,
        gap_began,
        pto,
        other_rtt,
        round_trip,
        lost_bytes: schedule.bytes.saturating_sub(arrivals.good),
        wrong_bytes: arrivals.bad,
        failure,
        trace: stage.pair.sim.network().trace().hash(),
    })
}

/// Returns the longest wait between arrivals, and the time at which it began. Only waits that end after the
/// kill and begin at most [`WINDOW`] after it count. `began` is the time of the first request after the kill,
/// or the kill itself. Missing bytes count as awaited until `now`.
fn longest_wait(arrivals: &Arrivals, killed: Time, began: Time, now: Time, bytes: u64) -> (Duration, Time) {
    let missing = (arrivals.good < bytes).then_some(now);
    let before = arrivals.times.iter().rfind(|at| **at <= killed).copied().unwrap_or(began);
    let after = arrivals.times.iter().copied().filter(|at| *at > killed).chain(missing);
    let mut last = before;
    let mut longest = (Duration::ZERO, killed);
    for at in after {
        if last <= killed + WINDOW {
            longest = longest.max((at.saturating_since(last), last));
        }
        last = at;
    }
    longest
}

/// Terms of a limit, as in the fields of [`Outcome`].
struct Expectation {
    pto: Duration,
    other_rtt: Duration,
    round_trip: Duration,
}

struct Stage {
    pair: Pair,
    meters: [Meter; 2],
}

impl Stage {
    fn new(
        schedule: &KillSchedule,
        transport: &TransportConfig,
        dead: Option<Range<Time>>,
        watch: bool,
    ) -> Result<Self, String> {
        let mut links = schedule.links();
        if let (Some(window), Some(link)) = (dead, links.get_mut(schedule.victim)) {
            let blackout = Blackout::new([window]);
            *link = match schedule.dead {
                Dead::Both => link.clone().both(blackout),
                Dead::ToServer => link.clone().there(blackout),
                Dead::ToClient => link.clone().back(blackout),
            };
        }
        let multipath = transport.multipath().cloned().unwrap_or_default();
        let transport = transport.clone().with_multipath(multipath);
        let paths = PathOpener::new((1..links.len()).map(|link| further_tuple(link as u8)));
        let config = PairConfig {
            client: transport.clone(),
            server: transport,
            ..PairConfig::new(schedule.seed, links)
        };
        let order = Order { upload: schedule.upload, key: schedule.seed, bytes: schedule.bytes };
        let client = |sim: &Simulation, config, tuple| {
            let dial = Dial::new(config, tuple).with_paths(paths);
            Client::new(dial, sim.rng("client reads"), order, schedule.class != Class::Idle)
        };
        let server = Server::new(config.seed.rng("server reads"));
        let mut pair = Pair::new(&config, client, server, |_| ()).map_err(|error| error.to_string())?;
        let meters = [Meter::default(), Meter::default()];
        for (host, meter) in [pair.client, pair.server].into_iter().zip(&meters) {
            if watch {
                pair.sim.watch(host);
            }
            let meter = meter.clone();
            pair.sim.observe(host, move |_| Box::new(meter.clone()));
        }
        Ok(Self { pair, meters })
    }

    /// Runs until both ends have a round-trip sample of the path that will die.
    fn sampled(&mut self, schedule: &KillSchedule) -> Result<Time, String> {
        let id = PathId(schedule.victim as u32);
        let has =
            |meter: &Meter| meter.look(|totals| totals.paths.get(&id).is_some_and(|path| path.rtt.is_some()));
        let meters = self.meters.clone();
        self.pair.sim.run(PATHS_BY, |_| meters.iter().all(has));
        if !meters.iter().all(has) {
            let refused = self.client().dial.paths.refused;
            return Err(format!("path {} was not used: {refused:?}, {:?}", id.0, self.client().failure));
        }
        Ok(self.pair.sim.now())
    }

    /// Returns the terms of the limit at the sender: the dead path's PTO, and the lowest smoothed round-trip
    /// time of the other paths. The last term is the lowest of these times if each is raised to at least the
    /// round trip over the empty link. In [`Class::Idle`] the request makes the other end a sender, too, so
    /// the longer PTO of both ends counts.
    fn expectation(
        &self,
        schedule: &KillSchedule,
        transport: &TransportConfig,
    ) -> Result<Expectation, String> {
        let sender = usize::from(!schedule.upload);
        let senders = if schedule.class == Class::Idle { vec![0, 1] } else { vec![sender] };
        let rtt = |(_, path): (&PathId, &PathTotals)| path.rtt;
        // RFC 9002 §6.2.1
        let pto = |end: &usize| {
            let totals = self.meters[*end].totals();
            let dead = totals.paths.iter().find(|(id, _)| id.0 as usize == schedule.victim).and_then(rtt)?;
            Some(dead.smoothed + (dead.variance * 4).max(GRANULARITY) + transport.ack().max_delay())
        };
        let pto = senders.iter().filter_map(pto).max().ok_or("the dead path had no round-trip sample")?;
        let totals = self.meters[sender].totals();
        let known = |other: usize| {
            let path = totals.paths.iter().find(|(id, _)| id.0 as usize == other);
            path.and_then(rtt).map(|rtt| rtt.smoothed)
        };
        let others = || (0..schedule.round_trips.len()).filter(|other| *other != schedule.victim);
        let other_rtt = others().filter_map(known).min().unwrap_or_default();
        let real = |other: usize| known(other).unwrap_or_default().max(schedule.round_trip(other));
        let round_trip = others().map(real).min().unwrap_or_default();
        Ok(Expectation { pto, other_rtt, round_trip })
    }

    fn finish(&mut self, schedule: &KillSchedule, killed: Time) {
        let (client, server) = (self.pair.client, self.pair.server);
        let upload = schedule.upload;
        self.pair.sim.run(killed + PATIENCE, |sim| {
            let (client, server) = (sim.application::<Client>(client), sim.application::<Server>(server));
            let arrivals = if upload { &server.arrivals } else { &client.arrivals };
            arrivals.good + arrivals.bad >= schedule.bytes
                || client.failure.is_some()
                || server.failure.is_some()
        });
        // The simulation runs on for a while, because retransmitted data must not be delivered again.
        let end = self.pair.sim.now() + WINDOW;
        self.pair.sim.run(end, |_| false);
    }

    fn client(&self) -> &Client {
        self.pair.sim.application(self.pair.client)
    }

    fn server(&self) -> &Server {
        self.pair.sim.application(self.pair.server)
    }

    fn arrivals(&self, schedule: &KillSchedule) -> &Arrivals {
        if schedule.upload { &self.server().arrivals } else { &self.client().arrivals }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_that_belong_to_the_kill_count() {
        let ms = Time::from_millis;
        let wait = |times: &[u64], good| {
            let times = times.iter().map(|at| ms(*at)).collect();
            longest_wait(&Arrivals { good, bad: 0, times }, ms(1000), ms(1000), ms(9000), 5)
        };
        let gap = |length, from| (Duration::from_millis(length), ms(from));
        // Waits before the kill do not count, and neither do waits that begin more than a second after it.
        assert_eq!(wait(&[0, 900, 990, 1050, 1060], 5), gap(60, 990));
        assert_eq!(wait(&[990, 1010, 1110, 1120], 5), gap(100, 1010));
        assert_eq!(wait(&[990, 1500, 2001, 4000], 5), gap(510, 990));
        assert_eq!(wait(&[990, 1500, 2000, 4000], 5), gap(2000, 2000));
        // A byte that never arrives is awaited until the end.
        assert_eq!(wait(&[990, 1010], 4), gap(7990, 1010));
        // No byte was requested before the kill.
        assert_eq!(wait(&[1070], 5), gap(70, 1000));
    }
}
