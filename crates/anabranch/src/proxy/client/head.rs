//! Requests for tunnels.

use anabranch_http3::message::Protocol;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Uri, Version, uri};

use super::config::ProxyConfig;
use super::credentials::Credentials;
use super::error::TunnelError;
use super::target::Target;
use crate::http3;
use crate::proxy::FlowTerms;
use crate::proxy::copies::FIELD;
use crate::proxy::ip::EVERYTHING;

/// Request for a tunnel.
#[derive(Clone, Debug)]
pub(super) struct Head {
    uri: Uri,
    /// Credentials, if the proxy asks for some.
    credentials: Option<HeaderValue>,
    /// Protocol of an extended CONNECT (RFC 8441, RFC 9220).
    protocol: Option<Protocol>,
    /// Wishes for a UDP flow.
    terms: FlowTerms,
}

impl Head {
    /// Creates the request of a TCP connection (RFC 9114 §4.4).
    pub(super) fn tcp(config: &ProxyConfig, target: &Target) -> Result<Self, TunnelError> {
        let uri = Uri::builder().authority(target.to_string()).build();
        Self::new(config, uri, None)
    }

    /// Creates the request of a UDP flow (RFC 9298 §3.4).
    pub(super) fn udp(config: &ProxyConfig, target: &Target) -> Result<Self, TunnelError> {
        Self::new(config, Self::template(config, target.udp_path()), Some(Protocol::CONNECT_UDP))
    }

    /// Creates the request of a tunnel for IP packets (RFC 9484 §4.4).
    pub(super) fn ip(config: &ProxyConfig) -> Result<Self, TunnelError> {
        let uri = Self::template(config, EVERYTHING.to_owned());
        Self::new(config, uri, Some(Protocol::CONNECT_IP))
    }

    /// Returns the request with wishes for its UDP flow.
    pub(super) fn with_terms(self, terms: FlowTerms) -> Self {
        Self { terms, ..self }
    }

    /// Returns the URI of a path on the proxy.
    fn template(config: &ProxyConfig, path: String) -> Result<Uri, http::Error> {
        let authority = config.authority();
        Uri::builder().scheme(uri::Scheme::HTTPS).authority(authority).path_and_query(path).build()
    }

    fn new(
        config: &ProxyConfig,
        uri: Result<Uri, http::Error>,
        protocol: Option<Protocol>,
    ) -> Result<Self, TunnelError> {
        let reason = "the target cannot be requested";
        let url = config.authority();
        let uri = uri.map_err(|_| TunnelError::Http3(http3::Error::Url { url, reason }))?;
        let credentials = config.credentials.as_ref().map(Credentials::value);
        Ok(Self { uri, credentials, protocol, terms: FlowTerms::default() })
    }

    /// Returns the request for HTTP/3.
    pub(super) fn http3(&self) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = http::Method::CONNECT;
        *request.uri_mut() = self.uri.clone();
        if let Some(value) = &self.credentials {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value.clone());
        }
        request.headers_mut().extend(self.terms.value().map(|terms| (FIELD, terms)));
        if let Some(protocol) = &self.protocol {
            request.extensions_mut().insert(protocol.clone());
            // RFC 9298 §3.4, RFC 9484 §4.4: capsules follow (RFC 9297 §3.4).
            request.headers_mut().insert("capsule-protocol", HeaderValue::from_static("?1"));
            // The proxy is also the origin server of the template, so some ask with 401.
            if let Some(value) = &self.credentials {
                request.headers_mut().insert(AUTHORIZATION, value.clone());
            }
        }
        request
    }

    /// Returns the request for HTTP/2 (RFC 9113 §8.5, RFC 8441 §4). It has no wishes for a UDP flow, since there is only one
    /// path.
    pub(super) fn http2(&self) -> Request<()> {
        let mut request = self.http3();
        *request.version_mut() = Version::HTTP_2;
        request.headers_mut().remove(FIELD);
        if let Some(protocol) = request.extensions_mut().remove::<Protocol>() {
            request.extensions_mut().insert(h2::ext::Protocol::from(protocol.as_str()));
        }
        request
    }

    /// Returns whether this is an extended CONNECT (RFC 8441, RFC 9220).
    pub(super) fn is_extended(&self) -> bool {
        self.protocol.is_some()
    }
}
