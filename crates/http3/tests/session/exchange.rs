//! Tests of valid requests and responses.

use anabranch_http3::{Code, Config, Event, ReadError, RequestError, WriteError};
use anabranch_transport::TransportConfig;
use anabranch_transport::datagram::SendDatagramError;
use anabranch_wire::{Dir, StreamId, Version};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};

use crate::pair::{Pair, Setup, narrow};

fn get(path: &str) -> http::request::Parts {
    let request = Request::get(format!("https://server.lab{path}")).header("user-agent", "test");
    request.body(()).unwrap().into_parts().0
}

fn post(path: &str) -> http::request::Parts {
    let mut parts = get(path);
    parts.method = Method::POST;
    parts
}

fn connect() -> http::request::Parts {
    Request::connect("server.lab:443").body(()).unwrap().into_parts().0
}

fn ok() -> http::response::Parts {
    Response::builder().header("server", "test").body(()).unwrap().into_parts().0
}

/// Makes a request. Returns its ID and the header section that the server received.
fn request(pair: &mut Pair, parts: &http::request::Parts, end: bool) -> (StreamId, http::request::Parts) {
    let id = pair.client.http(|session, streams| session.request(streams, parts, end)).unwrap();
    pair.pump();
    assert!(pair.server.events.contains(&Event::Request));
    pair.server.events.clear();
    let (accepted, head) = pair.server.session.as_mut().unwrap().accept().unwrap();
    assert_eq!(accepted, id);
    (id, head)
}

fn response(pair: &mut Pair, id: StreamId) -> http::response::Parts {
    pair.pump();
    pair.client.session.as_mut().unwrap().response(id).unwrap()
}

fn write(host: &mut crate::pair::Host, id: StreamId, data: &[u8]) {
    let mut data = Bytes::copy_from_slice(data);
    while !data.is_empty() {
        host.http(|session, streams| session.write(streams, id, &mut data)).unwrap();
    }
}

#[test]
fn a_request_is_answered() {
    let mut pair = Pair::new();
    assert!(pair.client.events.contains(&Event::Settings));
    let (id, head) = request(&mut pair, &get("/index.html"), true);
    assert_eq!((head.method, head.uri.path()), (Method::GET, "/index.html"));
    assert_eq!(head.uri.authority().unwrap(), "server.lab");
    assert_eq!(head.headers["user-agent"], "test");
    assert_eq!(pair.server.read(id), (Vec::new(), ReadError::Finished));

    pair.server.http(|session, streams| session.respond(streams, id, &ok(), false)).unwrap();
    write(&mut pair.server, id, b"hello");
    pair.server.http(|session, streams| session.finish(streams, id)).unwrap();
    let head = response(&mut pair, id);
    assert_eq!((head.status.as_u16(), &head.headers["server"]), (200, &HeaderValue::from_static("test")));
    assert_eq!(pair.client.read(id), (b"hello".to_vec(), ReadError::Finished));
    for host in [&mut pair.client, &mut pair.server] {
        host.http(|session, streams| session.release(streams, id));
        assert_eq!(host.session.as_ref().unwrap().open_requests(), 0);
    }
    pair.pump();
    assert_eq!((pair.client.closed, pair.server.closed), (None, None));
}

