//! Transport parameters in `parameters_set` (draft-ietf-quic-qlog-quic-events-12 §5.3).

use anabranch_wire::{PreferredAddress, TransportParameters};

use crate::json::Object;

pub(crate) fn write(o: &mut Object<'_>, local: bool, p: &TransportParameters) {
    o.text("initiator", if local { "local" } else { "remote" });
    let ids = [
        ("original_destination_connection_id", &p.original_destination_connection_id),
        ("initial_source_connection_id", &p.initial_source_connection_id),
        ("retry_source_connection_id", &p.retry_source_connection_id),
    ];
    for (key, id) in ids {
        if let Some(id) = id {
            o.hex(key, id);
        }
    }
    o.flag("disable_active_migration", p.disable_active_migration);
    o.number("max_idle_timeout", p.max_idle_timeout);
    o.number("max_udp_payload_size", p.max_udp_payload_size);
    o.number("ack_delay_exponent", p.ack_delay_exponent);
    o.number("max_ack_delay", p.max_ack_delay);
    o.number("active_connection_id_limit", p.active_connection_id_limit);
    o.number("initial_max_data", p.initial_max_data);
    o.number("initial_max_stream_data_bidi_local", p.initial_max_stream_data_bidi_local);
    o.number("initial_max_stream_data_bidi_remote", p.initial_max_stream_data_bidi_remote);
    o.number("initial_max_stream_data_uni", p.initial_max_stream_data_uni);
    o.number("initial_max_streams_bidi", p.initial_max_streams_bidi);
    o.number("initial_max_streams_uni", p.initial_max_streams_uni);
    if let Some(address) = &p.preferred_address {
        o.object("preferred_address", |o| write_preferred_address(o, address));
    }
    // Unknown parameters are not stored, but readers expect the field.
    o.array("unknown_parameters", |_| {});
    o.number("max_datagram_frame_size", p.max_datagram_frame_size);
    o.flag("grease_quic_bit", p.grease_quic_bit);
    // Extensions that the draft does not define: RFC 10069 and draft-ietf-quic-ack-frequency.
    if let Some(maximum) = p.initial_max_path_id {
        o.number("initial_max_path_id", u64::from(maximum));
    }
    if let Some(delay) = p.min_ack_delay {
        o.number("min_ack_delay", delay);
    }
}

fn write_preferred_address(o: &mut Object<'_>, address: &PreferredAddress) {
    if let Some(v4) = address.v4 {
        o.text("ip_v4", &v4.ip().to_string());
        o.number("port_v4", u64::from(v4.port()));
    }
    if let Some(v6) = address.v6 {
        o.text("ip_v6", &v6.ip().to_string());
        o.number("port_v6", u64::from(v6.port()));
    }
    o.hex("connection_id", &address.cid);
    // The draft requires the token. Zeros are written instead, because a reader of the log could close the
    // connection with it.
    o.hex("stateless_reset_token", &[0; 16]);
}
