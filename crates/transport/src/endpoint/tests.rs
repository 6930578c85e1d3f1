use std::time::Duration;

use anabranch_wire::VarInt;

use super::testing::*;
use super::*;
use crate::config::RetryPolicy;
use crate::error::ConnectionError;
use crate::testing::{Flying, deliver, drain};

/// Two endpoints with any number of connections, and a network without delay.
struct Many {
    now: Time,
    client: Endpoint,
    server: Endpoint,
    client_config: ClientConfig,
    events: Vec<(bool, Handle, Event)>,
}

impl Many {
    fn new(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let (mut server_config, client_config) = configs();
        change(&mut server_config);
        let mut server = Endpoint::new(&endpoint_config(1), Some(Arc::new(server_config)));
        server.set_auto_accept(true);
        let client = Endpoint::new(&endpoint_config(2), None);
        Self { now: Time::from_millis(1000), client, server, client_config, events: Vec::new() }
    }

    fn connect(&mut self, n: u32) -> Handle {
        let tuple = FourTuple { local: client(n), remote: SERVER };
        self.client.connect(self.now, &self.client_config, tuple, "server.test").unwrap()
    }

    /// Delivers datagrams without delay until neither endpoint sends more. Returns their number.
    fn exchange(&mut self) -> usize {
        let mut total = 0;
        loop {
            let to_server = drain(&mut self.client, self.now);
            let mut count = to_server.len();
            deliver(&mut self.server, self.now, to_server, usize::MAX);
            let to_client = drain(&mut self.server, self.now);
            count += to_client.len();
            deliver(&mut self.client, self.now, to_client, usize::MAX);
            for (is_server, endpoint) in [(false, &mut self.client), (true, &mut self.server)] {
                while let Some((handle, event)) = endpoint.poll_event() {
                    self.events.push((is_server, handle, event));
                }
            }
            total += count;
            if count == 0 {
                return total;
            }
        }
    }

    /// Advances to the next deadline unless it lies after `end`. Returns whether the time was advanced.
    fn advance(&mut self, end: Time) -> bool {
        let next = self.client.poll_timeout().into_iter().chain(self.server.poll_timeout()).min();
        let Some(next) = next.filter(|next| *next <= end) else { return false };
        self.now = self.now.max(next);
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        true
    }

    fn connected(&self, is_server: bool) -> usize {
        let connected = |event: &&(bool, Handle, Event)| {
            event.0 == is_server && matches!(event.2, Event::Connected { .. })
        };
        self.events.iter().filter(connected).count()
    }
}

#[test]
fn a_client_connects() {
    let mut pair = Many::new(|_| {});
    let handle = pair.connect(1);
    pair.exchange();
    assert_eq!((pair.connected(false), pair.connected(true)), (1, 1), "{:?}", pair.events);
    assert_eq!((pair.client.len(), pair.server.len()), (1, 1));
    assert_eq!(pair.server.router().waiting(), 0);
    assert!(pair.client.connection(handle).is_some());
    assert!(pair.client.connection(Handle(7)).is_none());
}

#[test]
fn a_client_connects_through_a_retry() {
    let mut pair = Many::new(|config| config.retry = RetryPolicy::Always);
    pair.connect(1);
    pair.exchange();
    assert_eq!((pair.connected(false), pair.connected(true)), (1, 1), "{:?}", pair.events);
}

#[test]
fn many_connections_share_an_endpoint_and_leave_nothing() {
    let mut pair = Many::new(|_| {});
    let handles: Vec<_> = (0..20).map(|n| pair.connect(n)).collect();
    pair.exchange();
    assert_eq!((pair.connected(false), pair.connected(true)), (20, 20));
    for handle in handles {
        let now = pair.now;
        pair.client.connection(handle).unwrap().close(now, VarInt::from_u32(5), b"done".as_slice().into());
    }
    pair.exchange();
    let closed = pair.events.iter().filter(|(is_server, _, event)| {
        *is_server
            && matches!(
                event,
                Event::Closed(ConnectionError::PeerApplication { code, .. }) if *code == 5
            )
    });
    assert_eq!(closed.count(), 20);
    let end = pair.now + Duration::from_secs(30);
    while pair.advance(end) {
        pair.exchange();
    }
    assert!(pair.client.is_empty() && pair.server.is_empty());
    assert!(pair.client.timers.is_empty() && pair.server.timers.is_empty());
    assert_eq!((pair.client.poll_timeout(), pair.server.poll_timeout()), (None, None));
    let handle = pair.connect(1);
    assert!(handle.0 < 20, "places are used again");
    pair.exchange();
    assert_eq!(pair.connected(false), 21);
}

