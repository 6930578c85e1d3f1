//! Checks that sessions with the same seed and the same time produce the same bytes each time, as simulations
//! require.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use anabranch_testkit::seeded::{Trust, seed_thread};
use anabranch_tls::Session;
use anabranch_wire::Time;

/// Returns all bytes of two handshakes, the second of which resumes the first.
fn transcript(seed: u64) -> Vec<Vec<u8>> {
    seed_thread(seed);
    let trust = Trust::new("server.test");
    let client = trust.client("test").early_data(true).build().unwrap();
    let server = trust.server("test").early_data(true).build().unwrap();
    let mut transcript = Vec::new();
    for second in 0..2 {
        trust.clock.set(Time::from_millis(second * 1000));
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
