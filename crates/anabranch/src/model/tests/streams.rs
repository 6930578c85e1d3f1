//! No task misses the event that it waits for, and the driver does not sleep while it has work.

use bytes::Bytes;

use super::*;
use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Bytes of each stream; more than a stream's window.
const BYTES: usize = 5_000;

#[test]
fn streams_in_several_tasks() {
    check(LIMIT, || async {
        let pair = Pair::new();
        promptly(async {
            let (ours, theirs) = pair.connect().await;
            // The peer's limit is one stream at a time, so one of the clients waits for the other.
            let clients = (0..2).map(|_| task(request(ours.clone())));
            let servers = (0..2).map(|_| task(respond(theirs.clone())));
            interleave(clients.chain(servers)).await;
        })
        .await;
        pair.close().await;
    });
}

async fn request(connection: Connection) {
    let (send, mut recv) = connection.open_bi().await.unwrap();
    let sent = spawn(write(send));
    assert_eq!(recv.read_to_end(BYTES).await.unwrap().len(), BYTES);
    sent.await.unwrap();
}

async fn write(mut send: SendStream) {
    send.write_all(&[7; BYTES]).await.unwrap();
    send.finish().unwrap();
    assert_eq!(send.stopped().await, Ok(None));
}

async fn respond(connection: Connection) {
    let (mut send, mut recv): (SendStream, RecvStream) = connection.accept_bi().await.unwrap();
    while let Some(piece) = recv.read_chunk(usize::MAX).await.unwrap() {
        send.write_chunk(piece).await.unwrap();
    }
    send.finish().unwrap();
    assert_eq!(send.stopped().await, Ok(None));
}

#[test]
fn a_waiting_task_is_woken_although_another_one_is_cancelled() {
    check(LIMIT, || async {
        let pair = Pair::new();
        promptly(async {
            let (ours, theirs) = pair.connect().await;
            let accept = |took: Arc<AtomicBool>| {
                let connection = theirs.clone();
                spawn(async move {
                    let mut recv = connection.accept_uni().await.unwrap();
                    took.store(true, Ordering::Relaxed);
                    recv.read_to_end(10).await.unwrap()
                })
            };
            let took = Arc::new(AtomicBool::new(false));
            let (stays, cancelled) = (accept(Arc::default()), accept(Arc::clone(&took)));
            let opener = spawn({
                let ours = ours.clone();
                async move { hello(&ours).await }
            });
            cancelled.abort();
            let _ = cancelled.await;
            opener.await.unwrap();
            // There is one stream for the task that stays, whether or not the other one took a stream before its end.
            if took.load(Ordering::Relaxed) {
                hello(&ours).await;
            }
            assert_eq!(stays.await.unwrap(), b"hello");
        })
        .await;
        pair.close().await;
    });
}

/// Sends `hello` on a stream of its own.
async fn hello(connection: &Connection) {
    let mut send = connection.open_uni().await.unwrap();
    send.write_all(b"hello").await.unwrap();
    send.finish().unwrap();
    let _ = send.stopped().await;
}

#[test]
fn datagrams_in_several_tasks() {
    check(LIMIT, || async {
        let pair = Pair::new();
        promptly(async {
            let (ours, theirs) = pair.connect().await;
            let send = |connection: &Connection| {
                let connection = connection.clone();
                task(async move {
                    for _ in 0..3 {
                        connection.send_datagram_wait(Bytes::from_static(&[1; 1_000])).await.unwrap();
                    }
                })
            };
            let receive = |connection: &Connection| {
                let connection = connection.clone();
                task(async move {
                    for _ in 0..3 {
                        assert_eq!(connection.read_datagram().await.unwrap().len(), 1_000);
                    }
                })
            };
            interleave(vec![
                send(&ours),
                receive(&theirs),
                receive(&theirs),
                send(&ours),
                send(&theirs),
                receive(&ours),
            ])
            .await;
        })
        .await;
        pair.close().await;
    });
}
