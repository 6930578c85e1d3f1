//! Self-signed certificates as files, for tests of programs.

use std::fs;
use std::path::{Path, PathBuf};

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate, which is its own authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Files {
    /// Makes a certificate for these names and writes it to `cert.pem` in this directory, its key to
    /// `key.pem`.
    pub fn new(dir: &Path, names: &[&str]) -> Self {
        let files = Self { cert: dir.join("cert.pem"), key: dir.join("key.pem") };
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        fs::write(&files.cert, made.cert.pem()).unwrap();
        fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        files
    }
}
