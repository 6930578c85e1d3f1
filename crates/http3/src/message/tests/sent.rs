//! Tests of sent messages: their field lines, and messages that cannot be sent.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, request};

use super::super::{Fields, fields};
use super::super::{InvalidMessage, Protocol, request_fields, response_fields, trailer_fields};

/// Returns the lines as text.
fn lines(fields: &Fields<'_>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    fields.iter().map(|field| (text(field.name), text(field.value))).collect()
}

fn line(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn get(uri: &str) -> request::Parts {
    Request::get(uri).body(()).unwrap().into_parts().0
}

/// Returns the value of the line `name` of a valid request.
fn value_of(parts: &request::Parts, name: &str) -> Option<String> {
    let found = lines(&request_fields(parts).unwrap()).into_iter().find(|line| line.0 == name);
    found.map(|line| line.1)
}

#[test]
fn a_request_begins_with_pseudo_headers() {
    let mut parts = get("https://example.org:8443/a?b=c");
    parts.headers.insert("accept", HeaderValue::from_static("*/*"));
    parts.headers.insert("te", HeaderValue::from_static("trailers"));
    let fields = request_fields(&parts).unwrap();
    let expected = [
        line(":method", "GET"),
        line(":scheme", "https"),
        line(":path", "/a?b=c"),
        line(":authority", "example.org:8443"),
        line("accept", "*/*"),
        line("te", "trailers"),
    ];
    assert_eq!(lines(&fields), expected);
    let size: usize = expected.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    assert_eq!(fields.section_size(), size as u64);
}

#[test]
fn paths_are_never_empty() {
    for (uri, path) in [
        ("https://example.org", "/"),
        ("https://example.org?a=b", "/?a=b"),
        ("https://example.org/a", "/a"),
        ("http://example.org/", "/"),
    ] {
        assert_eq!(value_of(&get(uri), ":path").as_deref(), Some(path), "{uri}");
    }
    let mut parts = get("*");
    parts.headers.insert("host", HeaderValue::from_static("example.org"));
    assert_eq!(value_of(&parts, ":path").as_deref(), Some("/"));
    parts.method = Method::OPTIONS;
    assert_eq!(value_of(&parts, ":path").as_deref(), Some("*"));
}

#[test]
fn host_is_sent_as_authority() {
    let mut parts = get("https://192.0.2.1/a");
    parts.headers.insert("host", HeaderValue::from_static("example.org"));
    assert_eq!(value_of(&parts, ":authority").as_deref(), Some("example.org"));
    assert_eq!(value_of(&parts, "host"), None);
    let mut parts = get("/a");
    assert_eq!(request_fields(&parts).unwrap_err(), InvalidMessage("no authority"));
    parts.headers.insert("host", HeaderValue::from_static("example.org"));
    assert_eq!(value_of(&parts, ":authority").as_deref(), Some("example.org"));
    assert_eq!(value_of(&parts, ":scheme").as_deref(), Some("https"));
    parts.headers.append("host", HeaderValue::from_static("example.org"));
    assert!(request_fields(&parts).is_err());
    assert!(request_fields(&get("https://user:pass@example.org/")).is_err());
    for host in [&b""[..], b"a@b", b"\xff"] {
        parts.headers.insert("host", HeaderValue::from_bytes(host).unwrap());
        assert!(request_fields(&parts).is_err(), "{host:?}");
    }
}

#[test]
fn connect_has_a_method_and_an_authority() {
    let mut parts = get("example.org:443");
    parts.method = Method::CONNECT;
    let expected = [line(":method", "CONNECT"), line(":authority", "example.org:443")];
    assert_eq!(lines(&request_fields(&parts).unwrap()), expected);
    parts.uri = Uri::from_static("example.org");
    assert_eq!(request_fields(&parts).unwrap_err(), InvalidMessage("CONNECT without a port"));
}

#[test]
fn extended_connect_has_everything() {
    let mut parts = get("https://example.org/chat");
    parts.extensions.insert(Protocol::new("own").unwrap());
    assert!(request_fields(&parts).is_err());
    parts.method = Method::CONNECT;
    let expected = [
        line(":method", "CONNECT"),
        line(":scheme", "https"),
        line(":path", "/chat"),
        line(":authority", "example.org"),
        line(":protocol", "own"),
    ];
    assert_eq!(lines(&request_fields(&parts).unwrap()), expected);
    assert!(Protocol::new("").is_err());
    assert!(Protocol::new("web socket").is_err());
}

#[test]
fn connection_specific_fields_of_requests_are_refused_and_of_responses_left_out() {
    for (name, value) in [
        ("connection", "close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
    ] {
        let mut parts = get("https://example.org/");
        parts.headers.insert(name, HeaderValue::from_static(value));
        assert!(request_fields(&parts).is_err(), "{name}");
        assert!(trailer_fields(&parts.headers).is_err(), "{name}");
        let response = Response::builder().header(name, value).header("x-own", "1").body(()).unwrap();
        let parts = response.into_parts().0;
        let expected = [line(":status", "200"), line("x-own", "1")];
        assert_eq!(lines(&response_fields(&parts).unwrap()), expected);
    }
}

#[test]
fn status_101_cannot_be_sent() {
    let mut parts = Response::new(()).into_parts().0;
    parts.status = StatusCode::SWITCHING_PROTOCOLS;
    assert!(response_fields(&parts).is_err());
    parts.status = StatusCode::EARLY_HINTS;
    assert_eq!(lines(&response_fields(&parts).unwrap()), [line(":status", "103")]);
}

#[test]
fn trailers_have_no_pseudo_headers() {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    assert_eq!(lines(&trailer_fields(&trailers).unwrap()), [line("grpc-status", "0")]);
    trailers.insert("te", HeaderValue::from_static("trailers"));
    assert_eq!(trailer_fields(&trailers).unwrap_err(), InvalidMessage("te in trailers"));
}

#[test]
fn secrets_are_never_indexed() {
    let long = "c".repeat(fields::GUESSABLE_COOKIE);
    let mut own = HeaderValue::from_static("1");
    own.set_sensitive(true);
    let mut headers = HeaderMap::new();
    for (name, value, sensitive) in [
        ("authorization", HeaderValue::from_static("Basic YTpi"), true),
        ("proxy-authorization", HeaderValue::from_static("Basic YTpi"), true),
        ("set-cookie", HeaderValue::from_static("a=b"), true),
        ("cookie", HeaderValue::from_static("a=b"), true),
        ("cookie", HeaderValue::from_str(&long).unwrap(), false),
        ("x-own", own, true),
        ("x-own", HeaderValue::from_static("1"), false),
    ] {
        headers.clear();
        headers.insert(name, value.clone());
        let fields = trailer_fields(&headers).unwrap();
        assert_eq!(fields.iter().next().unwrap().sensitive, sensitive, "{name}: {value:?}");
    }
}
