//! Runtime of a program's single task.

use std::future::Future;

use peer_common::{Failure, socket};

/// Runs `task` on one pinned thread, or on tokio's ordinary pool.
pub fn block_on(cpu: Option<usize>, task: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut builder = match cpu {
        Some(cpu) => {
            socket::pin(cpu)?;
            tokio::runtime::Builder::new_current_thread()
        }
        None => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build()?.block_on(task)
}
