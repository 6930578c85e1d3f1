//! Open local ports of a command, which a new configuration can open and close while the command runs.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Open ports by their keys, and the tasks that serve them.
#[derive(Debug)]
pub(crate) struct Ports<K> {
    open: BTreeMap<K, CancellationToken>,
    serving: JoinSet<()>,
}

impl<K: Ord> Ports<K> {
    pub(crate) fn new() -> Self {
        Self { open: BTreeMap::new(), serving: JoinSet::new() }
    }

    pub(crate) fn is_open(&self, key: &K) -> bool {
        self.open.contains_key(key)
    }

    /// Serves a port by a task. The task must stop accepting connections when the token is cancelled.
    pub(crate) fn serve<F>(&mut self, key: K, serve: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.serving.try_join_next().is_some() {}
        let closing = CancellationToken::new();
        self.serving.spawn(serve(closing.clone()));
        self.open.insert(key, closing);
    }

    /// Closes all ports that are not in `wanted`. Connections that were accepted on them go on. Returns the number of closed
    /// ports.
    pub(crate) fn keep(&mut self, wanted: &BTreeSet<K>) -> usize {
        let before = self.open.len();
        self.open.retain(|key, closing| {
            let is_wanted = wanted.contains(key);
            if !is_wanted {
                closing.cancel();
            }
            is_wanted
        });
        before - self.open.len()
    }

    /// Returns the tasks that serve ports. Dropping the set aborts them.
    pub(crate) fn serving(&mut self) -> &mut JoinSet<()> {
        &mut self.serving
    }
}

/// Numbers equal values from 1, because several options may have the same value, for instance port 0.
pub(crate) fn numbered<K: Clone + Ord>(values: impl IntoIterator<Item = K>) -> Vec<(K, usize)> {
    let mut counts = BTreeMap::new();
    let mut number = |value: K| {
        let count = counts.entry(value.clone()).or_insert(0);
        *count += 1;
        (value, *count)
    };
    values.into_iter().map(&mut number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ports_that_are_no_longer_wanted_stop_accepting() {
        let mut ports = Ports::new();
        let keys = numbered(["0", "1", "0"]);
        assert_eq!(keys, [("0", 1), ("1", 1), ("0", 2)]);
        for key in &keys {
            ports.serve(*key, |closing| async move { closing.cancelled().await });
        }
        assert_eq!(ports.keep(&keys[..2].iter().copied().collect()), 1);
        assert!(ports.is_open(&keys[0]) && !ports.is_open(&keys[2]));
        ports.serving().join_next().await.unwrap().unwrap();
        assert_eq!(ports.serving().len(), 2);
    }
}
