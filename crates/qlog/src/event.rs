//! Conversion of a transport trace event to one or two qlog events (draft-ietf-quic-qlog-quic-events-12 §4 to
//! §7).

use std::net::SocketAddr;

use anabranch_transport::trace::{DropReason, PacketTrace, TimerKind, TraceEvent};
use anabranch_transport::{ConnectionError, FourTuple, TransportError};
use anabranch_wire::{ConnectionId, Frames, PacketKind, PathId, Side, SpaceId};

use crate::frame;
use crate::json::Object;
use crate::parameters;

/// State of the connection on which names and values of later events depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) side: Side,
    /// `ack_delay_exponent` of this endpoint and of the peer.
    pub(crate) local_ack_delay_exponent: u32,
    pub(crate) remote_ack_delay_exponent: u32,
}

/// Returns the path of an event; `None` for events of the whole connection.
pub(crate) fn path(event: &TraceEvent<'_>) -> Option<PathId> {
    match *event {
        TraceEvent::PacketSent(packet) | TraceEvent::PacketReceived(packet) => Some(packet.path),
        TraceEvent::PacketAcked { path, .. }
        | TraceEvent::PacketLost { path, .. }
        | TraceEvent::Metrics { path, .. }
        | TraceEvent::CongestionState { path, .. }
        | TraceEvent::TimerExpired { path, .. }
        | TraceEvent::EcnState { path, .. }
        | TraceEvent::MtuChanged { path, .. }
        | TraceEvent::PathAssigned { path, .. }
        | TraceEvent::PathState { path, .. }
        | TraceEvent::PathAbandoned { path, .. } => Some(path),
        _ => None,
    }
}

