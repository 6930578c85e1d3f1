//! Messages of flows over several paths: their delay beside other traffic, their order, and copies.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use core::time::Duration;

use anabranch_lab::app::{Application, Dial, PathOpener};
use anabranch_lab::link::LinkSpec;
use anabranch_lab::pair::{Pair, PairConfig};
use anabranch_lab::sim::Simulation;
use anabranch_lab::transfer::further_tuple;
use anabranch_transport::datagram::Terms;
use anabranch_transport::{Connection, Endpoint, Event, Handle, MultipathConfig};
use anabranch_wire::{Dir, StreamId, Time};
use bytes::Bytes;

/// Time at which flows begin, after congestion windows have grown.
const BEGIN: Time = Time::from_millis(3_000);
/// Time at which the flows end.
const END: Time = Time::from_millis(13_000);

/// Time at which early flows begin.
const EARLY: Time = Time::from_millis(500);

/// Length of a call's messages, in bytes. The server sends them back.
const CALL: usize = 160;

/// Flow of messages at a constant rate.
#[derive(Clone, Copy, Debug)]
struct Flow {
    terms: Terms,
    /// Length of each message, in bytes.
    len: usize,
    every: Duration,
    next: Time,
    /// Number of messages sent so far.
    sent: u64,
}

impl Flow {
    fn new(terms: Terms, len: usize, every: Duration) -> Self {
        Self { terms, len, every, next: BEGIN, sent: 0 }
    }

    /// Returns the flow, which then begins at [`EARLY`].
    fn early(self) -> Self {
        Self { next: EARLY, ..self }
    }

    /// Returns a flow of 64 kbit/s, like that of a call.
    fn call(terms: Terms) -> Self {
        Self::new(terms.with_flow(0), CALL, Duration::from_millis(20))
    }
}

/// Round-trip times.
#[derive(Clone, Debug, Default)]
struct Echoes(Vec<Duration>);

/// Client that sends the messages of flows and, if `uploads` is set, zeros on a stream.
struct Client {
    /// Round-trip times of the first flow's messages.
    echoes: Echoes,
    dial: Dial,
    uploads: bool,
    stream: Option<StreamId>,
    flows: Vec<Flow>,
    zeros: Bytes,
}

impl Client {
    fn upload(&mut self, connection: &mut Connection) {
        if !self.uploads {
            return;
        }
        let streams = connection.streams();
        if self.stream.is_none() {
            self.stream = streams.open(Dir::Uni);
        }
        let Some(id) = self.stream else { return };
        while streams.write_bytes(id, &mut self.zeros.clone()).is_ok() {}
    }

    fn send(&mut self, now: Time, connection: &mut Connection) {
        for (name, flow) in (0..).zip(&mut self.flows) {
            while flow.next <= now && flow.next < END {
                let mut message = vec![0; flow.len];
                message[0] = name;
                message[1..9].copy_from_slice(&flow.sent.to_be_bytes());
                message[9..17].copy_from_slice(&now.as_nanos().to_be_bytes());
                // A message is lost if the queue is full.
                let _ = connection.datagrams().send_with(now, message.into(), &flow.terms);
                flow.sent += 1;
                flow.next += flow.every;
            }
        }
    }
}

impl Application for Client {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.dial.start(now, endpoint).unwrap();
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        if matches!(event, Event::Connected { .. } | Event::Stream(_)) {
            self.upload(endpoint.connection(handle).unwrap());
        }
        if matches!(event, Event::DatagramReceived) {
            while let Some(echo) = endpoint.connection(handle).unwrap().datagrams().recv() {
                let sent = u64::from_be_bytes(echo[9..17].try_into().unwrap());
                self.echoes.0.push(now - Time::from_nanos(sent));
            }
        }
        self.dial.on_time(now, endpoint);
    }

    fn next_time(&self) -> Option<Time> {
        let flows = self.flows.iter().map(|flow| flow.next).filter(|next| *next < END).min();
        [self.dial.next_time(), flows].into_iter().flatten().min()
    }

    fn on_time(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.dial.on_time(now, endpoint);
        let handle = self.dial.handle().unwrap();
        self.send(now, endpoint.connection(handle).unwrap());
    }
}

/// A message that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    number: u64,
    delay: Duration,
}

/// Server that reads all messages and stream data, and sends a call's messages back.
#[derive(Default)]
struct Server {
    /// Messages of each flow that arrived, in the order of arrival.
    arrived: Vec<Vec<Arrived>>,
    /// Number of stream bytes that arrived.
    uploaded: usize,
}

