//! News about the connection to the proxy, for people.

use anabranch::proxy::client::{ConnectFailure, Proxy, ProxyState};

use super::way::unavailable;
use crate::exit;

/// Reports on standard error when the connection is lost, why it cannot be replaced, when it is there again, and when it is one
/// over TCP.
pub(crate) async fn tell_states(proxy: Proxy) {
    let mut states = proxy.states();
    drop(proxy);
    // The connection of the start may be one over TCP.
    states.mark_changed();
    let mut told = Told::default();
    while states.changed().await.is_ok() {
        let state = states.borrow_and_update().clone();
        if matches!(state, ProxyState::Closed) {
            return;
        }
        if let Some(news) = told.news(&state) {
            exit::note(format_args!("anabranch: {}", exit::one_line(&news)));
        }
    }
}

/// State that people know.
#[derive(Debug, Default)]
struct Told {
    /// Last news; empty while all is well.
    news: String,
    is_over_tcp: bool,
}

impl Told {
    /// Returns the line that reports a state; `None` if it is no news.
    fn news(&mut self, state: &ProxyState) -> Option<String> {
        let was_over_tcp = self.is_over_tcp;
        let news = match state {
            ProxyState::Lost(reason) => format!("the connection to the proxy is lost: {reason}"),
            ProxyState::Failing(cause) => format!("cannot connect to the proxy: {}", unavailable(cause)),
            ProxyState::Fallback(cause) => {
                self.is_over_tcp = true;
                let why = match **cause {
                    ConnectFailure::TimedOut(_) => "UDP is blocked".to_owned(),
                    _ => format!("there is no QUIC ({cause})"),
                };
                format!("connected to the proxy over TCP: {why}; one path only")
            }
            ProxyState::Connected if self.news.is_empty() => return None,
            ProxyState::Connected => {
                *self = Self::default();
                let how = if was_over_tcp { "by QUIC again" } else { "again" };
                return Some(format!("connected to the proxy {how}"));
            }
            _ => return None,
        };
        if news == self.news {
            return None;
        }
        self.news.clone_from(&news);
        Some(news)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use anabranch::proxy::client::Http2Error;

    use super::*;

    #[test]
    fn the_way_over_tcp_and_the_return_are_news_once() {
        let mut told = Told::default();
        assert_eq!(told.news(&ProxyState::Connected), None);
        let silent = ProxyState::Fallback(Arc::new(ConnectFailure::TimedOut(Duration::from_secs(2))));
        let line = "connected to the proxy over TCP: UDP is blocked; one path only";
        assert_eq!(told.news(&silent).as_deref(), Some(line));
        assert_eq!(told.news(&silent), None);
        let lost = ProxyState::Lost(Arc::new(Http2Error::GoneAway.into()));
        assert!(told.news(&lost).unwrap().contains("is lost"));
        assert_eq!(told.news(&silent).as_deref(), Some(line));
        assert_eq!(
            told.news(&ProxyState::Connected).as_deref(),
            Some("connected to the proxy by QUIC again")
        );
        assert_eq!(told.news(&ProxyState::Connected), None);
        assert!(told.news(&lost).is_some());
        assert_eq!(told.news(&ProxyState::Connected).as_deref(), Some("connected to the proxy again"));
        let other = ProxyState::Fallback(Arc::new(ConnectFailure::NoPath));
        assert!(told.news(&other).unwrap().contains("there is no QUIC (no network path"));
    }
}
