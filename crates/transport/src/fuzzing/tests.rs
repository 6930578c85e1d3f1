//! Replay of the corpora.

use anabranch_testkit::corpus::replay;

#[test]
fn connection_ids() {
    replay("connection_ids", super::connection_ids);
}

#[test]
fn ranges() {
    replay("ranges", super::ranges);
}
