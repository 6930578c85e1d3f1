//! UDP flows of programs: a tunnel for each, as long as datagrams pass.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use anabranch::proxy::client::{Proxy, SendPayloadError, Target};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::way;

/// Maximum number of flows of a forward, or of an association of SOCKS. Datagrams of further flows are
/// dropped.
pub(crate) const MAX_FLOWS: usize = 1_024;
/// Maximum number of datagrams of a flow that wait until its tunnel is open. Further ones are dropped.
pub(crate) const MAX_QUEUED: usize = 64;
/// Time during which datagrams to a target that the proxy has refused are dropped, before it is asked again.
const REFUSED: Duration = Duration::from_secs(2);

/// Flows by what distinguishes them: the program's address, or the target.
#[derive(Debug)]
pub(crate) struct Flows<K> {
    known: BTreeMap<K, mpsc::Sender<Bytes>>,
    running: JoinSet<()>,
}

/// Settings of every flow.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) proxy: Proxy,
    /// Silence after which a flow ends.
    pub(crate) idle: Duration,
}

impl<K: Clone + Ord> Flows<K> {
    pub(crate) fn new() -> Self {
        Self { known: BTreeMap::new(), running: JoinSet::new() }
    }

    /// Passes a payload to the flow `key`. `start` makes the task of a new flow, which ends when the flow
    /// does. The payload is dropped if there are too many flows, or if too many payloads wait.
    pub(crate) fn pass<F>(&mut self, key: &K, payload: Bytes, start: impl FnOnce(mpsc::Receiver<Bytes>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.running.try_join_next().is_some() {}
        let payload = match self.known.get(key).map(|flow| flow.try_send(payload.clone())) {
            Some(Ok(()) | Err(TrySendError::Full(_))) => return,
            Some(Err(TrySendError::Closed(payload))) => payload,
            None => payload,
        };
        if self.known.len() >= MAX_FLOWS {
            self.known.retain(|_, flow| !flow.is_closed());
        }
        if self.known.len() >= MAX_FLOWS && !self.known.contains_key(key) {
            return;
        }
        let (flow, inbox) = mpsc::channel(MAX_QUEUED);
        // The queue is empty.
        let _ = flow.try_send(payload);
        self.running.spawn(start(inbox));
        self.known.insert(key.clone(), flow);
    }
}

/// Carries a flow to `target` until it is silent or has ended. `deliver` receives the payloads from the
/// target.
pub(crate) async fn carry<D, F>(terms: Terms, target: Target, mut inbox: mpsc::Receiver<Bytes>, deliver: D)
where
    D: Fn(Bytes) -> F + Send,
    F: Future<Output = ()> + Send,
{
    let tunnel = match terms.proxy.udp(&target).await {
        Ok(tunnel) => tunnel,
        Err(error) => {
            debug!(target: "anabranch::proxy", %target, %error, "no flow");
            way::tell_refusal(&error);
            return tokio::time::sleep(REFUSED).await;
        }
    };
    let (sender, mut receiver) = tunnel.split();
    let mut end = Instant::now() + terms.idle;
    loop {
        tokio::select! {
            payload = inbox.recv() => {
                let Some(payload) = payload else { return };
                match sender.send(&payload) {
                    Ok(()) => {}
                    // As on a link with a smaller MTU or a full queue.
                    Err(error @ (SendPayloadError::TooLarge { .. } | SendPayloadError::Full)) => {
                        debug!(target: "anabranch::proxy", %target, %error, "dropped a datagram");
                    }
                    Err(_) => return,
                }
            }
            payload = receiver.recv() => {
                let Ok(Some(payload)) = payload else { return };
                deliver(payload).await;
            }
            () = sleep_until(end) => return,
        }
        end = Instant::now() + terms.idle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn max_flows_and_max_queued_bound_what_programs_send() {
        let mut flows = Flows::new();
        let (tell, mut told) = mpsc::unbounded_channel();
        let start = |key: usize| {
            let tell = tell.clone();
            move |inbox: mpsc::Receiver<Bytes>| {
                tell.send((key, inbox)).unwrap();
                std::future::ready(())
            }
        };
        for key in 0..MAX_FLOWS + 1 {
            flows.pass(&key, Bytes::from("first"), start(key));
        }
        let mut inboxes = Vec::new();
        while let Ok(inbox) = told.try_recv() {
            inboxes.push(inbox);
        }
        assert_eq!(inboxes.len(), MAX_FLOWS);
        // A flow that has ended makes room for another one, and begins anew with its next datagram.
        drop(inboxes.remove(5));
        flows.pass(&MAX_FLOWS, Bytes::from("first"), start(MAX_FLOWS));
        assert_eq!(told.try_recv().unwrap().0, MAX_FLOWS);
        drop(inboxes.remove(7));
        flows.pass(&8, Bytes::from("again"), start(8));
        assert_eq!(told.try_recv().unwrap().1.try_recv().unwrap(), "again");

        let (_, inbox) = &mut inboxes[0];
        for _ in 0..2 * MAX_QUEUED {
            flows.pass(&0, Bytes::from("next"), |_| async { panic!("the flow exists") });
        }
        let mut queued = 0;
        while inbox.try_recv().is_ok() {
            queued += 1;
        }
        assert_eq!(queued, MAX_QUEUED);
    }
}
