//! Server: `perf`, `hq-interop` and `h3` on one endpoint.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use peer_common::args::Server;
use peer_common::report::Report;
use peer_common::{Failure, files, life};
use quiche::Shutdown;

use crate::config::{self, Connection};
use crate::endpoint::{Door, Endpoint, Link};
use crate::http3::server::Web;
use crate::outgoing::Outgoing;
use crate::stack;
use crate::udp::Udp;

/// Maximum time that an idle server waits before it checks whether to exit.
const PATIENCE: Duration = Duration::from_millis(50);

/// Length of the relevant part of a `perf` request: the number of bytes to send back.
const HEAD: usize = 8;

/// Size of the buffer for discarded data, in bytes.
const SINK: usize = 64 * 1024;

/// Streams of one connection.
#[derive(Default)]
struct Streams {
    open: HashMap<u64, Stream>,
    web: Option<Web>,
    sink: Vec<u8>,
}

/// Stream: the received part of its request, and its response once that is known.
#[derive(Default)]
struct Stream {
    request: Vec<u8>,
    answer: Option<Outgoing>,
}

/// Serves until `ending` yields.
pub fn run(options: &Server, ending: &mpsc::Receiver<()>) -> Result<(), Failure> {
    if options.common.v2 || options.preferred.is_some() {
        return Err(Failure::Unsupported(format!(
            "{} has neither QUIC version 2 nor preferred_address",
            stack::NAME
        )));
    }
    let udp = Udp::bind(options.listen, !options.common.no_gso)?;
    let door = Door { retry: options.retry, tokens: HashMap::new() };
    let mut endpoint: Endpoint<Streams> = Endpoint::new(udp, config::server(options)?, Some(door))?;
    life::ready(endpoint.local());
    while matches!(ending.try_recv(), Err(mpsc::TryRecvError::Empty)) {
        endpoint.turn(PATIENCE, |link| {
            serve(link, options.root.as_ref());
            Ok(())
        })?;
    }
    Report::new().cpu().print();
    Ok(())
}

/// Handles everything that a connection requests at present. If a client disconnects, the client's own test
/// reports it.
fn serve(link: &mut Link<Streams>, root: Option<&PathBuf>) {
    let Link { connection, state, .. } = link;
    if connection.application_proto() == b"h3" {
        return serve_http3(connection, &mut state.web, root.map(PathBuf::as_path));
    }
    state.sink.resize(SINK, 0);
    while let Ok(n) = connection.dgram_recv(&mut state.sink) {
        let _ = connection.dgram_send(&state.sink[..n]);
    }
    let hq = connection.application_proto() == b"hq-interop";
    let readable: Vec<u64> = connection.readable().collect();
    for id in readable {
        let stream = state.open.entry(id).or_default();
        if !hear(connection, id, stream, &mut state.sink, root.map(PathBuf::as_path).filter(|_| hq), hq) {
            let _ = connection.stream_shutdown(id, Shutdown::Write, 1);
            state.open.remove(&id);
        }
    }
    state.open.retain(|&id, stream| match &mut stream.answer {
        Some(answer) => {
            answer.push(connection, id).is_ok() && !(answer.done() && stack::finished(connection, id))
        }
        None => true,
    });
}

fn serve_http3(connection: &mut Connection, web: &mut Option<Web>, root: Option<&Path>) {
    if web.is_none() && (connection.is_established() || connection.is_in_early_data()) {
        *web = Web::new(connection).ok();
    }
    if let Some(web) = web {
        web.serve(connection, root);
    }
}

/// Reads the available data of a stream. Returns `false` if no response is possible.
fn hear(
    connection: &mut Connection,
    id: u64,
    stream: &mut Stream,
    sink: &mut [u8],
    root: Option<&Path>,
    hq: bool,
) -> bool {
    // One byte more than the maximum shows that a request is too long. For `perf`, data after the head is
    // discarded.
    let limit = if hq { files::MAX_REQUEST + 1 } else { HEAD };
    let request = &mut stream.request;
    let read = stack::read(connection, id, sink, |piece| {
        let wanted = piece.len().min(limit - request.len());
        request.extend_from_slice(&piece[..wanted]);
    });
    let Ok(end) = read else { return true };
    if hq && request.len() > files::MAX_REQUEST {
        return false;
    }
    if hq && end {
        let path = root.and_then(|root| files::requested(root, request));
        let Some(body) = path.and_then(|path| std::fs::read(path).ok()) else { return false };
        stream.answer = Some(Outgoing::new(Bytes::from(body), 0, true));
    } else if !hq && stream.answer.is_none() {
        match request.first_chunk() {
            Some(count) => {
                stream.answer = Some(Outgoing::new(Bytes::new(), u64::from_be_bytes(*count), false));
            }
            None if end => return false,
            None => {}
        }
    }
    if let Some(answer) = stream.answer.as_mut().filter(|_| end) {
        // The end of the response tells the client that all of its data has arrived.
        answer.end();
    }
    true
}
