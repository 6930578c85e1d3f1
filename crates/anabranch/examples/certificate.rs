//! A client with its own certificate verifier, which trusts one certificate instead of authorities, and a
//! server with a certificate from files: `cargo run --example certificate -- CERTIFICATE.pem KEY.pem`.
//! Without files, a new self-signed certificate is used.

use std::path::Path;
use std::sync::Arc;

use anabranch::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use anabranch::rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use anabranch::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use anabranch::rustls::{CertificateError, DigitallySignedStruct, Error as TlsError, SignatureScheme};
use anabranch::{ClientConfig, Endpoint, Error, SelfSigned, VarInt, config, tls};

/// Verifier that accepts one certificate, regardless of its names and dates.
#[derive(Debug)]
struct Pinned(CertificateDer<'static>, WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        match *certificate == self.0 {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(TlsError::InvalidCertificate(CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.1)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.1)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.supported_schemes()
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut files = std::env::args().skip(1);
    let (chain, key) = match (files.next(), files.next()) {
        (Some(chain), Some(key)) => {
            (config::certificates(Path::new(&chain))?, config::private_key(Path::new(&key))?)
        }
        _ => {
            let identity = SelfSigned::new(["nobody.example"])?;
            (vec![identity.certificate().clone()], identity.key())
        }
    };
    let own = chain[0].clone();
    let server = Endpoint::server(config::server(chain, key, ["pinned"])?, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    tokio::spawn(async move { Some(server.accept().await?.await.ok()?.closed().await) });

    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
    let verifier = Arc::new(Pinned(own, algorithms));
    let client_config =
        ClientConfig::new(tls::ClientConfig::builder().verifier(verifier).alpn(["pinned"]).build()?);
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let connection = client.connect_with(&client_config, address, "localhost")?.await?;
    println!("{} shows the pinned certificate", connection.remote_address());
    connection.close(VarInt::ZERO, b"");
    client.wait_close_sent().await;
    Ok(())
}
