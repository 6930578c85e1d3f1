//! Downloads over a network with one particular fault.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use core::time::Duration;

use anabranch_lab::app::exchange::{ConnectionPlan, ExchangeClient, ExchangeServer, Request, StreamPlan};
use anabranch_lab::app::{Dial, DownloadClient, DownloadServer};
use anabranch_lab::link::{Blackout, Limit, LinkSpec, Loss, Lost, Queue, Rate, Reorder};
use anabranch_lab::pair::{CLIENT_PORT, Pair, PairConfig, client_ip, outside_ip};
use anabranch_lab::sim::{Outcome, Simulation};
use anabranch_lab::tls::SERVER_NAME;
use anabranch_transport::recovery::{Algorithm, Config};
use anabranch_transport::{Connection, Endpoint, EndpointConfig, Handle, RetryPolicy, ServerConfig};
use anabranch_wire::{Dir, Time, Version};

const HOUR: Time = Time::from_millis(3_600_000);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn download(config: &PairConfig, sizes: &[u64], adjust: impl FnOnce(&mut ServerConfig)) -> Pair {
    let client = |_: &Simulation, client, tuple| DownloadClient::new(Dial::new(client, tuple), sizes);
    Pair::new(config, client, DownloadServer::default(), adjust).unwrap()
}

/// Runs the download, which must succeed, and returns the time at which it completed.
fn finish(pair: &mut Pair) -> Time {
    let client = pair.client;
    let outcome = pair.sim.run(HOUR, |sim| sim.application::<DownloadClient>(client).is_done());
    let client = pair.sim.application::<DownloadClient>(client);
    assert_eq!((outcome, &client.failure), (Outcome::Done, &None));
    client.finished.unwrap()
}

fn with_server<T>(pair: &mut Pair, f: impl FnOnce(&mut Connection) -> T) -> T {
    pair.sim.with_endpoint(pair.server, |_, endpoint| f(endpoint.connection(Handle(0)).unwrap()))
}

#[test]
fn a_handshake_takes_one_round_trip_and_a_retry_one_more() {
    for (retry, round_trips) in [(RetryPolicy::Never, 1), (RetryPolicy::Always, 2)] {
        let config = PairConfig::new(1, [LinkSpec::unlimited(ms(100))]);
        let mut pair = download(&config, &[1000], |server| {
            *server = server.clone().with_retry(retry);
        });
        let finished = finish(&mut pair);
        let connected = pair.sim.application::<DownloadClient>(pair.client).connected;
        assert_eq!(connected, Some(at(100 * round_trips)));
        assert_eq!(finished, at(100 * (round_trips + 1)));
    }
}

#[test]
fn both_versions_carry_a_download_and_servers_upgrade() {
    let cases = [
        (Version::V1, Version::V1, Version::V1),
        (Version::V1, Version::V2, Version::V2),
        (Version::V2, Version::V1, Version::V1),
        (Version::V2, Version::V2, Version::V2),
    ];
    for (initial, preferred, expected) in cases {
        let mut config = PairConfig::new(1, [LinkSpec::unlimited(ms(10))]);
        config.initial_version = initial;
        let mut versions = config.server.versions().to_vec();
        versions.sort_by_key(|version| *version != preferred);
        config.server = config.server.with_versions(versions);
        let mut pair = download(&config, &[50_000], |_| ());
        finish(&mut pair);
        assert_eq!(
            with_server(&mut pair, |server| server.version()),
            expected,
            "{initial:?} to {preferred:?}"
        );
    }
}

#[test]
fn a_version_negotiation_takes_one_round_trip() {
    let mut config = PairConfig::new(1, [LinkSpec::unlimited(ms(100))]);
    config.initial_version = Version::V2;
    config.server = config.server.with_versions(vec![Version::V1]);
    let mut pair = download(&config, &[1000], |_| ());
    finish(&mut pair);
    assert_eq!(pair.sim.application::<DownloadClient>(pair.client).connected, Some(at(200)));
    assert_eq!(with_server(&mut pair, |server| server.version()), Version::V1);

    config.client = config.client.with_versions(vec![Version::V2]);
    let mut pair = download(&config, &[1000], |_| ());
    assert_eq!(pair.sim.run(HOUR, |_| false), Outcome::Quiet);
    let failure = pair.sim.application::<DownloadClient>(pair.client).failure.clone();
    assert_eq!(failure.as_deref(), Some("the peer speaks none of our QUIC versions"));
}

#[test]
fn a_server_that_lost_its_state_resets_the_connection() {
    let config = PairConfig::new(1, [LinkSpec::new(10_000_000, ms(30))]);
    let mut pair = download(&config, &[5_000_000], |_| ());
    assert_eq!(pair.sim.run(at(500), |_| false), Outcome::Deadline);
    // The new endpoint has the same keys as the old one, as after a restart.
    let restarted = EndpointConfig::new(config.seed.rng("server").bytes()).with_cid_len(8);
    pair.sim.with_endpoint(pair.server, |_, endpoint| *endpoint = Endpoint::new(&restarted, None));
    assert_eq!(pair.sim.run(HOUR, |_| false), Outcome::Quiet);
    assert!(pair.sim.now() < at(5_000), "{:?}", pair.sim.now());
    let failure = pair.sim.application::<DownloadClient>(pair.client).failure.clone();
    assert_eq!(failure.as_deref(), Some("reset by the peer, which no longer knows the connection"));
}

