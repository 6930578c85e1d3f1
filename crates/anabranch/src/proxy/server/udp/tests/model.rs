//! A flow's queue, its writers, its reader and its owner in many orders.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::super::queue::{Capsules, Counter, Queue};
use crate::model::{check, interleave, spawn, task};

/// Counter of the model, which counts nothing.
struct Uncounted;

impl Counter for Uncounted {
    fn taken(&self, _: usize) {}
    fn dropped(&self) {}
}

#[test]
fn the_reader_gets_everything_and_then_the_end() {
    check(Duration::ZERO, || async {
        let queue = Arc::new(Queue::new(Duration::from_secs(3_600), Uncounted));
        let (first, second, read) = (Arc::clone(&queue), Arc::clone(&queue), Arc::clone(&queue));
        let writers = vec![
            task(async move { first.push(b"datagram", 8) })
                as std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
            task(async move { assert!(second.push_control(b"control".to_vec())) }),
        ];
        let reader = spawn(async move {
            let mut capsules = 0;
            while poll_fn(|cx| read.poll_pop(cx)).await.is_some() {
                capsules += 1;
            }
            capsules
        });
        interleave(writers).await;
        queue.end();
        assert_eq!(reader.await.unwrap(), 2);
    });
}

#[test]
fn the_owner_learns_that_the_reader_has_gone() {
    check(Duration::ZERO, || async {
        let queue = Arc::new(Queue::new(Duration::from_secs(3_600), Uncounted));
        let (owner, body, writer) =
            (Arc::clone(&queue), Capsules::new(Arc::clone(&queue)), Arc::clone(&queue));
        interleave(vec![
            task(async move { poll_fn(|cx| owner.poll_abandoned(cx)).await }),
            task(async move { drop(body) }),
            task(async move {
                writer.push(b"datagram", 8);
                writer.end();
            }),
        ])
        .await;
    });
}
