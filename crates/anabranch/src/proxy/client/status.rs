//! The `Proxy-Status` field of a response (RFC 9209), which names the cause of a refusal.

use http::HeaderMap;
use sfv::{BareItem, List, ListEntry, Parameters, Parser};

/// Maximum length of a field that is parsed, in bytes. A longer one is ignored.
const MAX_STATUS: usize = 4_096;
/// Maximum length of the details that are kept, in characters.
const MAX_DETAILS: usize = 256;

/// Cause of a refusal, as reported by that proxy of the chain that is nearest to the target and reports an
/// error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyStatus {
    /// Name of the proxy.
    pub proxy: String,
    /// Error type of RFC 9209 §2.3, for instance `connection_refused`.
    pub error: String,
    /// Further explanation for people.
    pub details: Option<String>,
}

impl ProxyStatus {
    /// Returns the cause in a response's header section; `None` if the field is absent, malformed or too
    /// long, or has no error type.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut field = String::new();
        for value in headers.get_all("proxy-status") {
            let separator = if field.is_empty() { "" } else { ", " };
            field.extend([separator, value.to_str().ok()?]);
            if field.len() > MAX_STATUS {
                return None;
            }
        }
        let list: List = Parser::new(&field).parse().ok()?;
        // RFC 9209 §2: the first member describes the proxy nearest to the origin server.
        list.iter().find_map(Self::of_member)
    }

    fn of_member(member: &ListEntry) -> Option<Self> {
        let ListEntry::Item(item) = member else { return None };
        let proxy = text(&item.bare_item)?;
        let error = text(item.params.get("error")?)?;
        let details = detail(&item.params);
        Some(Self { proxy, error, details })
    }
}

fn detail(parameters: &Parameters) -> Option<String> {
    let details = text(parameters.get("details")?)?;
    Some(details.chars().take(MAX_DETAILS).collect())
}

fn text(item: &BareItem) -> Option<String> {
    match item {
        BareItem::String(text) => Some(text.as_str().to_owned()),
        BareItem::Token(token) => Some(token.as_str().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> Option<ProxyStatus> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append("proxy-status", field.parse().unwrap());
        }
        ProxyStatus::of(&headers)
    }

    #[test]
    fn the_proxy_nearest_to_the_target_is_believed() {
        let status = of(&[
            "edge; received-status=200, far.example; error=dns_error; details=\"no such name\"",
            "near; error=proxy_internal_error",
        ]);
        let status = status.unwrap();
        assert_eq!((status.proxy.as_str(), status.error.as_str()), ("far.example", "dns_error"));
        assert_eq!(status.details.as_deref(), Some("no such name"));
    }

    #[test]
    fn what_is_no_status_is_ignored() {
        for bad in [&[][..], &[""], &["proxy"], &["proxy; error=1"], &["(a b); error=dns_error"], &["\"open"]]
        {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn max_status_and_max_details_limit_what_a_proxy_says() {
        let long = format!("proxy; error=dns_error; details=\"{}\"", "x".repeat(2 * MAX_DETAILS));
        assert_eq!(of(&[&long]).unwrap().details.unwrap().len(), MAX_DETAILS);
        let longer = format!("proxy; error=dns_error; details=\"{}\"", "x".repeat(MAX_STATUS));
        assert_eq!(of(&[&longer]), None);
    }
}
