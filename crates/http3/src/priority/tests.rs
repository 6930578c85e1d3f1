use http::HeaderValue;

use super::*;

const fn priority(urgency: u8, incremental: bool) -> Priority {
    Priority { urgency, incremental }
}

#[test]
fn members_are_read_leniently() {
    for (value, expected) in [
        ("", priority(3, false)),
        ("u=0", priority(0, false)),
        ("u=7, i", priority(7, true)),
        ("i=?1,u=1", priority(1, true)),
        ("u=5, i=?0", priority(5, false)),
        // Unknown members and parameters are ignored.
        ("u=2;x=9, i;y, z=(1 2)", priority(2, true)),
        // A value that is out of range or of another type is replaced by the member's default.
        ("u=8, i", priority(3, true)),
        ("u=-1, i", priority(3, true)),
        ("u=1.0, i", priority(3, true)),
        ("u=\"1\", i=1", priority(3, false)),
        ("u=(1), i=(?1)", priority(3, false)),
        ("u=999999999999999, i", priority(3, true)),
        // If a member occurs more than once, the last one counts.
        ("u=1, u=6", priority(6, false)),
        ("u=1, u=9, i, i=?0", priority(3, false)),
        // A value that is not a dictionary yields both defaults.
        ("u=1, i=?2", priority(3, false)),
        ("u=1,", priority(3, false)),
        ("U=1", priority(3, false)),
        ("u=1, \u{e9}", priority(3, false)),
    ] {
        assert_eq!(Priority::parse(value.as_bytes()), expected, "{value}");
    }
}

#[test]
fn what_is_written_is_read() {
    for urgency in 0..=7 {
        for incremental in [false, true] {
            let value = priority(urgency, incremental);
            assert_eq!(Priority::parse(value.to_string().as_bytes()), value);
        }
    }
    assert_eq!(priority(1, true).to_string(), "u=1, i");
    assert_eq!(priority(200, false).to_string(), "u=7");
}

#[test]
fn header_lines_are_one_dictionary() {
    let mut headers = HeaderMap::new();
    assert_eq!(Priority::of(&headers), Priority::UNSAID);
    headers.append(PRIORITY, HeaderValue::from_static(""));
    assert_eq!(
        Priority::of(&headers),
        Priority::default(),
        "a client that speaks of priorities means their defaults"
    );
    headers.clear();
    headers.append(PRIORITY, HeaderValue::from_static("u=1"));
    assert_eq!(Priority::of(&headers), priority(1, false));
    headers.append(PRIORITY, HeaderValue::from_static("i"));
    assert_eq!(Priority::of(&headers), priority(1, true));
    headers.append(PRIORITY, HeaderValue::from_static("u=6"));
    assert_eq!(Priority::of(&headers), priority(6, true));
}

#[test]
fn urgent_responses_have_high_levels() {
    for (urgency, level) in [(0, 7), (3, 4), (7, 0), (255, 0)] {
        let expected = stream::Priority::new(level, urgency == 3);
        assert_eq!(stream::Priority::from(priority(urgency, urgency == 3)), expected);
    }
}
