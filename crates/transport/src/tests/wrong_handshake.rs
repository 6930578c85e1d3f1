//! Invalid transport parameters and TLS messages, and the error code that their sender receives.

use std::sync::Arc;

use anabranch_wire::{
    ConnectionId, PreferredAddress, ResetToken, Side, SpaceId, TransportErrorCode as Code,
    TransportParameters, Version, VersionInformation,
};

use super::pair::Pair;
use crate::TransportConfig;

type Edit = fn(&mut TransportParameters);

/// Runs a connection one end of which misbehaves. Returns the code that this end receives.
fn code(from: Side, misbehave: impl FnOnce(&mut TransportConfig)) -> Option<Code> {
    let mut pair = Pair::with(|client, server| {
        misbehave(Arc::make_mut(match from {
            Side::Client => &mut client.transport,
            Side::Server => &mut server.transport,
        }));
    });
    pair.run_until_quiet();
    pair.code_seen_by(from)
}

fn check(from: Side, name: &str, edit: Edit, expected: Code) {
    assert_eq!(
        code(from, |config| config.hooks.parameters = Some(edit)),
        Some(expected),
        "{name} from the {from:?}"
    );
}

const PARAMETER: Code = Code::TRANSPORT_PARAMETER_ERROR;
const NEGOTIATION: Code = Code::VERSION_NEGOTIATION_ERROR;

fn other_cid() -> Option<ConnectionId> {
    ConnectionId::new(&[9; 8])
}

#[test]
fn parameters_that_neither_end_may_send() {
    let rows: &[(&str, Edit)] = &[
        ("initial_source_connection_id missing", |p| p.initial_source_connection_id = None),
        ("initial_source_connection_id of somebody else", |p| p.initial_source_connection_id = other_cid()),
        ("max_udp_payload_size 1199", |p| p.max_udp_payload_size = 1199),
        ("ack_delay_exponent 21", |p| p.ack_delay_exponent = 21),
        ("max_ack_delay 2^14", |p| p.max_ack_delay = 1 << 14),
        ("active_connection_id_limit 1", |p| p.active_connection_id_limit = 1),
        ("initial_max_streams_bidi above 2^60", |p| p.initial_max_streams_bidi = (1 << 60) + 1),
        ("initial_max_streams_uni above 2^60", |p| p.initial_max_streams_uni = (1 << 60) + 1),
        ("min_ack_delay above max_ack_delay", |p| p.min_ack_delay = Some(25_001)),
    ];
    for (name, edit) in rows {
        check(Side::Client, name, *edit, PARAMETER);
        check(Side::Server, name, *edit, PARAMETER);
    }
}

#[test]
fn parameters_that_a_client_may_not_send() {
    let rows: &[(&str, Edit)] = &[
        ("original_destination_connection_id", |p| p.original_destination_connection_id = other_cid()),
        ("retry_source_connection_id", |p| p.retry_source_connection_id = other_cid()),
        ("stateless_reset_token", |p| p.stateless_reset_token = Some(ResetToken([1; 16]))),
        ("preferred_address", |p| {
            let (cid, token) = (ConnectionId::new(&[9; 8]).unwrap(), ResetToken([1; 16]));
            p.preferred_address = Some(PreferredAddress { v4: None, v6: None, cid, token });
        }),
    ];
    for (name, edit) in rows {
        check(Side::Client, name, *edit, PARAMETER);
    }
}

#[test]
fn parameters_that_do_not_fit_a_servers_packets() {
    let rows: &[(&str, Edit)] = &[
        ("original_destination_connection_id missing", |p| p.original_destination_connection_id = None),
        ("original_destination_connection_id changed", |p| {
            p.original_destination_connection_id = other_cid();
        }),
        ("retry_source_connection_id without a Retry", |p| p.retry_source_connection_id = other_cid()),
    ];
    for (name, edit) in rows {
        check(Side::Server, name, *edit, PARAMETER);
    }
}

#[test]
fn a_retry_that_the_server_does_not_confirm() {
    let rows: &[Edit] =
        &[|p| p.retry_source_connection_id = None, |p| p.retry_source_connection_id = other_cid()];
    for edit in rows {
        let mut pair = Pair::with(|_, server| {
            server.retry = crate::RetryPolicy::Always;
            Arc::make_mut(&mut server.transport).hooks.parameters = Some(*edit);
        });
        pair.run_until_quiet();
        assert_eq!(pair.code_seen_by(Side::Server), Some(PARAMETER));
    }
}