/// Checks that the application gets the transport's own memory. Over VReverso, this is even the memory in
/// which the packets were decrypted.
#[test]
fn bodies_are_lent_and_taken_from_where_they_arrived() {
    for version in [Version::V1, Version::REVERSO] {
        let transport = TransportConfig::default().with_versions(vec![version]);
        let mut pair = Pair::with(Setup { transport, ..Setup::default() });
        let (id, _) = request(&mut pair, &post("/"), false);
        pair.server.http(|session, streams| session.respond(streams, id, &ok(), false)).unwrap();
        response(&mut pair, id);
        let body: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
        for from_client in [true, false] {
            let Pair { client, server, .. } = &mut pair;
            let (from, to) = if from_client { (client, server) } else { (server, client) };
            let before = to.connection().stats().received;
            write(from, id, &body);
            pair.pump();
            let to = if from_client { &mut pair.server } else { &mut pair.client };
            let mut arrived = Vec::new();
            to.http(|session, streams| {
                while let Ok(lent) = session.peek(streams, id) {
                    let (place, len) = (lent.as_ptr(), lent.len());
                    let taken = session.take(streams, id, len).unwrap();
                    assert_eq!((taken.as_ptr(), taken.len()), (place, len));
                    arrived.extend_from_slice(&taken);
                }
            });
            assert!(arrived == body, "{version}");
            let after = to.connection().stats().received;
            let [placed, copied] = [after.placed - before.placed, after.copied - before.copied];
            match version {
                Version::V1 => assert_eq!(placed, 0),
                _ => assert!(copied == 0 && placed >= 100_000, "{placed} placed, {copied} copied"),
            }
        }
    }
}

#[test]
fn bodies_go_both_ways_and_end_in_trailers() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &post("/"), false);
    pair.server.http(|session, streams| session.respond(streams, id, &ok(), false)).unwrap();
    let body: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    for (from_client, name) in [(true, "up"), (false, "down")] {
        let (from, to) = match from_client {
            true => (&mut pair.client, "server"),
            false => (&mut pair.server, "client"),
        };
        write(from, id, &body);
        let mut trailers = HeaderMap::new();
        trailers.insert("x-direction", HeaderValue::from_static(name));
        from.http(|session, streams| session.write_trailers(streams, id, &trailers)).unwrap();
        assert_eq!(from.http(|session, streams| session.finish(streams, id)), Err(WriteError::Closed));
        pair.pump();
        let to = if to == "server" { &mut pair.server } else { &mut pair.client };
        let (read, end) = to.read(id);
        assert!(read == body, "{name}");
        assert_eq!(end, ReadError::Finished);
        assert_eq!(to.session.as_mut().unwrap().trailers(id), Some(trailers));
    }
}

#[test]
fn interim_responses_come_first() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &get("/"), true);
    for status in [103, 103, 200] {
        let mut parts = ok();
        parts.status = http::StatusCode::from_u16(status).unwrap();
        pair.server.http(|session, streams| session.respond(streams, id, &parts, status == 200)).unwrap();
    }
    let statuses: Vec<u16> = (0..3).map(|_| response(&mut pair, id).status.as_u16()).collect();
    assert_eq!(statuses, [103, 103, 200]);
    assert_eq!(pair.client.read(id), (Vec::new(), ReadError::Finished));
}

#[test]
fn a_whole_response_is_the_same_as_one_in_parts() {
    let mut pair = Pair::new();
    for body in [&b""[..], b"x", &[7; 3000]] {
        let (id, _) = request(&mut pair, &get("/"), true);
        pair.server.http(|session, streams| session.respond_whole(streams, id, &ok(), body)).unwrap();
        assert_eq!(response(&mut pair, id).status, 200);
        assert_eq!(pair.client.read(id), (body.to_vec(), ReadError::Finished));
    }
}

#[test]
fn a_head_response_has_no_body_whatever_its_length_says() {
    let mut pair = Pair::new();
    let mut parts = get("/");
    parts.method = Method::HEAD;
    let (id, _) = request(&mut pair, &parts, true);
    let mut parts = ok();
    parts.headers.insert("content-length", HeaderValue::from_static("500"));
    pair.server.http(|session, streams| session.respond(streams, id, &parts, true)).unwrap();
    assert_eq!(response(&mut pair, id).headers["content-length"], "500");
    assert_eq!(pair.client.read(id), (Vec::new(), ReadError::Finished));
}

