use anabranch_transport::recovery::Algorithm as Congestion;
use anabranch_transport::schedule::Algorithm as Scheduler;
use anabranch_transport::{AckPath, Horizon, Numbering, NumberingChoice, RangeOrder};

use super::*;

#[test]
fn every_layer_can_be_read_and_has_a_file() {
    for name in LAYERS {
        layer(name).unwrap();
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut known: Vec<String> = LAYERS.iter().map(|name| format!("{name}.toml")).collect();
    known.sort();
    assert_eq!(files, known, "a file that is not registered, or the other way round");
}

#[test]
fn later_layers_lie_over_earlier_ones() {
    let set = Settings { ack_threshold: Some(4), ..Settings::default() };
    let variant = Variant::with("x", &["picoquic", "fixed", "single", "cubic", "bbr1", "ar5"], set).unwrap();
    let server = variant.server();
    assert_eq!(server.recovery().congestion(), Congestion::Bbr1);
    assert_eq!((server.ack().max_ranges(), server.ack().threshold()), (5, 4));
    assert_eq!(server.ack().order(), Some(RangeOrder::LeastSentFirst));
    let multipath = server.multipath().unwrap();
    assert_eq!(multipath.numbering(), NumberingChoice::Only(Numbering::Single));
    assert_eq!(multipath.scheduler(), Scheduler::LeastRecent);
    assert_eq!(variant.client().ack().max_ranges(), 5);
}

#[test]
fn a_wire_is_that_of_both_ends_from_the_first_packet_on() {
    let of = |wire| Variant::with("x", &["default"], Settings { wire, ..Settings::default() }).unwrap();
    for wire in [Wire::V1, Wire::V2, Wire::Reverso] {
        assert_eq!(wire.name().parse(), Ok(wire));
        let variant = of(Some(wire));
        assert_eq!(variant.wire(), wire);
        assert_eq!(
            [variant.client(), variant.server()].map(|end| end.versions().to_vec()),
            [[wire.version()], [wire.version()]]
        );
    }
    assert_eq!(of(None).wire(), Wire::V1);
    assert_eq!(of(None).client().versions(), TransportConfig::default().versions());
}

#[test]
fn an_unknown_layer_is_refused_with_the_names() {
    let fault = Variant::of("x", &["picoquic", "ar7"]).unwrap_err().to_string();
    assert!(fault.starts_with("unknown profile `ar7`: use one of default, picoquic, "), "{fault}");
    assert_eq!(fault.lines().count(), 1);
}

#[test]
fn a_fault_names_its_line_and_what_is_allowed() {
    let fault = |text: &str| Settings::parse("p.toml", text).unwrap_err().to_string();
    assert_eq!(
        fault("# what\nmultipath = true\nnumbering = \"double\"\n"),
        "p.toml, line 3: `double`: unknown numbering: use one of multiple, single"
    );
    assert_eq!(fault("max_ranges = 1\n"), "p.toml, line 1: 1 is not a number from 2 to 1024");
    assert_eq!(
        fault("\npaths = [1, 1]\n"),
        "p.toml, line 2: [1, 1] is not a list of different paths from 0 to 7"
    );
    assert_eq!(
        fault("weights = [0, 0]\n"),
        "p.toml, line 1: [0, 0] is not a list of weights from 0 to 1000 for 8 paths at most, one of them above 0"
    );
    assert!(
        fault("\n\nrange = 5")
            .starts_with("p.toml, line 3: unknown field `range`, expected one of `external`, ")
    );
    assert!(fault("multipath = 5").starts_with("p.toml, line 1: invalid type: integer `5`, expected"));
    assert_eq!(fault("multipath =\nx").lines().count(), 1);
    for (key, allowed) in [
        ("scheduler", "fewest-packets"),
        ("congestion", "olia"),
        ("range_order", "least-sent-first"),
        ("horizon", "1000ms/4"),
        ("ack_path", "fastest"),
        ("ack_scope", "every-path"),
        ("ack_frequency_rule", "adaptive"),
        ("loss_scan", "connection"),
        ("loss_delay", "rfc9002"),
        ("wire", "v1, v2, reverso"),
    ] {
        let fault = fault(&format!("{key} = \"x\""));
        assert!(fault.contains(allowed), "{fault}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    let variant = Variant::of("x", &["picoquic", "fixed", "multiple", "olia", "ah128", "path-1"]).unwrap();
    let text = toml::to_string(&variant.settings).unwrap();
    assert_eq!(Settings::parse("x", &text), Ok(variant.settings));
}

#[test]
fn paths_are_those_of_the_point_that_are_wanted() {
    let paths = |layers: &[&str], of| Variant::of("x", layers).unwrap().paths(of);
    assert_eq!(paths(&["default"], 3), [0, 1, 2]);
    assert_eq!(paths(&["default", "path-1"], 3), [1]);
    assert_eq!(paths(&["default", "path-1"], 1), [0; 0], "there is no such path");
    assert_eq!(paths(&["quic-2017"], 2), [0]);
    let set = Settings { paths: Some(vec![1, 0]), ..Settings::default() };
    assert_eq!(Variant::with("x", &["default"], set).unwrap().paths(2), [1, 0]);
    assert!(Variant::of("x", &["default", "path-0"]).unwrap().client().multipath().is_none());
}

#[test]
fn the_horizon_of_the_layers_is_that_of_the_study() {
    let horizon = |layers: &[&str]| Variant::of("x", layers).unwrap().client().ack().horizon();
    assert_eq!(horizon(&["picoquic", "original", "ah128"]), Horizon::Packets(128));
    assert_eq!(horizon(&["picoquic", "fixed", "single", "ah1024"]), Horizon::Packets(1024));
    assert_eq!(horizon(&["picoquic", "fixed", "single"]).to_string(), "1000ms/4");
    assert_eq!(horizon(&["picoquic", "fixed", "multiple"]), Horizon::None);
    assert_eq!(
        Variant::of("x", &["picoquic", "fixed"]).unwrap().client().ack().path(),
        AckPath::FastestAndOpportunistic
    );
}

#[test]
fn the_sender_and_receiver_of_2022_reach_the_transport() {
    use anabranch_transport::recovery::{InitialWindow, LossDelay};
    use anabranch_transport::{AckScope, FrequencyRule, LossScan};
    let variant = Variant::of("x", &["picoquic", "original", "single", "cubic"]).unwrap();
    let config = variant.server();
    assert_eq!(config.recovery().congestion(), Congestion::Cubic2022);
    assert_eq!(config.recovery().loss_delay(), LossDelay::Study2022);
    assert_eq!(config.recovery().initial_window(), InitialWindow::Bytes(15_360));
    assert_eq!((config.recovery().mtu().initial(), config.recovery().mtu().maximum()), (1252, 1440));
    assert_eq!(config.recovery().pacing_gain().slow_start, (125, 100));
    assert_eq!((config.ack().path(), config.ack().scope()), (AckPath::InTurn, AckScope::Connection));
    assert_eq!(config.ack().frequency_rule(), FrequencyRule::Study2022);
    assert!(
        config.ack().mixed_round_trips() == Some(true)
            && config.ack().frequency()
            && config.ack().max_ranges() == 33
    );
    assert_eq!(config.ack().max_delay().as_millis(), 1);
    assert_eq!(config.streams().stream_window(), 2 << 20);
    let multipath = config.multipath().unwrap();
    assert_eq!(multipath.loss_scan(), LossScan::Connection);
    let quiet = Variant::of("x", &["mpquic-2017", "no-path-signalling"]).unwrap().server();
    assert!(multipath.path_signalling() && !quiet.multipath().unwrap().path_signalling());
}

#[test]
fn downloads_end_under_every_behaviour_of_the_studies() {
    use crate::transfer::Transfer;
    let bytes = 3_000_000;
    let links = || ["21mbit/58ms", "79mbit/142ms"].map(|link| link.parse::<crate::link::LinkSpec>().unwrap());
    let run = |layers: &[&str]| {
        let variant = Variant::of("x", layers).unwrap();
        let used: Vec<_> = variant.paths(2).into_iter().map(|path| links()[path].clone()).collect();
        let (client, server) = (variant.client(), variant.server());
        let measured = Transfer { seed: 1, links: used, bytes, client, server }.run(false);
        measured.unwrap_or_else(|fault| panic!("{layers:?}: {fault}"))
    };
    for numbering in ["single", "multiple"] {
        for behaviour in ["original", "fixed"] {
            for congestion in ["cubic", "bbr1"] {
                let measured = run(&["picoquic", behaviour, numbering, congestion]);
                let took = measured.finished.as_secs_f64();
                assert!(took < 10.0, "{behaviour} {numbering} {congestion}: {took} s");
            }
        }
    }
    let acks = |layers: &[&str]| run(layers).client.ack_bytes;
    let picoquic = acks(&["picoquic", "fixed", "multiple", "cubic"]);
    let pquic = acks(&["picoquic", "original", "cubic", "pquic"]);
    // PQUIC acknowledges the packets of every path on each path. Neither profile skips packet numbers, which
    // would add ranges to these ACKs.
    assert!(2 * pquic > 3 * picoquic, "acknowledgments: {pquic} bytes of PQUIC, {picoquic} of picoquic");
    run(&["mpquic-2017"]);
    run(&["quic-2017", "path-1"]);
}
