//! The task that connects to the proxy, again and again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::attempt::attempt;
use super::{Keeper, Step};

/// Time between a failed attempt and the next one, which doubles with each failure.
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
/// Maximum time between attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum time between attempts to return to QUIC, while a connection over TCP carries the tunnels.
const MAX_RETURN_BACKOFF: Duration = Duration::from_secs(30);

/// Lifetime below which a connection counts as a failed attempt. The proxy may end it at once, for instance because it does
/// not accept the client's certificate, of which TLS 1.3 tells the client after the handshake (RFC 8446 §4.4.2.4).
pub(super) const BRIEF: Duration = Duration::from_secs(1);

/// Connects whenever there are fewer connections than wanted, with a growing pause after each failure.
pub(super) async fn supervise(keeper: Arc<Keeper>) {
    let mut backoff = FIRST_BACKOFF;
    // Time at which the newest connection was set up.
    let mut newest: Option<Instant> = None;
    loop {
        let mut changes = keeper.subscribe();
        match keeper.step() {
            Step::End => return,
            Step::Rest => {
                let _ = changes.changed().await;
                continue;
            }
            Step::Connect => {}
        }
        match newest.take() {
            Some(newest) if newest.elapsed() < BRIEF && keeper.live().is_empty() => {}
            before => {
                if before.is_some() {
                    backoff = FIRST_BACKOFF;
                }
                let connected = tokio::select! {
                    connected = attempt(&keeper) => connected,
                    () = keeper.stranded.notified() => continue,
                    () = keeper.closed() => return,
                };
                match connected {
                    Ok(live) => {
                        newest = Some(Instant::now());
                        keeper.on_connected(live);
                        continue;
                    }
                    Err(failure) => keeper.on_failed(failure),
                }
            }
        }
        tokio::select! {
            () = pause(&keeper, backoff) => {}
            () = keeper.closed() => return,
        }
        let max = if keeper.has_fallback() { MAX_RETURN_BACKOFF } else { MAX_BACKOFF };
        backoff = (2 * backoff).min(max);
    }
}

/// Waits for `backoff`, with a random part so that the clients of a proxy that restarts do not all come at
/// once. A tunnel that begins to wait ends the pause, but not before [`FIRST_BACKOFF`].
async fn pause(keeper: &Keeper, backoff: Duration) {
    let mut random = [0; 1];
    // Without randomness the pause has its usual length.
    let _ = getrandom::fill(&mut random);
    let pause = backoff.mul_f64(0.75 + f64::from(random[0]) / 512.0);
    sleep(pause.min(FIRST_BACKOFF)).await;
    let _ = timeout(pause.saturating_sub(FIRST_BACKOFF), keeper.urgent.notified()).await;
}

#[cfg(test)]
mod tests {
    use super::super::tests::keeper;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_max_backoff_and_a_waiting_tunnel_shortens_them() {
        for max in [MAX_BACKOFF, MAX_RETURN_BACKOFF] {
            let keeper = keeper();
            let begin = Instant::now();
            pause(&keeper, max).await;
            let whole = begin.elapsed();
            assert!(whole >= max.mul_f64(0.74) && whole <= max.mul_f64(1.26), "{whole:?}");
            let begin = Instant::now();
            keeper.urgent.notify_one();
            pause(&keeper, max).await;
            let short = begin.elapsed();
            assert!(short >= FIRST_BACKOFF && short <= 2 * FIRST_BACKOFF, "{short:?}");
        }
    }
}
