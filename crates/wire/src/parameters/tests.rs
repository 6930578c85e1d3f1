use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::Version;
use crate::testing::hex;

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).unwrap()
}

/// Returns the parameters that `sender` must send.
fn required(sender: Side) -> TransportParameters {
    TransportParameters {
        original_destination_connection_id: sender.is_server().then_some(ConnectionId::EMPTY),
        initial_source_connection_id: Some(ConnectionId::EMPTY),
        ..TransportParameters::default()
    }
}

fn encoded(parameters: &TransportParameters) -> Vec<u8> {
    let mut out = Vec::new();
    parameters.encode(&mut out, None);
    out
}

fn decoded(sender: Side, more: &str) -> Result<TransportParameters, ParameterError> {
    let mut bytes = encoded(&required(sender));
    bytes.extend(hex(more));
    TransportParameters::decode(sender, &bytes)
}

#[test]
fn absent_parameters_have_their_defaults() {
    let read = decoded(Side::Client, "").unwrap();
    assert_eq!(read, required(Side::Client));
    assert_eq!((read.max_udp_payload_size, read.ack_delay_exponent, read.max_ack_delay), (65527, 3, 25));
    assert_eq!((read.active_connection_id_limit, read.max_datagram_frame_size), (2, 0));
    assert_eq!(encoded(&TransportParameters::default()), []);
}

#[test]
fn every_parameter_has_its_identifier() {
    let parameters = TransportParameters {
        original_destination_connection_id: Some(cid(&[1, 2])),
        max_idle_timeout: 30_000,
        stateless_reset_token: Some(ResetToken([3; 16])),
        max_udp_payload_size: 1472,
        initial_max_data: 4,
        initial_max_stream_data_bidi_local: 5,
        initial_max_stream_data_bidi_remote: 6,
        initial_max_stream_data_uni: 7,
        initial_max_streams_bidi: 8,
        initial_max_streams_uni: 9,
        ack_delay_exponent: 10,
        max_ack_delay: 11,
        disable_active_migration: true,
        preferred_address: Some(PreferredAddress {
            v4: Some(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443)),
            v6: Some(SocketAddrV6::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 443, 0, 0)),
            cid: cid(&[0xcc]),
            token: ResetToken([4; 16]),
        }),
        active_connection_id_limit: 14,
        initial_source_connection_id: Some(cid(&[15])),
        retry_source_connection_id: Some(ConnectionId::EMPTY),
        version_information: Some(VersionInformation {
            chosen: Version::V1,
            available: vec![Version::V2, Version::V1],
        }),
        max_datagram_frame_size: 32,
        initial_max_path_id: Some(0),
        grease_quic_bit: true,
        single_number_space: Some(1),
        min_ack_delay: Some(1000),
        alternative_address: false,
    };
    let expected = format!(
        "00020102 0104 80007530 0210{} 030245c0 040104 050105 060106 070107 080108 090109 0a010a 0b010b 0c00 \
         0d2a c0000201 01bb 20010db8000000000000000000000001 01bb 01cc {} 0e010e 0f010f 1000 \
         110c 00000001 6b3343cf 00000001 200120 3e0100 6ab200 a9e3d19e0101 c0000000ff04de1b0243e8",
        "03".repeat(16),
        "04".repeat(16),
    );
    let bytes = encoded(&parameters);
    assert_eq!(bytes, hex(&expected));
    assert_eq!(TransportParameters::decode(Side::Server, &bytes), Ok(parameters));
}

