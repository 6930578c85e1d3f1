//! Authentication of users by client certificates.

use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use anabranch::Connection;
use anabranch::http3::Body;
use anabranch::proxy::server::KnownUser;
use anabranch::rustls::pki_types::CertificateDer;
use http::{Extensions, Request};
use tower_service::Service;

use crate::proxy::config::Certificates;

/// Certificates of users, which a new configuration can replace. Clones are cheap and share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities(Arc<RwLock<Arc<Certificates>>>);

impl Identities {
    pub(super) fn new(certificates: Certificates) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(certificates))))
    }

    pub(super) fn replace(&self, certificates: Certificates) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certificates);
    }

    /// Adds the user of the first certificate in `chain`, if there is one, to the extensions of a request.
    pub(super) fn identify(&self, chain: Option<&[CertificateDer<'_>]>, extensions: &mut Extensions) {
        let certificates = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        if let Some(user) = chain.and_then(|chain| certificates.user(chain)) {
            extensions.insert(KnownUser::new(user));
        }
    }
}

/// Service of a QUIC connection that adds the connection's user to each request, and passes the request to
/// another service.
#[derive(Clone, Debug)]
pub(super) struct Identified<S> {
    pub(super) inner: S,
    pub(super) connection: Connection,
    pub(super) identities: Identities,
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for Identified<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> S::Future {
        let chain = self.connection.peer_certificates();
        self.identities.identify(chain.as_deref(), request.extensions_mut());
        self.inner.call(request)
    }
}