/// Returns the event's name without its namespace; `None` for events that are not written.
pub(crate) fn name(event: &TraceEvent<'_>) -> Option<&'static str> {
    Some(match event {
        TraceEvent::Started { .. } => "connection_started",
        TraceEvent::VersionChosen { .. } => "version_information",
        TraceEvent::Parameters { .. } => "parameters_set",
        TraceEvent::AlpnChosen { .. } => "alpn_information",
        TraceEvent::PacketSent(_) => "packet_sent",
        TraceEvent::PacketReceived(_) => "packet_received",
        TraceEvent::PacketDropped { .. } => "packet_dropped",
        TraceEvent::PacketAcked { .. } => "packets_acked",
        TraceEvent::PacketLost { .. } => "packet_lost",
        TraceEvent::Metrics { .. } => "recovery_metrics_updated",
        TraceEvent::CongestionState { .. } => "congestion_state_updated",
        TraceEvent::TimerExpired { .. } => "timer_updated",
        TraceEvent::EcnState { .. } => "ecn_state_updated",
        TraceEvent::MtuChanged { .. } => "mtu_updated",
        TraceEvent::KeysInstalled { .. } | TraceEvent::KeyUpdated { .. } => "key_updated",
        TraceEvent::KeysDiscarded { .. } => "key_discarded",
        TraceEvent::PathAssigned { .. } => "tuple_assigned",
        // The draft has no events for the state of a path. The names of these events follow the draft's
        // style.
        TraceEvent::PathState { .. } => "path_state_updated",
        TraceEvent::PathAbandoned { .. } => "path_abandoned",
        TraceEvent::HandshakeConfirmed => "connection_state_updated",
        TraceEvent::Closed { .. } => "connection_closed",
        _ => return None,
    })
}

/// Returns the endpoints whose keys the event concerns. The event is written once for each of them.
pub(crate) fn key_owners(event: &TraceEvent<'_>) -> &'static [Side] {
    match event {
        TraceEvent::KeysInstalled { early: true, .. } => &[Side::Client],
        TraceEvent::KeysInstalled { .. }
        | TraceEvent::KeysDiscarded { .. }
        | TraceEvent::KeyUpdated { .. } => &[Side::Client, Side::Server],
        // Other events do not concern keys. A single owner makes sure that they are written once.
        _ => &[Side::Client],
    }
}

/// Writes the `data` field. `owner` is one of [`key_owners`], and `tuple_id` is the path's current tuple.
pub(crate) fn write_data(
    o: &mut Object<'_>,
    event: &TraceEvent<'_>,
    context: &Context,
    owner: Side,
    tuple_id: &str,
) {
    match *event {
        TraceEvent::Started { tuple, local_cid, remote_cid } => {
            o.object("local", |o| write_endpoint(o, tuple.local, Some(local_cid)));
            o.object("remote", |o| write_endpoint(o, tuple.remote, Some(remote_cid)));
        }
        TraceEvent::VersionChosen { version } => o.hex("chosen_version", &version.0.to_be_bytes()),
        TraceEvent::Parameters { local, parameters } => parameters::write(o, local, parameters),
        TraceEvent::AlpnChosen { protocol } => o.object("chosen_alpn", |o| {
            o.hex("byte_value", protocol);
            if let Ok(text) = core::str::from_utf8(protocol) {
                o.text("string_value", text);
            }
        }),
        TraceEvent::PacketSent(packet) => write_packet(o, &packet, context.local_ack_delay_exponent),
        TraceEvent::PacketReceived(packet) => write_packet(o, &packet, context.remote_ack_delay_exponent),
        TraceEvent::PacketDropped { kind, size, reason } => {
            o.object("header", |o| o.text("packet_type", kind.map_or("unknown", packet_type)));
            o.object("raw", |raw| raw.number("length", size as u64));
            o.text("trigger", drop_trigger(reason));
        }
        TraceEvent::PacketAcked { space, number, .. } => {
            o.text("packet_number_space", space_name(space));
            o.array("packet_numbers", |numbers| numbers.number(number));
        }
        TraceEvent::PacketLost { space, number, path } => o.object("header", |o| {
            // The event names only the packet number space, so lost 0-RTT packets are written as 1-RTT
            // packets.
            o.text("packet_type", ["initial", "handshake", "1RTT"][space as usize]);
            o.number("packet_number", number);
            if space == SpaceId::Data {
                o.number("path_id", u64::from(path.0));
            }
        }),
        TraceEvent::Metrics { .. } => write_metrics(o, event),
        TraceEvent::CongestionState { state, .. } => o.text("new", state),
        TraceEvent::TimerExpired { kind, space, .. } => {
            o.text("timer_type", if kind == TimerKind::Pto { "pto" } else { "ack" });
            o.text("packet_number_space", space_name(space));
            o.text("event_type", "expired");
        }
        TraceEvent::EcnState { capable, .. } => o.text("new", if capable { "capable" } else { "failed" }),
        TraceEvent::MtuChanged { mtu, .. } => o.number("new", u64::from(mtu)),
        TraceEvent::KeysInstalled { .. }
        | TraceEvent::KeysDiscarded { .. }
        | TraceEvent::KeyUpdated { .. } => write_keys(o, event, owner),
        TraceEvent::PathAssigned { tuple, .. } => write_tuple(o, tuple_id, tuple),
        TraceEvent::PathState { state, idle, .. } => {
            o.text("new", state.name());
            if let Some(idle) = idle {
                o.text("idle", idle.name());
            }
        }
        TraceEvent::PathAbandoned { code, .. } => o.number("error_code", code.get()),
        TraceEvent::HandshakeConfirmed => o.text("new", "handshake_confirmed"),
        TraceEvent::Closed { error } => write_closed(o, error),
        _ => {}
    }
}

fn write_keys(o: &mut Object<'_>, event: &TraceEvent<'_>, owner: Side) {
    match *event {
        TraceEvent::KeysInstalled { space, early } => {
            o.text("key_type", key_type(owner, space, early));
            o.text("trigger", "tls");
        }
        TraceEvent::KeysDiscarded { space } => o.text("key_type", key_type(owner, space, false)),
        TraceEvent::KeyUpdated { generation, remote } => {
            o.text("key_type", key_type(owner, SpaceId::Data, false));
            o.number("key_phase", generation);
            o.text("trigger", if remote { "remote_update" } else { "local_update" });
        }
        _ => {}
    }
}

fn write_packet(o: &mut Object<'_>, packet: &PacketTrace<'_>, ack_delay_exponent: u32) {
    o.object("header", |o| {
        o.text("packet_type", packet_type(packet.kind));
        if packet.kind == PacketKind::OneRtt {
            o.flag("key_phase_bit", packet.key_phase);
        }
        if packet.kind.space().is_some() {
            o.number("packet_number", packet.number);
        }
        if packet.kind != PacketKind::OneRtt {
            o.hex("version", &packet.version.0.to_be_bytes());
            o.number("scil", packet.scid.len() as u64);
            o.hex("scid", &packet.scid);
        }
        o.number("dcil", packet.dcid.len() as u64);
        o.hex("dcid", &packet.dcid);
        if packet.kind == PacketKind::OneRtt {
            o.number("path_id", u64::from(packet.path.0));
        }
    });
    o.object("raw", |raw| raw.number("length", packet.size as u64));
    if packet.kind.space().is_some() {
        let frames = Frames::new(packet.payload, packet.direction);
        o.array("frames", |array| frame::write_all(array, frames, ack_delay_exponent));
    }
}

fn write_metrics(o: &mut Object<'_>, event: &TraceEvent<'_>) {
    let TraceEvent::Metrics {
        min_rtt,
        smoothed_rtt,
        latest_rtt,
        rtt_variance,
        window,
        ssthresh,
        in_flight,
        pto_count,
        ..
    } = *event
    else {
        return;
    };
    o.duration("min_rtt", min_rtt);
    o.duration("smoothed_rtt", smoothed_rtt);
    o.duration("latest_rtt", latest_rtt);
    o.duration("rtt_variance", rtt_variance);
    o.number("pto_count", u64::from(pto_count));
    o.number("congestion_window", window);
    o.number("bytes_in_flight", in_flight);
    if let Some(ssthresh) = ssthresh {
        o.number("ssthresh", ssthresh);
    }
}

fn write_tuple(o: &mut Object<'_>, tuple_id: &str, tuple: FourTuple) {
    o.text("tuple_id", tuple_id);
    o.object("tuple_remote", |o| write_endpoint(o, tuple.remote, None));
    o.object("tuple_local", |o| write_endpoint(o, tuple.local, None));
}

fn write_endpoint(o: &mut Object<'_>, address: SocketAddr, cid: Option<ConnectionId>) {
    let (ip, port) = match address {
        SocketAddr::V4(_) => ("ip_v4", "port_v4"),
        SocketAddr::V6(_) => ("ip_v6", "port_v6"),
    };
    o.text(ip, &address.ip().to_string());
    o.number(port, u64::from(address.port()));
    if let Some(cid) = cid.filter(|cid| !cid.is_empty()) {
        o.array("connection_ids", |ids| ids.hex(&cid));
    }
}

fn write_closed(o: &mut Object<'_>, error: &ConnectionError) {
    let transport = |o: &mut Object<'_>, initiator, error: &TransportError| {
        o.text("initiator", initiator);
        frame::transport_error(o, "connection_error", error.code);
        if !error.reason.is_empty() {
            o.text("reason", &error.reason);
        }
        o.text("trigger", "error");
    };
    let short = |o: &mut Object<'_>, initiator, trigger| {
        o.text("initiator", initiator);
        o.text("trigger", trigger);
    };
    let unnamed = |o: &mut Object<'_>, reason| {
        o.text("initiator", "local");
        o.text("reason", reason);
    };
    match error {
        ConnectionError::Transport(error) => transport(o, "local", error),
        ConnectionError::PeerTransport(error) => transport(o, "remote", error),
        ConnectionError::PeerApplication { code, reason } => {
            o.text("initiator", "remote");
            o.text("application_error", "unknown");
            o.number("error_code", code.get());
            o.text("reason", &String::from_utf8_lossy(reason));
            o.text("trigger", "application");
        }
        ConnectionError::Reset => short(o, "remote", "stateless_reset"),
        ConnectionError::TimedOut(_) => short(o, "local", "idle_timeout"),
        // The draft has no triggers for these errors.
        ConnectionError::Unreachable(_) => unnamed(o, "unreachable"),
        ConnectionError::HandshakeTimedOut => unnamed(o, "handshake_timeout"),
        ConnectionError::LocallyClosed => short(o, "local", "application"),
        ConnectionError::VersionMismatch => short(o, "local", "version_mismatch"),
        // These errors were added to the transport later.
        _ => short(o, "local", "unspecified"),
    }
}

