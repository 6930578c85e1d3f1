//! Verification of a server's certificate by a rule that the user chooses, such as a pinned key, instead of
//! by root certificates and names.

use std::fmt;

use anabranch::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use anabranch::rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs::default_provider, verify_tls12_signature, verify_tls13_signature,
};
use anabranch::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use anabranch::rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Rule that decides whether a server's certificate is trusted.
pub(crate) trait Judge: fmt::Debug + Send + Sync {
    /// Checks the certificate that a server shows.
    ///
    /// # Errors
    /// Fails if the certificate is not trusted.
    fn judge(&self, certificate: &CertificateDer<'_>) -> Result<(), Error>;
}

/// Verifier that lets a [`Judge`] decide about the certificate, and checks the handshake's signature itself.
/// The signature shows that the server has the certificate's private key.
#[derive(Debug)]
pub(crate) struct JudgedVerifier<J> {
    judge: J,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<J: Judge> JudgedVerifier<J> {
    pub(crate) fn new(judge: J) -> Self {
        Self { judge, algorithms: default_provider().signature_verification_algorithms }
    }
}

impl<J: Judge> ServerCertVerifier for JudgedVerifier<J> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge.judge(certificate).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
