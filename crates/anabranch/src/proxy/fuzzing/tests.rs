//! Replay of the corpora.

use anabranch_testkit::corpus::replay;

#[test]
fn flows() {
    replay("flows", super::flows);
}

#[test]
fn ip_capsules() {
    replay("ip_capsules", super::ip_capsules);
}

#[test]
fn requests() {
    replay("requests", super::requests);
}
