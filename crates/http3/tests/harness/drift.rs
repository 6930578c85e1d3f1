//! Invariants of two sessions whose datagrams drift apart: they are held back, lost, repeated and reordered, so
//! that the streams of both tables, heads and bodies arrive in any order.

use std::collections::BTreeMap;

use anabranch_http3::{Event, ReadError};
use anabranch_testkit::source::Source;
use anabranch_transport::{Datagram, FourTuple, TransmitBuf};
use anabranch_wire::StreamId;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};

use crate::pair::{Host, Pair};

/// Maximum number of operations of a script.
const MAX_OPERATIONS: usize = 120;

/// Maximum number of requests.
const MAX_REQUESTS: usize = 24;

/// Maximum number of rounds until everything has arrived without further faults.
const MAX_ROUNDS: usize = 600;

/// A request and the fields and the content that its response repeats.
struct Exchange {
    fields: HeaderMap,
    content: Vec<u8>,
    /// Content that the server has received, until it responds.
    received: Vec<u8>,
    is_answered: bool,
    has_response: bool,
    /// Content that the client has received.
    echoed: Vec<u8>,
    is_complete: bool,
}

struct World {
    pair: Pair,
    exchanges: BTreeMap<StreamId, Exchange>,
    /// Datagrams to the client and to the server.
    flying: [Vec<Vec<u8>>; 2],
}

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let mut world = World { pair: Pair::new(), exchanges: BTreeMap::new(), flying: [Vec::new(), Vec::new()] };
    for _ in 0..MAX_OPERATIONS {
        if source.is_empty() {
            break;
        }
        world.operate(&mut source);
    }
    for _ in 0..MAX_ROUNDS {
        world.deliver(0, usize::MAX);
        world.deliver(1, usize::MAX);
        world.pair.pump();
        world.serve();
        if world.exchanges.values().all(|exchange| exchange.is_complete) {
            return;
        }
    }
    panic!("a response is missing");
}

impl World {
    fn hosts(&mut self) -> [&mut Host; 2] {
        [&mut self.pair.client, &mut self.pair.server]
    }

    fn operate(&mut self, source: &mut Source<'_>) {
        let operation = source.byte();
        let to = usize::from(operation >> 7);
        let (chosen, other) = (usize::from(source.byte()), usize::from(source.byte()));
        let flying = &mut self.flying[to];
        let len = flying.len().max(1);
        match operation % 8 {
            0 | 1 if self.exchanges.len() < MAX_REQUESTS => self.request(source),
            2 | 3 => self.deliver(to, chosen % 8 + 1),
            4 if !flying.is_empty() => flying.swap(chosen % len, other % len),
            5 if !flying.is_empty() => _ = flying.remove(chosen % len),
            6 if !flying.is_empty() => {
                let copy = flying[chosen % len].clone();
                flying.insert(other % len, copy);
            }
            7 => {
                let now = self.pair.now + std::time::Duration::from_millis(chosen as u64);
                self.pair.now = now;
                self.hosts().into_iter().for_each(|host| host.endpoint.handle_timeout(now));
            }
            _ => {}
        }
        self.serve();
    }

    fn request(&mut self, source: &mut Source<'_>) {
        let mut fields = HeaderMap::new();
        for _ in 0..source.byte() % 6 {
            let name = source.choose(&["x-a", "x-b", "x-c", "x-d", "user-agent"]);
            let value = vec![b'a' + source.byte() % 8; usize::from(source.byte() % 50) + 1];
            fields.append(name, HeaderValue::from_bytes(&value).unwrap());
        }
        let content = source.string(200);
        let mut parts = Request::get("https://server.test/").body(()).unwrap().into_parts().0;
        parts.headers = fields.clone();
        let sent = self.pair.client.http(|session, streams| {
            let id = session.request(streams, &parts, false).ok()?;
            let written = session.write(streams, id, &mut Bytes::from(content.clone()));
            assert_eq!(written.unwrap_or(0), content.len());
            session.finish(streams, id).unwrap();
            Some(id)
        });
        if let Some(id) = sent {
            let exchange = Exchange {
                fields,
                content,
                received: Vec::new(),
                is_answered: false,
                has_response: false,
                echoed: Vec::new(),
                is_complete: false,
            };
            self.exchanges.insert(id, exchange);
        }
    }

    /// Delivers up to `max` datagrams to an end.
    fn deliver(&mut self, to: usize, max: usize) {
        self.send();
        let max = max.min(self.flying[to].len());
        let arriving: Vec<_> = self.flying[to].drain(..max).collect();
        let now = self.pair.now;
        let [client, server] = self.hosts();
        let (host, peer) = if to == 0 { (client, server) } else { (server, client) };
        let tuple = FourTuple { local: host.address, remote: peer.address };
        for mut payload in arriving {
            host.endpoint.handle_batch(now, &mut [Datagram { tuple, ecn: None, payload: &mut payload }]);
        }
        host.drain(now);
    }

    /// Puts what both ends send on the network.
    fn send(&mut self) {
        let now = self.pair.now;
        let mut buf = TransmitBuf::new(1);
        let World { pair, flying, .. } = self;
        for (from, host) in [&mut pair.client, &mut pair.server].into_iter().enumerate() {
            host.drain(now);
            while let Some(transmit) = host.endpoint.poll_transmit(now, &mut buf) {
                flying[1 - from].push(buf.filled(&transmit).to_vec());
            }
        }
    }

    /// Lets both applications do what they can.
    fn serve(&mut self) {
        let World { pair, exchanges, .. } = self;
        let now = pair.now;
        pair.server.drain(now);
        pair.client.drain(now);
        pair.server.events.clear();
        while let Some((id, parts)) = pair.server.http(|session, _| session.accept()) {
            assert_eq!(parts.headers, exchanges[&id].fields, "fields as they were sent");
        }
        for (id, exchange) in exchanges.iter_mut() {
            if !exchange.is_answered {
                answer(&mut pair.server, *id, exchange);
            }
        }
        for event in std::mem::take(&mut pair.client.events) {
            let Event::Response(id) = event else { continue };
            let response = pair.client.http(|session, _| session.response(id)).expect("a response");
            let exchange = exchanges.get_mut(&id).expect("a request");
            assert_eq!(response.headers, exchange.fields);
            exchange.has_response = true;
        }
        for (id, exchange) in exchanges.iter_mut().filter(|(_, exchange)| exchange.has_response) {
            let (more, end) = pair.client.read(*id);
            exchange.echoed.extend(more);
            assert!(exchange.content.starts_with(&exchange.echoed));
            if end == ReadError::Finished {
                assert_eq!(exchange.echoed, exchange.content);
                exchange.is_complete = true;
            }
        }
    }
}

/// Repeats a request's fields and content in its response, once all of it has arrived.
fn answer(server: &mut Host, id: StreamId, exchange: &mut Exchange) {
    let (more, end) = server.read(id);
    exchange.received.extend(more);
    assert!(exchange.content.starts_with(&exchange.received));
    if end != ReadError::Finished {
        return;
    }
    assert_eq!(exchange.received, exchange.content);
    let mut parts = Response::new(()).into_parts().0;
    parts.headers = exchange.fields.clone();
    server.http(|session, streams| {
        session.respond(streams, id, &parts, false).unwrap();
        let _ = session.write(streams, id, &mut Bytes::from(exchange.content.clone()));
        session.finish(streams, id).unwrap();
    });
    exchange.is_answered = true;
}
