//! UDP flows of programs, each of which has a tunnel until no datagrams pass for some time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch::proxy::client::Target;
use bytes::Bytes;
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::link::Client;
use super::outlet::Outlet;
use super::seen::Kind;
use super::{rules, way};

/// Maximum number of flows of a forwarded port, or of a UDP association of SOCKS5. Datagrams of further flows
/// are dropped.
pub(crate) const MAX_FLOWS: usize = 1_024;
/// Maximum number of datagrams of a flow that wait for its task, for instance until its tunnel is open.
/// Further ones are dropped.
pub(crate) const MAX_QUEUED: usize = 64;
/// Time after a refusal in which a flow's datagrams are dropped. A datagram after that requests the tunnel
/// again.
const REFUSED: Duration = Duration::from_secs(2);

/// Maximum length of a UDP datagram, in bytes.
const MAX_DATAGRAM: usize = 65_535;
/// Size of the kernel's receive buffer for the datagrams of programs, in bytes: those of 20 ms at 400 Mbit/s.
const KERNEL_BUFFER: usize = 1 << 20;

/// Binds a socket for the datagrams of programs.
///
/// # Errors
/// Fails if the address cannot be bound.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address).await?;
    // A refusal is ignored: datagrams are lost sooner then while this process is busy.
    let _ = SockRef::from(&socket).set_recv_buffer_size(KERNEL_BUFFER);
    Ok(socket)
}

thread_local! {
    /// Buffer for one datagram, which all sockets of a thread share, so that an idle socket has none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_DATAGRAM]);
}

/// Receives the next datagram of a program.
///
/// # Errors
/// Fails as the socket does, for instance because ICMP reported an earlier datagram as undeliverable.
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
    known: BTreeMap<K, Known>,
    running: JoinSet<()>,
}

/// A flow as the reader of the programs' datagrams sees it.
#[derive(Debug)]
struct Known {
    waiting: mpsc::Sender<Bytes>,
    outlet: Outlet,
}

/// Payloads of a program for the task of their flow.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Payloads that arrived before the tunnel was open.
    waiting: mpsc::Receiver<Bytes>,
    outlet: Outlet,
}

/// Client and idle timeout of all flows of a port or an association.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) client: Client,
    /// Time without datagrams after which a flow ends.
    pub(crate) idle: Duration,
}

impl<K: Clone + Ord> Flows<K> {
    pub(crate) fn new() -> Self {
        Self { known: BTreeMap::new(), running: JoinSet::new() }
    }

    /// Passes a payload to the flow `key`. If there is no such flow, `start` returns the future of its task,
    /// which must end when the flow does. The payload is dropped if there are [`MAX_FLOWS`] flows, or if
    /// [`MAX_QUEUED`] payloads wait for the tunnel.
    pub(crate) fn pass<F>(&mut self, key: &K, payload: Bytes, start: impl FnOnce(Inbox) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while self.running.try_join_next().is_some() {}
        let known = self.known.get(key);
        if known.is_some_and(|flow| flow.outlet.send(&payload)) {
            return;
        }
        let payload = match known.map(|flow| flow.waiting.try_send(payload.clone())) {
            Some(Ok(()) | Err(TrySendError::Full(_))) => return,
            Some(Err(TrySendError::Closed(payload))) => payload,
            None => payload,
        };
        if self.known.len() >= MAX_FLOWS {
            self.known.retain(|_, flow| !flow.waiting.is_closed());
        }
        if self.known.len() >= MAX_FLOWS && !self.known.contains_key(key) {
            return;
        }
        let (waiting, receiver) = mpsc::channel(MAX_QUEUED);
        // This cannot fail, because the queue is empty.
        let _ = waiting.try_send(payload);
        let outlet = Outlet::default();
        self.running.spawn(start(Inbox { waiting: receiver, outlet: outlet.clone() }));
        self.known.insert(key.clone(), Known { waiting, outlet });
    }
}

/// Opens a tunnel to `target`, and carries a flow's payloads until none has passed for the idle timeout or
/// either side has ended the flow. `deliver` is called with each payload from the target.
pub(crate) async fn carry<D, F>(terms: Terms, target: Target, inbox: Inbox, deliver: D)
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
    // Over TCP there is one path, whatever the proxy supports.
    if !client.proxy().connections().is_empty() {
        rules::report_missing(wishes, &tunnel);
    }
    let Inbox { mut waiting, outlet } = inbox;
    let (sender, mut receiver) = tunnel.split();
    let flow = client.seen().open(Kind::Udp, &target);
    let _open = outlet.open(sender, flow.account(), client.seen().drops());
    let mut received = Instant::now();
    loop {
        tokio::select! {
            payload = waiting.recv() => {
                let Some(payload) = payload else { return };
                outlet.send(&payload);
            }
            payload = receiver.recv() => {
                let Ok(Some(payload)) = payload else { return };
                received = Instant::now();
                flow.traffic().add_received(payload.len() as u64);
                deliver(payload).await;
            }
            () = sleep_until(outlet.last_sent().max(received) + terms.idle) => {
                if outlet.last_sent().max(received).elapsed() >= terms.idle {
                    return;
                }
            }
        }
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
            move |inbox: Inbox| {
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
        // A flow that has ended makes room for another one, and its next datagram starts a new task.
        drop(inboxes.remove(5));
        flows.pass(&MAX_FLOWS, Bytes::from("first"), start(MAX_FLOWS));
        assert_eq!(told.try_recv().unwrap().0, MAX_FLOWS);
        drop(inboxes.remove(7));
        flows.pass(&8, Bytes::from("again"), start(8));
        assert_eq!(told.try_recv().unwrap().1.waiting.try_recv().unwrap(), "again");

        let (_, inbox) = &mut inboxes[0];
        for _ in 0..2 * MAX_QUEUED {
            flows.pass(&0, Bytes::from("next"), |_| async { panic!("the flow exists") });
        }
        let mut queued = 0;
        while inbox.waiting.try_recv().is_ok() {
            queued += 1;
        }
        assert_eq!(queued, MAX_QUEUED);
    }
}
