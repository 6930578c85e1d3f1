//! Invariants of a connection on a single path whose datagrams arrive in any batches. The first byte chooses the
//! version.

use anabranch_testkit::source::Source;
use anabranch_transport::wire::Version;

use super::exchange::{Setting, World};

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let version = source.choose(Version::SUPPORTED);
    World::new(Setting { version, numbering: None, is_authentic: false }).run(source);
}
