use super::*;

const FULL: Settings = Settings {
    qpack_max_table_capacity: 4096,
    qpack_blocked_streams: 16,
    max_field_section_size: Some(65536),
    enable_connect_protocol: true,
    h3_datagram: true,
};

/// Encodes identifiers and values as a payload.
fn payload(settings: impl IntoIterator<Item = (u64, u64)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (identifier, value) in settings {
        push_varint(&mut bytes, identifier);
        push_varint(&mut bytes, value);
    }
    bytes
}

fn code(settings: impl IntoIterator<Item = (u64, u64)>) -> Code {
    Settings::decode(&payload(settings)).unwrap_err().code
}

#[test]
fn what_is_written_is_read() {
    for settings in [FULL, Settings::default(), Settings { max_field_section_size: Some(0), ..FULL }] {
        for grease in [None, Some(0), Some(u64::MAX)] {
            let mut bytes = Vec::new();
            settings.encode(grease, &mut bytes);
            assert_eq!(Settings::decode(&bytes), Ok(settings));
        }
    }
}

#[test]
fn identifiers_are_those_of_the_registry() {
    let mut bytes = Vec::new();
    FULL.encode(None, &mut bytes);
    assert_eq!(bytes, payload([(0x1, 4096), (0x6, 65536), (0x7, 16), (0x8, 1), (0x33, 1)]));
    bytes.clear();
    Settings::default().encode(Some(2), &mut bytes);
    assert_eq!(bytes, payload([(0x5f, 2)]));
}

#[test]
fn a_frame_has_its_header() {
    let mut bytes = Vec::new();
    Settings { h3_datagram: true, ..Settings::default() }.encode_frame(None, &mut bytes);
    assert_eq!(bytes, [0x04, 0x02, 0x33, 0x01]);
}

#[test]
fn unknown_settings_are_ignored() {
    let settings = Settings::decode(&payload([(0x21, 7), (0x4000, 1 << 61), (0x33, 1), (0x9, 0)]));
    assert_eq!(settings, Ok(Settings { h3_datagram: true, ..Settings::default() }));
}

#[test]
fn a_setting_twice_is_a_fault() {
    for identifier in [0x1, 0x6, 0x7, 0x8, 0x33, 0x21, 0x4000] {
        assert_eq!(code([(identifier, 0), (0x40, 0), (identifier, 0)]), Code::SETTINGS_ERROR);
    }
}

#[test]
fn settings_of_http2_are_a_fault() {
    for identifier in [0x0, 0x2, 0x3, 0x4, 0x5] {
        assert_eq!(code([(identifier, 1)]), Code::SETTINGS_ERROR);
    }
}

#[test]
fn flags_are_0_or_1() {
    for identifier in [ENABLE_CONNECT_PROTOCOL, H3_DATAGRAM] {
        assert_eq!(Settings::decode(&payload([(identifier, 0)])), Ok(Settings::default()));
        assert_ne!(Settings::decode(&payload([(identifier, 1)])), Ok(Settings::default()));
        for value in [2, 64, 1 << 61] {
            assert_eq!(code([(identifier, value)]), Code::SETTINGS_ERROR);
        }
    }
}

#[test]
fn a_payload_that_ends_inside_a_setting_is_a_frame_error() {
    let whole = payload([(0x6, 65536), (0x33, 1)]);
    for end in 1..whole.len() {
        // The payload may end between the two settings.
        let expected = if end == 5 { None } else { Some(Code::FRAME_ERROR) };
        assert_eq!(Settings::decode(&whole[..end]).err().map(|error| error.code), expected, "{end}");
    }
}

#[test]
fn more_than_max_settings_are_too_many() {
    let many = |count: usize| (0..count as u64).map(|number| (reserved(number), 0));
    assert_eq!(Settings::decode(&payload(many(MAX_SETTINGS))), Ok(Settings::default()));
    assert_eq!(code(many(MAX_SETTINGS + 1)), Code::EXCESSIVE_LOAD);
}
