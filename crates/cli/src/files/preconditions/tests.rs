use http::HeaderValue;

use super::*;

const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn validators() -> Validators {
    Validators { etag: "\"a\"".parse().unwrap(), modified: httpdate::parse_http_date(DATE).unwrap() }
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
}

#[test]
fn preconditions_in_their_order() {
    use Verdict::{Failed, NotModified, Proceed};
    let (etag, other) = (("if-none-match", "\"a\""), ("if-none-match", "\"b\""));
    let cases: [(&[(&'static str, &'static str)], Verdict); 16] = [
        (&[], Proceed),
        (&[etag], NotModified),
        (&[other], Proceed),
        (&[("if-none-match", "W/\"a\"")], NotModified),
        (&[("if-none-match", "\"x\", \"a\"")], NotModified),
        (&[("if-none-match", "*")], NotModified),
        (&[("if-modified-since", DATE)], NotModified),
        (&[("if-modified-since", AFTER)], NotModified),
        (&[("if-modified-since", BEFORE)], Proceed),
        (&[other, ("if-modified-since", DATE)], Proceed),
        (&[("if-modified-since", "yesterday")], Proceed),
        (&[("if-match", "\"b\"")], Failed),
        (&[("if-match", "\"a\""), etag], NotModified),
        (&[("if-match", "W/\"a\"")], Failed),
        (&[("if-unmodified-since", BEFORE)], Failed),
        (&[("if-unmodified-since", DATE)], Proceed),
    ];
    for (fields, verdict) in cases {
        assert_eq!(validators().judge(&headers(fields)), verdict, "{fields:?}");
    }
}

#[test]
fn ranges_need_the_very_same_file() {
    let allowed = |value| validators().allow_range(&headers(&[("if-range", value)]));
    assert!(validators().allow_range(&headers(&[])));
    assert!(allowed("\"a\"") && allowed(DATE));
    for not in ["\"b\"", "W/\"a\"", BEFORE, AFTER, "a", ""] {
        assert!(!allowed(not), "{not}");
    }
}

#[test]
fn times_that_cannot_be_written_are_moved() {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(dir.path().join("file")).unwrap();
    let now = SystemTime::now();
    for odd in [SystemTime::UNIX_EPOCH - Duration::from_secs(5), now + Duration::from_secs(500)] {
        file.set_modified(odd).unwrap();
        let validators = Validators::of(&file.metadata().unwrap(), now).unwrap();
        validators.tell(&mut HeaderMap::new());
        assert!(validators.modified >= SystemTime::UNIX_EPOCH && validators.modified <= now);
    }
}