#[test]
fn wrong_parameters_are_transport_parameter_errors() {
    let token = "00".repeat(16);
    let address = format!("{} 01 aa {token}", "00".repeat(24));
    let both: &[(&str, String)] = &[
        ("sent twice", "010101 010101".into()),
        ("identifier cut off", "40".into()),
        ("length cut off", "01".into()),
        ("value cut off", "010240".into()),
        ("length beyond memory", "01 ffffffffffffffff".into()),
        ("value shorter than its varint", "010140".into()),
        ("value longer than its varint", "01020000".into()),
        ("flag with a value", "0c0100".into()),
        ("grease_quic_bit with a value", "6ab20100".into()),
        ("max_udp_payload_size of 1199", "030244af".into()),
        ("ack_delay_exponent of 21", "0a0115".into()),
        ("max_ack_delay of 2^14", "0b0480004000".into()),
        ("active_connection_id_limit of 1", "0e0101".into()),
        ("2^60 + 1 bidirectional streams", "0808d000000000000001".into()),
        ("2^60 + 1 unidirectional streams", "0908d000000000000001".into()),
        ("initial_max_path_id of 2^32", "3e08c000000100000000".into()),
        ("single number space of 0", "a9e3d19e 01 00".into()),
        ("single number space of 2", "a9e3d19e 01 02".into()),
        ("single number space of no value", "a9e3d19e 00".into()),
        ("single number space twice", "a9e3d19e 01 01 a9e3d19e 01 01".into()),
        ("min_ack_delay above max_ack_delay", "c0000000ff04de1b 04 800061a9".into()),
        ("version_information of 0 bytes", "1100".into()),
        ("version_information of 5 bytes", "11050000000100".into()),
        ("chosen version 0", "1108 00000000 00000001".into()),
        ("available version 0", "110c 00000001 00000001 00000000".into()),
        ("initial_source_connection_id of 21 bytes", format!("0f15{}", "aa".repeat(21))),
    ];
    for side in [Side::Client, Side::Server] {
        for (name, more) in both {
            let error = decoded(side, more).unwrap_err();
            assert_eq!(error.code.0, 0x8, "{name}");
        }
    }
    for (name, more) in [
        ("original_destination_connection_id", "0000".into()),
        ("stateless_reset_token", format!("0210{token}")),
        ("preferred_address", format!("0d2a{address}")),
        ("retry_source_connection_id", "1000".into()),
        ("chosen version not available", "1108 00000001 6b3343cf".into()),
    ] {
        let error = decoded(Side::Client, &more).unwrap_err();
        assert_eq!(error.code.0, 0x8, "{name} from a client");
    }
    for (name, more) in [
        ("reset token of 15 bytes", format!("020f{}", "00".repeat(15))),
        ("reset token of 17 bytes", format!("0211{}", "00".repeat(17))),
        ("preferred_address without ID", format!("0d29{} 00 {token}", "00".repeat(24))),
        (
            "preferred_address with an ID of 21 bytes",
            format!("0d3e{} 15 {} {token}", "00".repeat(24), "aa".repeat(21)),
        ),
        ("preferred_address cut off", "0d0400000000".into()),
    ] {
        let error = decoded(Side::Server, &more).unwrap_err();
        assert_eq!(error.code.0, 0x8, "{name} from a server");
    }
}

#[test]
fn connection_ids_of_the_handshake_are_required() {
    assert_eq!(TransportParameters::decode(Side::Client, &[]).unwrap_err().code.0, 0x8);
    assert_eq!(TransportParameters::decode(Side::Server, &hex("0f00")).unwrap_err().code.0, 0x8);
    assert!(TransportParameters::decode(Side::Server, &hex("0f00 0000")).is_ok());
    assert!(TransportParameters::decode(Side::Client, &hex("0f00")).is_ok());
}

#[test]
fn limits_are_inclusive() {
    let read =
        decoded(Side::Client, "030244b0 0a0114 0b027fff 0e0102 0808d000000000000000 3e08c0000000ffffffff");
    let read = read.unwrap();
    assert_eq!((read.max_udp_payload_size, read.ack_delay_exponent, read.max_ack_delay), (1200, 20, 16383));
    assert_eq!((read.active_connection_id_limit, read.initial_max_streams_bidi), (2, MAX_STREAM_COUNT));
    assert_eq!(read.initial_max_path_id, Some(u32::MAX));
}

#[test]
fn a_server_may_deploy_less_than_it_uses() {
    let read = decoded(Side::Server, "1108 00000001 6b3343cf").unwrap();
    let versions = read.version_information.unwrap();
    assert_eq!((versions.chosen, versions.available), (Version::V1, vec![Version::V2]));
    assert!(decoded(Side::Server, "1104 00000001").is_ok());
}

#[test]
fn available_versions_are_bounded() {
    let list = "00000001".repeat(1000);
    let read = decoded(Side::Client, &format!("114fa4 00000001 {list}")).unwrap();
    assert_eq!(read.version_information.unwrap().available.len(), MAX_AVAILABLE_VERSIONS);
}

#[test]
fn unknown_and_reserved_parameters_are_ignored() {
    assert_eq!(decoded(Side::Client, "1b03010203 1b00 7fff00"), Ok(required(Side::Client)));
    for seed in [0, 1, 7, 12_345, u64::MAX] {
        let mut greased = Vec::new();
        required(Side::Client).encode(&mut greased, Some(seed));
        let plain = encoded(&required(Side::Client));
        let mut reader = Reader::new(&greased[plain.len()..], Direction::Forward);
        let id = reader.varint().unwrap();
        assert_eq!(id % 31, 27, "seed {seed}");
        let len = reader.varint().unwrap();
        assert_eq!(len, reader.remaining() as u64);
        assert_eq!(TransportParameters::decode(Side::Client, &greased), Ok(required(Side::Client)));
    }
}

/// Checks that an address of zeros is read as no address.
#[test]
fn preferred_address_of_one_family() {
    let address = PreferredAddress {
        v4: None,
        v6: Some(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 443, 0, 0)),
        cid: cid(&[9; 20]),
        token: ResetToken([5; 16]),
    };
    let parameters = TransportParameters { preferred_address: Some(address), ..required(Side::Server) };
    assert_eq!(TransportParameters::decode(Side::Server, &encoded(&parameters)), Ok(parameters));
}