#[test]
fn responses_without_content_have_none_whatever_is_written() {
    for (method, status) in [(Method::HEAD, 200), (Method::GET, 204), (Method::GET, 304)] {
        for whole in [true, false] {
            let mut pair = Pair::new();
            let mut parts = get("/");
            parts.method = method.clone();
            let (id, _) = request(&mut pair, &parts, true);
            let mut parts = ok();
            parts.status = http::StatusCode::from_u16(status).unwrap();
            if whole {
                let answered =
                    pair.server.http(|session, streams| session.respond_whole(streams, id, &parts, b"body"));
                answered.unwrap();
            } else {
                pair.server.http(|session, streams| session.respond(streams, id, &parts, false)).unwrap();
                write(&mut pair.server, id, b"body");
                pair.server.http(|session, streams| session.finish(streams, id)).unwrap();
            }
            assert_eq!(response(&mut pair, id).status, status);
            assert_eq!(pair.client.read(id), (Vec::new(), ReadError::Finished), "{method} {status}");
        }
    }
}

#[test]
fn a_tunnel_carries_bytes_both_ways() {
    let mut pair = Pair::new();
    let parts = Request::connect("example.org:22").body(()).unwrap().into_parts().0;
    let (id, head) = request(&mut pair, &parts, false);
    assert_eq!((head.method, head.uri.to_string()), (Method::CONNECT, "example.org:22".to_owned()));
    let mut parts = ok();
    // Any 2xx status opens a tunnel, even one that does not permit content otherwise.
    parts.status = http::StatusCode::NO_CONTENT;
    pair.server.http(|session, streams| session.respond(streams, id, &parts, false)).unwrap();
    assert_eq!(response(&mut pair, id).status, 204);
    for round in 0..3_u8 {
        write(&mut pair.client, id, &[round; 10]);
        pair.pump();
        assert_eq!(pair.server.read(id), (vec![round; 10], ReadError::Blocked));
        write(&mut pair.server, id, &[round; 20]);
        pair.pump();
        assert_eq!(pair.client.read(id), (vec![round; 20], ReadError::Blocked));
    }
    let trailers = HeaderMap::new();
    let result = pair.client.http(|session, streams| session.write_trailers(streams, id, &trailers));
    assert!(matches!(result, Err(WriteError::Invalid(_))));
}

#[test]
fn extended_connect_needs_the_servers_word() {
    for allowed in [true, false] {
        let server = Config::default().with_enable_connect_protocol(allowed);
        let mut pair = Pair::with(Setup { server: Some(server), ..Setup::default() });
        let mut parts = get("/chat");
        parts.method = Method::CONNECT;
        parts.extensions.insert(anabranch_http3::message::Protocol::WEBSOCKET);
        if allowed {
            let (id, head) = request(&mut pair, &parts, false);
            let protocol = head.extensions.get::<anabranch_http3::message::Protocol>().unwrap();
            assert_eq!((protocol.as_str(), head.uri.path()), ("websocket", "/chat"));
            pair.server.http(|session, streams| session.respond(streams, id, &ok(), false)).unwrap();
            write(&mut pair.client, id, b"ping");
            pair.pump();
            assert_eq!(pair.server.read(id), (b"ping".to_vec(), ReadError::Blocked));
        } else {
            let result = pair.client.http(|session, streams| session.request(streams, &parts, false));
            assert!(matches!(result, Err(RequestError::Invalid(_))));
        }
    }
}

#[test]
fn datagrams_find_their_request() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &connect(), false);
    let send = |session: &mut anabranch_http3::Session, connection: &mut anabranch_transport::Connection| {
        session.send_datagram(connection.datagrams(), id, b"unreliable")
    };
    pair.client.with(send).unwrap().unwrap();
    pair.server.with(send).unwrap().unwrap();
    pair.pump();
    for host in [&mut pair.client, &mut pair.server] {
        assert!(host.events.contains(&Event::Datagram(id)));
        assert_eq!(host.session.as_mut().unwrap().recv_datagram(id).unwrap(), &b"unreliable"[..]);
    }
}

