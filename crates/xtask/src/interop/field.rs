//! Files on disk that a run needs: certificates, and files to fetch.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use tempfile::TempDir;

/// Number of certificates that the server sends in the amplification limit case, as in the interop runner.
const LONG_CHAIN: usize = 9;
/// Position of the trust anchor in the long chain, counted from the server's certificate. It is not the root,
/// because libraries limit the depth of their search.
const LONG_ANCHOR: usize = 4;
/// Length in bytes of each name in the long chain. Nine such certificates far exceed three times 1200 bytes.
const LONG_NAME: usize = 300;

/// PEM files of a server's identity.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Trust anchor for clients.
    pub(super) ca: PathBuf,
    /// Trust anchor for clients that accept only a root certificate.
    pub(super) root: PathBuf,
    /// Certificate chain of the server.
    pub(super) chain: PathBuf,
    /// Private key of the server.
    pub(super) key: PathBuf,
}

/// Temporary folder with all files.
pub(super) struct Field {
    folder: TempDir,
    /// Lock that is held while a file is created, so that no other thread uses an incomplete one.
    making: Mutex<()>,
    /// Usual identity: a certificate and its issuer.
    pub(super) short: Identity,
    /// Identity whose chain exceeds three times the client's first flight.
    pub(super) long: Identity,
}

impl Field {
    pub(super) fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("temporary folder: {error}"))?;
        let identity = |name, chain, anchor, padding| {
            write_identity(folder.path(), name, chain, anchor, padding)
                .map_err(|error| format!("certificates: {error}"))
        };
        let (short, long) =
            (identity("short", 1, 1, 0)?, identity("long", LONG_CHAIN, LONG_ANCHOR, LONG_NAME)?);
        fs::create_dir(folder.path().join("www")).map_err(|error| format!("files: {error}"))?;
        Ok(Self { folder, making: Mutex::new(()), short, long })
    }

    /// Returns the folder of the files that servers serve.
    pub(super) fn www(&self) -> PathBuf {
        self.folder.path().join("www")
    }

    /// Creates the file of this size and number unless it exists. Returns its name.
    pub(super) fn file(&self, size: usize, number: usize) -> Result<String, String> {
        self.long_named_file(size, number, 0)
    }

    /// Acts like [`Field::file`], but with a name of at least `length` bytes.
    pub(super) fn long_named_file(
        &self,
        size: usize,
        number: usize,
        length: usize,
    ) -> Result<String, String> {
        let name = format!("{:x>length$}", format!("{size}-{number}"));
        let path = self.www().join(&name);
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if !path.exists() {
            let bytes = pattern(size, number as u64 + 1);
            fs::write(path, bytes).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(name)
    }

    /// Creates an empty folder for the files that a client fetches.
    pub(super) fn downloads(&self) -> Result<TempDir, String> {
        tempfile::tempdir_in(self.folder.path()).map_err(|error| format!("downloads: {error}"))
    }

    /// Checks that the file `name` in `downloads` equals the served one. The error describes the difference.
    pub(super) fn compare(&self, downloads: &Path, name: &str) -> Result<(), String> {
        let there = fs::read(self.www().join(name)).map_err(|error| format!("{name}: {error}"))?;
        let here =
            fs::read(downloads.join(name)).map_err(|error| format!("{name} was not stored: {error}"))?;
        match there.iter().zip(&here).position(|(a, b)| a != b) {
            Some(at) => Err(format!("{name} differs at byte {at}")),
            None if there.len() != here.len() => {
                Err(format!("{name} has {} bytes instead of {}", here.len(), there.len()))
            }
            None => Ok(()),
        }
    }
}

/// Returns pseudorandom bytes that do not repeat within a file and differ between files (xorshift).
fn pattern(size: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(size).collect()
}

