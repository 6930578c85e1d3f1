//! Idle connections of one server, which acknowledges a keep-alive of each now and then.

use std::time::Duration;

use anabranch_transport::{Datagram, Endpoint, Handle, Transmit, TransmitBuf, TransportConfig};
use anabranch_wire::{PathId, Time};

use crate::Error;
use crate::memory::{Memory, TRANSMIT_BATCH, borrow, take_apart};

/// Virtual time between two keep-alives of one connection. It is shorter than the idle timeout.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Opens `connections`, which all rest, and lets the client of each send `count` keep-alives. Returns the number of keep-alives.
///
/// # Errors
///
/// A handshake did not succeed, a keep-alive was not acknowledged, or the connection did not rest afterwards.
pub fn run(connections: usize, count: u64) -> Result<u64, Error> {
    let mut memory = Memory::new(TransportConfig::default())?;
    let handles = (0..connections).map(|_| memory.connect()).collect::<Result<Vec<_>, _>>()?;
    memory.rest(&handles.iter().map(|&(_, server)| server).collect::<Vec<_>>());
    let mut buffer = TransmitBuf::new(TRANSMIT_BATCH);
    for _ in 0..count {
        memory.now += KEEP_ALIVE;
        for &(client, server) in &handles {
            keep_alive(&mut memory, client, server, &mut buffer)?;
        }
    }
    Ok(count * connections as u64)
}

/// Lets a client send a keep-alive, and delivers the server's acknowledgment of it.
fn keep_alive(
    memory: &mut Memory,
    client: Handle,
    server: Handle,
    buffer: &mut TransmitBuf,
) -> Result<(), Error> {
    let now = memory.now;
    memory.client(client)?.ping(PathId::ZERO);
    let mut sent = memory.drain_client();
    let mut batch = borrow(&mut sent);
    let transmit = acknowledge_at_server(memory.server_endpoint(), now, server, &mut batch, buffer);
    let transmit = transmit.ok_or("a keep-alive was not acknowledged")?;
    let mut answers = Vec::new();
    take_apart(&transmit, buffer, &mut answers);
    memory.deliver_to_client(answers);
    match memory.server(server)?.rest_at() {
        None => Ok(()),
        Some(_) => Err("a connection does not rest after a keep-alive".into()),
    }
}

/// Delivers a keep-alive to the server, and lets the connection send its acknowledgment and rest.
#[inline(never)]
fn acknowledge_at_server(
    server: &mut Endpoint,
    now: Time,
    handle: Handle,
    batch: &mut [Datagram<'_>],
    buffer: &mut TransmitBuf,
) -> Option<Transmit> {
    server.handle_batch(now, batch);
    while server.poll_event().is_some() {}
    let transmit = server.poll_transmit(now, buffer);
    if let Some(connection) = server.connection(handle) {
        connection.rest(now);
    }
    transmit
}