/// Sends a datagram as the client. Returns whether it was sent.
fn send_datagram(pair: &mut Pair, id: StreamId) -> bool {
    let sent = pair.client.with(|session, connection| {
        let max = session.max_datagram_len(connection.datagrams(), id);
        (session.send_datagram(connection.datagrams(), id, b"x"), max)
    });
    match sent.unwrap() {
        (Ok(()), Some(_)) => true,
        (Err(SendDatagramError::UnsupportedByPeer), None) => false,
        other => panic!("{other:?}"),
    }
}

/// Both ends have to announce datagrams before any is sent (RFC 9297 §2.1.1).
#[test]
fn no_datagram_leaves_before_settings_or_against_them() {
    let open = |pair: &mut Pair| {
        let id = pair.client.http(|session, streams| session.request(streams, &connect(), false)).unwrap();
        pair.pump();
        id
    };
    for (client, server) in [(true, true), (false, true), (true, false)] {
        let [client_config, server_config] =
            [client, server].map(|own| Some(Config::default().with_h3_datagram(own)));
        let mut pair = Pair::with(Setup { client: client_config, server: server_config, ..Setup::default() });
        let id = open(&mut pair);
        assert_eq!(send_datagram(&mut pair, id), client && server);
    }
    // The client's SETTINGS wait for credit, first those of the peer are missing, too.
    let mut pair = Pair::with(Setup { server: None, transport: narrow(8), ..Setup::default() });
    let id = open(&mut pair);
    assert!(!send_datagram(&mut pair, id), "nothing is announced");
    pair.server.open(Dir::Uni, b"\0\x04\x02\x33\x01", false);
    pair.pump();
    assert!(pair.client.events.contains(&Event::Settings));
    assert!(!send_datagram(&mut pair, id), "the own SETTINGS wait");
    let control = pair.server.connection().streams().accept(Dir::Uni).unwrap();
    for _ in 0..20 {
        while pair.server.connection().streams().take(control, usize::MAX).is_ok() {}
        pair.pump();
    }
    assert!(send_datagram(&mut pair, id));
}

/// A program cannot send datagrams for requests whose method has none (RFC 9297 §2).
#[test]
fn a_get_has_no_datagrams() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &post("/"), false);
    for host in [&mut pair.client, &mut pair.server] {
        let sent = host.with(|session, connection| session.send_datagram(connection.datagrams(), id, b"x"));
        assert_eq!(sent, Some(Err(SendDatagramError::UnsupportedByPeer)));
    }
    let tunnel = request(&mut pair, &connect(), false).0;
    assert!(send_datagram(&mut pair, tunnel));
}

#[test]
fn going_away_lets_requests_finish_and_takes_no_more() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &get("/"), true);
    pair.server.http(|session, streams| session.announce_shutdown(streams));
    // This request is made before the client receives GOAWAY.
    let late = pair.client.http(|session, streams| session.request(streams, &get("/late"), true)).unwrap();
    pair.pump();
    assert!(pair.client.events.contains(&Event::GoingAway));
    let refused = pair.client.http(|session, streams| session.request(streams, &get("/"), true));
    assert_eq!(refused, Err(RequestError::GoingAway));
    assert_eq!(pair.server.session.as_mut().unwrap().accept().map(|(id, _)| id), Some(late));
    pair.server.http(|session, streams| session.shutdown(streams));
    for id in [id, late] {
        pair.server.http(|session, streams| session.respond(streams, id, &ok(), true)).unwrap();
        assert_eq!(response(&mut pair, id).status, 200);
    }
}

#[test]
fn requests_beyond_the_last_one_may_be_made_again() {
    let mut pair = Pair::new();
    let (_, _) = request(&mut pair, &get("/"), true);
    pair.server.http(|session, streams| session.shutdown(streams));
    let late = pair.client.http(|session, streams| session.request(streams, &get("/late"), true)).unwrap();
    pair.pump();
    assert!(pair.client.events.contains(&Event::Failed(late)));
    assert_eq!(pair.client.read(late).1, ReadError::Rejected);
    assert!(pair.server.session.as_mut().unwrap().accept().is_none());
}

