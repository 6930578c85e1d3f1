//! Verification of servers whose certificate is judged by the user's wish instead of by roots and names.

use std::fmt;

use anabranch::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use anabranch::rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs::default_provider, verify_tls12_signature, verify_tls13_signature,
};
use anabranch::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use anabranch::rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Judge of a server's certificate.
pub(crate) trait Judge: fmt::Debug + Send + Sync {
    /// Checks the certificate that a server shows.
    ///
    /// # Errors
    /// If the server is not to be trusted.
    fn judge(&self, certificate: &CertificateDer<'_>) -> Result<(), Error>;
}

/// Verifier that leaves the certificate to a judge, and checks that the server has the certificate's key.
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
