//! Settings of quiche for measurements without sockets, with a newly created certificate.

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::{X509, X509NameBuilder};
use peer_common::Failure;
use peer_common::args::Values;
use quiche::{Config, PROTOCOL_VERSION};

use crate::pair::unlimit;
use crate::stack;

/// Flags for these settings.
pub const FLAGS: &[&str] = &[];

/// Returns the name of the measured stack.
pub fn name(_: &Values) -> Result<String, Failure> {
    Ok(stack::NAME.to_owned())
}

/// Returns the client's and the server's settings.
pub fn configs(_: &Values) -> Result<(Config, Config), Failure> {
    let mut client = Config::new(PROTOCOL_VERSION)?;
    let mut server = Config::with_boring_ssl_ctx_builder(PROTOCOL_VERSION, certified()?)?;
    unlimit(&mut client)?;
    unlimit(&mut server)?;
    Ok((client, server))
}

/// Does the stack's work between batches while the clock is stopped; quiche needs none.
pub fn between_batches() {}

/// Creates a TLS context with a certificate, which the client does not verify.
fn certified() -> Result<SslContextBuilder, Failure> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COMMONNAME, "localhost")?;
    let name = name.build();
    let (start, end) = (Asn1Time::days_from_now(0)?, Asn1Time::days_from_now(1)?);
    let mut cert = X509::builder()?;
    cert.set_version(2)?;
    cert.set_subject_name(&name)?;
    cert.set_issuer_name(&name)?;
    cert.set_not_before(&start)?;
    cert.set_not_after(&end)?;
    cert.set_pubkey(&key)?;
    cert.sign(&key, MessageDigest::sha256())?;
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    context.set_certificate(&cert.build())?;
    context.set_private_key(&key)?;
    Ok(context)
}