#[test]
fn a_reset_is_read_as_its_code() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &post("/"), false);
    pair.client.http(|session, streams| session.release(streams, id));
    pair.pump();
    assert_eq!(pair.server.read(id).1, ReadError::Reset(Code::REQUEST_CANCELLED));
    assert!(pair.server.events.contains(&Event::Stopped(id, Code::REQUEST_CANCELLED)));
    let result = pair.server.http(|session, streams| session.respond(streams, id, &ok(), true));
    assert_eq!(result, Err(WriteError::Stopped(Code::REQUEST_CANCELLED)));
    pair.server.http(|session, streams| session.release(streams, id));
    assert_eq!(pair.server.session.as_ref().unwrap().open_requests(), 0);
}

#[test]
fn many_requests_share_the_tables() {
    let mut pair = Pair::new();
    for round in 0..50 {
        let ids: Vec<StreamId> = (0..40)
            .map(|i| {
                let mut parts = get(&format!("/{round}/{i}"));
                parts.headers.insert("x-round", HeaderValue::from(round));
                pair.client.http(|session, streams| session.request(streams, &parts, true)).unwrap()
            })
            .collect();
        pair.pump();
        while let Some((id, head)) = pair.server.session.as_mut().unwrap().accept() {
            let path = head.uri.path().to_owned();
            assert_eq!(head.headers["x-round"], *round.to_string());
            pair.server
                .http(|session, streams| session.respond_whole(streams, id, &ok(), path.as_bytes()))
                .unwrap();
            pair.server.http(|session, streams| session.release(streams, id));
        }
        pair.pump();
        for (i, id) in ids.into_iter().enumerate() {
            assert_eq!(pair.client.session.as_mut().unwrap().response(id).unwrap().status, 200);
            assert_eq!(pair.client.read(id), (format!("/{round}/{i}").into_bytes(), ReadError::Finished));
            pair.client.http(|session, streams| session.release(streams, id));
        }
    }
    assert_eq!((pair.client.closed, pair.server.closed), (None, None));
    assert_eq!(pair.server.session.as_ref().unwrap().open_requests(), 0);
}

#[test]
fn small_windows_only_slow_down() {
    for window in [1, 7, 100] {
        let setup = Setup { transport: narrow(window), ..Setup::default() };
        let mut pair = Pair::with(setup);
        let id = pair.client.http(|session, streams| session.request(streams, &post("/"), false)).unwrap();
        let mut data = Bytes::from_static(&[9; 300]);
        let mut received = Vec::new();
        let mut accepted = false;
        for _ in 0..2_000 {
            let result = pair.client.http(|session, streams| session.write(streams, id, &mut data));
            assert!(matches!(result, Ok(_) | Err(WriteError::Blocked)), "{result:?}");
            pair.pump();
            accepted |= pair.server.session.as_mut().unwrap().accept().is_some();
            if accepted {
                received.extend(pair.server.read(id).0);
            }
            if data.is_empty() && received.len() == 300 {
                break;
            }
        }
        assert_eq!(received, [9; 300], "window {window}");
    }
}

#[test]
fn what_was_finished_is_delivered_after_its_release() {
    let setup = Setup { transport: narrow(100), ..Setup::default() };
    let mut pair = Pair::with(setup);
    let (id, _) = request(&mut pair, &get("/"), true);
    pair.server.http(|session, streams| {
        session.respond_whole(streams, id, &ok(), &[5; 1000]).unwrap();
        session.release(streams, id);
    });
    let mut body = Vec::new();
    let mut end = ReadError::Blocked;
    for _ in 0..100 {
        pair.pump();
        let (read, why) = pair.client.read(id);
        body.extend(read);
        end = why;
    }
    assert_eq!((body, end), (vec![5; 1000], ReadError::Finished));
    assert_eq!(pair.server.session.as_ref().unwrap().open_requests(), 0);
}

