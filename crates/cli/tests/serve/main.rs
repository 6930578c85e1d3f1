//! `anabranch serve`, as seen by its clients, its operators and systemd.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

mod client;
#[cfg(target_os = "linux")]
mod hand_over;
mod limits;
mod operation;
#[cfg(target_os = "linux")]
mod slow;

use std::os::unix::fs::symlink;
use std::path::Path;

use client::{ALL, Over, Server};

#[test]
fn every_protocol_gives_the_same_answers() {
    let server = Server::start(&[]);
    let etag = server.get(Over::Http1, "/small.txt").header("etag").to_owned();
    let part = ("range", "bytes=2-4");
    let long = format!("/{}", "x".repeat(5_000));
    type Case<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, u16, Option<&'a str>);
    let cases: [Case<'_>; 16] = [
        ("GET", "/small.txt", vec![], 200, Some("small file")),
        ("HEAD", "/small.txt", vec![], 200, Some("")),
        ("GET", "/small.txt?a=b", vec![], 200, Some("small file")),
        ("GET", "/small.txt", vec![part], 206, Some("all")),
        ("GET", "/small.txt", vec![part, ("if-range", &etag)], 206, Some("all")),
        ("GET", "/small.txt", vec![part, ("if-range", "\"x\"")], 200, Some("small file")),
        ("GET", "/small.txt", vec![("range", "bytes=0-0,2-2")], 200, Some("small file")),
        ("GET", "/small.txt", vec![("range", "bytes=10-")], 416, None),
        ("GET", "/small.txt", vec![("if-none-match", &etag)], 304, Some("")),
        ("GET", "/small.txt", vec![("if-match", "\"x\"")], 412, None),
        ("GET", "/sub", vec![], 301, None),
        ("GET", "/sub/", vec![], 200, None),
        ("GET", "/missing", vec![], 404, None),
        ("GET", &long, vec![], 414, None),
        ("DELETE", "/small.txt", vec![], 405, None),
        ("GET", "/%zz", vec![], 400, None),
    ];
    for over in ALL {
        for (method, path, fields, status, body) in &cases {
            let answer = server.ask(over, method, path, fields);
            assert_eq!(answer.status, *status, "{over:?} {method} {path} {fields:?}");
            if let Some(body) = body {
                assert_eq!(answer.text(), *body, "{over:?} {method} {path} {fields:?}");
            }
            assert_ne!(answer.header("date"), "", "{over:?}");
        }
        let listing = server.get(over, "/sub/");
        assert_eq!(listing.header("content-type"), "text/html; charset=utf-8");
        assert!(listing.text().contains("href=\"./page.html\""));
        assert_eq!(server.get(over, "/sub").header("location"), "/sub/");
        assert_eq!(server.ask(over, "PUT", "/", &[]).header("allow"), "GET, HEAD");
    }
}

#[test]
fn nothing_leads_out_of_the_root() {
    let server = Server::start(&[]);
    let root = server.field.path("root");
    let secret = server.field.path("secret");
    let link = |target: &Path, name: &str| symlink(target, root.join(name)).unwrap();
    link(&secret, "absolute");
    link(Path::new("../secret"), "relative");
    link(Path::new("relative"), "chain");
    link(Path::new(".."), "up");
    link(Path::new("small.txt"), "inside");
    let bad = [
        ("/../secret", 400),
        ("/sub/../../secret", 400),
        ("/%2e%2e/secret", 400),
        ("/.%2E/secret", 400),
        ("/..%2fsecret", 400),
        ("/%2fetc/passwd", 400),
        ("//etc/passwd", 404),
        ("/%252e%252e/secret", 404),
        ("/..%5csecret", 404),
        ("/small.txt%00", 400),
        ("/absolute", 403),
        ("/relative", 403),
        ("/chain", 403),
        ("/up/secret", 403),
        ("/up/", 403),
    ];
    for over in ALL {
        for (path, status) in bad {
            let answer = server.get(over, path);
            assert_eq!(answer.status, status, "{over:?} {path}");
            assert!(!answer.text().contains("not served"), "{over:?} {path}");
        }
        assert_eq!(server.get(over, "/inside").text(), "small file");
    }
}

#[test]
fn clients_over_tcp_are_told_of_http3() {
    let server = Server::start(&[]);
    let expected = format!("h3=\":{}\"; ma=86400", server.address.port());
    for over in [Over::Http1, Over::Http2] {
        for path in ["/small.txt", "/missing", "/sub"] {
            assert_eq!(server.get(over, path).header("alt-svc"), expected, "{over:?} {path}");
        }
    }
}

#[test]
fn listings_can_be_turned_off() {
    let server = Server::start(&["--no-listing"]);
    assert_eq!(server.get(Over::Http2, "/").status, 403);
    std::fs::write(server.field.path("root/index.html"), "welcome").unwrap();
    assert_eq!(server.get(Over::Http2, "/").text(), "welcome");
}
