//! The paths of a connection, by ID and by addresses.

use anabranch_wire::{PathId, Time};

use super::Path;
use crate::datagram_io::FourTuple;

/// All paths, sorted by ID; never empty. Path 0 exists until its state is removed after its abandonment.
#[derive(Debug)]
pub(crate) struct Paths(Vec<Path>);

impl Paths {
    /// Creates the set with a connection's first path.
    pub(crate) fn new(first: Path) -> Self {
        Self(vec![first])
    }

    pub(crate) fn get(&self, id: PathId) -> Option<&Path> {
        // A linear search is faster than a map, because paths are few.
        self.0.iter().find(|path| path.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.0.iter_mut().find(|path| path.id == id)
    }

    /// Returns the main path, which carries everything that belongs to no path in particular: the handshake's
    /// path, or the oldest one in use.
    pub(crate) fn main(&self) -> &Path {
        &self.0[self.main_index()]
    }

    pub(crate) fn main_mut(&mut self) -> &mut Path {
        let index = self.main_index();
        &mut self.0[index]
    }

    fn main_index(&self) -> usize {
        let usable = self.0.iter().position(Path::is_usable);
        usable.or_else(|| self.0.iter().position(|path| !path.is_abandoned())).unwrap_or(0)
    }

    /// Adds a path; its ID must be new.
    pub(crate) fn insert(&mut self, path: Path) {
        let at = self.0.partition_point(|other| other.id < path.id);
        self.0.insert(at, path);
    }

    /// Removes a path, unless it is the last one.
    pub(crate) fn remove(&mut self, id: PathId) -> Option<Path> {
        let at = self.0.iter().position(|path| path.id == id).filter(|_| self.0.len() > 1)?;
        Some(self.0.remove(at))
    }

    /// Returns the number of paths.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the ID of the path at `index`, in ascending order.
    pub(crate) fn nth(&self, index: usize) -> PathId {
        self.0[index].id
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.0.iter_mut()
    }

    /// Returns the path whose local connection IDs contain `dcid`.
    pub(crate) fn by_local_cid(&self, dcid: &[u8]) -> Option<PathId> {
        self.0.iter().find(|path| path.local_cids.contains(dcid).is_some()).map(|path| path.id)
    }

    /// Returns the path that uses `tuple`, preferring paths that are not abandoned.
    pub(crate) fn by_tuple(&self, tuple: &FourTuple) -> Option<PathId> {
        self.index_by_tuple(tuple).map(|at| self.0[at].id)
    }

    /// Returns the path of [`Self::by_tuple`] as a mutable reference.
    pub(crate) fn by_tuple_mut(&mut self, tuple: &FourTuple) -> Option<&mut Path> {
        self.index_by_tuple(tuple).map(|at| &mut self.0[at])
    }

    /// Returns the path if it is the only one and uses exactly these addresses.
    #[inline]
    pub(crate) fn only_on(&mut self, tuple: &FourTuple) -> Option<&mut Path> {
        match &mut self.0[..] {
            [only] if only.tuple == *tuple => Some(only),
            _ => None,
        }
    }

    fn index_by_tuple(&self, tuple: &FourTuple) -> Option<usize> {
        let on_tuple = || (0..self.0.len()).filter(|at| self.0[*at].tuple.matches(tuple));
        on_tuple().find(|at| !self.0[*at].is_abandoned()).or_else(|| on_tuple().next())
    }

    /// Returns the time at which the state of the next abandoned path can be removed.
    fn retention(&self) -> Option<Time> {
        let until = |path: &Path| match path.phase {
            super::Phase::Abandoned { until } => until,
            _ => None,
        };
        self.0.iter().filter_map(until).min()
    }

    /// Returns the largest smoothed round-trip time of the paths in use. A flow control window for all paths
    /// must cover this time.
    #[inline]
    pub(crate) fn longest_rtt(&self) -> std::time::Duration {
        if let [only] = &self.0[..] {
            return only.recovery.rtt().smoothed();
        }
        let used = self.0.iter().filter(|path| path.is_usable() && path.recovery.rtt().has_sample());
        let longest = used.map(|path| path.recovery.rtt().smoothed()).max();
        longest.unwrap_or_else(|| self.main().recovery.rtt().smoothed())
    }

    /// Returns the largest PTO of all paths; timers of the whole connection are multiples of it.
    pub(crate) fn max_pto(&self) -> std::time::Duration {
        self.0.iter().map(|path| path.recovery.pto(anabranch_wire::SpaceId::Data)).max().unwrap_or_default()
    }

    /// Returns the earliest timer of any path.
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.0
            .iter()
            // The timers of a path whose socket is full are ignored: it can send nothing until the socket has
            // room.
            .filter(|path| !path.is_abandoned() && !path.is_socket_blocked)
            .filter_map(|path| {
                let timers = [path.recovery.poll_timeout(), path.ack_timeout(), path.validation_timeout()];
                timers.into_iter().flatten().min()
            })
            .chain(self.retention())
            .min()
    }
}
