//! Replacement of this endpoint's connection IDs by age and use, so that an observer cannot track a
//! long-lived connection by one of them (RFC 9000 §5.1.1, §9.5).

use anabranch_wire::Time;

use crate::connection::connection::Connection;

impl Connection {
    /// Asks the peer to switch to new connection IDs on each path whose connection IDs are old or heavily
    /// used. Without traffic nothing is replaced; the first packet after a long silence triggers the
    /// replacement.
    #[inline]
    pub(super) fn rotate_old_cids(&mut self, now: Time) {
        if !self.handshake.progress.confirmed || !self.state.is_active() {
            return;
        }
        if self.handshake.outdated_cids {
            self.renew_cids();
        }
        if self.config.cid_rotation.is_some() {
            self.rotate_due_cids(now);
        }
    }

    /// Asks the peer to switch to new connection IDs, on all paths and for all paths that may be opened. This is necessary when load
    /// balancers have another configuration ([`Router::set_load_balancing`](crate::Router::set_load_balancing)), so that those of
    /// the earlier one can be given up. A handshake is completed first.
    pub fn renew_cids(&mut self) {
        self.handshake.outdated_cids = !self.handshake.progress.confirmed;
        if self.handshake.outdated_cids || !self.state.is_active() {
            return;
        }
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            if let Some(local) = self.paths.local_cids_mut(id) {
                local.rotate();
            }
        }
        if let Some(multipath) = &mut self.paths.multipath {
            let max = multipath.max();
            multipath.unopened_mut(max).for_each(|unopened| unopened.local.rotate());
        }
        self.issue_cids();
    }

    fn rotate_due_cids(&mut self, now: Time) {
        // Connection IDs that a load balancer routes to this server are not given up for others that it does not.
        let rule = self.config.cid_rotation.filter(|_| !self.shared.is_routed_by_address());
        let Some(rule) = rule else { return };
        let mut rotated = false;
        for index in 0..self.paths.list.len() {
            let id = self.paths.list.nth(index);
            let Some(path) = self.paths.list.get_mut(id).filter(|path| !path.is_abandoned()) else {
                continue;
            };
            let packets = path.counters.data_packets;
            let (since, before) = *path.cids_since.get_or_insert((now, packets));
            if now - since < rule.max_age && packets - before < rule.max_packets {
                continue;
            }
            path.cids_since = Some((now, packets));
            // A peer that has not completed the last switch is not asked again.
            if let Some(local) = self.paths.local_cids_mut(id).filter(|local| !local.is_rotating()) {
                local.rotate();
                rotated = true;
            }
        }
        if rotated {
            self.issue_cids();
        }
    }
}
