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
    assert_eq!(left_over, Some(Code::PROTOCOL_VIOLATION));
}

/// Replaces `old` in `bytes`; an error of the test if it is not there once.
fn replace(bytes: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    let found: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    let [at] = found[..] else { panic!("{found:?}") };
    bytes.splice(at..at + old.len(), new.iter().copied());
}

#[test]
fn messages_after_the_handshake_that_quic_alone_forbids() {
    // RFC 9001 §4.4: a CertificateRequest with one signature algorithm.
    let request = code(Side::Server, |config| {
        config.hooks.crypto = Some(|level, bytes| {
            if level == SpaceId::Data && !bytes.is_empty() {
                bytes.extend([13, 0, 0, 11, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
            }
        });
    });
    assert_eq!(request, Some(Code::PROTOCOL_VIOLATION));
    // RFC 9001 §4.6.1: a ticket that allows 1000 bytes of early data.
    let limited = code(Side::Server, |config| {
        config.hooks.crypto = Some(|level, bytes| {
            if level == SpaceId::Data && !bytes.is_empty() {
                let end = bytes.len() - 8;
                let mut last = bytes.split_off(end);
                replace(&mut last, &[0, 42, 0, 4, 255, 255, 255, 255], &[0, 42, 0, 4, 0, 0, 3, 232]);
                bytes.extend(last);
            }
        });
    });
    assert_eq!(limited, Some(Code::PROTOCOL_VIOLATION));
}

#[test]
fn a_server_that_chooses_no_protocol() {
    let chosen = code(Side::Server, |config| {
        config.hooks.crypto = Some(|level, bytes| {
            if level == SpaceId::Handshake && !bytes.is_empty() {
                replace(bytes, b"\x00\x10\x00\x07\x00\x05\x04test", &[]);
                // The lengths of the message and of the list of extensions.
                for field in [2, 4] {
                    let old = u16::from_be_bytes([bytes[field], bytes[field + 1]]);
                    bytes[field..field + 2].copy_from_slice(&(old - 11).to_be_bytes());
                }
            }
        });
    });
    assert_eq!(chosen, Some(Code(0x178)));
}

/// Returns a pair with these versions, whose client begins with the first of its own, after a while. `edit`
/// changes the parameters of `from`.
fn negotiated(client: &[Version], server: &[Version], from: Side, edit: Edit) -> Pair {
    let mut pair = Pair::with(|client_config, server_config| {
        client_config.initial_version = client[0];
        let ours = Arc::make_mut(&mut client_config.transport);
        let theirs = Arc::make_mut(&mut server_config.transport);
        (ours.versions, theirs.versions) = (client.to_vec(), server.to_vec());
        match from {
            Side::Client => ours.hooks.parameters = Some(edit),
            Side::Server => theirs.hooks.parameters = Some(edit),
        }
    });
    pair.run_until_quiet();
    pair
}

const V1: Version = Version::V1;
const V2: Version = Version::V2;
const REVERSO: Version = Version::REVERSO;

#[test]
fn a_converted_first_flight_is_checked() {
    for other in [V2, REVERSO] {
        for from in [Side::Client, Side::Server] {
            let edit: Edit = |p| p.initial_source_connection_id = other_cid();
            let pair = negotiated(&[V1, other], &[other, V1], from, edit);
            assert_eq!(pair.code_seen_by(from), Some(PARAMETER), "{other} from the {from:?}");
            let mut pair = negotiated(&[V1, other], &[other, V1], from, |_| {});
            assert_eq!((pair.code_seen_by(from), pair.client().version()), (None, other));
        }
    }
}

#[test]
fn version_information_missing_after_version_negotiation() {
    let missing: Edit = |p| p.version_information = None;
    for other in [V2, REVERSO] {
        let pair = negotiated(&[V1, other], &[other], Side::Server, missing);
        assert_eq!(pair.code_seen_by(Side::Server), Some(NEGOTIATION), "{other}");
        // RFC 9368 §8: version 1 is the exception.
        let mut pair = negotiated(&[other, V1], &[V1], Side::Server, missing);
        pair.connect();
        assert_eq!((pair.client().version(), pair.server().version()), (V1, V1));
    }
}

#[test]
fn no_available_version_after_version_negotiation() {
    let empty: Edit =
        |p| p.version_information = Some(VersionInformation { chosen: V1, available: Vec::new() });
    let pair = negotiated(&[V2, V1], &[V1], Side::Server, empty);
    assert_eq!(pair.code_seen_by(Side::Server), Some(NEGOTIATION));
    // Without Version Negotiation nothing depends on the list.
    let mut pair = negotiated(&[V1, V2], &[V1], Side::Server, empty);
    pair.connect();
}

/// RFC 9368 §4: the negotiated version counts as available, even if the server is about to remove it.
#[test]
fn a_version_about_to_be_removed_may_be_used() {
    let removing: Edit =
        |p| p.version_information = Some(VersionInformation { chosen: V1, available: vec![V2] });
    let mut pair = negotiated(&[REVERSO, V1, V2], &[V1], Side::Server, removing);
    pair.connect();
    assert_eq!(pair.client().version(), V1);
    let pair = negotiated(&[REVERSO, V2, V1], &[V1], Side::Server, removing);
    assert_eq!(pair.code_seen_by(Side::Server), Some(NEGOTIATION), "the client prefers another one");
}
