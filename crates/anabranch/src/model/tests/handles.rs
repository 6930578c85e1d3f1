//! The driver's handle: notifications, and sockets that paths lease.

use std::future::poll_fn;
use std::task::{Context, Poll, Wake, Waker};

use anabranch_transport::Handle;

use super::*;
use crate::driver_handle::DriverHandle;
use crate::model::sleep;
use crate::paths::{Candidate, LocalAddress};

#[test]
fn the_driver_takes_every_notification() {
    check(LIMIT, || async {
        let driver = Arc::new(DriverHandle::new(Socket::bind(local(1)).unwrap()));
        let mark = |handle| {
            let driver = Arc::clone(&driver);
            task(async move { driver.mark_dirty(Handle(handle)) })
        };
        let adds = Arc::clone(&driver);
        let add = task(async move {
            adds.sockets().add(Arc::new(Socket::bind(local(2)).unwrap()));
            adds.wake();
        });
        let drives = Arc::clone(&driver);
        let drive = task(async move {
            let mut taken = Vec::new();
            poll_fn(|cx| {
                drives.take_dirty(&mut taken, cx.waker());
                let all = taken.len() == 2 && drives.sockets().version() == 1;
                if all { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
        interleave(vec![mark(1), drive, mark(2), add]).await;
    });
}

#[test]
fn a_leased_socket_is_one_of_the_endpoint() {
    check(LIMIT, || async {
        let driver = Arc::new(DriverHandle::new(Socket::bind(local(1)).unwrap()));
        let lease = |port: u16| {
            let driver = Arc::clone(&driver);
            task(async move {
                for _ in 0..2 {
                    let (lease, _) =
                        driver.place(&LocalAddress::from(local(port)), ([192, 0, 2, 2], 443).into()).unwrap();
                    let sockets = driver.sockets();
                    let is_there = sockets.all().iter().any(|socket| Arc::ptr_eq(socket, lease.socket()));
                    assert!(is_there, "nobody reads from it");
                    drop(sockets);
                    drop(lease);
                    driver.drop_unleased();
                }
            })
        };
        interleave(vec![lease(2), lease(2), lease(3)]).await;
        assert_eq!(driver.sockets().all().len(), 1, "a socket without a lease is kept");
    });
}

#[test]
fn reports_are_read_from_every_socket_of_an_attempt() {
    check(LIMIT, || async {
        let pair = Pair::new();
        let (client, config, wakes) = (pair.client.clone(), pair.config.clone(), pair.client.clone());
        // Nobody is there.
        let remote: SocketAddr = ([192, 0, 2, 3], 443).into();
        let candidate = Candidate { local: Some(LocalAddress::from(local(2))), remote };
        let begin =
            spawn(async move { client.connect_by(&config, &candidate, &[remote], "localhost").unwrap() });
        wakes.inner.driver.wake();
        let connecting = begin.await.unwrap();
        // Time passes once the driver waits.
        sleep(Duration::from_millis(1)).await;
        let sockets = pair.client.inner.driver.sockets().all().to_vec();
        assert_eq!(sockets.len(), 2);
        assert!(sockets.iter().all(|socket| socket.is_listened_to()), "a refusal would not be noticed");
        drop((connecting, wakes));
        pair.close().await;
    });
}

/// Waker that uses the endpoint, as one does that drops a task with the last handle of a connection.
struct User(Endpoint);

impl Wake for User {
    fn wake(self: Arc<Self>) {
        let _ = self.0.open_connections();
        self.0.inner.census().1.iter().for_each(|connection| connection.with_state(|_| ()));
    }
}

#[test]
fn wakers_may_use_the_endpoint() {
    check(LIMIT, || async {
        let pair = Pair::new();
        let waker = |endpoint: &Endpoint| Waker::from(Arc::new(User(endpoint.clone())));
        let (client, server) = (waker(&pair.client), waker(&pair.server));
        let mut accepting = Box::pin(pair.server.accept());
        assert!(accepting.as_mut().poll(&mut Context::from_waker(&server)).is_pending());
        let (ours, theirs) = promptly(pair.connect()).await;
        drop(accepting);
        let mut ends = Box::pin(ours.closed());
        let mut idles = Box::pin(pair.client.wait_idle());
        let mut accepting = Box::pin(pair.server.accept());
        assert!(ends.as_mut().poll(&mut Context::from_waker(&client)).is_pending());
        assert!(idles.as_mut().poll(&mut Context::from_waker(&client)).is_pending());
        assert!(accepting.as_mut().poll(&mut Context::from_waker(&server)).is_pending());
        pair.client.close(VarInt::ZERO, b"");
        pair.client.wait_idle().await;
        pair.server.close(VarInt::ZERO, b"");
        drop((ends, idles, accepting, theirs));
        drop(ours);
        drop((client, server));
        pair.close().await;
    });
}
