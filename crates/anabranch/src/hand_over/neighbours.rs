//! The processes before and after this one that have the same sockets, as one worker's driver sees them.
//!
//! A datagram from the network goes back to the older processes, one after the other, until one knows its connection. The oldest one sends
//! a datagram that it does not know forth again, and each younger process may know it. The youngest one decides on what nobody knows: it is
//! a new client, or answered by a stateless reset. So no process resets a connection of another one, and each handshake ends where it began.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch_transport::{Datagram, StoredDatagram};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::channel::Channel;
use super::message::{Message, encode, notice};
use crate::lock::lock;
use crate::log::ENDPOINT;
use crate::socket::Socket;
use crate::sync::Mutex;

/// Maximum number of messages of one channel that a turn takes.
const MESSAGES: usize = 64;
/// Number of datagrams in a row that find the channel to the process before this one full, after which that process counts as hung. A
/// busy one takes some between them.
const HUNG: u32 = 1_000;

/// Origin of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Network,
    /// The process after this one, which has received it from the network.
    Successor,
    /// The process before this one, which does not know it.
    Predecessor,
}

/// Way of a datagram that belongs to none of this process's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// This process decides on it.
    Here,
    /// It is passed to the process before this one.
    Back,
    /// It is passed to the process after this one.
    Forth,
}

/// Progress of hand-overs, for the endpoint's handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Number of processes before this one that live.
    pub(super) older: u8,
    /// `true` while a process after this one receives on the sockets.
    pub(super) is_relieved: bool,
}

/// Channels for a driver, until it takes them, and what it tells about them.
#[derive(Debug)]
pub(crate) struct Links {
    new: Mutex<New>,
    pub(super) standing: watch::Sender<Standing>,
}

#[derive(Debug, Default)]
struct New {
    predecessor: Option<OwnedFd>,
    successor: Option<(OwnedFd, Vec<Arc<Socket>>)>,
}

impl Default for Links {
    fn default() -> Self {
        Self { new: Mutex::default(), standing: watch::Sender::new(Standing::default()) }
    }
}

impl Links {
    /// Sets the channel to the process before this one. `older` processes live before this one.
    pub(super) fn follow(&self, channel: OwnedFd, older: u8) {
        lock(&self.new).predecessor = Some(channel);
        self.standing.send_modify(|standing| standing.older = older);
    }

    /// Sets the channel to a process that may receive on these sockets.
    pub(super) fn precede(&self, channel: OwnedFd, sockets: Vec<Arc<Socket>>) {
        lock(&self.new).successor = Some((channel, sockets));
    }
}

/// Channels of one worker.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    predecessor: Option<Predecessor>,
    successor: Option<Successor>,
    encoded: Vec<u8>,
}

#[derive(Debug)]
struct Predecessor {
    channel: Channel,
    /// `true` once it was told that this process receives.
    is_told: bool,
    /// `true` if it was told last that another process receives after this one.
    told_relieved: bool,
    /// Number of processes before it.
    older: u8,
    /// Number of datagrams since the last one that found room in the channel.
    refused: u32,
}

#[derive(Debug)]
struct Successor {
    /// `None` if it has ended, but a still younger process receives on the sockets.
    channel: Option<Channel>,
    /// Sockets that were handed over.
    sockets: Vec<Arc<Socket>>,
    /// `true` once it receives on them.
    is_serving: bool,
    /// `true` while another process receives on them after it.
    is_relieved: bool,
    /// Number of processes before it that it was told of.
    told: Option<u8>,
}

impl Neighbours {
    /// Takes new channels, and sends what the processes at their other ends have to know.
    pub(crate) fn take(&mut self, links: &Links) {
        let New { predecessor, successor } = std::mem::take(&mut *lock(&links.new));
        if let Some(channel) = predecessor.and_then(|end| Channel::new(end).ok()) {
            let older = links.standing.borrow().older.saturating_sub(1);
            self.predecessor =
                Some(Predecessor { channel, is_told: false, told_relieved: false, older, refused: 0 });
        }
        if let Some((end, sockets)) = successor
            && let Ok(channel) = Channel::new(end)
        {
            let channel = Some(channel);
            self.successor =
                Some(Successor { channel, sockets, is_serving: false, is_relieved: false, told: None });
        }
        self.tell();
        let standing = Standing { older: self.older(), is_relieved: self.is_relieved() };
        links.standing.send_if_modified(|known| std::mem::replace(known, standing) != standing);
    }