fn packet_type(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Initial => "initial",
        PacketKind::ZeroRtt => "0RTT",
        PacketKind::Handshake => "handshake",
        PacketKind::Retry => "retry",
        PacketKind::OneRtt => "1RTT",
        PacketKind::VersionNegotiation => "version_negotiation",
        _ => "unknown",
    }
}

fn space_name(space: SpaceId) -> &'static str {
    match space {
        SpaceId::Initial => "initial",
        SpaceId::Handshake => "handshake",
        SpaceId::Data => "application_data",
    }
}

fn key_type(owner: Side, space: SpaceId, early: bool) -> &'static str {
    match (owner, space, early) {
        (Side::Client, _, true) => "client_0rtt_secret",
        (Side::Server, _, true) => "server_0rtt_secret",
        (Side::Client, SpaceId::Initial, _) => "client_initial_secret",
        (Side::Server, SpaceId::Initial, _) => "server_initial_secret",
        (Side::Client, SpaceId::Handshake, _) => "client_handshake_secret",
        (Side::Server, SpaceId::Handshake, _) => "server_handshake_secret",
        (Side::Client, SpaceId::Data, _) => "client_1rtt_secret",
        (Side::Server, SpaceId::Data, _) => "server_1rtt_secret",
    }
}

fn drop_trigger(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Malformed => "invalid",
        DropReason::KeyUnavailable => "key_unavailable",
        DropReason::Undecryptable => "decryption_failure",
        DropReason::Duplicate => "duplicate",
        DropReason::UnexpectedVersion => "unsupported",
        DropReason::Unexpected => "rejected",
        DropReason::UnknownConnectionId => "connection_unknown",
        _ => "general",
    }
}
