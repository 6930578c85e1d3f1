use std::sync::Arc;

use anabranch_wire::Time;
use rustls::time_provider::TimeProvider;

use super::{Identity, VirtualClock, deterministic_provider, fill, seed_thread};
use crate::{ClientConfig, ServerConfig, Session};

/// All bytes of two handshakes, the second one resumed.
fn transcript(seed: u64) -> Vec<Vec<u8>> {
    seed_thread(seed);
    let identity = Identity::new(3, &["server.test"]).unwrap();
    let clock = VirtualClock::new();
    let client = ClientConfig::builder()
        .provider(deterministic_provider())
        .time(Arc::clone(&clock) as _)
        .roots(identity.roots().unwrap())
        .alpn(["test"])
        .early_data(true)
        .build()
        .unwrap();
    let server = ServerConfig::builder()
        .provider(deterministic_provider())
        .time(Arc::clone(&clock) as _)
        .certificate(vec![identity.certificate], identity.key)
        .alpn(["test"])
        .early_data(true)
        .build()
        .unwrap();
    let mut transcript = Vec::new();
    for second in 0..2 {
        clock.set(Time::from_millis(second * 1000));
        let mut ends = [
            Session::client(&client, "server.test", vec![1; 30]).unwrap(),
            Session::server(&server, vec![2; 30]).unwrap(),
        ];
        for turn in 0..6 {
            loop {
                let mut bytes = Vec::new();
                let changed = ends[turn % 2].write(&mut bytes).is_some();
                if !bytes.is_empty() {
                    ends[(turn + 1) % 2].read(&bytes).unwrap();
                    transcript.push(bytes);
                }
                if !changed {
                    break;
                }
            }
        }
        assert!(ends.iter().all(|end| !end.is_handshaking() && end.is_resumed() == (second == 1)));
    }
    transcript
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert_eq!(transcript(1), transcript(1));
}

#[test]
fn another_seed_gives_other_bytes_of_the_same_length() {
    let (one, two) = (transcript(1), transcript(2));
    assert_ne!(one, two);
    let lengths = |transcript: &[Vec<u8>]| transcript.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(&one), lengths(&two));
}

#[test]
fn threads_do_not_disturb_each_other() {
    let here = transcript(1);
    let there = std::thread::spawn(|| transcript(1));
    transcript(9);
    assert_eq!(there.join().unwrap(), here);
}

#[test]
fn a_thread_without_a_seed_fails() {
    let unseeded = std::thread::spawn(|| fill(&mut [0; 8]).is_err());
    assert!(unseeded.join().unwrap());
}

#[test]
fn identities_depend_on_the_seed_alone() {
    let identity = |seed| Identity::new(seed, &["a.test", "b.test"]).unwrap();
    assert_eq!(identity(1).certificate, identity(1).certificate);
    assert_ne!(identity(1).certificate, identity(2).certificate);
    assert_eq!(identity(1).certificate.len(), identity(2).certificate.len());
}

#[test]
fn the_clock_shows_what_it_was_set_to() {
    let clock = VirtualClock::new();
    let start = clock.current_time().map(|now| now.as_secs());
    clock.set(Time::from_millis(90_000));
    assert_eq!(clock.current_time().map(|now| now.as_secs()), start.map(|start| start + 90));
}
