//! Paths and sockets that come and go while data is sent and the connection ends.

use anabranch_wire::PathId;

use super::*;
use crate::model::sleep;
use crate::paths::LocalAddress;

#[test]
fn paths_are_opened_and_abandoned_while_the_connection_closes() {
    check(LIMIT, || async {
        let pair = Pair::new();
        let (ours, theirs) = promptly(pair.connect()).await;
        let open = |port: u16| {
            let connection = ours.clone();
            task(async move {
                if let Ok(path) = connection.open_path(LocalAddress::from(local(port)), None).await {
                    let _ = connection.abandon_path(path, VarInt::ZERO);
                }
            })
        };
        let (closing, accepting) = (pair.client.clone(), theirs.clone());
        let (writes, abandons) = (ours.clone(), theirs.clone());
        promptly(interleave(vec![
            open(2),
            open(2),
            open(3),
            task(async move { while accepting.accept_uni().await.is_ok() {} }),
            task(async move {
                let Ok(mut send) = writes.open_uni().await else { return };
                let _ = send.write(&[7; 1_500]).await;
                let _ = send.finish();
            }),
            task(async move { _ = abandons.abandon_path(PathId(1), VarInt::ZERO) }),
            task(async move { closing.close(VarInt::ZERO, b"") }),
        ]))
        .await;
        drop((ours, theirs));
        pair.client.wait_idle().await;
        assert_eq!(pair.client.inner.driver.sockets().all().len(), 1, "a socket of a path is kept");
        pair.close().await;
    });
}

#[test]
fn the_socket_is_replaced_while_data_is_sent() {
    check(LIMIT, || async {
        let pair = Pair::new();
        let (ours, theirs) = promptly(pair.connect()).await;
        let rebinds = pair.client.clone();
        let (writes, reads) = (ours.clone(), theirs.clone());
        // Packets to the former address are lost, so this takes some probe timeouts.
        interleave(vec![
            task(async move { rebinds.replace_socket(Socket::bind(local(9)).unwrap()) }),
            task(async move {
                let mut send = writes.open_uni().await.unwrap();
                send.write_all(&[7; 4_000]).await.unwrap();
                send.finish().unwrap();
                assert_eq!(send.stopped().await, Ok(None));
            }),
            task(async move {
                let mut recv = reads.accept_uni().await.unwrap();
                assert_eq!(recv.read_to_end(4_000).await.unwrap().len(), 4_000);
            }),
        ])
        .await;
        // All data may have left before the replacement. A packet from the new socket must follow: at once, or by a probe timeout.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(theirs.remote_address(), local(9));
        drop((ours, theirs));
        pair.close().await;
    });
}

#[test]
fn data_takes_another_path_at_once_if_the_system_refuses_to_send() {
    check(2 * LIMIT, || async {
        let pair = Pair::new();
        let (ours, theirs) = promptly(pair.connect()).await;
        ours.open_path(LocalAddress::from(local(2)), None).await.unwrap();
        let (cuts, writes, reads) = (pair.client.clone(), ours.clone(), theirs.clone());
        promptly(interleave(vec![
            task(async move { cuts.inner.driver.sockets().own().cut_off() }),
            task(async move {
                let mut send = writes.open_uni().await.unwrap();
                send.write_all(&[7; 4_000]).await.unwrap();
                send.finish().unwrap();
            }),
            task(async move {
                let mut recv = reads.accept_uni().await.unwrap();
                assert_eq!(recv.read_to_end(4_000).await.unwrap().len(), 4_000);
            }),
        ]))
        .await;
        drop((ours, theirs));
        pair.close().await;
    });
}
