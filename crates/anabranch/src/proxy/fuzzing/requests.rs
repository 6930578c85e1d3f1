//! Requests for tunnels, and access rules.

use http::{Method, Request, Uri};

use super::super::client::Target;
use super::super::server::target::{carried, target};
use super::super::server::{Carried, Rule};

/// Reads the input as the target of a request of each kind, as a target of the client and as an access rule.
///
/// # Panics
/// Panics if a target or a rule changes when it is written and read again.
pub fn requests(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(target) = text.parse::<Target>() {
        assert_eq!(target.to_string().parse().as_ref(), Ok(&target));
        assert_eq!(Target::new(&target.host(), target.port()).as_ref(), Ok(&target));
        let asked = asked(&target.to_string(), None);
        assert_eq!(asked, Some((Carried::Tcp, Some(target.clone()))), "the proxy reads the same target");
        let path = target.udp_path();
        assert_eq!(
            self::asked(&format!("https://proxy{path}"), Some("connect-udp")).and_then(|asked| asked.1),
            Some(target)
        );
    }
    if let Ok(rule) = text.parse::<Rule>() {
        assert_eq!(rule.to_string().parse().as_ref(), Ok(&rule));
    }
    for protocol in [None, Some("connect-udp"), Some("connect-ip")] {
        let Some((_, Some(target))) = asked(text, protocol) else { continue };
        assert!(target.port() > 0 && !target.host().is_empty());
        assert_eq!(target.to_string().parse().as_ref(), Ok(&target));
    }
}

/// Returns what the proxy reads from a CONNECT request: what it is to carry, and the target.
fn asked(uri: &str, protocol: Option<&str>) -> Option<(Carried, Option<Target>)> {
    let uri: Uri = uri.parse().ok()?;
    let request = Request::builder().method(Method::CONNECT).uri(uri).body(()).ok()?;
    let parts = request.into_parts().0;
    let carried = carried(&parts, protocol)?;
    Some((carried, target(&parts, carried).ok()?))
}
