//! No task misses the event that it waits for, and the driver does not sleep while it has work.

use bytes::Bytes;

use super::*;
use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;

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
            let accept = |connection: &Connection| {
                let connection = connection.clone();
                spawn(async move { connection.accept_uni().await.unwrap().read_to_end(10).await.unwrap() })
            };
            let (stays, cancelled) = (accept(&theirs), accept(&theirs));
            let opener = spawn(async move {
                for _ in 0..2 {
                    let mut send = ours.open_uni().await.unwrap();
                    send.write_all(b"hello").await.unwrap();
                    send.finish().unwrap();
                    let _ = send.stopped().await;
                }
                ours
            });
            cancelled.abort();
            assert_eq!(stays.await.unwrap(), b"hello");
            let _ours = opener.await.unwrap();
        })
        .await;
        pair.close().await;
    });
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