fn any_cid() -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), 0..=20).prop_map(|bytes| cid(&bytes))
}

fn varint() -> impl Strategy<Value = u64> {
    (0..=MAX_VARINT, 0..62u32).prop_map(|(value, shift)| value >> shift)
}

fn token() -> impl Strategy<Value = ResetToken> {
    any::<[u8; 16]>().prop_map(ResetToken)
}

fn preferred_address() -> impl Strategy<Value = PreferredAddress> {
    let v4 = option::of((any::<[u8; 4]>(), 1..=u16::MAX));
    let v6 = option::of((any::<[u8; 16]>(), 1..=u16::MAX));
    (v4, v6, vec(any::<u8>(), 1..=20), token()).prop_map(|(v4, v6, id, token)| PreferredAddress {
        v4: v4.map(|(ip, port)| SocketAddrV4::new(ip.into(), port)),
        v6: v6.map(|(ip, port)| SocketAddrV6::new(ip.into(), port, 0, 0)),
        cid: cid(&id),
        token,
    })
}

fn versions() -> impl Strategy<Value = VersionInformation> {
    let version = || (1..=u32::MAX).prop_map(Version);
    (version(), vec(version(), 0..MAX_AVAILABLE_VERSIONS)).prop_map(|(chosen, mut available)| {
        available.push(chosen);
        VersionInformation { chosen, available }
    })
}

fn parameters(sender: Side) -> impl Strategy<Value = TransportParameters> {
    let server = sender.is_server();
    let ids =
        (any_cid(), any_cid(), option::of(any_cid()), option::of(token()), option::of(preferred_address()));
    let credit = [varint(), varint(), varint(), varint(), varint(), varint(), varint()];
    let limits = (1200..=MAX_VARINT, 0..=20u64, 0..1u64 << 14, 2..=MAX_VARINT, any::<bool>(), any::<bool>());
    let extensions =
        (varint(), option::of(any::<u32>()), any::<bool>(), option::of(versions()), any::<bool>());
    (ids, credit, limits, extensions).prop_map(move |(ids, credit, limits, extensions)| TransportParameters {
        original_destination_connection_id: server.then_some(ids.0),
        initial_source_connection_id: Some(ids.1),
        retry_source_connection_id: ids.2.filter(|_| server),
        stateless_reset_token: ids.3.filter(|_| server),
        preferred_address: ids.4.filter(|_| server),
        max_idle_timeout: credit[0],
        initial_max_data: credit[1],
        initial_max_stream_data_bidi_local: credit[2],
        initial_max_stream_data_bidi_remote: credit[3],
        initial_max_stream_data_uni: credit[4],
        initial_max_streams_bidi: credit[5].min(MAX_STREAM_COUNT),
        initial_max_streams_uni: credit[6].min(MAX_STREAM_COUNT),
        max_udp_payload_size: limits.0,
        ack_delay_exponent: limits.1,
        max_ack_delay: limits.2,
        active_connection_id_limit: limits.3,
        disable_active_migration: limits.4,
        grease_quic_bit: limits.5,
        max_datagram_frame_size: extensions.0,
        initial_max_path_id: extensions.1,
        single_number_space: extensions.2.then_some(1),
        version_information: extensions.3,
        min_ack_delay: extensions.4.then_some(limits.2 * 1000),
        alternative_address: limits.5 && !server,
    })
}

proptest! {
    #[test]
    fn server_parameters_round_trip(parameters in parameters(Side::Server), grease in option::of(any::<u64>())) {
        let mut out = Vec::new();
        parameters.encode(&mut out, grease);
        prop_assert_eq!(TransportParameters::decode(Side::Server, &out), Ok(parameters));
    }

    #[test]
    fn client_parameters_round_trip(parameters in parameters(Side::Client)) {
        prop_assert_eq!(TransportParameters::decode(Side::Client, &encoded(&parameters)), Ok(parameters));
    }

    #[test]
    fn any_bytes_are_decoded_without_panic(
        bytes in vec(any::<u8>(), 0..200),
        items in vec((0..0x42u8, vec(any::<u8>(), 0..20)), 0..8),
    ) {
        // Random bytes, and random bytes with the outer structure of parameters.
        let shaped = items.iter().flat_map(|(id, value)| [&[*id, value.len() as u8][..], value].concat());
        for bytes in [bytes, shaped.collect()] {
            for side in [Side::Client, Side::Server] {
                if let Ok(parameters) = TransportParameters::decode(side, &bytes) {
                    prop_assert_eq!(TransportParameters::decode(side, &encoded(&parameters)), Ok(parameters));
                }
            }
        }
    }
}
