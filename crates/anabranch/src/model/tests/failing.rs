//! A socket that fails, or a runtime that ends, ends every task that waits.

use super::*;
use crate::model::sleep;

#[test]
fn the_socket_fails() {
    check(LIMIT, || async {
        let pair = Pair::new();
        let (ours, theirs) = promptly(pair.connect()).await;
        let (client, idle, left, accepting) =
            (pair.client.clone(), pair.client.clone(), pair.client.clone(), pair.client.clone());
        let (writes, closed) = (ours.clone(), ours.clone());
        promptly(interleave(vec![
            task(async move { client.inner.driver.sockets().own().break_down() }),
            task(async move { idle.wait_idle().await }),
            task(async move { left.wait_close_sent().await }),
            task(async move { assert!(accepting.accept().await.is_none()) }),
            task(async move { _ = closed.closed().await }),
            task(async move {
                let Ok(mut send) = writes.open_uni().await else { return };
                while send.write(&[7; 1_000]).await.is_ok() {}
            }),
        ]))
        .await;
        drop((ours, theirs));
        promptly(pair.client.wait_close_sent()).await;
        drop(pair);
    });
}

#[test]
fn the_socket_of_one_of_two_workers_fails() {
    check(LIMIT, || async {
        let pair = Pair::with_workers(2);
        // A client waits there for its connection to be accepted.
        let waits =
            pair.client.connect_with(&pair.config, ([192, 0, 2, 2], 444).into(), "localhost").unwrap();
        let waiting = Arc::clone(&pair.server.workers[1]);
        promptly(async {
            while waiting.table().incoming.is_empty() {
                sleep(Duration::from_millis(1)).await
            }
        })
        .await;
        let (accepts, breaks) = (pair.server.clone(), waiting.clone());
        promptly(interleave(vec![
            task(async move { while accepts.accept().await.is_some() {} }),
            task(async move { breaks.driver.sockets().own().break_down() }),
        ]))
        .await;
        drop(waits);
        assert_eq!(waiting.table().router.waiting(), 0, "a client counts that nobody accepts any more");
        drop((waiting, pair));
    });
}
