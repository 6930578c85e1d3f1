//! The file with a server's configuration of QUIC-LB (`--lb-config`), whose keys are those of the draft's YANG model.

use std::path::Path;

use anabranch::{Endpoint, LoadBalancing, ServerId};
use serde::Deserialize;
use toml::Spanned;

use crate::exit::{Exit, Failure, Result};
use crate::proxy::config::{Document, Problem};

/// Contents of the file before they are checked (draft-ietf-quic-load-balancers-21 appendix A).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    config_id: Spanned<u8>,
    server_id: Spanned<String>,
    nonce_length: Spanned<usize>,
    cid_key: Option<Spanned<String>>,
    #[serde(default)]
    first_octet_encodes_cid_length: bool,
    #[serde(default)]
    resets_for_others: bool,
}

/// Reads the configuration in a file.
///
/// # Errors
/// Fails with a line for the problem if the file cannot be read or is invalid.
pub(super) fn read(path: &Path) -> Result<LoadBalancing> {
    let document = Document::read(path)?;
    let parsed = document.parse().and_then(Written::check);
    parsed.map_err(|problem| document.failure(&[problem]))
}

/// Checks that a server with these numbers of workers, one for each address, can issue connection IDs with the configuration.
///
/// # Errors
/// Fails if there are several addresses, or several workers that need the bits of the length.
pub(super) fn check(config: &LoadBalancing, workers: &[usize]) -> Result {
    let wrong = |what: String| Failure::new(Exit::Usage, format!("--lb-config: {what}"));
    if workers.len() > 1 {
        let what =
            format!("the server ID {} leads to one address, not to {}", config.server_id(), workers.len());
        return Err(wrong(what).or("give one --listen address, in numbers"));
    }
    if config.encodes_length() && workers.iter().any(|count| *count > 1) {
        let what = "with several workers, first-octet-encodes-cid-length must be false";
        return Err(wrong(what.to_owned()).or("the first byte of connection IDs names the worker"));
    }
    Ok(())
}

/// Reads the file again, and issues connection IDs with its configuration from now on. Clients are asked to use them at once.
///
/// # Errors
/// Fails if the file cannot be read, is invalid, or does not fit to the endpoints. Nothing is changed then.
pub(super) fn change(path: &Path, endpoints: &[Endpoint]) -> Result {
    let config = read(path)?;
    for endpoint in endpoints {
        let wrong = |error| Failure::new(Exit::Usage, format!("{}: {error}", path.display()));
        endpoint.set_load_balancing(config.clone(), true).map_err(wrong)?;
    }
    Ok(())
}

impl Written {
    fn check(self) -> std::result::Result<LoadBalancing, Problem> {
        let id = &self.server_id;
        let wrong = || Problem::at(id.span(), "a server ID has 1 to 15 bytes in hexadecimal digits");
        let server_id = hex(id.get_ref()).and_then(|id| ServerId::new(&id)).ok_or_else(wrong)?;
        let mut config =
            LoadBalancing::new(*self.config_id.get_ref(), server_id, *self.nonce_length.get_ref())
                .with_encoded_length(self.first_octet_encodes_cid_length)
                .with_resets_for_others(self.resets_for_others);
        if let Some(key) = &self.cid_key {
            let wrong = || Problem::at(key.span(), "a key has 16 bytes in hexadecimal digits");
            config =
                config.with_key(hex(key.get_ref()).and_then(|key| key.try_into().ok()).ok_or_else(wrong)?);
        }
        config.validate().map_err(|error| {
            let (key, place) = match error.setting() {
                "config_id" => ("config-id", self.config_id.span()),
                _ => ("nonce-length", self.nonce_length.span()),
            };
            Problem::at(place, format_args!("{key} {}", error.rule()))
        })?;
        Ok(config)
    }
}

/// Returns bytes that are written in hexadecimal digits, with or without colons between them.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: String = text.split(':').collect();
    data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "config-id = 2\nserver-id = \"0a:17\"\nnonce-length = 6\n";

    fn read_text(text: &str) -> Result<LoadBalancing> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn a_configuration_is_read() {
        let plain = LoadBalancing::new(2, ServerId::new(&[0x0a, 0x17]).unwrap(), 6);
        assert_eq!(read_text(GOOD).unwrap(), plain);
        let all = format!(
            "{GOOD}cid-key = \"{}\"\nfirst-octet-encodes-cid-length = true\nresets-for-others = true",
            "0F".repeat(16)
        );
        let whole = plain.with_key([15; 16]).with_encoded_length(true).with_resets_for_others(true);
        assert_eq!(read_text(&all).unwrap(), whole);
    }

    #[test]
    fn a_mistake_has_its_line() {
        for (from, to, said) in [
            ("config-id = 2", "config-id = 7", ":1: config-id must be 0 to 6"),
            ("0a:17", "0a1", ":2: a server ID has 1 to 15 bytes in hexadecimal digits"),
            ("0a:17", "", ":2: a server ID has"),
            ("= 6", "= 3", ":3: nonce-length must be at least 4 bytes"),
            ("= 6", "= 18", ":3: nonce-length must be 19 bytes at most together with the server ID"),
            ("= 6", "= 6\ncid-key = \"0f\"", ":4: a key has 16 bytes in hexadecimal digits"),
            ("config-id = 2\n", "", ":1: missing field `config-id`"),
            ("= 6", "= 6\nnonce = 2", ":4: unknown field `nonce`"),
            ("= 6", "= ", ":3: "),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            let failure = read_text(&text).unwrap_err();
            assert_eq!(failure.exit(), Exit::Usage);
            assert!(failure.to_string().contains(said), "{failure} instead of {said}");
        }
    }
}
