//! The server of multipath cases.

use anabranch::{Incoming, RetryPolicy, VarInt};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use serde_json::{Value, json};

use super::content::{self, Moved};
use super::paths::Paths;
use super::plan::Plan;
use super::{ALPN, Common, FAREWELL};
use crate::exit::{self, Exit, Failure, Result};
use crate::identity::Identity;
use crate::options::listen;
use crate::signal::{Stop, end_of_input};

#[derive(Args, Debug)]
pub(in crate::interop) struct Server {
    /// Address and port to listen on; port 0 lets the system choose
    #[arg(long, value_name = "IP:PORT")]
    listen: SocketAddr,
    #[command(flatten)]
    identity: Identity,
    /// Validate every client's address with Retry
    #[arg(long)]
    retry: bool,
    #[command(flatten)]
    common: Common,
}

/// Outcome of the plan once it has ended: its steps and their times.
type Went = Arc<Mutex<Option<Result<Value>>>>;

/// Serves until standard input ends. The first connection executes the plan, from its first stream on.
pub(super) async fn run(options: Server) -> Result {
    let mut config = options.identity.load(&[])?.quic(&[ALPN], options.common.transport())?;
    if options.retry {
        config = config.with_retry(RetryPolicy::Always);
    }
    let endpoint = listen(config, options.listen, None, 1)?;
    let address = endpoint.local_addr().map_err(|error| Failure::io("no local address", &error))?;
    let mut stop = Stop::catch()?;
    exit::say(format_args!("listening {address}"))?;
    let (went, mut plan) = (Went::default(), Some(options.common.plan));
    let accepting = async {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(serve(incoming, plan.take(), Arc::clone(&went)));
        }
    };
    tokio::select! {
        () = accepting => return Err(Failure::new(Exit::Io, "the socket failed")),
        () = stop.wait() => {}
        () = end_of_input() => {}
    }
    endpoint.close(VarInt::from_u32(0), b"");
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    let went = went.lock().unwrap_or_else(PoisonError::into_inner).take();
    let steps = went.ok_or_else(|| Failure::new(Exit::Failed, "the plan did not come to its end"))??;
    exit::say(json!({ "steps": steps }))
}

async fn serve(incoming: Incoming, mut plan: Option<Plan>, went: Went) -> Result {
    let connection = incoming.accept()?.await?;
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
    let outcome = paths.follow(&plan).await.map(|()| paths.report());
    *went.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
}