#[test]
fn early_data_saves_a_round_trip() {
    let request = Request { key: 1, download: 100, ..Request::default() };
    let plan = ConnectionPlan {
        streams: vec![StreamPlan { dir: Dir::Bi, request, reset: None, stop: None }],
        ..ConnectionPlan::default()
    };
    let config = PairConfig::new(1, [LinkSpec::unlimited(ms(100))]);
    let client = |sim: &Simulation, client, tuple| {
        ExchangeClient::new(client, tuple, SERVER_NAME, [plan.clone(), plan], sim.rng("client"))
    };
    let server = ExchangeServer::new(config.seed.rng("server"));
    let mut pair = Pair::new(&config, client, server, |_| ()).unwrap();
    let client = pair.client;
    let mut ends = Vec::new();
    for connections in [1, 2] {
        let outcome = pair.sim.run(HOUR, |sim| {
            let client = sim.application::<ExchangeClient>(client);
            client.connected == connections
                && (client.is_done() || client.received == 100 && connections == 1)
        });
        assert_eq!(outcome, Outcome::Done);
        ends.push(pair.sim.now());
    }
    let exchange = pair.sim.application::<ExchangeClient>(client);
    assert_eq!((exchange.early, &exchange.faults), (1, &Vec::new()));
    // The first connection takes one round trip for the handshake and one for the response. The second one
    // receives the response together with the end of the handshake.
    assert_eq!(ends[0], at(200));
    assert!(ends[1] - ends[0] < ms(200), "{ends:?}");
}

#[test]
fn a_server_never_sends_more_than_three_times_what_an_unvalidated_client_sent() {
    // All packets of the server are lost. The client therefore sends its own packets again, and the server
    // never validates the client's address.
    for seed in 0..20 {
        let spec = LinkSpec::unlimited(Duration::ZERO).back(Loss::new(1.0)).there(Loss::new(0.3));
        let config = PairConfig::new(seed, [spec]);
        let mut pair = download(&config, &[1000], |server| {
            *server = server.clone().with_retry(RetryPolicy::Never);
        });
        let link = pair.links[0];
        let mut most = 0.0f64;
        for step in 1.. {
            if pair.sim.run(at(step * 10), |_| false) == Outcome::Quiet {
                break;
            }
            let [there, back] = pair.sim.network().counters(link);
            if there.delivered_bytes > 0 {
                most = most.max(back.entered_bytes as f64 / there.delivered_bytes as f64);
            }
            assert!(back.entered_bytes <= 3 * there.delivered_bytes, "seed {seed}: {there:?} {back:?}");
        }
        assert!(most > 1.0, "seed {seed}: the server answered with {most} times as much only");
    }
}

#[test]
fn handshakes_survive_thirty_percent_loss() {
    let mut slowest = Time::ZERO;
    for seed in 0..50 {
        let config = PairConfig::new(seed, [LinkSpec::new(10_000_000, ms(30)).loss(0.3)]);
        let mut pair = download(&config, &[1000], |_| ());
        slowest = slowest.max(finish(&mut pair));
    }
    assert!(slowest < at(30_000), "{slowest:?}");
}

#[test]
fn handshakes_survive_thirty_percent_corruption() {
    for seed in 0..50 {
        let config = PairConfig::new(seed, [LinkSpec::new(10_000_000, ms(30)).corrupt(0.3)]);
        finish(&mut download(&config, &[1000], |_| ()));
    }
}

#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    // The server's packets from 145 to 240 ms are lost. They contain the whole response, and no later packet
    // reveals the loss.
    let lost = Blackout::new([at(145)..at(240)]);
    let config = PairConfig::new(1, [LinkSpec::unlimited(ms(100)).back(lost)]);
    let mut pair = download(&config, &[5000], |_| ());
    let finished = finish(&mut pair);
    // The recovery takes a PTO of about three round trips, and half a round trip for the probe.
    assert!((at(350)..at(700)).contains(&finished), "{finished:?}");
    let ptos = with_server(&mut pair, |server| server.paths().next().unwrap().recovery.ptos);
    assert!(ptos >= 1);
}

#[test]
fn a_download_goes_on_after_black_holes() {
    // At 10 Mbit/s 10 MB take 8 s; the link is down for two of every seven seconds.
    let holes = Blackout::new([at(3_000)..at(5_000)]).every(ms(7_000));
    let config = PairConfig::new(1, [LinkSpec::new(10_000_000, ms(30)).both(holes)]);
    let finished = finish(&mut download(&config, &[10_000_000], |_| ()));
    assert!((at(10_000)..at(25_000)).contains(&finished), "{finished:?}");
}

