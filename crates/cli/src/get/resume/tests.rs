use super::*;

fn head(status: u16, fields: &[(&str, &str)]) -> Response<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    response.body(()).unwrap()
}

const WHOLE: [(&str, &str); 2] = [("content-length", "10000"), ("etag", "\"a\"")];

fn fields(arrived: &Arrived) -> Option<[String; 2]> {
    Some(arrived.rest()?.map(|(_, value)| value.to_str().unwrap().to_owned()))
}

#[test]
fn the_rest_is_asked_for_with_an_overlap() {
    let mut arrived = Arrived::begin(&head(200, &WHOLE));
    assert_eq!((arrived.rest(), arrived.wanted()), (None, Some(10_000)), "nothing is there");
    arrived.push(b"0123456789");
    assert_eq!(fields(&arrived).unwrap(), ["bytes=0-", "\"a\""]);
    arrived.push(&[7; 3 * MAX_OVERLAP / 2]);
    assert_eq!(fields(&arrived).unwrap()[0], format!("bytes={}-", 10 + MAX_OVERLAP / 2));
    // The response contains a part of the file; only the rest of that part is requested.
    let part = [("content-range", "bytes 100-299/5000"), ("etag", "\"a\"")];
    let mut arrived = Arrived::begin(&head(206, &part));
    arrived.push(&[0; 50]);
    assert_eq!((fields(&arrived).unwrap()[0].as_str(), arrived.wanted()), ("bytes=100-299", Some(200)));
}

#[test]
fn only_strong_validators_join_parts() {
    const DAY: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    for (validators, expected) in [
        (&[("etag", "\"a\"")][..], Some("\"a\"")),
        (&[("etag", "W/\"a\"")], None),
        (&[("last-modified", DAY)], None),
        (&[("last-modified", DAY), ("date", DAY)], None),
        (&[("last-modified", DAY), ("date", LATER)], Some(DAY)),
        (&[("last-modified", "yesterday"), ("date", LATER)], None),
        (&[], None),
    ] {
        let mut arrived = Arrived::begin(&head(200, validators));
        arrived.push(b"x");
        assert_eq!(fields(&arrived).map(|[_, validator]| validator).as_deref(), expected, "{validators:?}");
    }
}

#[test]
fn answers_are_judged() {
    let mut arrived = Arrived::begin(&head(200, &WHOLE));
    arrived.push(&[1; 5_000]);
    let rest = format!("bytes {}-9999/10000", 5_000 - MAX_OVERLAP);
    let longer = rest.replace("/10000", "/10001");
    let (rest, longer) = (rest.as_str(), longer.as_str());
    let fit = |status, fields: &[(&str, &str)]| arrived.fit(&head(status, fields));
    assert_eq!(fit(206, &[("content-range", rest), ("etag", "\"a\"")]).unwrap(), Fit::GoesOn(MAX_OVERLAP));
    assert_eq!(fit(206, &[("content-range", rest)]).unwrap(), Fit::GoesOn(MAX_OVERLAP));
    for wrong in [
        &[("content-range", rest), ("etag", "\"b\"")][..],
        &[("content-range", "bytes 0-9999/10000"), ("etag", "\"a\"")],
        &[("content-range", longer), ("etag", "\"a\"")],
        &[],
    ] {
        assert_eq!(fit(206, wrong).unwrap_err().exit(), Exit::Http, "{wrong:?}");
    }
    assert_eq!(fit(200, &WHOLE).unwrap(), Fit::Anew);
    assert_eq!(fit(416, &[]).unwrap(), Fit::Anew);
    assert_eq!(fit(404, &[]).unwrap_err().exit(), Exit::Http);
}

#[test]
fn what_comes_once_more_has_to_be_the_same() {
    let mut arrived = Arrived::begin(&head(200, &WHOLE));
    arrived.push(b"abcdef");
    let mut left = 6;
    for (piece, rest) in [("ab", ""), ("", ""), ("cdefgh", "gh"), ("ij", "ij")] {
        let mut piece = Bytes::from(piece);
        arrived.compare(&mut piece, &mut left).unwrap();
        assert_eq!(piece, rest);
    }
    assert_eq!(arrived.compare(&mut Bytes::from("abX"), &mut 6).unwrap_err().exit(), Exit::Http);
}

#[test]
fn pauses_grow_and_progress_counts_anew() {
    let mut tries = Tries::new(8);
    let pauses: Vec<u64> =
        std::iter::from_fn(|| tries.next(100, 0)).map(|(_, pause)| pause.as_millis() as u64).collect();
    assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 16_000, 16_000]);
    assert_eq!(tries.next(101, 0), Some((1, FIRST_PAUSE)));
    assert_eq!(Tries::new(0).next(5, 0), None);
}

/// The pauses of clients that lost the same server differ by up to a half.
#[test]
fn pauses_differ_by_what_is_random() {
    let pause = |random| {
        let mut tries = Tries::new(8);
        tries.next(0, u16::MAX).unwrap();
        tries.next(0, random).unwrap().1.as_millis()
    };
    assert_eq!([0, u16::MAX / 2, u16::MAX].map(pause), [1_000, 750, 500]);
    let mut early = Tries::new(8);
    let pauses: Vec<Duration> =
        std::iter::from_fn(|| early.next(100, u16::MAX)).map(|(_, pause)| pause).collect();
    assert!(pauses[0] == FIRST_PAUSE / 2 && pauses.is_sorted(), "{pauses:?}");
}
