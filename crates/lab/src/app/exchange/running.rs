//! One connection of the client of an exchange.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_transport::stream::Streams;
use anabranch_transport::{Connection, Handle};
use anabranch_wire::{Dir, Side, StreamId, Time, VarInt};
use bytes::Bytes;

use super::super::{End, Pattern, Receiver, Sender};
use super::plan::{ConnectionPlan, StreamPlan};
use super::{PUSH_HEAD, Request, code, datagram};
use crate::random::Rng;

/// State of a running connection.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) handle: Handle,
    pub(super) plan: ConnectionPlan,
    pub(super) unopened: VecDeque<StreamPlan>,
    pub(super) streams: BTreeMap<StreamId, ClientStream>,
    pub(super) pushes: BTreeMap<StreamId, Pushed>,
    /// Expected pushes that have not begun: length by key.
    pub(super) expected_pushes: BTreeMap<u64, u64>,
    pub(super) datagrams: VecDeque<(u64, usize)>,
    pub(super) echoes: BTreeSet<u64>,
    pub(super) done: usize,
    pub(super) closing: bool,
    pub(super) began_early: bool,
}

#[derive(Debug)]
pub(super) struct ClientStream {
    plan: StreamPlan,
    sender: Sender,
    receiver: Option<Receiver>,
}

#[derive(Debug)]
pub(super) struct Pushed {
    receiver: Receiver,
    head: Vec<u8>,
}

impl Running {
    pub(super) fn new(handle: Handle, plan: ConnectionPlan) -> Self {
        Self {
            handle,
            unopened: plan.streams.iter().cloned().collect(),
            streams: BTreeMap::new(),
            pushes: BTreeMap::new(),
            expected_pushes: BTreeMap::new(),
            datagrams: (0..).zip(plan.datagrams.iter().copied()).collect(),
            echoes: BTreeSet::new(),
            done: 0,
            closing: false,
            began_early: false,
            plan,
        }
    }

    pub(super) fn open(&mut self, streams: &mut Streams) -> Result<(), String> {
        while let Some(plan) = self.unopened.front() {
            let Some(id) = streams.open(plan.dir) else { break };
            let Some(plan) = self.unopened.pop_front() else { break };
            let request = plan.request;
            let reset = plan.reset.map(|after| (after, code::CLIENT_RESET));
            let mut sender =
                Sender::new(id, request.encode(), request.upload_pattern(), request.upload, reset);
            sender.pump(streams)?;
            let receiver = (plan.dir == Dir::Bi)
                .then(|| Receiver::new(id, plan.stop.map(|after| (after, code::CLIENT_STOP))));
            // A request that is reset may never reach the server. In that case the server pushes nothing.
            if let Some(push) = request.push.filter(|_| plan.reset.is_none()) {
                self.expected_pushes.insert(request.key, push);
            }
            self.streams.insert(id, ClientStream { plan, sender, receiver });
        }
        Ok(())
    }

    pub(super) fn send_datagrams(&mut self, connection: &mut Connection) -> Result<(), String> {
        use anabranch_transport::datagram::SendDatagramError;
        while let Some(&(index, len)) = self.datagrams.front() {
            let len = len.min(connection.datagrams().max_len().unwrap_or(0));
            match connection.datagrams().send(Bytes::from(datagram(0, index, len))) {
                Ok(()) => {}
                Err(SendDatagramError::Blocked) => break,
                Err(error) => return Err(format!("datagram of {len} bytes: {error}")),
            }
            self.datagrams.pop_front();
        }
        Ok(())
    }

    pub(super) fn read(
        &mut self,
        streams: &mut Streams,
        id: StreamId,
        rng: &mut Rng,
        received: &mut u64,
    ) -> Result<(), String> {
        if let Some(push) = self.pushes.get_mut(&id) {
            push.read(streams, rng, received)?;
            return self.finish_push(id);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let Some(receiver) = &mut stream.receiver else {
            return Err(format!("stream {id} is readable but for sending only"));
        };
        let pattern = stream.plan.request.download_pattern();
        receiver.pump(streams, rng, |offset, data| {
            *received += data.len() as u64;
            check(id, pattern, offset, data)
        })?;
        stream.check_end(id)
    }

    pub(super) fn accept(
        &mut self,
        streams: &mut Streams,
        dir: Dir,
        rng: &mut Rng,
        received: &mut u64,
    ) -> Result<(), String> {
        while let Some(id) = streams.accept(dir) {
            if dir == Dir::Bi || id.initiator() != Side::Server {
                return Err(format!("the server opened stream {id}"));
            }
            self.pushes.insert(id, Pushed { receiver: Receiver::new(id, None), head: Vec::new() });
            self.read(streams, id, rng, received)?;
        }
        Ok(())
    }

    pub(super) fn with_sender(
        &mut self,
        id: StreamId,
        f: impl FnOnce(&mut Sender) -> Result<(), String>,
    ) -> Result<(), String> {
        self.streams.get_mut(&id).map_or(Ok(()), |stream| f(&mut stream.sender))
    }

    pub(super) fn stopped(&mut self, id: StreamId, reason: VarInt) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.sender.on_stopped(reason);
        match (stream.plan.request.server_stop, reason) {
            (Some(_), code::SERVER_STOP) => Ok(()),
            _ => Err(format!("stream {id} was stopped with code {reason}")),
        }
    }

