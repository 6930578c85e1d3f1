//! Tests of received messages: malformed ones (RFC 9114 §4.1.2), and requests and responses of other
//! implementations.

use http::header::{CONTENT_LENGTH, COOKIE, HOST};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, request, response};

use super::super::{
    FieldGatherer, Fields, Malformed, Protocol, content_length, request_fields, response_fields,
};
use super::{Line, gather};

const GET: [Line<'static>; 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "example.org"), (":path", "/")];

fn request(lines: &[Line<'_>]) -> Result<request::Parts, Malformed> {
    gather(lines)?.into_request()
}

fn response(lines: &[Line<'_>]) -> Result<response::Parts, Malformed> {
    gather(lines)?.into_response()
}

fn trailers(lines: &[Line<'_>]) -> Result<HeaderMap, Malformed> {
    gather(lines)?.into_trailers()
}

/// Parses a valid request followed by `lines`.
fn get_and(lines: &[Line<'_>]) -> Result<request::Parts, Malformed> {
    request(&[&GET, lines].concat())
}

/// Parses a valid request whose pseudo-header `name` has another value, or is missing.
fn get_with(name: &str, value: Option<&str>) -> Result<request::Parts, Malformed> {
    let others = GET.iter().filter(|line| line.0 != name).copied();
    let lines: Vec<Line<'_>> = others.chain(value.map(|value| (name, value))).collect();
    request(&lines)
}

#[test]
fn a_request_has_its_parts() {
    let parts = get_and(&[("accept", "*/*"), ("x-one", "1"), ("x-one", "2"), ("empty", "")]).unwrap();
    assert_eq!((parts.method, parts.version), (Method::GET, Version::HTTP_3));
    assert_eq!(parts.uri, "https://example.org/");
    assert_eq!(parts.headers.len(), 4);
    assert_eq!(parts.headers["accept"], "*/*");
    assert_eq!(parts.headers.get_all("x-one").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(parts.headers["empty"], "");
    let parts = get_with(":path", Some("/a/b?c=d")).unwrap();
    assert_eq!((parts.uri.path(), parts.uri.query()), ("/a/b", Some("c=d")));
}

#[test]
fn each_request_pseudo_header_is_there_once() {
    for name in [":method", ":scheme", ":path"] {
        assert!(get_with(name, None).is_err(), "{name}");
    }
    for line in GET {
        assert_eq!(request(&[&[line], &GET[..]].concat()).unwrap_err(), Malformed("a pseudo-header twice"));
    }
    let status = ("a pseudo-header twice", [(":status", "200"), (":status", "200")]);
    assert_eq!(response(&status.1).unwrap_err(), Malformed(status.0));
}

#[test]
fn pseudo_headers_are_known_and_in_their_place() {
    for name in [":", ":foo", ":Method", "::path", ":protocol ", ":version"] {
        assert!(request(&[&[(name, "x")], &GET[..]].concat()).is_err(), "{name}");
    }
    // A pseudo-header follows a regular field.
    for regular in [("accept", "*/*"), ("cookie", "a=b"), ("cookie", "")] {
        let mut lines = GET.to_vec();
        lines.insert(3, regular);
        assert_eq!(request(&lines).unwrap_err(), Malformed("a pseudo-header after a regular field"));
        assert!(response(&[regular, (":status", "200")]).is_err());
    }
    // The pseudo-header is not allowed in this kind of message.
    assert!(request(&[&[(":status", "200")], &GET[..]].concat()).is_err());
    for line in GET.into_iter().chain([(":protocol", "websocket")]) {
        assert!(response(&[(":status", "200"), line]).is_err());
        assert!(trailers(&[line]).is_err());
    }
    assert!(trailers(&[(":status", "200")]).is_err());
}

#[test]
fn names_are_lower_case_tokens() {
    for name in ["Accept", "x-Y", "", "a b", "a:b", "na\u{e9}", "a\0", "a\n", "x\"", "Content-Length", "a\t"]
    {
        assert!(get_and(&[(name, "x")]).is_err(), "{name:?}");
        assert!(response(&[(":status", "200"), (name, "x")]).is_err(), "{name:?}");
        assert!(trailers(&[(name, "x")]).is_err(), "{name:?}");
    }
    let long = "x".repeat(300);
    assert!(get_and(&[(&long, "x")]).is_ok());
    assert!(get_and(&[(&format!("{long}X"), "x")]).is_err());
}

#[test]
fn values_have_no_control_characters() {
    for value in ["a\0", "\r", "a\nb", "\x7f", "\x1b"] {
        for name in ["accept", "x-own", "cookie"] {
            assert!(get_and(&[(name, value)]).is_err(), "{name} {value:?}");
        }
        assert!(trailers(&[("x-own", value)]).is_err(), "{value:?}");
    }
    let parts = get_and(&[("x-own", "tab\tand \u{e9}")]).unwrap();
    assert_eq!(parts.headers["x-own"].as_bytes(), "tab\tand \u{e9}".as_bytes());
}

#[test]
fn connection_specific_fields_are_malformed() {
    for line in [
        ("connection", "close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("te", ""),
    ] {
        assert!(get_and(&[line]).is_err(), "{line:?}");
        assert!(response(&[(":status", "200"), line]).is_err(), "{line:?}");
        assert!(trailers(&[line]).is_err(), "{line:?}");
    }
    // `te` is a field of requests.
    let te = ("te", "trailers");
    assert_eq!(get_and(&[te]).unwrap().headers["te"], "trailers");
    assert!(response(&[(":status", "200"), te]).is_err());
    assert!(trailers(&[te]).is_err());
}

#[test]
fn paths_begin_with_a_slash() {
    for path in ["", "*", "index.html", "?a=b", "/a#b", "/a?b#c", "/a b", "/\0", "http://example.org/"] {
        assert!(get_with(":path", Some(path)).is_err(), "{path}");
    }
    assert!(get_with(":path", Some(&format!("/{}", "x".repeat(1 << 16)))).is_err());
    for path in ["/", "/%2e%2e", "//a", "/a?b?c", "/~a/(b)"] {
        let uri = get_with(":path", Some(path)).unwrap().uri;
        assert_eq!(uri.path_and_query().unwrap().as_str(), path);
        assert_eq!(uri.authority().unwrap(), "example.org");
    }
    let options =
        |path| request(&[(":method", "OPTIONS"), (":scheme", "https"), (":authority", "a"), (":path", path)]);
    assert_eq!(options("*").unwrap().uri.path(), "*");
    assert!(options("**").is_err());
}

#[test]
fn methods_and_schemes_are_what_they_are_called() {
    for method in ["", "GE T", "G\0T", "GET\r"] {
        assert!(get_with(":method", Some(method)).is_err(), "{method}");
    }
    assert_eq!(get_with(":method", Some("PURGE")).unwrap().method.as_str(), "PURGE");
    for scheme in ["", "ht tp", "http:", "\0", "1http", "+x"] {
        assert!(get_with(":scheme", Some(scheme)).is_err(), "{scheme}");
    }
    assert_eq!(get_with(":scheme", Some("http")).unwrap().uri.scheme_str(), Some("http"));
    assert!(request(&[(":method", "GET"), (":scheme", "HTTPS"), (":path", "/")]).is_err(), "no authority");
    assert_eq!(get_with(":scheme", Some("coap")).unwrap().uri, "coap://example.org/");
}

#[test]
fn http_and_https_have_one_authority() {
    let without = |lines: &[Line<'_>]| {
        let mut all = vec![(":method", "GET"), (":scheme", "https"), (":path", "/")];
        all.extend_from_slice(lines);
        request(&all)
    };
    assert_eq!(without(&[]).unwrap_err(), Malformed("neither :authority nor host"));
    assert_eq!(without(&[("host", "example.org:8443")]).unwrap().uri, "https://example.org:8443/");
    for authority in ["", "user@example.org", "user:pass@example.org", "a b", ":80", "a/b", "a:b:c", "[::1"] {
        assert!(without(&[("host", authority)]).is_err(), "{authority}");
        assert!(get_with(":authority", Some(authority)).is_err(), "{authority}");
    }
    for authority in
        ["example.org", "example.org:1", "192.0.2.1", "[2001:db8::1]:443", "xn--bcher-kva.example"]
    {
        assert_eq!(get_with(":authority", Some(authority)).unwrap().uri.authority().unwrap(), authority);
    }
    assert!(get_and(&[("host", "example.com")]).is_err());
    assert!(get_and(&[("host", "")]).is_err());
    assert!(get_and(&[("host", "example.org"), ("host", "example.org")]).is_err());
    assert_eq!(get_and(&[("host", "Example.org")]).unwrap().headers[HOST], "Example.org");
}

#[test]
fn other_schemes_need_no_authority() {
    let parts = request(&[(":method", "GET"), (":scheme", "coap"), (":path", "/sensor")]).unwrap();
    assert_eq!((parts.uri.scheme(), parts.uri.path()), (None, "/sensor"));
}

#[test]
fn connect_has_a_method_and_an_authority() {
    let connect = [(":method", "CONNECT"), (":authority", "example.org:443")];
    let parts = request(&connect).unwrap();
    assert_eq!((parts.method, parts.uri.to_string()), (Method::CONNECT, "example.org:443".to_owned()));
    assert!(request(&connect[..1]).is_err());
    assert!(request(&[(":method", "CONNECT"), ("host", "example.org:443")]).is_err());
    for authority in
        ["", ":443", "example.org", "example.org:", "example.org:+1", "example.org:65536", "[::1]"]
    {
        assert!(request(&[connect[0], (":authority", authority)]).is_err(), "{authority}");
    }
    assert!(request(&[connect[0], (":authority", "[::1]:443")]).is_ok());
    for line in [(":scheme", "https"), (":path", "/")] {
        assert!(request(&[connect[0], connect[1], line]).is_err());
    }
}

#[test]
fn extended_connect_has_everything() {
    let whole = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "example.org"),
        (":path", "/chat"),
    ];
    let parts = request(&whole).unwrap();
    assert_eq!(parts.extensions.get::<Protocol>(), Some(&Protocol::WEBSOCKET));
    assert_eq!(parts.uri, "https://example.org/chat");
    for missing in 2..whole.len() {
        let mut lines = whole.to_vec();
        lines.remove(missing);
        assert!(request(&lines).is_err(), "{missing}");
    }
    let mut other = whole;
    other[1].1 = "own-protocol";
    assert_eq!(request(&other).unwrap().extensions.get::<Protocol>().unwrap().as_str(), "own-protocol");
    for protocol in ["", "a b", "\u{e9}"] {
        other[1].1 = protocol;
        assert!(request(&other).is_err(), "{protocol}");
    }
    assert!(request(&[&[(":protocol", "websocket")], &GET[..]].concat()).is_err());
}

#[test]
fn a_status_has_three_digits() {
    for status in ["", "20", "2000", "2x0", " 200", "099", "+20"] {
        assert!(response(&[(":status", status)]).is_err(), "{status}");
    }
    assert_eq!(response(&[]).unwrap_err(), Malformed("no :status"));
    assert_eq!(response(&[(":status", "101")]).unwrap_err(), Malformed("status 101"));
    let parts = response(&[(":status", "103"), ("link", "</a>")]).unwrap();
    assert_eq!((parts.status, parts.version), (StatusCode::EARLY_HINTS, Version::HTTP_3));
    assert_eq!(parts.headers["link"], "</a>");
}

#[test]
fn cookie_lines_are_joined() {
    let parts = get_and(&[("cookie", "a=b"), ("accept", "*/*"), ("cookie", ""), ("cookie", "c=d")]).unwrap();
    assert_eq!(parts.headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=b; c=d"]);
    assert!(!parts.headers[COOKIE].is_sensitive());
    let mut gatherer = gather(&GET).unwrap();
    for (cookie, sensitive) in [("a=b", true), ("c=d", false)] {
        gatherer.add(b"cookie", cookie.as_bytes(), sensitive).unwrap();
    }
    let parts = gatherer.into_request().unwrap();
    assert_eq!(parts.headers[COOKIE], "a=b; c=d");
    assert!(parts.headers[COOKIE].is_sensitive());
}

#[test]
fn what_must_never_be_indexed_is_sensitive() {
    let mut gatherer = FieldGatherer::new();
    gatherer.add(b"x-key", b"secret", true).unwrap();
    gatherer.add(b"x-other", b"open", false).unwrap();
    let trailers = gatherer.into_trailers().unwrap();
    assert!(trailers["x-key"].is_sensitive());
    assert!(!trailers["x-other"].is_sensitive());
}

/// Returns the names of the lines that are never indexed.
fn never_indexed(fields: &Fields<'_>) -> Vec<String> {
    let sensitive = fields.iter().filter(|field| field.sensitive);
    sensitive.map(|field| String::from_utf8(field.name.to_vec()).unwrap()).collect()
}

/// A message that arrives with the N bit in pseudo-headers keeps it when it is sent again.
#[test]
fn pseudo_headers_that_must_never_be_indexed_are_sensitive() {
    let connect = [GET[0], GET[1], GET[2], GET[3], (":protocol", "own")];
    for marked in connect {
        let mut gatherer = FieldGatherer::new();
        for (name, value) in connect {
            let value = if name == ":method" { "CONNECT" } else { value };
            gatherer.add(name.as_bytes(), value.as_bytes(), name == marked.0).unwrap();
        }
        let parts = gatherer.into_request().unwrap();
        assert_eq!(never_indexed(&request_fields(&parts).unwrap()), [marked.0]);
    }
    for sensitive in [true, false] {
        let mut gatherer = FieldGatherer::new();
        gatherer.add(b":status", b"200", sensitive).unwrap();
        let parts = gatherer.into_response().unwrap();
        assert_eq!(never_indexed(&response_fields(&parts).unwrap()).len(), usize::from(sensitive));
        // A host field is sent as `:authority`.
        let mut gatherer = gather(&[GET[0], GET[1], GET[3]]).unwrap();
        gatherer.add(b"host", b"example.org", sensitive).unwrap();
        let parts = gatherer.into_request().unwrap();
        let expected: &[&str] = if sensitive { &[":authority"] } else { &[] };
        assert_eq!(never_indexed(&request_fields(&parts).unwrap()), expected);
    }
}

#[test]
fn values_longer_than_a_block_are_whole() {
    let long = "v".repeat(5000);
    let parts = get_and(&[("x-one", &long), ("x-two", "short"), ("x-three", &long)]).unwrap();
    assert_eq!(parts.headers["x-one"], long);
    assert_eq!(parts.headers["x-two"], "short");
    assert_eq!(parts.headers["x-three"], long);
}

#[test]
fn many_fields_are_a_fault_and_no_panic() {
    let mut gatherer = FieldGatherer::new();
    let result = (0..100_000).try_for_each(|index| gatherer.add(format!("x{index}").as_bytes(), b"", false));
    assert_eq!(result, Err(Malformed("too many fields")));
}

#[test]
fn content_lengths_are_equal_numbers() {
    let length = |values: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_LENGTH, HeaderValue::from_static(value));
        }
        content_length(&headers)
    };
    assert_eq!(length(&[]), Ok(None));
    assert_eq!(length(&["0"]), Ok(Some(0)));
    assert_eq!(length(&["007", "7"]), Ok(Some(7)));
    assert_eq!(length(&["18446744073709551615"]), Ok(Some(u64::MAX)));
    for faulty in ["", "+1", "-1", "1 ", "0x1", "1, 1", "18446744073709551616", "1e3"] {
        assert_eq!(length(&[faulty]), Err(Malformed("content-length is not a number")), "{faulty}");
    }
    assert_eq!(length(&["1", "2"]), Err(Malformed("two values of content-length")));
}
