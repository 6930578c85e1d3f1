//! The end of a connection or an endpoint, by whatever side and in whatever order, ends every task that waits.

use anabranch_transport::ConnectionError;

use super::*;

/// Returns tasks that wait for everything that a connection offers, until it ends.
fn waiters(connection: &Connection) -> Vec<Task> {
    fn on<F: Future<Output = ()> + Send + 'static>(
        connection: &Connection,
        wait: impl FnOnce(Connection) -> F,
    ) -> Task {
        task(wait(connection.clone()))
    }
    vec![
        on(connection, |connection| async move { _ = connection.closed().await }),
        on(connection, |connection| async move { while connection.accept_bi().await.is_ok() {} }),
        on(connection, |connection| async move { while connection.accept_uni().await.is_ok() {} }),
        on(connection, |connection| async move { while connection.read_datagram().await.is_ok() {} }),
        on(connection, |connection| async move {
            let mut events = connection.path_events();
            drop(connection);
            while events.next().await.is_some() {}
        }),
        on(connection, |connection| async move {
            let Ok((mut send, mut recv)) = connection.open_bi().await else { return };
            // The peer never reads, and its limit allows no second stream.
            let other = spawn(async move { _ = connection.open_bi().await.map(drop) });
            let reads = spawn(async move { _ = recv.read_chunk(1).await });
            while send.write(&[7; 1_000]).await.is_ok() {}
            let _ = send.stopped().await;
            other.await.unwrap();
            reads.await.unwrap();
        }),
    ]
}

#[test]
fn everything_that_waits_ends_with_the_connection() {
    check(LIMIT, || async {
        let pair = Pair::new();
        let (ours, theirs) = pair.connect().await;
        let mut tasks = waiters(&ours);
        tasks.extend(waiters(&theirs));
        let (closing, endpoint) = (ours.clone(), pair.client.clone());
        tasks.push(task(async move { closing.close(VarInt::from_u32(1), b"") }));
        tasks.push(task(async move { endpoint.close(VarInt::from_u32(2), b"") }));
        promptly(interleave(tasks)).await;
        let ConnectionError::PeerApplication { code, .. } = theirs.close_reason().unwrap() else {
            panic!("{:?}", theirs.close_reason());
        };
        assert!([1, 2].map(VarInt::from_u32).contains(&code), "{code:?}");
        drop((ours, theirs));
        pair.close().await;
    });
}

#[test]
fn handles_are_dropped_in_any_order() {
    check(LIMIT, || async {
        let Pair { client, server, config } = Pair::new();
        let pair = Pair { client: client.clone(), server: server.clone(), config };
        let (ours, theirs) = promptly(pair.connect()).await;
        drop(pair);
        let ended = {
            let theirs = theirs.clone();
            spawn(async move { theirs.closed().await })
        };
        let (stream, other) = promptly(async { (ours.open_uni().await.unwrap(), ours.clone()) }).await;
        let accepting = server.clone();
        let drops = vec![
            task(async move { drop(client) }),
            task(async move { drop(ours) }),
            task(async move { drop(other) }),
            task(async move { drop(stream) }),
            task(async move { drop(server) }),
            task(async move {
                // The last connection has gone, and nobody else closes this endpoint.
                let connecting = accepting.accept();
                drop(connecting);
                drop(accepting);
            }),
        ];
        promptly(interleave(drops)).await;
        assert!(matches!(
            promptly(async { ended.await.unwrap() }).await,
            ConnectionError::PeerApplication { .. }
        ));
        drop(theirs);
    });
}

#[test]
fn clients_come_while_the_endpoint_closes() {
    check(LIMIT, || async {
        let pair = Pair::new();
        let address = pair.server.local_addr().unwrap();
        let (client, config) = (pair.client.clone(), pair.config.clone());
        let connect = move || {
            let (client, config) = (client.clone(), config.clone());
            task(async move {
                if let Ok(connecting) = client.connect_with(&config, address, "localhost") {
                    // Either is possible, but not that neither is.
                    let _ = connecting.await.map(|connection| connection.close_reason());
                }
            })
        };
        let (accepting, closing, ours) = (pair.server.clone(), pair.server.clone(), pair.client.clone());
        promptly(interleave(vec![
            connect(),
            connect(),
            task(async move {
                while let Some(incoming) = accepting.accept().await {
                    if let Ok(connection) = incoming.await {
                        connection.closed().await;
                    }
                }
            }),
            task(async move { closing.close(VarInt::ZERO, b"") }),
            task(async move { ours.close(VarInt::ZERO, b"") }),
        ]))
        .await;
        pair.close().await;
    });
}

#[test]
fn a_close_that_was_waited_for_was_sent() {
    check(LIMIT, || async {
        let pair = Pair::new();
        let (ours, theirs) = promptly(pair.connect()).await;
        let (first, second) = (pair.client.clone(), pair.client.clone());
        let (config, address) = (pair.config.clone(), pair.server.local_addr().unwrap());
        ours.close(VarInt::ZERO, b"");
        promptly(interleave(vec![
            task(async move { first.wait_close_sent().await }),
            task(async move {
                // This connection begins while the first task waits.
                let connection = second.connect_with(&config, address, "localhost").unwrap();
                drop(connection);
                second.wait_close_sent().await;
                for connection in second.inner.census().1 {
                    connection.with_state(|state| {
                        assert!(state.core.is_closed() && !state.core.owes_close(), "it has not been sent");
                    });
                }
            }),
        ]))
        .await;
        drop((ours, theirs));
        pair.close().await;
    });
}
