//! Routers that share an address.

use super::*;

const WORKERS: usize = 4;

fn workers(change: impl FnOnce(&mut ServerConfig)) -> Vec<Router> {
    Router::workers(&endpoint_config(1), server_with(change).as_ref(), WORKERS)
}

/// Accepts the client whose first Initial has this connection ID. Returns the connection and its own connection ID.
fn accept(router: &mut Router, dcid: u64) -> (Handle, ConnectionId) {
    let client = incoming(route(router, 1, &v1_initial(dcid, &[])));
    let accepted = router.accept(NOW, client).unwrap();
    (accepted.handle, accepted.start.local_cid)
}

#[track_caller]
fn elsewhere(route: RouterAction) -> usize {
    match route {
        RouterAction::Elsewhere(worker) => worker,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_worker_knows_the_owner_of_a_packet() {
    let mut workers = workers(|_| {});
    for owner in 0..WORKERS {
        let (handle, local_cid) = accept(&mut workers[owner], owner as u64);
        let issued = workers[owner].shared().cid(&mut Random::new([9; 32]));
        workers[owner].on_event(handle, &EndpointEvent::CidIssued(issued));
        for cid in [local_cid, issued] {
            for (index, worker) in workers.iter_mut().enumerate() {
                // The address says nothing: the client may have moved.
                let route = route(worker, 7, &short(&cid, 60));
                match index == owner {
                    true => assert_eq!(connection(route), handle),
                    false => assert_eq!(elsewhere(route), owner),
                }
            }
        }
    }
}

#[test]
fn an_unknown_packet_is_answered_by_the_worker_that_it_names_and_by_no_other() {
    let mut workers = workers(|_| {});
    let cid = workers[2].shared().cid(&mut Random::new([9; 32]));
    for other in [0, 1, 3] {
        assert_eq!(elsewhere(route(&mut workers[other], 1, &short(&cid, 60))), 2);
    }
    let reset = response(route(&mut workers[2], 1, &short(&cid, 60)));
    // All workers have the same key of stateless resets.
    let token = workers[0].shared().reset_token(&cid);
    assert_eq!(reset.bytes.last_chunk::<16>(), Some(&token.0));
}

#[test]
fn a_stateless_reset_finds_its_connection_whatever_it_looks_like() {
    let mut workers = workers(|_| {});
    let (handle, _) = accept(&mut workers[1], 1);
    workers[1].on_event(handle, &EndpointEvent::ResetTokenAdded(ResetToken([0x5a; 16])));
    for first in 0..32 {
        let reset = short(&[first; 8], 40);
        for (index, worker) in workers.iter_mut().enumerate() {
            match route(worker, 1, &reset) {
                RouterAction::Reset(reset) => assert_eq!((index, reset), (1, handle)),
                other => assert_eq!(elsewhere(other), 1),
            }
        }
    }
    workers[1].on_event(handle, &EndpointEvent::Drained);
    assert!(workers[0].shared.group.reset_tokens().is_empty());
}

#[test]
fn limits_hold_for_all_workers_together() {
    let mut workers = workers(|config| {
        config.max_connections = 6;
        config.max_incoming = 1_000;
    });
    let handles: Vec<_> =
        (0..6).map(|n| (n % WORKERS, accept(&mut workers[n % WORKERS], n as u64).0)).collect();
    for worker in &mut workers {
        response(route(worker, 1, &v1_initial(100, &[])));
    }
    for (worker, handle) in handles {
        workers[worker].on_event(handle, &EndpointEvent::Drained);
        workers[worker].remove(handle);
    }
    let group = Arc::clone(&workers[0].shared.group);
    assert_eq!(group.connections.load(Ordering::Relaxed), 0);
    assert_eq!(group.waiting.load(Ordering::Relaxed), 0);

    for worker in &mut workers {
        worker.set_server(server_with(|config| {
            config.max_incoming = 6;
            config.retry = RetryPolicy::Never;
        }));
    }
    let waiting: Vec<_> =
        (0..6).map(|n| incoming(route(&mut workers[n % WORKERS], 1, &v1_initial(n as u64, &[])))).collect();
    for worker in &mut workers {
        response(route(worker, 1, &v1_initial(100, &[])));
    }
    assert_eq!(group.waiting.load(Ordering::Relaxed), 6);
    for (n, client) in waiting.into_iter().enumerate() {
        workers[n % WORKERS].ignore(client);
    }
    assert_eq!(group.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn a_token_counts_once_at_whichever_worker() {
    let mut workers = workers(|config| config.retry = RetryPolicy::Always);
    let token = workers[3].shared().new_token(NOW, client(1), [3; 16]);
    let later = NOW + Duration::from_secs(1);
    let first = route_at(&mut workers[0], later, 1, &v1_initial(1, &token));
    assert!(incoming(first).address_validated());
    for worker in &mut workers {
        // A Retry: the token is used.
        response(route_at(worker, later, 1, &v1_initial(2, &token)));
    }
}

#[test]
fn the_packet_after_a_retry_names_the_worker_that_sent_it() {
    let mut workers = workers(|config| config.retry = RetryPolicy::Always);
    for (index, worker) in workers.iter_mut().enumerate() {
        let retry = response(route(worker, 1, &v1_initial(1, &[])));
        let header = parse_packet(&retry.bytes, 8).unwrap();
        let owner = Worker::all(WORKERS).nth(index).unwrap();
        assert_eq!(owner.other_owner(&header.scid), None);
    }
}
