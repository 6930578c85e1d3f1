//! One attempt to connect: by QUIC, and over TCP if that does not work.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tracing::info;

use super::super::connect::Live;
use super::super::error::ConnectFailure;
use super::super::fallback::{self, TcpFailure};
use super::Keeper;
use crate::log::HTTP3;

/// Time that QUIC has before an attempt over TCP begins beside it. A handshake takes one round trip, and a lost datagram is
/// repeated after a second.
const HEAD_START: Duration = Duration::from_secs(2);

/// Connects by QUIC. If that takes long or fails, and nothing but UDP may be the cause, connects over TCP meanwhile, and
/// reports it to the keeper.
pub(super) async fn attempt(keeper: &Arc<Keeper>) -> Result<Live, Arc<ConnectFailure>> {
    let config = &keeper.config;
    let begin = Instant::now();
    let mut quic = pin!(keeper.reach.connect(config));
    let Some(was_blocked) = keeper.wants_fallback() else {
        return quic.await.map_err(Arc::new);
    };
    let mut failed = match timeout(head_start(was_blocked, config.attempt_timeout), &mut quic).await {
        Ok(Err(failure)) if failure.may_concern_udp() => Some(Arc::new(failure)),
        Ok(connected) => return connected.map_err(Arc::new),
        Err(_) => None,
    };
    let mut tcp = pin!(timeout_at(begin + config.attempt_timeout, over_tcp(keeper)));
    let mut is_tcp_over = false;
    loop {
        tokio::select! {
            connected = &mut quic, if failed.is_none() => match connected {
                Err(failure) if failure.may_concern_udp() => failed = Some(Arc::new(failure)),
                connected => return connected.map_err(Arc::new),
            },
            connected = &mut tcp, if !is_tcp_over => {
                is_tcp_over = true;
                let silence = || Arc::new(ConnectFailure::TimedOut(begin.elapsed()));
                match connected {
                    Ok(Ok(connection)) => {
                        keeper.on_fallback(connection, failed.clone().unwrap_or_else(silence));
                    }
                    Ok(Err(failure)) => {
                        info!(target: HTTP3, %failure, "no connection over TCP");
                        // The failure over TCP says more than a timeout of QUIC.
                        if let TcpFailure::Later(error) = failure {
                            failed = Some(Arc::new(ConnectFailure::OverTcp(error)));
                        }
                    }
                    Err(_) => {}
                }
            }
            else => return Err(failed.unwrap_or_else(|| Arc::new(ConnectFailure::NoPath))),
        }
    }
}

/// Returns the time until TCP is tried, too: none if it was needed the last time.
fn head_start(was_blocked: bool, attempt: Duration) -> Duration {
    if was_blocked { Duration::ZERO } else { HEAD_START.min(attempt / 2) }
}

async fn over_tcp(keeper: &Keeper) -> Result<fallback::Connection, TcpFailure> {
    let candidates = keeper.reach.candidates(&keeper.config).await;
    let (_, candidates) = candidates.map_err(|failure| TcpFailure::Tcp(std::io::Error::other(failure)))?;
    fallback::connect(&keeper.config, candidates, &keeper.farewell).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quic_has_a_head_start_that_leaves_time_for_tcp() {
        let seconds = Duration::from_secs;
        assert_eq!(head_start(false, seconds(10)), HEAD_START);
        assert_eq!(head_start(false, seconds(1)), seconds(1) / 2);
        assert_eq!(head_start(true, seconds(10)), Duration::ZERO);
    }
}
