//! Invariants of decryption into the receive buffer: over VReverso, after a handshake without faults, with one
//! or several paths. The first byte chooses the numbering.

use anabranch_testkit::source::Source;
use anabranch_transport::Numbering;
use anabranch_transport::wire::Version;

use super::exchange::{Setting, World};

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let numbering = source.choose(&[None, Some(Numbering::Multiple), Some(Numbering::Single)]);
    let mut world = World::new(Setting { version: Version::REVERSO, numbering, is_authentic: false });
    world.connect();
    world.run(source);
}