    /// Removes streams that are complete. Returns their number.
    pub(super) fn forget_done(&mut self) -> usize {
        let before = self.streams.len();
        self.streams.retain(|_, stream| {
            stream.sender.end.is_none() || stream.receiver.as_ref().is_some_and(|half| half.end.is_none())
        });
        let done = before - self.streams.len();
        self.done += done;
        done
    }

    pub(super) fn finish_push(&mut self, id: StreamId) -> Result<(), String> {
        let Some(push) = self.pushes.get(&id) else { return Ok(()) };
        let Some(end) = push.receiver.end else { return Ok(()) };
        let key = push.announced().map(|(key, _)| key);
        let expected = key.and_then(|key| self.expected_pushes.remove(&key));
        let read = push.receiver.read.checked_sub(PUSH_HEAD as u64);
        // A request that was reset may have reached the server, so its push is permitted but not expected.
        let reset = key.is_some_and(|key| {
            self.plan.streams.iter().any(|plan| plan.request.key == key && plan.reset.is_some())
        });
        if end != End::Complete || !(reset || read == expected && read.is_some()) {
            return Err(format!("pushed stream {id}: {end:?} after {read:?} of {expected:?} bytes"));
        }
        self.pushes.remove(&id);
        Ok(())
    }

    pub(super) fn close_if_done(&mut self, now: Time, connection: &mut Connection) -> Result<(), String> {
        let done = self.unopened.is_empty()
            && self.streams.is_empty()
            && self.pushes.is_empty()
            && self.expected_pushes.is_empty()
            && self.datagrams.is_empty();
        if !done || self.closing || connection.is_handshaking() {
            return Ok(());
        }
        self.closing = true;
        let streams = connection.streams();
        let left = (streams.pending_bytes(), streams.buffered_bytes());
        connection.close(now, code::DONE, Bytes::from_static(b"done"));
        if left == (0, 0) { Ok(()) } else { Err(format!("{left:?} bytes pending and buffered at the end")) }
    }
}

impl ClientStream {
    /// Checks that an ended download ended as planned.
    fn check_end(&self, id: StreamId) -> Result<(), String> {
        let Some((receiver, end)) = self.receiver.as_ref().and_then(|half| Some((half, half.end?))) else {
            return Ok(());
        };
        let request = self.plan.request;
        let as_planned = match end {
            End::Complete => receiver.read == request.download && request.server_reset.is_none(),
            End::Stopped(_) => self.plan.stop.is_some(),
            End::Reset(code::SERVER_RESET) => request.server_reset.is_some(),
            End::Reset(code::NO_REQUEST) => self.plan.reset.is_some(),
            End::Reset(_) => false,
        };
        if as_planned {
            Ok(())
        } else {
            Err(format!("stream {id}: {end:?} at {} of {:?}", receiver.read, self.plan))
        }
    }
}

impl Pushed {
    fn announced(&self) -> Option<(u64, u64)> {
        let (key, length) = self.head.split_first_chunk()?;
        Some((u64::from_be_bytes(*key), u64::from_be_bytes(length.try_into().ok()?)))
    }

    fn read(&mut self, streams: &mut Streams, rng: &mut Rng, received: &mut u64) -> Result<(), String> {
        let head = &mut self.head;
        self.receiver.pump(streams, rng, |offset, data| {
            let (first, rest) = data.split_at((PUSH_HEAD - head.len()).min(data.len()));
            head.extend_from_slice(first);
            *received += data.len() as u64;
            let Some(key) = head.first_chunk().map(|key| u64::from_be_bytes(*key)) else { return Ok(()) };
            let request = Request { key, ..Request::default() };
            let offset = (offset + first.len() as u64).saturating_sub(PUSH_HEAD as u64);
            if request.push_pattern().matches(offset, rest) {
                Ok(())
            } else {
                Err(format!("push {key:#x} differs after {offset} bytes"))
            }
        })
    }
}

fn check(id: StreamId, pattern: Pattern, offset: u64, data: &[u8]) -> Result<(), String> {
    if pattern.matches(offset, data) {
        Ok(())
    } else {
        Err(format!("stream {id} differs in the {} bytes after {offset}", data.len()))
    }
}
