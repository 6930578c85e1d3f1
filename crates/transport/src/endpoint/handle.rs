//! Index of a connection at its endpoint.

/// Index of a connection at its endpoint. It may be reused once the connection has been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub usize);
