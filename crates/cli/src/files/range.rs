//! Byte ranges (RFC 9110 §14).

use http::HeaderMap;
use http::header::RANGE;
use http_range_header::{EndPosition, StartPosition, SyntacticallyCorrectRange, parse_range_header};

/// Part of a file that a response contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Range {
        start: u64,
        len: u64,
    },
    /// The range contains no byte of the file.
    Unsatisfiable,
}

/// Returns the part of a file of `size` bytes that `headers` request. Invalid fields are ignored. Requests
/// for several ranges are ignored too, as §14.2 permits: only attackers are known to need them.
pub(super) fn wanted(headers: &HeaderMap, size: u64) -> Part {
    let mut fields = headers.get_all(RANGE).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return Part::Whole };
    let parsed = field.to_str().ok().and_then(|field| parse_range_header(field).ok());
    match parsed.as_ref().map(|parsed| parsed.ranges.as_slice()) {
        Some([range]) => satisfy(range, size),
        _ => Part::Whole,
    }
}

fn satisfy(range: &SyntacticallyCorrectRange, size: u64) -> Part {
    // `end` is the offset after the last byte.
    let end = match range.end {
        EndPosition::Index(last) => size.min(last.saturating_add(1)),
        EndPosition::LastByte => size,
    };
    match (range.start, range.end) {
        // Such a range is invalid (§14.1.1).
        (StartPosition::Index(start), EndPosition::Index(last)) if last < start => Part::Whole,
        (StartPosition::Index(start), _) if start < end => Part::Range { start, len: end - start },
        (StartPosition::FromLast(len), _) if len.min(size) > 0 => {
            Part::Range { start: size - len.min(size), len: len.min(size) }
        }
        _ => Part::Unsatisfiable,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn part(field: &str, size: u64) -> Part {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_str(field).unwrap());
        wanted(&headers, size)
    }

    #[test]
    fn examples_of_the_specification() {
        let range = |start, len| Part::Range { start, len };
        assert_eq!(part("bytes=0-499", 10_000), range(0, 500));
        assert_eq!(part("bytes=-500", 10_000), range(9_500, 500));
        assert_eq!(part("bytes=9500-", 10_000), range(9_500, 500));
        assert_eq!(part("bytes=-500", 100), range(0, 100));
        assert_eq!(part("bytes=0-18446744073709551615", 7), range(0, 7));
        for none in ["bytes=10-", "bytes=10-20"] {
            assert_eq!(part(none, 10), Part::Unsatisfiable, "{none}");
        }
        for nothing in ["bytes=-5", "bytes=0-", "bytes=0-0"] {
            assert_eq!(part(nothing, 0), Part::Unsatisfiable, "{nothing}");
        }
        let ignored =
            ["bytes=5-4", "bytes=0-1,3-4", "bytes=", "bytes=a-b", "lines=0-1", "bytes=99999999999999999999-"];
        for field in ignored {
            assert_eq!(part(field, 10), Part::Whole, "{field}");
        }
    }

    #[test]
    fn two_fields_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(RANGE, HeaderValue::from_static("bytes=0-1"));
        headers.append(RANGE, HeaderValue::from_static("bytes=2-3"));
        assert_eq!(wanted(&headers, 10), Part::Whole);
    }

    proptest! {
        /// Compares the result with a check of each byte against the requested range.
        #[test]
        fn as_counted(size in 0_u64..20, first in 0_u64..25, last in 0_u64..25, kind in 0..3) {
            let (field, inside): (_, Vec<u64>) = match kind {
                0 => (format!("bytes={first}-{last}"), (first..=last).filter(|at| *at < size).collect()),
                1 => (format!("bytes={first}-"), (first..size).collect()),
                _ => (format!("bytes=-{}", first + 1), (0..size).filter(|at| at + first + 1 >= size).collect()),
            };
            let expected = match inside.first() {
                _ if kind == 0 && last < first => Part::Whole,
                Some(start) => Part::Range { start: *start, len: inside.len() as u64 },
                None => Part::Unsatisfiable,
            };
            prop_assert_eq!(part(&field, size), expected);
        }
    }
}
