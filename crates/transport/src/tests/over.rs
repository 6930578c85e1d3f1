//! Second run of this folder's tests over VReverso, in a separate process.

use std::env;
use std::process::Command;

/// Environment variable that makes every pair use VReverso.
pub(super) const WIRE: &str = "ANABRANCH_TEST_REVERSO";

const MODULES: [&str; 21] = [
    "ack_paths",
    "alternatives",
    "attacks",
    "basics",
    "coupled",
    "drive",
    "ending",
    "exchange",
    "failure",
    "handshake",
    "keys",
    "migration",
    "multipath::",
    "multipath_ends",
    "multipath_input",
    "multipath_rows",
    "paths",
    "resumption",
    "schedulers",
    "single",
    "wrong_",
];

/// Tests that do not apply to VReverso.
const SKIPPED: [&str; 14] = [
    // They write bytes of version 1, or expect its version number.
    "any_payload_is_taken_or_refused",
    "badly_formed_frames",
    "a_handshake_takes_one_round_trip_and_is_confirmed_in_the_second",
    "row_21_an_injected_retry_fails_the_handshake_and_a_broken_one_is_ignored",
    "a_change_of_version_refuses_early_data",
    "there_is_no_early_data_before_a_change_that_renumbers_streams",
    "a_move_to_an_address_that_does_not_answer_is_taken_back",
    // They require that frames are read in the order in which they were written.
    "older_words_and_too_many_addresses_are_ignored",
    "row_m5_what_a_peer_can_abandon_at_once_is_bounded",
    // They use STREAM frames for stream 0 or without data, or packets without frames: see `super::named`.
    "frames_that_do_not_fit_their_stream",
    "streams_out_of_bounds",
    "frames_that_0_rtt_packets_must_not_carry",
    // They depend on packet sizes, or on the room for an ACK in a packet.
    "row_4_odd_packet_numbers_only",
    "acknowledgments_take_turns",
];

#[test]
fn the_same_holds_over_reverso() {
    let modules = MODULES.map(|module| format!("tests::{module}"));
    let skipped = SKIPPED.iter().flat_map(|name| ["--skip", name]);
    let run = Command::new(env::current_exe().unwrap()).args(modules).args(skipped).env(WIRE, "1").output();
    let run = run.unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}");
    let passed =
        output.lines().filter(|line| line.starts_with("test tests::") && line.ends_with("ok")).count();
    assert!(passed > 200, "{passed} tests ran");
}
