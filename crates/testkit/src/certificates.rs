//! Self-signed certificates in files, for tests of programs.

use std::fs;
use std::path::{Path, PathBuf};

/// Files with a certificate and its private key, in PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The self-signed certificate.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Files {
    /// Creates a certificate for the names `names`. Writes it to `cert.pem` in the directory `dir`, and its
    /// private key to `key.pem`.
    pub fn new(dir: &Path, names: &[&str]) -> Self {
        let files = Self { cert: dir.join("cert.pem"), key: dir.join("key.pem") };
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        fs::write(&files.cert, made.cert.pem()).unwrap();
        fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files
    }
}
