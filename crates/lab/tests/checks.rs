//! Tests that the checks of the scenarios' applications detect wrong data.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use core::time::Duration;

use anabranch_lab::app::exchange::{ConnectionPlan, ExchangeClient, ExchangeServer, Request, StreamPlan};
use anabranch_lab::app::{Application, Dial, DownloadClient, DownloadServer};
use anabranch_lab::link::LinkSpec;
use anabranch_lab::pair::{Pair, PairConfig};
use anabranch_lab::sim::{Outcome, Simulation};
use anabranch_lab::tls::SERVER_NAME;
use anabranch_transport::{Endpoint, Event, Handle};
use anabranch_wire::{Dir, Time};

const HOUR: Time = Time::from_millis(3_600_000);

fn config() -> PairConfig {
    PairConfig::new(1, [LinkSpec::unlimited(Duration::from_millis(10))])
}

/// Returns the faults that a client records if its server speaks another protocol.
fn client_faults(request: Request) -> Vec<String> {
    let streams = vec![StreamPlan { dir: Dir::Bi, request, reset: None, stop: None }];
    let plan = ConnectionPlan { streams, ..ConnectionPlan::default() };
    let client = |sim: &Simulation, client, tuple| {
        ExchangeClient::new(client, tuple, SERVER_NAME, [plan], sim.rng("client"))
    };
    let mut pair = Pair::new(&config(), client, DownloadServer::default(), |_| ()).unwrap();
    pair.sim.run(HOUR, |_| false);
    pair.sim.application::<ExchangeClient>(pair.client).faults.clone()
}

#[test]
fn a_client_notices_wrong_bytes_and_wrong_lengths() {
    // The server of the wrong application reads the request's first field, the key, as a number of zeros to
    // send.
    let faults = client_faults(Request { key: 100, download: 100, ..Request::default() });
    assert!(faults.iter().any(|fault| fault.contains("differs")), "{faults:?}");
    let faults = client_faults(Request { key: 0, download: 100, ..Request::default() });
    assert!(faults.iter().any(|fault| fault.contains("Complete at 0")), "{faults:?}");
    // If the server responds but never pushes as announced, the client is never done.
    let faults = client_faults(Request { key: 0, push: Some(5), ..Request::default() });
    assert!(faults.iter().any(|fault| fault.contains("1 pushes to come")), "{faults:?}");
}

#[test]
fn a_server_notices_a_request_that_is_none() {
    let client = |_: &Simulation, client, tuple| DownloadClient::new(Dial::new(client, tuple), &[100]);
    let server = ExchangeServer::new(config().seed.rng("server"));
    let mut pair = Pair::new(&config(), client, server, |_| ()).unwrap();
    pair.sim.run(HOUR, |_| false);
    let faults = &pair.sim.application::<ExchangeServer>(pair.server).faults;
    assert!(faults.iter().any(|fault| fault.contains("before the request was complete")), "{faults:?}");
}

/// Application that repeatedly asks to be woken at the same instant.
struct Restless;

impl Application for Restless {
    fn on_event(&mut self, _now: Time, _endpoint: &mut Endpoint, _handle: Handle, _event: Event) {}

    fn next_time(&self) -> Option<Time> {
        Some(Time::from_millis(1))
    }
}

#[test]
fn a_host_that_does_not_let_time_pass_is_found_out() {
    let mut pair = Pair::new(&config(), |_, _, _| Restless, DownloadServer::default(), |_| ()).unwrap();
    assert_eq!(pair.sim.run(HOUR, |_| false), Outcome::Spinning(pair.client));
}
