//! Differential between versions: the same script over every version delivers the same number of bytes on each
//! stream, as long as no datagram is changed.

use anabranch_testkit::source::Source;
use anabranch_transport::Numbering;
use anabranch_transport::wire::Version;

use super::exchange::{Setting, World};

pub(crate) fn run(data: &[u8]) {
    let mut source = Source::new(data);
    let numbering = source.choose(&[None, Some(Numbering::Multiple), Some(Numbering::Single)]);
    let mut arrived = Version::SUPPORTED.iter().filter_map(|version| {
        let mut world = World::new(Setting { version: *version, numbering, is_authentic: true });
        world.connect();
        world.run(source.clone())
    });
    let Some(first) = arrived.next() else { return };
    arrived.for_each(|other| assert_eq!(other, first, "every version delivers the same"));
}
