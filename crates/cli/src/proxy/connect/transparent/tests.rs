use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Transparent,
}

fn places(words: &[&str]) -> Result<Vec<(SocketAddr, bool)>> {
    Line::try_parse_from([&["test"], words].concat()).unwrap().options.places()
}

#[test]
fn a_port_alone_is_for_both_versions_of_ip() {
    let both = [("127.0.0.1:1081".parse().unwrap(), true), ("[::1]:1081".parse().unwrap(), false)];
    assert_eq!(places(&["--transparent", "1081"]).unwrap(), both);
    assert_eq!(places(&["--transparent", "[::]:7"]).unwrap(), [("[::]:7".parse().unwrap(), true)]);
    assert!(places(&[]).unwrap().is_empty());
}

#[test]
fn connections_are_led_to_no_other_address() {
    for wrong in ["192.0.2.1:1081", "localhost:1081", "127.0.0.2:1081", "::1"] {
        let failure = places(&["--transparent", wrong]).unwrap_err();
        assert!(failure.to_string().contains("no connections are led there"), "{failure}");
    }
}
