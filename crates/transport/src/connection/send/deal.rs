//! Packets that the scheduler deals to several paths, one or a few at a time. They are written like those of a run, in the order of
//! the scheduler's picks, and each path's packets become one batch.

use std::collections::VecDeque;

use anabranch_recovery::Permit;
use anabranch_wire::{Ecn, PathId, Time};
use smallvec::SmallVec;

use crate::connection::connection::Connection;
use crate::connection::parts::{Dealt, Lane, MASKED_AT_ONCE};
use crate::datagram_io::{Transmit, TransmitBuf};
use crate::path::{Path, Tried, Turn};
use crate::schedule::{PathView, Pick, Scheduler as _};
use crate::stream::StreamRun;

/// Maximum number of paths to which packets are dealt at a time. It bounds the batches that wait for their turn to leave.
const MAX_LANES: usize = 4;

/// Outcome of an attempt to deal a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Yes,
    /// The batch is full, or the stream's data does not fill a packet.
    NoRoom,
    /// The path may not send now, or the connection has failed.
    Refused,
}

impl Connection {
    /// Lets the scheduler deal packets, beginning with the turn's pick, as long as they carry nothing but new data of one stream. They are
    /// the same as those of one turn for each pick. Returns the batch of the first path. [`Self::take_dealt`] returns those of the others.
    pub(super) fn deal(
        &mut self,
        now: Time,
        id: PathId,
        turn: &Turn,
        out: &mut TransmitBuf,
    ) -> Option<Transmit> {
        #[cfg(test)]
        super::run::IN_RUNS.get()?;
        let is_dealt = turn.data.path == Some(id) && turn.data.packets > 0 && turn.is_first;
        if !is_dealt || out.max_datagrams() == 1 || self.output.dealt.is_some() {
            return None;
        }
        let run = self.streams.run()?;
        let mut views = self.paths.candidates(&Tried::new());
        if views.len() > MAX_LANES || !views.iter().all(|view| self.is_quiet(now, view.id)) {
            return None;
        }
        let mut work = self.work(false, &Tried::new());
        let mut lanes = SmallVec::<[Lane; MAX_LANES]>::new();
        let mut pick = turn.data.clone();
        let unsent = loop {
            let before = work.new;
            let left = self.follow(now, &pick, &run, &mut lanes, out);
            work.new = self.streams.new_bytes();
            if left.is_some() || work.new == before {
                break left;
            }
            if let Some(view) = views.iter_mut().find(|view| Some(view.id) == pick.path) {
                self.paths.review(view);
            }
            if !views.iter().any(PathView::has_room) {
                break None;
            }
            let Some(multipath) = &mut self.paths.multipath else { break None };
            pick = multipath.scheduler.pick(now, &work, &views);
        };
        if lanes.is_empty() {
            return None;
        }
        self.streams.end_run(&run);
        for lane in &mut lanes {
            self.mask_lane(lane);
        }
        let mut waiting = VecDeque::from_iter(lanes);
        let first = waiting.pop_front();
        if !waiting.is_empty() || unsent.is_some() {
            self.output.dealt = Some(Box::new(Dealt { waiting, unsent }));
        }
        first.map(|lane| lane.leave(out))
    }

    /// Returns a dealt batch whose path's socket is not full.
    pub(super) fn take_dealt(&mut self, out: &mut TransmitBuf) -> Option<Transmit> {
        let dealt = self.output.dealt.as_mut()?;
        let is_open = |lane: &Lane| self.paths.list.get(lane.path).is_none_or(|path| !path.is_socket_blocked);
        let lane = dealt.waiting.iter().position(is_open).and_then(|at| dealt.waiting.remove(at));
        if dealt.waiting.is_empty() && dealt.unsent.is_none() {
            self.output.dealt = None;
        }
        lane.map(|lane| lane.leave(out))
    }

    /// Returns the scheduler's last pick, if packets are left of it, and its path is among `paths` and has room.
    pub(in crate::connection) fn take_unsent_pick(&mut self, paths: &[PathView]) -> Option<Pick> {
        let dealt = self.output.dealt.as_mut()?;
        let pick = dealt.unsent.take();
        if dealt.waiting.is_empty() {
            self.output.dealt = None;
        }
        pick.filter(|pick| paths.iter().any(|path| Some(path.id) == pick.path && path.has_room()))
    }

