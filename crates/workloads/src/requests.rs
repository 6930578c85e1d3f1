//! Small HTTP/3 requests on one connection, and the server that answers them.

use anabranch_transport::{Connection, Transmit, TransmitBuf, TransportConfig};
use anabranch_wire::{Side, Time};
use http::{Request, Response};

use crate::Error;
use crate::end::End;
use crate::memory::{Memory, STEP, TRANSMIT_BATCH, Wire, take_apart};

/// Content of a response.
const CONTENT: &[u8] = &[0x5a; 64];
/// Number of round trips for settings.
const EXCHANGES: usize = 5;

/// Client and server of one connection.
struct Dialog {
    memory: Memory,
    client: End,
    server: End,
    /// Head of each response.
    head: http::response::Parts,
    buffer: TransmitBuf,
    answered: usize,
}

/// Makes `count` requests, `at_once` of them at a time, each of which gets a small response. Returns their number.
///
/// # Errors
///
/// A response did not arrive as it was sent.
pub fn run(count: usize, at_once: usize) -> Result<u64, Error> {
    let mut dialog = Dialog::new()?;
    while dialog.answered < count {
        dialog.round(at_once)?;
    }
    Ok(dialog.answered as u64)
}

impl Dialog {
    fn new() -> Result<Self, Error> {
        let mut memory = Memory::new(TransportConfig::default())?;
        let (client, server) = memory.connect()?;
        let (client, server) = (End::new(Side::Client, client), End::new(Side::Server, server));
        let head = Response::builder().header("server", "anabranch").header("content-length", CONTENT.len());
        let (head, buffer) = (head.body(())?.into_parts().0, TransmitBuf::new(TRANSMIT_BATCH));
        let mut dialog = Self { memory, client, server, head, buffer, answered: 0 };
        dialog.client.session.start(dialog.memory.client(dialog.client.handle)?.streams());
        dialog.server.session.start(dialog.memory.server(dialog.server.handle)?.streams());
        for _ in 0..EXCHANGES {
            dialog.exchange()?;
        }
        Ok(dialog)
    }

    /// Makes requests at once, and waits for their responses.
    fn round(&mut self, at_once: usize) -> Result<(), Error> {
        let request = Request::get("https://localhost/index.html").header("user-agent", "anabranch");
        let request = request.header("accept", "*/*").body(())?.into_parts().0;
        let streams = self.memory.client(self.client.handle)?.streams();
        for _ in 0..at_once {
            self.client.session.request(streams, &request, true)?;
        }
        let (mut read, mut finished) = (0, 0);
        // The second one is for delayed acknowledgments.
        for _ in 0..2 {
            self.exchange()?;
            let connection = self.memory.client(self.client.handle)?;
            self.client.take(connection, &mut read, &mut finished)?;
        }
        if (read, finished) != (at_once * CONTENT.len(), at_once) {
            return Err(format!("{finished} of {at_once} answers, with {read} bytes in all").into());
        }
        self.answered += at_once;
        Ok(())
    }

    /// Delivers the client's packets, answers its requests, and delivers the server's packets.
    fn exchange(&mut self) -> Result<(), Error> {
        self.memory.now += STEP;
        let now = self.memory.now;
        let client = self.memory.client(self.client.handle)?;
        client.handle_timeout(now);
        let mut to_server = self.client.drain(client, now);
        let server = self.memory.server(self.server.handle)?;
        answer_at_server(&mut self.server, server, now, &mut to_server, &self.head)?;
        let mut to_client = Vec::new();
        while let Some(transmit) = send_at_server(server, now, &mut self.buffer) {
            take_apart(&transmit, &self.buffer, &mut to_client);
        }
        self.client.receive(self.memory.client(self.client.handle)?, now, &mut to_client);
        Ok(())
    }
}

/// Delivers packets to the server, which answers all requests.
#[inline(never)]
fn answer_at_server(
    server: &mut End,
    connection: &mut Connection,
    now: Time,
    packets: &mut [Wire],
    head: &http::response::Parts,
) -> Result<(), Error> {
    server.receive(connection, now, packets);
    connection.handle_timeout(now);
    server.events.clear();
    let streams = connection.streams();
    while let Some((id, _)) = server.session.accept() {
        // The end of the request.
        while let Ok(len) = server.session.peek(streams, id).map(<[u8]>::len) {
            server.session.consume(streams, id, len);
        }
        server.session.respond_whole(streams, id, head, CONTENT)?;
        server.session.release(streams, id);
    }
    Ok(())
}

/// Lets the server write its next batch.
#[inline(never)]
fn send_at_server(connection: &mut Connection, now: Time, buffer: &mut TransmitBuf) -> Option<Transmit> {
    connection.poll_transmit(now, buffer)
}
