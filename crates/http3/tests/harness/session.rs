//! Properties of a session whose peer writes arbitrary bytes. Nothing panics, the connection continues or is
//! closed with a registered code, and the state that the peer can cause stays bounded.
//!
//! The input is a script. Its first byte selects the side that has the session. The other bytes are
//! operations with their arguments, which the peer carries out on its streams one after the other.

use anabranch_http3::{Config, Event, Session};
use anabranch_transport::TransportConfig;
use anabranch_wire::{Dir, Side, StreamId, VarInt};
use http::Request;

use crate::pair::{Host, Pair, Setup};

/// Maximum number of operations that are carried out.
const MAX_OPERATIONS: usize = 64;

/// Number of streams to which the peer writes: three unidirectional ones, then two request streams.
const STREAMS: usize = 5;

/// Maximum number of unhandled events of a session after a script of [`MAX_OPERATIONS`] operations.
const MAX_EVENTS: usize = 16 * MAX_OPERATIONS;

pub(crate) fn run(data: &[u8]) {
    let Some((side, script)) = data.split_first() else { return };
    let side = if side % 2 == 0 { Side::Server } else { Side::Client };
    let config = Some(Config::default().with_grease(false));
    let (client, server) = match side {
        Side::Client => (config, None),
        Side::Server => (None, config),
    };
    let mut pair = Pair::with(Setup { client, server, transport: TransportConfig::default() });
    let mut streams = [None; STREAMS];
    if side.is_client() {
        for stream in &mut streams[3..] {
            let parts = Request::get("https://server.lab/").body(()).unwrap().into_parts().0;
            *stream = pair.client.http(|session, streams| session.request(streams, &parts, true)).ok();
        }
        pair.pump();
    }
    let mut rest = script;
    for _ in 0..MAX_OPERATIONS {
        let Some((operation, behind)) = rest.split_first() else { break };
        rest = operate(&mut pair, side, &mut streams, *operation, behind);
        if ends(&pair).0.closed.is_some() || ends(&pair).1.closed.is_some() {
            break;
        }
    }
    pair.pump();
    let (client, server) = ends(&pair);
    let (mine, peer) = if side.is_client() { (client, server) } else { (server, client) };
    assert!(mine.events.len() <= MAX_EVENTS);
    if let Some(code) = peer.close_code() {
        assert!(code.name().is_some(), "{code:?}");
    }
}

fn ends(pair: &Pair) -> (&Host, &Host) {
    (&pair.client, &pair.server)
}

/// Carries out one operation of the side without a session. Returns the rest of the script.
fn operate<'a>(
    pair: &mut Pair,
    side: Side,
    streams: &mut [Option<StreamId>; STREAMS],
    operation: u8,
    script: &'a [u8],
) -> &'a [u8] {
    let peer = if side.is_client() { &mut pair.server } else { &mut pair.client };
    let stream = &mut streams[usize::from(operation >> 4) % STREAMS];
    let is_uni = usize::from(operation >> 4) % STREAMS < 3;
    match operation & 0xf {
        // Write as many bytes as the next byte of the script gives.
        0..=9 => {
            let (len, behind) = script.split_first().unwrap_or((&0, &[]));
            let (bytes, behind) = behind.split_at(behind.len().min(usize::from(*len)));
            let out = peer.connection().streams();
            let dir = if is_uni { Dir::Uni } else { Dir::Bi };
            if stream.is_none() {
                *stream = out.open(dir);
            }
            if let Some(id) = *stream {
                // Writing fails if the stream was finished or stopped.
                let _ = out.write(id, bytes);
            }
            return behind;
        }
        10 => {
            if let Some(id) = *stream {
                let _ = peer.connection().streams().finish(id);
            }
        }
        11 => {
            if let Some(id) = *stream {
                let _ = peer.connection().streams().reset(id, VarInt::from_u32(0x10c));
            }
        }
        12 => {
            if let Some(id) = stream.filter(|_| !is_uni) {
                let _ = peer.connection().streams().stop(id, VarInt::from_u32(0x10c));
            }
        }
        13 => answer(if side.is_client() { &mut pair.client } else { &mut pair.server }),
        _ => pair.pump(),
    }
    script
}

/// Acts as an application on the side that has the session.
fn answer(host: &mut Host) {
    for event in std::mem::take(&mut host.events) {
        match event {
            Event::Request => {
                while let Some((id, _)) = host.session.as_mut().and_then(Session::accept) {
                    let parts = http::Response::new(()).into_parts().0;
                    host.http(|session, streams| {
                        let _ = session.respond(streams, id, &parts, false);
                    });
                    host.read(id);
                    host.http(|session, streams| {
                        let _ = session.finish(streams, id);
                    });
                }
            }
            Event::Response(id) => {
                host.http(|session, _| session.response(id));
                host.read(id);
            }
            _ => {}
        }
    }
}