#[test]
fn the_application_decides_about_incoming_connections() {
    let mut pair = Many::new(|_| {});
    pair.server.set_auto_accept(false);
    for n in 0..4 {
        pair.connect(n);
    }
    let first_flights = drain(&mut pair.client, pair.now);
    deliver(&mut pair.server, pair.now, first_flights, usize::MAX);
    let incoming: [Incoming; 4] = core::array::from_fn(|_| pair.server.poll_incoming().unwrap());
    assert!(pair.server.poll_incoming().is_none());
    let [accepted, refused, retried, ignored] = incoming;
    let addresses = [&accepted, &refused, &retried, &ignored].map(Incoming::remote_address);
    assert_eq!(addresses, [client(0), client(1), client(2), client(3)]);
    let handle = pair.server.accept(pair.now, accepted, None).unwrap();
    pair.server.refuse(pair.now, refused);
    pair.server.retry(pair.now, retried).unwrap();
    pair.server.ignore(ignored);
    assert!(pair.server.connection(handle).is_some());
    pair.exchange();
    assert_eq!((pair.connected(false), pair.connected(true)), (1, 1));
    let refusals = pair.events.iter().filter(|(is_server, _, event)| {
        !is_server
            && matches!(event, Event::Closed(ConnectionError::PeerTransport(error))
                if error.code == anabranch_wire::TransportErrorCode::CONNECTION_REFUSED)
    });
    assert_eq!(refusals.count(), 1, "{:?}", pair.events);
    let again = pair.server.poll_incoming().unwrap();
    assert!(again.address_validated());
    let again = pair.server.retry(pair.now, again).unwrap_err();
    pair.server.ignore(again);
    assert_eq!(pair.server.len(), 1);
}

#[test]
fn a_server_that_stopped_accepting_says_nothing_to_new_clients() {
    let mut pair = Many::new(|_| {});
    pair.connect(1);
    pair.exchange();
    pair.server.set_server(None);
    pair.connect(2);
    pair.exchange();
    assert_eq!((pair.connected(false), pair.server.len()), (1, 1));
}

#[test]
fn a_server_that_forgot_its_connections_resets_them() {
    let mut pair = Many::new(|_| {});
    let handle = pair.connect(1);
    pair.exchange();
    // The new endpoint has the same keys but no connections.
    pair.server = Endpoint::new(&endpoint_config(1), None);
    let now = pair.now;
    let streams = pair.client.connection(handle).unwrap().streams();
    let stream = streams.open(anabranch_wire::Dir::Bi).unwrap();
    streams.write(stream, b"still there?").unwrap();
    assert!(pair.exchange() >= 2);
    assert_eq!(pair.now, now);
    assert_eq!(pair.events.last(), Some(&(false, handle, Event::Closed(ConnectionError::Reset))));
}

#[test]
fn addresses_that_cannot_be_sent_to() {
    let mut pair = Many::new(|_| {});
    for remote in ["10.0.0.1:0", "0.0.0.0:443", "[::]:443"] {
        let tuple = FourTuple { local: client(1), remote: remote.parse().unwrap() };
        let result = pair.client.connect(pair.now, &pair.client_config, tuple, "server.test");
        assert!(matches!(result, Err(ConnectError::InvalidRemoteAddress(_))), "{remote}");
    }
    let tuple = FourTuple { local: client(1), remote: SERVER };
    let result = pair.client.connect(pair.now, &pair.client_config, tuple, "not a name");
    assert!(result.is_err());
    assert!(pair.client.is_empty(), "a failed attempt leaves nothing");
}

#[test]
fn answers_without_a_connection_are_bounded() {
    let mut endpoint =
        Endpoint::new(&endpoint_config(1), server_with(|config| config.retry = RetryPolicy::Always));
    let now = Time::from_millis(1000);
    let initial = initial(anabranch_wire::Version::V1, &cid(1), &[], 1200);
    let from = |n| Flying { at: now, tuple: tuple(n), ecn: None, bytes: initial.clone() };
    deliver(&mut endpoint, now, (0..MAX_RESPONSES as u32 + 100).map(from).collect(), usize::MAX);
    assert_eq!(drain(&mut endpoint, now).len(), MAX_RESPONSES);
}

#[test]
fn timers_follow_their_connections() {
    let mut pair = Many::new(|_| {});
    pair.connect(1);
    let before = pair.client.poll_timeout();
    drain(&mut pair.client, pair.now);
    assert!(pair.client.poll_timeout().is_some());
    assert_eq!(pair.client.timers.len(), 1);
    // The datagrams sent are lost. The probe timeout sends their frames again.
    let at = pair.client.poll_timeout().unwrap();
    assert!(at > pair.now && before.is_some());
    pair.now = at;
    pair.client.handle_timeout(at);
    pair.exchange();
    assert_eq!(pair.connected(true), 1);
}
