//! Tests with random actions of two endpoints, and with random changes to a peer's bytes.

use std::collections::BTreeMap;

use anabranch_http3::{Code, Config, Priority, ReadError, Session, WriteError, reserved};
use anabranch_transport::TransportConfig;
use anabranch_wire::{Side, StreamId, push_varint};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};

use crate::by_hand::{Duel, REQUEST, RESPONSE, ROLES, data, decoder_stream, encoder_stream, frame, headers};
use crate::pair::{Host, Pair, Setup, narrow};

/// Random numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number below `n`.
    fn roll(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn bytes(&mut self, max: usize) -> Vec<u8> {
        (0..self.roll(max + 1)).map(|_| self.next() as u8).collect()
    }
}

/// Record of one endpoint's actions and observations on a request.
#[derive(Debug, Default)]
struct View {
    sent: Vec<u8>,
    has_head: bool,
    /// `true` if the message was completed.
    is_whole: bool,
    /// `true` if this endpoint reset, stopped or released the request before both messages were complete.
    meddled: bool,
    is_released: bool,
    received: Vec<u8>,
    end: Option<ReadError>,
}

/// Endpoint with its requests.
struct End {
    is_client: bool,
    views: BTreeMap<StreamId, View>,
}

impl End {
    fn new(is_client: bool) -> Self {
        Self { is_client, views: BTreeMap::new() }
    }

    /// Performs a random action on one of the requests.
    fn act(&mut self, host: &mut Host, dice: &mut Dice) {
        let open: Vec<StreamId> =
            self.views.iter().filter(|(_, view)| !view.is_released).map(|(id, _)| *id).collect();
        if open.is_empty() {
            return;
        }
        let id = open[dice.roll(open.len())];
        let is_client = self.is_client;
        let Some(view) = self.views.get_mut(&id) else { return };
        match dice.roll(40) {
            0..8 if !is_client && !view.has_head => respond(host, id, view, dice),
            0..12 => write(host, id, view, dice),
            12..16 => end(host, id, view, dice),
            16..30 => read(host, id, view, dice),
            30..34 => {
                let priority = Priority::new(dice.roll(8) as u8, dice.roll(2) == 0);
                host.http(|session, streams| session.set_priority(streams, id, priority));
            }
            34 => {
                view.meddled |= !view.is_whole;
                host.http(|session, streams| session.reset(streams, id, Code::REQUEST_CANCELLED));
            }
            35 => {
                view.meddled |= view.end != Some(ReadError::Finished);
                host.http(|session, streams| session.stop(streams, id, Code::REQUEST_CANCELLED));
            }
            36 => release(host, id, view),
            37 => {
                _ = host.with(|session, connection| session.send_datagram(connection.datagrams(), id, b"x"));
            }
            38 => _ = host.session.as_mut().unwrap().recv_datagram(id),
            _ => {}
        }
    }
}