    /// Writes the packets of a pick. Returns what is left of it: the pick itself if a turn of its own must follow it, or its last
    /// packets if they do not fit into the path's batch.
    fn follow(
        &mut self,
        now: Time,
        pick: &Pick,
        run: &StreamRun,
        lanes: &mut SmallVec<[Lane; MAX_LANES]>,
        out: &mut TransmitBuf,
    ) -> Option<Pick> {
        let id = pick.path?;
        if !pick.also.is_empty() || pick.packets == 0 {
            return Some(pick.clone());
        }
        let at = match lanes.iter().position(|lane| lane.path == id) {
            Some(at) => at,
            None => {
                lanes.push(self.lane(id, out)?);
                lanes.len() - 1
            }
        };
        let most = pick.packets.min(lanes[at].room / lanes[at].transmit.segment_size);
        let mut written = 0;
        let mut dealt = Written::Yes;
        while written < most && dealt == Written::Yes {
            dealt = self.write_dealt(now, run, &mut lanes[at]);
            written += usize::from(dealt == Written::Yes);
        }
        if lanes[at].transmit.len == 0 {
            out.keep(lanes.remove(at).bytes);
        }
        // A path that may send no more loses the rest of its pick, as it does at the end of its turn.
        let is_over = dealt == Written::Yes || dealt == Written::Refused && written > 0;
        (!is_over).then(|| Pick { packets: most - written, ..pick.clone() })
    }

    /// Writes one packet at the end of a batch.
    fn write_dealt(&mut self, now: Time, run: &StreamRun, lane: &mut Lane) -> Written {
        let ect = lane.transmit.ecn.is_some();
        let (path, size) = (lane.path, lane.transmit.segment_size as u64);
        let Some(place) = lane.place().filter(|_| self.streams.left_of(run) >= size) else {
            return Written::NoRoom;
        };
        let may_send = |path: &mut Path| matches!(path.recovery.permit(now), Permit::Bytes(_));
        if !self.paths.list.get_mut(path).is_some_and(may_send) {
            return Written::Refused;
        }
        let Some((outgoing, len)) = self.write_unmasked(now, path, run, place, ect) else {
            return Written::Refused;
        };
        lane.unmasked.push(outgoing);
        lane.transmit.len += len;
        if lane.unmasked.len() == MASKED_AT_ONCE {
            self.mask_lane(lane);
        }
        #[cfg(test)]
        super::run::IN_RUNS.set(super::run::IN_RUNS.get().map(|count| count + 1));
        Written::Yes
    }

    /// Masks the headers of the packets at the batch's end.
    fn mask_lane(&self, lane: &mut Lane) {
        let Transmit { len, segment_size, .. } = lane.transmit;
        let masked = (len.div_ceil(segment_size) - lane.unmasked.len()) * segment_size;
        self.mask(&mut lane.bytes[masked..len], segment_size, &lane.unmasked);
        lane.unmasked.clear();
    }

    /// Creates an empty batch for a path.
    fn lane(&mut self, id: PathId, out: &mut TransmitBuf) -> Option<Lane> {
        let path = self.paths.list.get_mut(id)?;
        path.paced_until = None;
        let ecn = path.recovery.ecn_mark().then_some(Ecn::Ect0);
        let segment_size = usize::from(path.recovery.mtu());
        let transmit = Transmit { tuple: path.tuple, ecn, len: 0, segment_size };
        let room = out.most_of(segment_size) * segment_size;
        Some(Lane { path: id, transmit, bytes: out.spare(room), room, unmasked: SmallVec::new() })
    }

    /// Returns whether nothing but new stream data is to be sent on a path.
    fn is_quiet(&mut self, now: Time, id: PathId) -> bool {
        let Some(path) = self.paths.list.get_mut(id) else { return false };
        let probes = path.owes_validation() || path.recovery.mtu_probe(now).is_some();
        !probes && self.sends_streams_alone(now, id)
    }
}