impl Application for Server {
    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, _: Event) {
        let connection = endpoint.connection(handle).unwrap();
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            assert_eq!(id.index(), 0);
        }
        let id = StreamId::new(anabranch_wire::Side::Client, Dir::Uni, 0);
        while let Ok(data) = connection.streams().take(id, usize::MAX) {
            self.uploaded += data.len();
        }
        while let Some(message) = connection.datagrams().recv() {
            let number = |at: usize| u64::from_be_bytes(message[at..at + 8].try_into().unwrap());
            let flow = usize::from(message[0]);
            self.arrived.resize(self.arrived.len().max(flow + 1), Vec::new());
            let delay = now - Time::from_nanos(number(9));
            self.arrived[flow].push(Arrived { number: number(1), delay });
            if flow == 0 && message.len() == CALL {
                connection.datagrams().send_with(now, message, &Terms::default().with_flow(0)).unwrap();
            }
        }
    }
}

/// Results of a run.
struct Ran {
    /// Messages of each flow that arrived, in the order of arrival.
    arrived: Vec<Vec<Arrived>>,
    echoes: Echoes,
    /// Number of messages that expired at the client.
    expired: u64,
    /// Number of stream bytes that arrived.
    uploaded: usize,
}

/// Runs the flows over these links.
fn run(seed: u64, links: &[LinkSpec], uploads: bool, flows: &[Flow]) -> Ran {
    let mut config = PairConfig::new(seed, links.to_vec());
    config.client = config.client.with_multipath(MultipathConfig::default());
    config.server = config.server.with_multipath(MultipathConfig::default());
    config.client = config.client.with_datagram_send_buffer(4 << 20);
    let others = (1..links.len()).map(|link| further_tuple(link as u8));
    let client = |_: &Simulation, client, tuple| Client {
        echoes: Echoes::default(),
        dial: Dial::new(client, tuple).with_paths(PathOpener::new(others)),
        uploads,
        stream: None,
        flows: flows.to_vec(),
        zeros: vec![0; 65_536].into(),
    };
    let mut pair = Pair::new(&config, client, Server::default(), |_| ()).unwrap();
    pair.sim.run(END + Duration::from_secs(1), |_| false);
    let mut ran = Ran { arrived: Vec::new(), echoes: Echoes::default(), expired: 0, uploaded: 0 };
    pair.sim.with_node(pair.client, |client: &mut Client, _, endpoint| {
        let handle = client.dial.handle().unwrap();
        ran.expired = endpoint.connection(handle).unwrap().datagrams().expired();
        ran.echoes = client.echoes.clone();
    });
    let server = pair.sim.application::<Server>(pair.server);
    ran.arrived.clone_from(&server.arrived);
    ran.uploaded = server.uploaded;
    ran
}

fn percentile(delays: impl IntoIterator<Item = Duration>, share: f64) -> Duration {
    let mut delays: Vec<_> = delays.into_iter().collect();
    delays.sort();
    delays[((delays.len() - 1) as f64 * share) as usize]
}

/// Returns the number of messages that arrived after a later one of their flow.
fn overtaken(arrived: &[Arrived]) -> usize {
    let mut largest = 0;
    let is_late = |message: &&Arrived| {
        let late = message.number < largest;
        largest = largest.max(message.number);
        late
    };
    arrived.iter().filter(is_late).count()
}

