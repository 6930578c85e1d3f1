//! Server side.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use peer_common::args::Server;
use peer_common::report::Report;
use peer_common::{Failure, failed, life, socket};
use quinn::{Endpoint, Incoming, ServerConfig, TokioRuntime};

use super::content::{self, Moved};
use super::paths::Paths;
use super::plan::Plan;
use super::{Options, endpoint_config, transport};
use crate::tls;

/// Result of the plan once it has ended: the steps with their times, or the reason for its failure.
type Went = Arc<Mutex<Option<Result<String, String>>>>;

/// Serves until `ending` yields. The first connection follows the plan, beginning with its first stream.
pub async fn run(shared: Server, options: Options, ending: mpsc::Receiver<()>) -> Result<(), Failure> {
    let mut config = ServerConfig::with_crypto(tls::server(&shared.cert, &shared.key, None)?);
    config.transport_config(transport(&shared.common, &options)?);
    let socket = socket::bind(shared.listen)?;
    let endpoint = Endpoint::new(endpoint_config(&options), Some(config), socket, Arc::new(TokioRuntime))?;
    life::ready(endpoint.local_addr()?);
    let (tell, mut ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = ending.recv();
        let _ = tell.send(());
    });
    let (went, mut plan) = (Went::default(), Some(options.plan));
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            _ = &mut ended => None,
        };
        let Some(incoming) = incoming else { break };
        if shared.retry && !incoming.remote_address_validated() {
            incoming.retry()?;
            continue;
        }
        tokio::spawn(serve(incoming, plan.take(), Arc::clone(&went)));
    }
    endpoint.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    match went.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(Ok(steps)) => Report::new().raw("steps", steps).cpu().print(),
        Some(Err(why)) => return failed(why),
        None => return failed("the plan did not come to its end"),
    }
    Ok(())
}

async fn serve(incoming: Incoming, mut plan: Option<Plan>, went: Went) -> Result<(), Failure> {
    let connection = incoming.await?;
    let moved = Arc::new(Moved::new(0));
    let paths = Arc::new(Paths::new(connection.clone(), Arc::clone(&moved)));
    while let Ok((to, from)) = connection.accept_bi().await {
        tokio::spawn(content::answer(to, from, Arc::clone(&moved)));
        if let Some(plan) = plan.take() {
            tokio::spawn(follow(Arc::clone(&paths), plan, Arc::clone(&went)));
        }
    }
    Ok(())
}

async fn follow(paths: Arc<Paths>, plan: Plan, went: Went) {
    let outcome = match paths.follow(&plan).await {
        Ok(()) => Ok(paths.report()),
        Err(Failure::Failed(why) | Failure::Unsupported(why)) => Err(why),
    };
    *went.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
}
