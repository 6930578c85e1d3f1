//! Connection IDs of one path: those that this end issued, and those that the peer issued (RFC 9000 §5.1,
//! §19.15, §19.16). Each path has its own sequence numbers and limits (RFC 10069 §3.2).

mod local;
mod remote;

pub(crate) use self::local::{LocalCids, MAX_LOCAL_CIDS};
pub(crate) use self::remote::RemoteCids;

#[cfg(test)]
mod tests;