#[test]
fn version_information_that_does_not_fit() {
    let chosen_is_another: Edit = |p| {
        p.version_information =
            Some(VersionInformation { chosen: Version::V2, available: vec![Version::V2] });
    };
    check(Side::Client, "chosen version is another", chosen_is_another, NEGOTIATION);
    check(Side::Server, "chosen version is another", chosen_is_another, NEGOTIATION);
    check(
        Side::Client,
        "chosen version is not available",
        |p| {
            p.version_information =
                Some(VersionInformation { chosen: Version::V1, available: vec![Version::V2] });
        },
        PARAMETER,
    );
}

/// Without version_information, a connection may continue in its initial version, VReverso included. After a
/// change of version the parameter is required.
#[test]
fn version_information_missing() {
    let missing: Edit = |p| p.version_information = None;
    for from in [Side::Client, Side::Server] {
        for begins_with in [Version::REVERSO, Version::V1] {
            let mut pair = Pair::with(|client, server| {
                client.initial_version = begins_with;
                let (client, server) =
                    (Arc::make_mut(&mut client.transport), Arc::make_mut(&mut server.transport));
                client.versions = vec![begins_with, Version::REVERSO];
                client.versions.dedup();
                server.versions = vec![Version::REVERSO, Version::V1];
                match from {
                    Side::Client => client.hooks.parameters = Some(missing),
                    Side::Server => server.hooks.parameters = Some(missing),
                }
            });
            pair.run_until_quiet();
            // A server that is not informed of the other version continues with the first one.
            let is_upgrade = begins_with == Version::V1 && from == Side::Server;
            assert_eq!(pair.code_seen_by(from), is_upgrade.then_some(NEGOTIATION), "{from:?} {begins_with}");
            if !is_upgrade {
                assert_eq!((pair.client().version(), pair.server().version()), (begins_with, begins_with));
            }
        }
    }
}

/// Changes the type of the extension with a client's transport parameters.
fn hide_parameters(hello: &mut [u8]) {
    if let Some(at) = hello.windows(2).position(|pair| pair == [0, 0x39]) {
        hello[at..at + 2].copy_from_slice(&[0xfa, 0xfa]);
    }
}

/// Removes the extension with a server's transport parameters from EncryptedExtensions, the first message.
fn drop_parameters(flight: &mut Vec<u8>) {
    let Some(at) = flight.windows(2).position(|pair| pair == [0, 0x39]) else { return };
    let len = 4 + u16::from_be_bytes([flight[at + 2], flight[at + 3]]);
    flight.drain(at..at + usize::from(len));
    // The lengths of the message and of the list: two significant bytes each.
    for field in [2, 4] {
        let old = u16::from_be_bytes([flight[field], flight[field + 1]]);
        flight[field..field + 2].copy_from_slice(&(old - len).to_be_bytes());
    }
}

#[test]
fn transport_parameters_missing() {
    let missing = Some(Code(0x16d));
    let client = code(Side::Client, |config| {
        config.hooks.crypto = Some(|level, bytes| {
            if level == SpaceId::Initial {
                hide_parameters(bytes);
            }
        });
    });
    assert_eq!(client, missing);
    let server = code(Side::Server, |config| {
        config.hooks.crypto = Some(|level, bytes| {
            if level == SpaceId::Handshake {
                drop_parameters(bytes);
            }
        });
    });
    assert_eq!(server, missing);
}

#[test]
fn tls_messages_that_quic_forbids() {
    let unexpected = Some(Code(0x10a));
    // A KeyUpdate after the session tickets. The client's case is in the table of frames.
    let key_update = code(Side::Server, |config| {
        config.hooks.crypto = Some(|level, bytes| {
            if level == SpaceId::Data && !bytes.is_empty() {
                bytes.extend([24, 0, 0, 1, 0]);
            }
        });
    });
    assert_eq!(key_update, unexpected);
    // EndOfEarlyData before the client's Finished.
    let end_of_early_data = code(Side::Client, |config| {
        config.hooks.crypto = Some(|level, bytes| {
            if level == SpaceId::Handshake && !bytes.is_empty() {
                bytes.splice(0..0, [5, 0, 0, 0]);
            }
        });
    });
    assert_eq!(end_of_early_data, unexpected);
}

#[test]
fn handshake_bytes_left_over_at_the_end_of_their_level() {
    // RFC 9001 §4.1.3: the beginning of a message of the next level follows the ServerHello.
    let left_over = code(Side::Server, |config| {
        config.hooks.crypto = Some(|level, bytes| {
            if level == SpaceId::Initial && !bytes.is_empty() {
                bytes.extend([8, 0]);
            }
        });
    });
    assert!(left_over == Some(Code::PROTOCOL_VIOLATION) || left_over == Some(Code(0x10a)), "{left_over:?}");
}