#[test]
fn datagrams_of_a_message_that_has_ended_are_not_sent() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &connect(), true);
    let sent =
        pair.client.with(|session, connection| session.send_datagram(connection.datagrams(), id, b"late"));
    assert_eq!(sent, Some(Ok(())));
    pair.server.http(|session, streams| session.respond(streams, id, &ok(), false)).unwrap();
    let sent =
        pair.server.with(|session, connection| session.send_datagram(connection.datagrams(), id, b"in time"));
    assert_eq!(sent, Some(Ok(())));
    pair.pump();
    assert!(!pair.server.events.contains(&Event::Datagram(id)));
    assert_eq!(pair.client.session.as_mut().unwrap().recv_datagram(id).unwrap(), &b"in time"[..]);
}

fn with_length(mut parts: http::response::Parts, length: &'static str) -> http::response::Parts {
    parts.headers.insert("content-length", HeaderValue::from_static(length));
    parts
}

fn is_invalid(result: &Result<impl std::fmt::Debug, WriteError>) -> bool {
    matches!(result, Err(WriteError::Invalid(_)))
}

#[test]
fn content_is_as_long_as_this_end_says() {
    let mut pair = Pair::new();
    let head = with_length(ok(), "5");
    let untrue = with_length(ok(), "five");
    let (id, _) = request(&mut pair, &get("/"), true);
    pair.server.http(|session, streams| {
        // A response that would be malformed from the start is not sent.
        for (parts, body) in [(&head, &b"four"[..]), (&head, b"sixsix"), (&head, b""), (&untrue, b"five")] {
            assert!(is_invalid(&session.respond_whole(streams, id, parts, body)));
        }
        assert!(is_invalid(&session.respond(streams, id, &head, true)));
        session.respond(streams, id, &head, false).unwrap();
        assert_eq!(session.write(streams, id, &mut Bytes::from_static(b"four")), Ok(4));
        assert!(is_invalid(&session.finish(streams, id)));
        assert!(is_invalid(&session.write_trailers(streams, id, &HeaderMap::new())));
        assert!(is_invalid(&session.write(streams, id, &mut Bytes::from_static(b"56"))));
        assert_eq!(session.write(streams, id, &mut Bytes::from_static(b"5")), Ok(1));
        session.finish(streams, id).unwrap();
    });
    assert_eq!(response(&mut pair, id).status, 200);
    assert_eq!(pair.client.read(id), (b"four5".to_vec(), ReadError::Finished));
    let mut parts = post("/");
    parts.headers.insert("content-length", HeaderValue::from_static("5"));
    let made = pair.client.http(|session, streams| session.request(streams, &parts, true));
    assert!(matches!(made, Err(RequestError::Invalid(_))));
}

#[test]
fn an_interim_response_does_not_end_a_message() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &get("/"), true);
    let mut parts = ok();
    parts.status = http::StatusCode::EARLY_HINTS;
    pair.server.http(|session, streams| {
        assert!(is_invalid(&session.respond(streams, id, &parts, true)));
        assert!(is_invalid(&session.respond_whole(streams, id, &parts, b"")));
        session.respond(streams, id, &parts, false).unwrap();
        session.respond_whole(streams, id, &ok(), b"").unwrap();
    });
    assert_eq!(response(&mut pair, id).status, 103);
    assert_eq!(response(&mut pair, id).status, 200);
}

#[test]
fn what_arrives_together_with_the_end_of_the_connection_is_read() {
    let mut pair = Pair::new();
    let (id, _) = request(&mut pair, &get("/"), true);
    pair.server.http(|session, streams| session.respond_whole(streams, id, &ok(), b"body")).unwrap();
    let now = pair.now;
    assert!(pair.server.deliver(now, &mut pair.client));
    pair.server.connection().close(now, Code::NO_ERROR.into(), Bytes::new());
    assert!(pair.server.deliver(now, &mut pair.client));
    assert_eq!(response(&mut pair, id).status, 200);
    assert!(pair.client.closed.is_some());
}
