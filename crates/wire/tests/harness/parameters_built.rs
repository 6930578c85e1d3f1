//! Checks that the peer decodes the transport parameters that this end encodes, with or without a reserved one.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use anabranch_testkit::source::Source;
use anabranch_wire::{
    ACK_DELAY_LIMIT, ConnectionId, MAX_STREAM_COUNT, MIN_UDP_PAYLOAD, PreferredAddress, ResetToken, Side,
    TransportParameters, Version, VersionInformation,
};

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let side = source.choose(&[Side::Client, Side::Server]);
    let grease = source.flag().then(|| source.value());
    let parameters = parameters(side, &mut source);
    let mut bytes = Vec::new();
    parameters.encode(&mut bytes, grease);
    assert_eq!(TransportParameters::decode(side, &bytes).as_ref(), Ok(&parameters));
}

fn parameters(side: Side, source: &mut Source<'_>) -> TransportParameters {
    let mut built = TransportParameters::default();
    built.initial_source_connection_id = Some(cid(source, 0));
    built.max_idle_timeout = source.value();
    built.max_udp_payload_size = source.value().max(MIN_UDP_PAYLOAD);
    built.initial_max_data = source.value();
    built.initial_max_stream_data_bidi_local = source.value();
    built.initial_max_stream_data_bidi_remote = source.value();
    built.initial_max_stream_data_uni = source.value();
    built.initial_max_streams_bidi = source.value().min(MAX_STREAM_COUNT);
    built.initial_max_streams_uni = source.value().min(MAX_STREAM_COUNT);
    built.ack_delay_exponent = source.value() % 21;
    built.max_ack_delay = source.value() % ACK_DELAY_LIMIT;
    built.disable_active_migration = source.flag();
    built.active_connection_id_limit = source.value().max(2);
    built.max_datagram_frame_size = source.value();
    built.initial_max_path_id = source.flag().then(|| u32::from_be_bytes(source.array()));
    built.grease_quic_bit = source.flag();
    built.single_number_space = source.flag().then_some(1);
    built.min_ack_delay = source.flag().then(|| source.value().min(built.max_ack_delay * 1_000));
    built.version_information = source.flag().then(|| versions(source));
    match side {
        Side::Client => built.alternative_address = source.flag(),
        Side::Server => {
            built.original_destination_connection_id = Some(cid(source, 0));
            built.retry_source_connection_id = source.flag().then(|| cid(source, 0));
            built.stateless_reset_token = source.flag().then(|| ResetToken(source.array()));
            built.preferred_address = source.flag().then(|| preferred(source));
        }
    }
    built
}

fn cid(source: &mut Source<'_>, at_least: u8) -> ConnectionId {
    let len = at_least + source.byte() % (21 - at_least);
    ConnectionId::new(&source.bytes(len.into())).expect("at most 20 bytes")
}

/// Returns versions that contain the chosen one. No version is zero (RFC 9368 §4).
fn versions(source: &mut Source<'_>) -> VersionInformation {
    let mut version = || Version(u32::from_be_bytes(source.array()).max(1));
    let chosen = version();
    let others = [version(), version()];
    VersionInformation { chosen, available: vec![others[0], chosen, others[1]] }
}

/// Returns an address of both families. Zeros stand for an absent one (RFC 9000 §18.2).
fn preferred(source: &mut Source<'_>) -> PreferredAddress {
    let v4 = Ipv4Addr::from(u32::from_be_bytes(source.array()) | 1);
    let v6 = Ipv6Addr::from(u128::from_be_bytes(source.array()) | 1);
    PreferredAddress {
        v4: source.flag().then(|| SocketAddrV4::new(v4, source.number())),
        v6: source.flag().then(|| SocketAddrV6::new(v6, source.number(), 0, 0)),
        cid: cid(source, 1),
        token: ResetToken(source.array()),
    }
}