fn fields(dice: &mut Dice) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in ["x-one", "x-two", "user-agent", "accept", "cookie"] {
        if dice.roll(2) == 0 {
            let value = ["a", "b", "a value that is somewhat longer"][dice.roll(3)];
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    headers
}

fn respond(host: &mut Host, id: StreamId, view: &mut View, dice: &mut Dice) {
    let mut parts = Response::new(()).into_parts().0;
    parts.headers = fields(dice);
    let result = match dice.roll(4) {
        0 => {
            parts.status = http::StatusCode::EARLY_HINTS;
            host.http(|session, streams| session.respond(streams, id, &parts, false))
        }
        1 => {
            let body = dice.bytes(3000);
            let result = host.http(|session, streams| session.respond_whole(streams, id, &parts, &body));
            if result.is_ok() {
                (view.has_head, view.is_whole) = (true, true);
                view.sent = body;
            }
            result
        }
        _ => {
            let result = host.http(|session, streams| session.respond(streams, id, &parts, false));
            view.has_head |= result.is_ok();
            result
        }
    };
    assert!(matches!(result, Ok(()) | Err(WriteError::Stopped(_) | WriteError::Closed)), "{result:?}");
}

fn write(host: &mut Host, id: StreamId, view: &mut View, dice: &mut Dice) {
    let bytes = Bytes::from(dice.bytes(5000));
    let mut rest = bytes.clone();
    let result = host.http(|session, streams| session.write(streams, id, &mut rest));
    match result {
        Ok(n) => {
            assert_eq!(n, bytes.len() - rest.len());
            view.sent.extend_from_slice(&bytes[..n]);
        }
        Err(error) => assert!(!matches!(error, WriteError::Invalid(_)), "{error:?}"),
    }
}

fn end(host: &mut Host, id: StreamId, view: &mut View, dice: &mut Dice) {
    let result = match dice.roll(2) {
        0 => host.http(|session, streams| session.finish(streams, id)),
        _ => {
            let trailers = fields(dice);
            host.http(|session, streams| session.write_trailers(streams, id, &trailers))
        }
    };
    view.is_whole |= result.is_ok();
}

fn read(host: &mut Host, id: StreamId, view: &mut View, dice: &mut Dice) {
    let max = dice.roll(4000) + 1;
    let result = host.http(|session, streams| {
        while session.response(id).is_some() {}
        session.take(streams, id, max)
    });
    match result {
        Ok(bytes) => {
            assert!(!bytes.is_empty());
            view.received.extend_from_slice(&bytes);
        }
        Err(ReadError::Blocked) => {}
        Err(error) => {
            assert!(view.end.is_none_or(|end| end == error), "{:?}, then {error:?}", view.end);
            view.end = Some(error);
        }
    }
}

fn release(host: &mut Host, id: StreamId, view: &mut View) {
    view.is_released = true;
    view.meddled |= !view.is_whole || view.end != Some(ReadError::Finished);
    host.http(|session, streams| session.release(streams, id));
}

fn accept(host: &mut Host, server: &mut End) {
    while let Some((id, _)) = host.session.as_mut().unwrap().accept() {
        server.views.insert(id, View::default());
    }
}

/// Completes every message that can still be completed, then releases all requests.
fn wind_up(pair: &mut Pair, client: &mut End, server: &mut End, dice: &mut Dice) {
    for _ in 0..200 {
        accept(&mut pair.server, server);
        for (end, host) in [(&mut *client, &mut pair.client), (&mut *server, &mut pair.server)] {
            for (id, view) in end.views.iter_mut().filter(|(_, view)| !view.is_released) {
                while !end.is_client && !view.has_head && host.http(|s, _| s.write_end(*id)).is_none() {
                    respond(host, *id, view, dice);
                }
                if !view.is_whole {
                    self::end(host, *id, view, dice);
                }
                for _ in 0..10 {
                    read(host, *id, view, dice);
                }
            }
        }
        pair.pump();
    }
    for (end, host) in [(&mut *client, &mut pair.client), (&mut *server, &mut pair.server)] {
        end.views.iter_mut().for_each(|(id, view)| release(host, *id, view));
    }
    pair.pump();
}

/// Checks that `to` has read the bytes that `from` has sent: all of them, unless an endpoint has reset,
/// stopped or released the request.
fn check(from: &End, to: &End) {
    for (id, view) in &to.views {
        let Some(sender) = from.views.get(id) else { continue };
        assert!(sender.sent.starts_with(&view.received), "{id:?} was changed on the way");
        if view.end == Some(ReadError::Finished) {
            assert!(sender.is_whole && sender.sent == view.received, "{id:?} ends too early");
        } else {
            assert!(view.meddled || sender.meddled, "{id:?} came to {:?} though nobody meddled", view.end);
        }
        assert!(!matches!(view.end, Some(ReadError::Malformed(_))), "{id:?}: {:?}", view.end);
    }
}

/// Checks 2,400 requests with random actions over 60 connections.
#[test]
fn two_ends_agree_whatever_they_do() {
    let (mut requests, mut finished) = (0, 0);
    for seed in 0..60 {
        let dice = &mut Dice(seed);
        let mut setup = Setup::default();
        if dice.roll(2) == 0 {
            let window = 200 + dice.roll(5000) as u64;
            setup.transport = narrow(window);
        }
        let capacity = [0, 100, 4096][dice.roll(3)];
        let config = Config::default().with_qpack_max_table_capacity(capacity);
        (setup.client, setup.server) = (Some(config.clone()), Some(config));
        let mut pair = Pair::with(setup);
        let (mut client, mut server) = (End::new(true), End::new(false));
        while client.views.len() < 40 {
            for _ in 0..dice.roll(20) {
                match dice.roll(8) {
                    0 => {
                        let mut parts = Request::post(format!("https://server.lab/{}", dice.roll(5)))
                            .body(())
                            .unwrap()
                            .into_parts()
                            .0;
                        parts.headers = fields(dice);
                        let whole = dice.roll(3) == 0;
                        let id = pair
                            .client
                            .http(|session, streams| session.request(streams, &parts, whole))
                            .unwrap();
                        client.views.insert(id, View { is_whole: whole, ..View::default() });
                    }
                    1..4 => client.act(&mut pair.client, dice),
                    4..7 => server.act(&mut pair.server, dice),
                    _ => accept(&mut pair.server, &mut server),
                }
            }
            pair.pump();
        }
        wind_up(&mut pair, &mut client, &mut server, dice);
        check(&client, &server);
        check(&server, &client);
        for host in [&mut pair.client, &mut pair.server] {
            assert_eq!(host.closed, None, "seed {seed}");
            assert_eq!(host.session.as_ref().map(Session::open_requests), Some(0), "seed {seed}");
            assert_eq!(host.connection().streams().open_streams(), 6, "seed {seed}");
        }
        requests += client.views.len();
        finished += client.views.values().filter(|view| view.end == Some(ReadError::Finished)).count();
    }
    assert!(requests >= 2_400 && finished > requests / 4, "{finished} of {requests} came to their end");
}

/// Creates a valid message of the peer. Returns its frames and its content.
fn message(side: Side, dice: &mut Dice) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut frames = Vec::new();
    let mut body = Vec::new();
    let grease = |frames: &mut Vec<Vec<u8>>, dice: &mut Dice| {
        while dice.roll(3) == 0 {
            frames.push(frame(reserved(dice.next()), &dice.bytes(100)));
        }
    };
    grease(&mut frames, dice);
    if side.is_client() {
        while dice.roll(4) == 0 {
            frames.push(headers(&[(":status", "103"), ("x", "y")]));
        }
    }
    frames.push(headers(if side.is_client() { &RESPONSE } else { &REQUEST }));
    for _ in 0..dice.roll(6) {
        grease(&mut frames, dice);
        let piece = dice.bytes(500);
        frames.push(data(&piece));
        body.extend(piece);
    }
    grease(&mut frames, dice);
    if dice.roll(3) == 0 {
        frames.push(headers(&[("x-checksum", "1")]));
        grease(&mut frames, dice);
    }
    (frames, body)
}

