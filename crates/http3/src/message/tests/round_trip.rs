//! Tests that messages are received as they were sent.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use proptest::prelude::*;

use super::super::{FieldGatherer, Fields, request_fields, response_fields, trailer_fields};

/// Returns headers that neither side treats specially. Names like `te`, `host` and `cookie` do not occur.
fn headers() -> impl Strategy<Value = HeaderMap> {
    let name = prop_oneof!["x-[a-z0-9]{1,40}", "accept|content-type|etag|vary|authorization".boxed()];
    let line = (name, proptest::collection::vec(prop_oneof![32..127u8, 128..=255u8, Just(9)], 0..64));
    proptest::collection::vec((line, any::<bool>()), 0..20).prop_map(|lines| {
        let mut headers = HeaderMap::new();
        for ((name, value), sensitive) in lines {
            let name = HeaderName::from_lowercase(name.as_bytes()).unwrap();
            let mut value = HeaderValue::from_bytes(&value).unwrap();
            value.set_sensitive(sensitive);
            headers.append(name, value);
        }
        headers
    })
}

fn gather(fields: &Fields<'_>) -> FieldGatherer {
    let mut gatherer = FieldGatherer::new();
    for field in fields.iter() {
        gatherer.add(field.name, field.value, field.sensitive).unwrap();
    }
    gatherer
}

proptest! {
    #[test]
    fn requests(
        method in "GET|POST|OPTIONS|PROPFIND",
        scheme in "https?",
        authority in "[a-z]{1,20}(:[1-9][0-9]{0,3})?",
        path in "/[a-zA-Z0-9/%._-]{0,40}(\\?[a-z=&]{0,20})?",
        headers in headers(),
    ) {
        let mut request = Request::new(()).into_parts().0;
        request.method = Method::from_bytes(method.as_bytes()).unwrap();
        request.uri = Uri::builder().scheme(&scheme[..]).authority(authority).path_and_query(path).build().unwrap();
        request.headers = headers;
        let received = gather(&request_fields(&request).unwrap()).into_request().unwrap();
        prop_assert_eq!(received.method, request.method);
        prop_assert_eq!(received.uri, request.uri);
        prop_assert_eq!(received.headers, request.headers);
    }

    #[test]
    fn responses(status in (100..1000u16).prop_filter("HTTP/3 has no 101", |status| *status != 101), headers in headers()) {
        let mut response = Response::new(()).into_parts().0;
        response.status = StatusCode::from_u16(status).unwrap();
        response.headers = headers;
        let received = gather(&response_fields(&response).unwrap()).into_response().unwrap();
        prop_assert_eq!(received.status, response.status);
        prop_assert_eq!(received.headers, response.headers);
    }

    #[test]
    fn trailers(headers in headers()) {
        let fields = trailer_fields(&headers).unwrap();
        let sensitive: Vec<bool> = fields.iter().map(|field| field.sensitive).collect();
        let received = gather(&fields).into_trailers().unwrap();
        let kept: Vec<bool> = received.values().map(HeaderValue::is_sensitive).collect();
        prop_assert_eq!(&received, &headers);
        prop_assert_eq!(kept, sensitive);
    }

    #[test]
    fn arbitrary_lines_never_panic(lines in proptest::collection::vec(("[:a-z]{0,10}", any::<Vec<u8>>()), 0..10)) {
        for finish in 0..3 {
            let mut gatherer = FieldGatherer::new();
            for (name, value) in &lines {
                let _ = gatherer.add(name.as_bytes(), value, false);
            }
            match finish {
                0 => drop(gatherer.into_request()),
                1 => drop(gatherer.into_response()),
                _ => drop(gatherer.into_trailers()),
            }
        }
    }
}