/// Creates a server's chain of `length` certificates. The trust anchor is `anchor` steps above the server's
/// certificate.
fn write_identity(
    folder: &Path,
    name: &str,
    length: usize,
    anchor: usize,
    padding: usize,
) -> Result<Identity, Box<dyn std::error::Error>> {
    let key = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
    let authority = |level: usize| -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = distinguished(&format!("authority {level}"), padding);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(params)
    };
    // Certificates from the root, `length` steps above the server, down to the server's issuer.
    let mut issuer = CertifiedIssuer::self_signed(authority(length)?, key()?)?;
    let mut authorities = vec![issuer.pem()];
    for level in (1..length).rev() {
        issuer = CertifiedIssuer::signed_by(authority(level)?, key()?, &issuer)?;
        authorities.push(issuer.pem());
    }
    authorities.reverse();

    let subjects = ["localhost", "127.0.0.1", "::1", "server"].map(str::to_owned).to_vec();
    let mut params = CertificateParams::new(subjects)?;
    params.distinguished_name = distinguished("localhost", padding);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_key = key()?;
    let server = params.signed_by(&server_key, &issuer)?.pem();

    let file = |suffix: &str| folder.join(format!("{name}-{suffix}.pem"));
    let identity = Identity { ca: file("ca"), root: file("root"), chain: file("chain"), key: file("key") };
    fs::write(&identity.ca, &authorities[anchor - 1])?;
    fs::write(&identity.root, &authorities[length - 1])?;
    fs::write(&identity.chain, [&[server], &authorities[..length - 1]].concat().concat())?;
    fs::write(&identity.key, server_key.serialize_pem())?;
    Ok(identity)
}

/// Returns a name that is `padding` bytes longer than necessary.
fn distinguished(common: &str, padding: usize) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    // X.520 allows 64 characters in an attribute of this kind.
    for (index, kind) in [
        DnType::OrganizationName,
        DnType::OrganizationalUnitName,
        DnType::LocalityName,
        DnType::StateOrProvinceName,
    ]
    .into_iter()
    .enumerate()
    {
        let share = (padding.saturating_sub(index * 64)).min(64);
        if share > 0 {
            name.push(kind, "x".repeat(share));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_chain_exceeds_the_amplification_limit() {
        let field = Field::new().unwrap();
        let certificates =
            |path: &Path| fs::read_to_string(path).unwrap().matches("BEGIN CERTIFICATE").count();
        assert_eq!(certificates(&field.short.chain), 1);
        assert_eq!(certificates(&field.long.chain), LONG_CHAIN);
        assert_eq!(certificates(&field.long.ca), 1);
        // Four characters of PEM encode three bytes.
        let bytes = fs::metadata(&field.long.chain).unwrap().len() * 3 / 4;
        assert!(bytes > 2 * 3 * 1200, "{bytes}");
        // The anchor is a certificate of the chain, but neither the server's nor the root.
        let chain = fs::read_to_string(&field.long.chain).unwrap();
        assert!(chain.contains(&fs::read_to_string(&field.long.ca).unwrap()));
        assert!(!chain.contains(&fs::read_to_string(&field.long.root).unwrap()));
    }

    #[test]
    fn a_difference_of_one_byte_is_found() {
        let field = Field::new().unwrap();
        let name = field.file(1000, 3).unwrap();
        let downloads = field.downloads().unwrap();
        assert!(field.compare(downloads.path(), &name).unwrap_err().contains("was not stored"));
        let mut bytes = fs::read(field.www().join(&name)).unwrap();
        fs::write(downloads.path().join(&name), &bytes).unwrap();
        assert_eq!(field.compare(downloads.path(), &name), Ok(()));
        bytes[700] ^= 1;
        fs::write(downloads.path().join(&name), &bytes).unwrap();
        assert_eq!(field.compare(downloads.path(), &name), Err(format!("{name} differs at byte 700")));
        fs::write(downloads.path().join(&name), &bytes[..600]).unwrap();
        assert_eq!(
            field.compare(downloads.path(), &name),
            Err(format!("{name} has 600 bytes instead of 1000"))
        );
    }
}
