//! A socket that fails, or a runtime that ends, ends every task that waits.

use super::*;

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
