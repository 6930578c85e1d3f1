//! The client of an exchange.

use std::collections::VecDeque;

use anabranch_transport::stream::StreamEvent;
use anabranch_transport::{ClientConfig, Endpoint, Event, FourTuple, Handle};
use anabranch_wire::Time;

use super::super::{Application, Sender};
use super::datagram_index;
use super::plan::ConnectionPlan;
use super::running::Running;
use crate::random::Rng;

/// Client that runs connections one after the other and checks the received data.
#[derive(Debug)]
pub struct ExchangeClient {
    config: ClientConfig,
    tuple: FourTuple,
    server_name: String,
    plans: VecDeque<ConnectionPlan>,
    rng: Rng,
    current: Option<Running>,
    /// Faults that the client found.
    pub faults: Vec<String>,
    /// Number of bytes received with the expected content.
    pub received: u64,
    /// Number of messages that the server echoed.
    pub echoed: u64,
    /// Number of connections whose early data was accepted.
    pub early: u32,
    /// Number of connections whose early data was rejected.
    pub refused: u32,
    /// Number of connections whose handshake completed.
    pub connected: u32,
    /// The current connection with the time of its handshake's confirmation; `None` until it is confirmed.
    pub confirmed: Option<(Handle, Time)>,
    /// Number of reported path changes.
    pub moves: u32,
}

impl ExchangeClient {
    /// Creates a client that runs `plans`. The client connects from the local address of `tuple` to
    /// `server_name` at the remote address.
    pub fn new(
        config: ClientConfig,
        tuple: FourTuple,
        server_name: &str,
        plans: impl IntoIterator<Item = ConnectionPlan>,
        rng: Rng,
    ) -> Self {
        Self {
            config,
            tuple,
            server_name: server_name.to_owned(),
            plans: plans.into_iter().collect(),
            rng,
            current: None,
            faults: Vec::new(),
            received: 0,
            echoed: 0,
            early: 0,
            refused: 0,
            connected: 0,
            confirmed: None,
            moves: 0,
        }
    }

    /// Returns whether all connections have completed.
    pub fn is_done(&self) -> bool {
        self.current.is_none() && self.plans.is_empty()
    }

    /// Describes the remaining work for a human reader.
    pub fn missing(&self) -> String {
        match &self.current {
            None => format!("{} connections not begun", self.plans.len()),
            Some(running) => format!(
                "{} connections not begun, {} streams unopened, {:?} open, {} pushes to come, {} datagrams, closing: {}",
                self.plans.len(),
                running.unopened.len(),
                running.streams.keys(),
                running.expected_pushes.len() + running.pushes.len(),
                running.datagrams.len(),
                running.closing
            ),
        }
    }

    fn next_connection(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.confirmed = None;
        let Some(plan) = self.plans.pop_front() else { return };
        match endpoint.connect(now, &self.config, self.tuple, &self.server_name) {
            Ok(handle) => {
                // The next connection uses another port, because this one may still be closing.
                self.tuple.local.set_port(self.tuple.local.port() + 1);
                self.current = Some(Running::new(handle, plan));
                self.progress(now, endpoint, true);
            }
            Err(error) => self.faults.push(format!("connect: {error}")),
        }
    }

    /// Performs all actions that are possible now.
    fn progress(&mut self, now: Time, endpoint: &mut Endpoint, early: bool) {
        let Some(running) = &mut self.current else { return };
        let Some(connection) = endpoint.connection(running.handle) else { return };
        if early {
            running.began_early = connection.has_early_keys();
        }
        let result = running.open(connection.streams()).and_then(|()| {
            if !early {
                running.send_datagrams(connection)?;
            }
            running.forget_done();
            running.close_if_done(now, connection)
        });
        self.note(result);
    }

    fn note(&mut self, result: Result<(), String>) {
        if let Err(fault) = result {
            self.faults.push(fault);
        }
    }

    fn on_stream(&mut self, now: Time, endpoint: &mut Endpoint, event: StreamEvent) {
        let Some(running) = &mut self.current else { return };
        let Some(connection) = endpoint.connection(running.handle) else { return };
        let streams = connection.streams();
        let result = match event {
            StreamEvent::Opened(dir) => running.accept(streams, dir, &mut self.rng, &mut self.received),
            StreamEvent::Readable(id) => running.read(streams, id, &mut self.rng, &mut self.received),
            StreamEvent::Writable(id) => running.with_sender(id, |sender| sender.pump(streams)),
            StreamEvent::Finished(id) => running.with_sender(id, Sender::on_finished),
            StreamEvent::Stopped(id, reason) => running.stopped(id, reason),
            _ => Ok(()),
        };
        let done = running.forget_done();
        let every = running.plan.key_update_every;
        if every > 0 && (running.done - done..running.done).any(|n| (n + 1) % every == 0) {
            connection.update_keys();
        }
        self.note(result);
        self.progress(now, endpoint, false);
    }

    fn on_closed(&mut self, now: Time, endpoint: &mut Endpoint, reason: &str) {
        let Some(running) = self.current.take() else { return };
        if !running.closing {
            self.current = Some(running);
            self.faults.push(format!("connection ended early: {reason}; {}", self.missing()));
            self.current = None;
        }
        self.next_connection(now, endpoint);
    }

    fn on_datagrams(&mut self, endpoint: &mut Endpoint) {
        let Some(running) = &mut self.current else { return };
        let Some(connection) = endpoint.connection(running.handle) else { return };
        while let Some(message) = connection.datagrams().recv() {
            match datagram_index(0, &message) {
                Some(index) if running.echoes.insert(index) => self.echoed += 1,
                other => self
                    .faults
                    .push(format!("datagram {other:?} of {} bytes is damaged or a double", message.len())),
            }
        }
    }
}

impl Application for ExchangeClient {
    fn start(&mut self, now: Time, endpoint: &mut Endpoint) {
        self.next_connection(now, endpoint);
    }

    fn on_event(&mut self, now: Time, endpoint: &mut Endpoint, handle: Handle, event: Event) {
        if self.current.as_ref().is_none_or(|running| running.handle != handle) {
            if !matches!(event, Event::NewToken(_)) {
                self.faults.push(format!("{event:?} of a connection that is over"));
            }
            return;
        }
        match event {
            Event::Connected { early_data_accepted } => {
                self.connected += 1;
                let early = self.current.as_ref().is_some_and(|running| running.began_early);
                self.early += u32::from(early && early_data_accepted);
                self.refused += u32::from(early && !early_data_accepted);
                self.progress(now, endpoint, false);
            }
            Event::Confirmed => self.confirmed = Some((handle, now)),
            Event::Stream(event) => self.on_stream(now, endpoint, event),
            Event::DatagramReceived => self.on_datagrams(endpoint),
            Event::DatagramsUnblocked => self.progress(now, endpoint, false),
            Event::NewToken(token) => self.config = self.config.clone().with_token(token),
            Event::PathChanged { .. } => self.moves += 1,
            Event::Closed(error) => self.on_closed(now, endpoint, &error.to_string()),
            _ => {}
        }
    }
}