/// Checks 2,000 valid messages, each split at random positions.
#[test]
fn what_is_well_formed_is_read_however_it_is_cut() {
    for side in ROLES {
        let dice = &mut Dice(side as u64);
        let mut duel = Duel::against(side);
        for n in 0..1_000 {
            let (frames, body) = message(side, dice);
            let bytes = frames.concat();
            let id = duel.message();
            let mut received = Vec::new();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(1 + dice.roll(rest.len()));
                duel.send(id, piece, behind.is_empty() && n % 2 == 0);
                rest = behind;
                received.extend(duel.read(id).0);
            }
            if n % 2 == 1 {
                duel.send(id, b"", true);
            }
            let (last, end) = duel.read(id);
            received.extend(last);
            assert_eq!((received, end), (body, ReadError::Finished), "message {n} to the {side:?}");
            duel.assert_quiet(&[id]);
            duel.received(id);
        }
    }
}

/// Changes a few bytes.
fn spoil(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..dice.roll(4) {
        let at = dice.roll(bytes.len().max(1));
        match dice.roll(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), dice.next() as u8),
            2 if at < bytes.len() => bytes[at] ^= 1 << dice.roll(8),
            _ if at < bytes.len() => _ = bytes.remove(at),
            _ => {}
        }
    }
}

/// Returns valid bytes for a unidirectional stream of the peer.
fn unidirectional(side: Side, dice: &mut Dice) -> Vec<u8> {
    let mut out = Vec::new();
    match dice.roll(4) {
        0 => encoder_stream(b"\x3f\xbd\x01\x43x-a\x01b\xd1\x03GET\x80\x02cd\x00\x44abcd\x05value"),
        1 => decoder_stream(b"\x44\x48\x7f\x10"),
        2 => [&[0x21], &dice.bytes(50)[..]].concat(),
        _ => {
            push_varint(&mut out, reserved(dice.next()));
            out.extend(if side.is_client() { frame(0x7, b"\x40\x08") } else { frame(0xf0700, b"\0u=1") });
            out
        }
    }
}

/// Checks 2,000 connections with damaged bytes: none panics, and each close has a registered code.
#[test]
fn what_is_not_well_formed_has_a_name() {
    let mut closed = BTreeMap::new();
    for side in ROLES {
        for seed in 0..1_000 {
            let dice = &mut Dice(seed << 1 | side as u64);
            let mut duel = Duel::with(side, Config::default(), TransportConfig::default());
            let mut known = Vec::new();
            for _ in 0..4 {
                duel.pair.pump();
                if duel.peer().closed.is_some() {
                    break;
                }
                if dice.roll(3) == 0 {
                    let mut bytes = unidirectional(side, dice);
                    spoil(&mut bytes, dice);
                    duel.send_uni(&bytes);
                    continue;
                }
                let id = duel.message();
                let mut bytes = message(side, dice).0.concat();
                if dice.roll(3) == 0 {
                    // The beginning of the message refers to the dynamic table.
                    bytes = [&b"\x01\x04\x02\0\x80\xd9"[..], &bytes].concat();
                }
                spoil(&mut bytes, dice);
                duel.send(id, &bytes, dice.roll(2) == 0);
                known.push(id);
                duel.read(id);
            }
            let code = duel.close_code();
            match duel.peer().closed.clone() {
                None => {
                    while let Some(id) = duel.accept() {
                        known.push(id);
                    }
                    for id in known {
                        duel.read(id);
                        if duel.close_code().is_none() {
                            duel.victim().http(|session, streams| session.release(streams, id));
                        }
                    }
                    if duel.close_code().is_none() {
                        assert_eq!(duel.victim().session.as_ref().unwrap().open_requests(), 0, "seed {seed}");
                    }
                }
                Some(error) => {
                    let code = code.unwrap_or_else(|| panic!("{error:?}, seed {seed}"));
                    assert!(code.name().is_some() && code > Code::INTERNAL_ERROR, "{code:?}, seed {seed}");
                    *closed.entry(code).or_insert(0) += 1;
                }
            }
        }
    }
    // There must be several different codes; otherwise little would be tested.
    assert!(closed.len() >= 6 && closed.values().sum::<i32>() > 300, "{closed:?}");
}
