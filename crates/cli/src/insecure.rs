//! `--insecure`: a client that accepts any certificate.

use anabranch::rustls::Error;
use anabranch::rustls::pki_types::CertificateDer;

use crate::verifier::Judge;

/// [`Judge`] that accepts every certificate.
#[derive(Debug)]
pub(crate) struct AcceptAnyCertificate;

impl Judge for AcceptAnyCertificate {
    fn judge(&self, _: &CertificateDer<'_>) -> Result<(), Error> {
        Ok(())
    }
}