#[test]
fn controllers_fill_the_link_and_loss_costs_what_it_must() {
    let ideal = 10_000_000.0 * 8.0 / 20_000_000.0;
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr] {
        let mut config = PairConfig::new(1, [LinkSpec::new(20_000_000, ms(30))]);
        let recovery = config.server.recovery().clone().with_congestion(algorithm);
        config.server = config.server.with_recovery(recovery);
        let finished = finish(&mut download(&config, &[10_000_000], |_| ())).as_nanos() as f64 / 1e9;
        assert!(finished > ideal && finished < ideal / 0.8, "{algorithm}: {finished} s, ideal {ideal} s");
    }
}

#[test]
fn marks_take_the_place_of_losses() {
    let queue = Queue::new(Rate::constant(20_000_000), Limit::Packets(200)).mark_above(Limit::Packets(20));
    let spec = LinkSpec::new(20_000_000, ms(30)).both(queue);
    let config = PairConfig::new(1, [spec]);
    let mut pair = download(&config, &[5_000_000], |_| ());
    finish(&mut pair);
    let stats = with_server(&mut pair, |server| server.paths().next().unwrap().recovery);
    assert!(stats.ecn_ce > 0 && stats.congestion_events > 0, "{stats:?}");
    assert_eq!(pair.sim.network().counters(pair.links[0])[1].lost(Lost::Overflow), 0);
}

#[test]
fn the_mtu_is_found_where_the_link_allows_it() {
    for (limit, range) in [(1500, 1472..=1472), (1350, 1330..=1350), (1200, 1200..=1200)] {
        let config = PairConfig::new(1, [LinkSpec::new(20_000_000, ms(20)).mtu(limit)]);
        let mut pair = download(&config, &[3_000_000], |_| ());
        finish(&mut pair);
        let mtu = with_server(&mut pair, |server| server.paths().next().unwrap().mtu);
        assert!(range.contains(&mtu), "{mtu} over a link of {limit}");
    }
}

#[test]
fn reordering_is_not_taken_for_loss_for_long() {
    let spec = LinkSpec::new(20_000_000, ms(30)).back(Reorder::new(0.05, ms(8)));
    let config = PairConfig::new(1, [spec]);
    let mut pair = download(&config, &[5_000_000], |_| ());
    finish(&mut pair);
    let stats = with_server(&mut pair, |server| server.paths().next().unwrap().recovery);
    let overflow = pair.sim.network().counters(pair.links[0])[1].lost(Lost::Overflow);
    let spurious = stats.lost_packets.saturating_sub(overflow);
    assert!(spurious * 20 < stats.sent_packets, "{stats:?}");
}

#[test]
fn a_download_survives_rebinding_of_port_and_address() {
    for ip in [None, Some(outside_ip(1))] {
        let spec = LinkSpec::new(10_000_000, ms(30)).rebind(at(500), ip, 1000);
        let mut pair = download(&PairConfig::new(1, [spec]), &[5_000_000], |_| ());
        finish(&mut pair);
        let remote = with_server(&mut pair, |server| server.paths().next().unwrap().tuple.remote);
        assert_eq!(remote.ip(), ip.unwrap_or(client_ip(0)));
        assert_eq!(remote.port(), CLIENT_PORT + 1000);
    }
}

#[test]
fn a_client_moves_to_its_other_address() {
    let links = [LinkSpec::new(10_000_000, ms(30)), LinkSpec::new(10_000_000, ms(50))];
    let mut pair = download(&PairConfig::new(1, links), &[5_000_000], |_| ());
    assert_eq!(pair.sim.run(at(500), |_| false), Outcome::Deadline);
    pair.sim.with_endpoint(pair.client, |now, endpoint| {
        let there = (client_ip(1), CLIENT_PORT).into();
        endpoint.connection(Handle(0)).unwrap().migrate(now, there).unwrap();
    });
    finish(&mut pair);
    let path = with_server(&mut pair, |server| server.paths().next().unwrap());
    assert_eq!((path.tuple.remote.ip(), path.validated), (client_ip(1), true));
    let second = pair.sim.network().counters(pair.links[1])[1];
    assert!(second.delivered_bytes > 3_000_000, "{second:?}");
}

#[test]
fn a_silent_peer_ends_the_connection_after_the_idle_timeout() {
    let spec = LinkSpec::unlimited(ms(20)).blackout(at(200)..HOUR);
    let mut config =
        PairConfig::new(1, [spec.both(Queue::new(Rate::constant(1_000_000), Limit::Packets(50)))]);
    config.client = config.client.with_max_idle_timeout(Duration::from_secs(10));
    config.server = config.server.with_recovery(Config::default().with_congestion(Algorithm::Cubic));
    let mut pair = download(&config, &[5_000_000], |_| ());
    assert_eq!(pair.sim.run(HOUR, |_| false), Outcome::Quiet);
    let ended = pair.sim.now();
    assert!((at(10_000)..at(15_000)).contains(&ended), "{ended:?}");
    let client = pair.sim.application::<DownloadClient>(pair.client);
    assert_eq!(client.failure.as_deref(), Some("timed out: the peer answered until 10.1 s ago"));
    assert_eq!([pair.client, pair.server].map(|host| pair.sim.endpoint(host).len()), [0, 0]);
}