    /// Sends notices that are due. One that finds the channel full is sent in a later turn.
    fn tell(&mut self) {
        let (older, is_relieved) = (self.older(), self.is_relieved());
        if let Some(before) = &mut self.predecessor {
            before.is_told = before.is_told || before.channel.send(&notice(&Message::Serving));
            if is_relieved != before.told_relieved
                && before.channel.send(&notice(&Message::HandedOn(is_relieved)))
            {
                before.told_relieved = is_relieved;
            }
        }
        if let Some(after) = &mut self.successor
            && after.told != Some(older + 1)
            && let Some(channel) = &after.channel
            && channel.send(&notice(&Message::Older(older + 1)))
        {
            after.told = Some(older + 1);
        }
    }

    fn older(&self) -> u8 {
        self.predecessor.as_ref().map_or(0, |before| before.older.saturating_add(1))
    }

    fn is_relieved(&self) -> bool {
        self.successor.as_ref().is_some_and(|after| after.is_serving)
    }

    /// Returns whether this process receives on the socket.
    pub(crate) fn receives(&self, socket: &Arc<Socket>) -> bool {
        let is_handed_over = |after: &Successor| {
            after.is_serving && after.sockets.iter().any(|handed| Arc::ptr_eq(handed, socket))
        };
        !self.successor.as_ref().is_some_and(is_handed_over)
    }

    /// Returns whether the driver must not end: a younger process reaches an older one through this one.
    pub(crate) fn are_between(&self) -> bool {
        self.predecessor.is_some() && self.is_relieved()
    }

    /// Returns what becomes of a datagram of this origin that belongs to no connection. If the process before this one takes nothing,
    /// the handshakes of new clients go on without it.
    pub(crate) fn course(&self, origin: Origin, datagram: &Datagram<'_>) -> Course {
        let is_hung = |before: &Predecessor| before.refused >= HUNG;
        let has_long_header = datagram.payload.first().is_some_and(|first| first & 0x80 != 0);
        let asks = |before: &Predecessor| !(has_long_header && is_hung(before));
        match origin {
            Origin::Network | Origin::Successor if self.predecessor.as_ref().is_some_and(asks) => {
                Course::Back
            }
            _ if self.is_relieved() => Course::Forth,
            _ => Course::Here,
        }
    }

    /// Passes a datagram to another process. It is dropped if the channel is full, as if the network had lost it.
    pub(crate) fn pass(&mut self, course: Course, datagram: &Datagram<'_>) {
        encode(datagram, &mut self.encoded);
        match (course, &mut self.predecessor, &self.successor) {
            (Course::Back, Some(before), _) => {
                let is_sent = before.channel.send(&self.encoded);
                before.refused = if is_sent { 0 } else { before.refused.saturating_add(1) };
                if before.refused == HUNG {
                    warn!(target: ENDPOINT, "an older process with the same sockets hangs: its connections wait");
                }
            }
            (Course::Forth, _, Some(Successor { channel: Some(channel), .. })) => {
                channel.send(&self.encoded);
            }
            _ => {}
        }
    }

    /// Returns datagrams that another process has passed here, as many as a turn takes, and whether more may be waiting.
    pub(crate) fn receive(&mut self, cx: &mut Context<'_>, origin: Origin) -> (Vec<StoredDatagram>, bool) {
        let mut datagrams = Vec::new();
        // Changes by a notice are told in the next turn.
        let mut more = false;
        for _ in 0..MESSAGES {
            let channel = match origin {
                Origin::Network => None,
                Origin::Successor => self.successor.as_mut().and_then(|after| after.channel.as_mut()),
                Origin::Predecessor => self.predecessor.as_mut().map(|before| &mut before.channel),
            };
            match channel.map(|channel| channel.poll_receive(cx)) {
                None | Some(Poll::Pending) => return (datagrams, more),
                Some(Poll::Ready(Ok(Some(Message::Datagram(datagram))))) => datagrams.push(datagram),
                Some(Poll::Ready(Ok(message))) => {
                    self.on_notice(message);
                    more = true;
                }
                Some(Poll::Ready(Err(_))) => {
                    self.on_end(origin);
                    return (datagrams, true);
                }
            }
        }
        (datagrams, true)
    }

    fn on_notice(&mut self, message: Option<Message>) {
        match (message, &mut self.successor, &mut self.predecessor) {
            (Some(Message::Serving), Some(after), _) => after.is_serving = true,
            (Some(Message::HandedOn(is_so)), Some(after), _) => after.is_relieved = is_so,
            (Some(Message::Older(count)), _, Some(before)) => before.older = count.saturating_sub(1),
            _ => {}
        }
    }

    /// Forgets a process that has ended. If it was to be the only one that receives, this process does so again.
    fn on_end(&mut self, origin: Origin) {
        debug!(target: ENDPOINT, ?origin, "a process with the same sockets has ended");
        match (origin, &mut self.successor) {
            (Origin::Successor, Some(after)) if after.is_relieved => {
                // A still younger process receives, which this one cannot reach any more.
                after.channel = None;
            }
            (Origin::Successor, after) => *after = None,
            _ => self.predecessor = None,
        }
    }
}