fn pairs() -> [(&'static str, Vec<LinkSpec>); 3] {
    let link = |mbps: u64, rtt| LinkSpec::new(mbps * 1_000_000, Duration::from_millis(rtt));
    [
        ("equal", vec![link(20, 50), link(20, 50)]),
        ("unequal", vec![link(30, 20), link(8, 60)]),
        ("one", vec![link(20, 50)]),
    ]
}

/// Checks that 99 % of a call's round trips beside other traffic are shorter than 1.5 times those of the call
/// alone.
fn check_call(name: &str, alone: &Ran, beside: &Ran) {
    let [idle, busy] = [alone, beside].map(|ran| percentile(ran.echoes.0.iter().copied(), 0.99));
    let count = beside.echoes.0.len();
    println!("{name}: 99 % of the call's {count} round trips within {busy:.1?}, {idle:.1?} alone");
    assert_eq!(alone.echoes.0.len(), 500, "{name}");
    assert!(count >= 495, "{name}: {count} of 500");
    assert!(busy < idle * 3 / 2, "{name}: {busy:?}, {idle:?} alone");
}

#[test]
fn a_call_beside_an_upload_is_hardly_later_than_alone() {
    for (name, links) in pairs() {
        let call = [Flow::call(Terms::default())];
        check_call(name, &run(1, &links, false, &call), &run(1, &links, true, &call));
    }
}

#[test]
fn a_call_beside_a_flood_of_messages_is_hardly_later_than_alone() {
    for (name, links) in pairs() {
        // 60 Mbit/s, which is at least 1.5 times as much as the links carry.
        let flood = Terms::default().with_flow(1).with_lifetime(Duration::from_millis(250));
        let flood = Flow::new(flood, 1_100, Duration::from_micros(146)).early();
        let flows = [Flow::call(Terms::default()), flood];
        check_call(name, &run(1, &links, false, &flows[..1]), &run(1, &links, false, &flows));
    }
}

#[test]
fn a_flood_of_messages_leaves_room_for_an_upload() {
    for (name, links) in pairs() {
        let flood = Terms::default().with_flow(1).with_lifetime(Duration::from_millis(250));
        let flood = Flow::new(flood, 1_100, Duration::from_micros(146)).early();
        let [alone, beside] = [&[][..], &[flood][..]].map(|flows| run(1, &links, true, flows).uploaded);
        println!("{name}: {beside} bytes of the upload arrived beside a flood, {alone} alone");
        assert!(beside > alone / 4, "{name}: {beside} of {alone}");
    }
}

#[test]
fn a_flow_keeps_to_the_faster_path_and_spills_when_it_is_full() {
    let [_, (_, links), _] = pairs();
    // Mbit/s with headers: 22 and 33, where the faster path carries 30 and the other one 8.
    for (every, may_spill) in [(420, false), (285, true)] {
        let flow = Terms::default().with_flow(0);
        let flow = Flow::new(flow, 1_100, Duration::from_micros(every)).early();
        let ran = run(1, &links, false, &[flow]);
        let begun = ((BEGIN - EARLY).as_micros() / u128::from(every)) as u64;
        let arrived: Vec<_> =
            ran.arrived[0].iter().copied().filter(|message| message.number >= begun).collect();
        let [middle, most] =
            [0.5, 0.99].map(|share| percentile(arrived.iter().map(|message| message.delay), share));
        let (late, sent) = (overtaken(&arrived), 10_000_000 / every);
        println!(
            "{} of {sent} arrived, {late} were overtaken, 50 % within {middle:.1?}, 99 % {most:.1?}",
            arrived.len()
        );
        assert!(arrived.len() as u64 >= sent * 99 / 100);
        assert!(middle < Duration::from_millis(if may_spill { 40 } else { 15 }), "{middle:?}");
        assert!(may_spill || late * 20 < arrived.len(), "{late}");
    }
}

#[test]
fn a_flow_at_nearly_the_sum_of_both_rates_loses_nothing_once_it_has_found_them() {
    let link = |mbps: u64, rtt| LinkSpec::new(mbps * 1_000_000, Duration::from_millis(rtt));
    let links = [link(300, 20), link(80, 60)];
    // 350 Mbit/s, with headers 97 % of what the links carry.
    let every = Duration::from_nanos(25_143);
    let flow = Terms::default().with_flow(0).with_lifetime(Duration::from_millis(250));
    let ran = run(1, &links, false, &[Flow::new(flow, 1_100, every).early()]);
    let number = |time: Time| ((time - EARLY).as_nanos() / every.as_nanos()) as u64;
    let (begun, sent) = (number(BEGIN), number(END) - number(BEGIN));
    let arrived: Vec<_> = ran.arrived[0].iter().copied().filter(|message| message.number >= begun).collect();
    let lost = 100.0 * (1.0 - arrived.len() as f64 / sent as f64);
    let mut jitter = 0.0;
    let mut sum = 0.0;
    for pair in arrived.windows(2) {
        // RFC 3550 §6.4.1.
        let change = (pair[1].delay.as_secs_f64() - pair[0].delay.as_secs_f64()).abs();
        jitter += (change - jitter) / 16.0;
        sum += jitter;
    }
    let jitter = 1e3 * sum / arrived.len() as f64;
    let delays = [0.5, 0.99].map(|share| percentile(arrived.iter().map(|message| message.delay), share));
    println!(
        "{lost:.4} % of {sent} lost, jitter {jitter:.2} ms, 50 % within {:.1?}, 99 % {:.1?}",
        delays[0], delays[1]
    );
    assert!(lost <= 0.01, "{lost} % of {sent} were lost");
    assert!(jitter <= 2.0, "{jitter} ms");
}

#[test]
fn copies_survive_the_loss_of_a_path() {
    let link = |window| {
        let link = LinkSpec::new(20_000_000, Duration::from_millis(30)).loss(0.05);
        link.blackout(window)
    };
    let millis = Time::from_millis;
    let links = [link(millis(5_000)..millis(6_000)), link(millis(8_000)..millis(9_000))];
    let single = run(3, &links, false, &[Flow::call(Terms::default())]);
    let copied = run(3, &links, false, &[Flow::call(Terms::default().with_copy())]);
    let numbers = |arrived: &[Arrived]| {
        let mut numbers: Vec<_> = arrived.iter().map(|message| message.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    };
    let counts = [&single, &copied].map(|ran| (ran.arrived[0].len(), numbers(&ran.arrived[0])));
    println!("{counts:?} of 500 arrived, {} copies found no path in time", copied.expired);
    assert_eq!(counts[0].0, counts[0].1, "nothing arrives twice");
    assert!(counts[1].1 >= counts[0].1 + 10 && counts[1].0 > counts[1].1, "{counts:?}");
}
