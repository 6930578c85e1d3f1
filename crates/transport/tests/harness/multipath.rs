//! Invariants of a connection with several paths. The first two bytes choose the version and the numbering.

use anabranch_testkit::source::Source;
use anabranch_transport::Numbering;
use anabranch_transport::wire::Version;

use super::exchange::{Setting, World};

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let version = source.choose(Version::SUPPORTED);
    let numbering = Some(source.choose(&[Numbering::Multiple, Numbering::Single]));
    World::new(Setting { version, numbering, is_authentic: false }).run(source);
}
