//! HTTP/3 responses of 2.5 MB in all, and the client that receives them.

use std::time::Instant;

use anabranch_transport::{Connection, TransportConfig};
use anabranch_wire::{Side, Time, Version};
use bytes::Bytes;
use http::{Request, Response};

use crate::Error;
use crate::end::End;
use crate::memory::{Memory, Wire};
use crate::receive::transport;

/// Number of responses in one sample, and bytes of content in each.
const ANSWERS: usize = 80;
const CONTENT: usize = 31_250;

/// Number of packets in a batch for the client.
const BATCH: usize = 157;

/// Number of samples that are discarded before the measured ones.
const WARM_UP: u32 = 5;

/// Number of round trips for settings, requests and their acknowledgments.
const EXCHANGES: usize = 5;

/// Receives the responses on `samples` connections, one after another. Returns the client's time for each, in milliseconds.
///
/// # Errors
///
/// Responses did not arrive as they were sent.
pub fn measure(version: Version, samples: u32) -> Result<Vec<f64>, Error> {
    for _ in 0..WARM_UP {
        Pages::new(version)?.sample()?;
    }
    (0..samples).map(|_| Pages::new(version)?.sample()).collect()
}

/// Receives the responses once. Returns the number of bytes in all of them.
///
/// # Errors
///
/// Responses did not arrive as they were sent.
pub fn run(version: Version) -> Result<u64, Error> {
    Pages::new(version)?.sample()?;
    Ok((ANSWERS * CONTENT) as u64)
}

/// Client that has sent its requests, and the packets of the responses.
struct Pages {
    memory: Memory,
    client: End,
    server: End,
    packets: Vec<Wire>,
}

/// Returns a configuration with which the server may send all responses at once.
fn generous(version: Version) -> TransportConfig {
    let transport = transport(version);
    let streams = transport.streams().clone();
    transport.with_streams(
        streams.with_connection_window(1 << 24).with_connection_window_max(1 << 24).with_send_buffer(1 << 24),
    )
}

impl Pages {
    fn new(version: Version) -> Result<Self, Error> {
        let mut memory = Memory::new(generous(version))?;
        let (client, server) = memory.connect()?;
        let (client, server) = (End::new(Side::Client, client), End::new(Side::Server, server));
        let mut pages = Self { memory, client, server, packets: Vec::new() };
        pages.client.session.start(pages.memory.client(pages.client.handle)?.streams());
        pages.server.session.start(pages.memory.server(pages.server.handle)?.streams());
        pages.exchange()?;
        let request = Request::get("https://localhost/").body(())?.into_parts().0;
        for _ in 0..ANSWERS {
            let streams = pages.memory.client(pages.client.handle)?.streams();
            pages.client.session.request(streams, &request, true)?;
        }
        pages.exchange()?;
        pages.answer()?;
        let now = pages.memory.now;
        pages.packets = pages.server.drain(pages.memory.server(pages.server.handle)?, now);
        pages.client.events.clear();
        Ok(pages)
    }

    /// Delivers the pending packets of both endpoints.
    fn exchange(&mut self) -> Result<(), Error> {
        let now = self.memory.now;
        for _ in 0..EXCHANGES {
            let to_server = self.client.drain(self.memory.client(self.client.handle)?, now);
            self.server.receive(self.memory.server(self.server.handle)?, now, &mut { to_server });
            let to_client = self.server.drain(self.memory.server(self.server.handle)?, now);
            self.client.receive(self.memory.client(self.client.handle)?, now, &mut { to_client });
        }
        Ok(())
    }

    /// Sends the server's responses to all requests.
    fn answer(&mut self) -> Result<(), Error> {
        let head = Response::builder().header("server", "anabranch").header("content-length", CONTENT);
        let head = head.body(())?.into_parts().0;
        let content = Bytes::from(vec![0x5a; CONTENT]);
        let streams = self.memory.server(self.server.handle)?.streams();
        let session = &mut self.server.session;
        let mut answered = 0;
        while let Some((id, _)) = session.accept() {
            session.respond(streams, id, &head, false)?;
            let mut content = content.clone();
            while !content.is_empty() {
                session.write(streams, id, &mut content)?;
            }
            session.finish(streams, id)?;
            answered += 1;
        }
        if answered == ANSWERS { Ok(()) } else { Err(format!("{answered} requests arrived").into()) }
    }

    /// Measures the milliseconds that the client takes for all responses.
    fn sample(mut self) -> Result<f64, Error> {
        let now = self.memory.now;
        let connection = self.memory.client(self.client.handle)?;
        let (mut read, mut finished) = (0, 0);
        let begin = Instant::now();
        for batch in self.packets.chunks_mut(BATCH) {
            take_at_client(&mut self.client, connection, now, batch, &mut read, &mut finished)?;
        }
        let elapsed = begin.elapsed();
        if (read, finished) != (ANSWERS * CONTENT, ANSWERS) {
            return Err(format!("{finished} answers with {read} bytes in all").into());
        }
        Ok(elapsed.as_secs_f64() * 1e3)
    }
}

/// Delivers a batch of packets to the client, which reads the responses.
#[inline(never)]
fn take_at_client(
    client: &mut End,
    connection: &mut Connection,
    now: Time,
    batch: &mut [Wire],
    read: &mut usize,
    finished: &mut usize,
) -> Result<(), Error> {
    client.receive(connection, now, batch);
    client.take(connection, read, finished)
}
