//! UDP flows of programs: a tunnel for each, as long as datagrams pass.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch::proxy::client::{SendPayloadError, Target};
use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::link::Client;
use super::seen::Kind;
use super::{rules, way};

/// Maximum number of flows of a forward, or of an association of SOCKS. Datagrams of further flows are
/// dropped.
pub(crate) const MAX_FLOWS: usize = 1_024;
/// Maximum number of datagrams of a flow that wait until its tunnel is open. Further ones are dropped.
pub(crate) const MAX_QUEUED: usize = 64;
/// Time during which datagrams to a target that the proxy has refused are dropped, before it is asked again.
const REFUSED: Duration = Duration::from_secs(2);

/// Maximum length of a UDP datagram, in bytes.
const MAX_DATAGRAM: usize = 65_535;

thread_local! {
    /// Buffer for one datagram, which all sockets of a thread share: one that is idle holds none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_DATAGRAM]);
}

/// Receives the next datagram of a program.
///
/// # Errors
/// Fails as the socket does, for instance because an earlier datagram reached nobody (ICMP).
pub(crate) async fn receive(socket: &UdpSocket) -> io::Result<(Bytes, SocketAddr)> {
    loop {
        socket.readable().await?;
        let received = SCRATCH.with_borrow_mut(|scratch| {
            let (len, from) = socket.try_recv_from(scratch)?;
            Ok((Bytes::copy_from_slice(&scratch[..len]), from))
        });
        match received {
            Err(error) if io::Error::kind(&error) == io::ErrorKind::WouldBlock => {}
            received => return received,
        }
    }
}

/// Flows by what distinguishes them: the program's address, or the target.
#[derive(Debug)]
pub(crate) struct Flows<K> {
    known: BTreeMap<K, mpsc::Sender<Bytes>>,
    running: JoinSet<()>,
}

/// Settings of every flow.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) client: Client,
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
    let client = &terms.client;
    let wishes = client.rules().of(target.port());
    let tunnel = match client.proxy().udp_with(&target, wishes).await {
        Ok(tunnel) => tunnel,
        Err(error) => {
            debug!(target: "anabranch::proxy", %target, %error, "no flow");
            client.seen().fail(Kind::Udp);
            way::tell_refusal(&error);
            return tokio::time::sleep(REFUSED).await;
        }
    };
    // Over TCP there is one path, whatever the proxy does.
    let is_over_tcp = client.proxy().connections().is_empty();
    if wishes.has_copies() && !tunnel.has_copies() && !is_over_tcp {
        rules::tell_single();
    }
    let (sender, mut receiver) = tunnel.split();
    let flow = client.seen().open(Kind::Udp, &target);
    let mut end = Instant::now() + terms.idle;
    loop {
        tokio::select! {
            payload = inbox.recv() => {
                let Some(payload) = payload else { return };
                match sender.send(&payload) {
                    Ok(()) => flow.traffic().add_sent(payload.len() as u64),
                    // As on a link with a smaller MTU or a full queue.
                    Err(error @ (SendPayloadError::TooLarge { .. } | SendPayloadError::Full)) => {
                        debug!(target: "anabranch::proxy", %target, %error, "dropped a datagram");
                    }
                    Err(_) => return,
                }
            }
            payload = receiver.recv() => {
                let Ok(Some(payload)) = payload else { return };
                flow.traffic().add_received(payload.len() as u64);
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
    async fn datagrams_of_max_datagram_bytes_arrive_whole() {
        let (socket, program) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (socket, program) = (socket.await.unwrap(), program.await.unwrap());
        // IPv4 and UDP have headers of 28 bytes.
        for len in [0, 1, MAX_DATAGRAM - 28] {
            let payload = vec![7; len];
            program.send_to(&payload, socket.local_addr().unwrap()).await.unwrap();
            let (received, from) = receive(&socket).await.unwrap();
            assert!(received == payload && from == program.local_addr().unwrap(), "{len}");
        }
    }

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
