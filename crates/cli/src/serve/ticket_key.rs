//! The file of keys that outlive the server process: keys of session tickets, and keys derived from the first
//! of them.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use anabranch::EndpointConfig;
use anabranch::rustls::crypto::aws_lc_rs::default_provider;
use anabranch::tls::{TICKET_KEY_LEN, TicketKeys};

use aws_lc_rs::hmac;

use crate::exit::{self, Exit, Failure, Result};

/// Mode of the file: readable by its owner only.
const MODE: u32 = 0o600;
/// Mode bits that let others read the file.
const OTHERS: u32 = 0o077;

/// Keys that are the same after a restart.
pub(super) struct KeptKeys {
    pub(super) tickets: Arc<TicketKeys>,
    first: [u8; TICKET_KEY_LEN],
    others: Vec<[u8; TICKET_KEY_LEN]>,
}

impl KeptKeys {
    /// Sets the keys that the endpoint on `local` needs after a restart: one to send stateless resets for its earlier
    /// connections (RFC 9000 §10.3), and one to recognize its earlier address tokens (§8.1.3). Each local address has a
    /// reset key of its own. Otherwise an endpoint that does not know a connection of another one would give its token
    /// away, with which anybody can end it (§21.11). Servers behind a load balancer have a common reset key, because they
    /// recognize the connection IDs of the others. Address tokens of all keys are accepted.
    pub(super) fn apply(&self, config: EndpointConfig, local: SocketAddr) -> EndpointConfig {
        let purpose = match config.load_balancing() {
            Some(_) => "stateless reset behind a load balancer".to_owned(),
            None => format!("stateless reset at {local}"),
        };
        let token = |key| derive(key, b"address token");
        let others: Vec<_> = self.others.iter().map(token).collect();
        let config = config.with_reset_key(derive(&self.first, purpose.as_bytes()));
        config.with_token_key(token(&self.first)).with_earlier_token_keys(others)
    }
}

/// Derives the key for a purpose.
fn derive(key: &[u8; TICKET_KEY_LEN], purpose: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut derived = [0; 32];
    derived.copy_from_slice(hmac::sign(&key, purpose).as_ref());
    derived
}

/// Reads the keys in `file`. Creates the file with a new key if it does not exist.
pub(super) fn load(file: &Path) -> Result<KeptKeys> {
    let unreadable = |error| Failure::io(format_args!("cannot read {}", file.display()), &error);
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => make(file)?,
        Err(error) => return Err(unreadable(error)),
    };
    let mode = std::fs::metadata(file).map_err(unreadable)?.permissions().mode();
    if mode & OTHERS != 0 {
        let name = file.display();
        exit::note(format_args!(
            "others may read {name}, and with it every resumed session: chmod 600 {name}"
        ));
    }
    let wrong = |what: String| {
        let failure = Failure::new(Exit::Usage, format!("{}: {what}", file.display()));
        failure.or(
            "write one key of 64 hexadecimal digits on each line, or remove the file and a new one is made",
        )
    };
    let keys: std::result::Result<Vec<_>, _> = lines(&text).map(|(at, line)| key(line).ok_or(at)).collect();
    let keys = keys.map_err(|at| wrong(format!("line {at} is no key")))?;
    let first = keys.first().copied().unwrap_or_default();
    let others = keys.get(1..).unwrap_or_default().to_vec();
    let tickets = TicketKeys::new(keys).map_err(|error| wrong(error.to_string()))?;
    Ok(KeptKeys { tickets, first, others })
}

/// Returns the lines that are not empty, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty())
}

fn key(line: &str) -> Option<[u8; TICKET_KEY_LEN]> {
    let mut key = [0; TICKET_KEY_LEN];
    if line.len() != 2 * key.len() || !line.is_ascii() {
        return None;
    }
    for (index, byte) in key.iter_mut().enumerate() {
        let digits = line.get(2 * index..2 * index + 2).filter(|digits| !digits.starts_with('+'))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(key)
}

/// Creates the file with one new key. Returns its content.
fn make(file: &Path) -> Result<String> {
    let mut key = [0; TICKET_KEY_LEN];
    let random = default_provider().secure_random.fill(&mut key);
    random.map_err(|_| Failure::new(Exit::Io, "the system gives no random bytes"))?;
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect();
    let made = File::options().write(true).create_new(true).mode(MODE).open(file);
    let written = made.and_then(|mut made| made.write_all(text.as_bytes()));
    written.map_err(|error| Failure::io(format_args!("cannot write {}", file.display()), &error))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tickets");
        load(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.len(), 2 * TICKET_KEY_LEN + 1);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, MODE);
        let again = load(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        assert_ne!(derive(&again.first, b"stateless reset"), derive(&again.first, b"address token"));
    }

    /// A server that has the new key first, and one that has the old one first, accept each other's tokens.
    #[test]
    fn tokens_of_all_keys_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tickets");
        let kept = |keys: [u8; 2]| {
            let lines = keys.map(|key| format!("{key:02x}").repeat(TICKET_KEY_LEN) + "\n");
            std::fs::write(&file, lines.concat()).unwrap();
            load(&file).unwrap()
        };
        let (before, after) = (kept([1, 2]), kept([2, 1]));
        assert_eq!((before.first, &*before.others), (after.others[0], &[after.first][..]));
        let local = "127.0.0.1:4433".parse().unwrap();
        let config = |kept: &KeptKeys| kept.apply(EndpointConfig::new([0; 32]), local);
        assert_eq!(config(&before).validate(), Ok(()));
    }

    #[test]
    fn what_is_no_key_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tickets");
        let good = "0f".repeat(TICKET_KEY_LEN);
        for (text, said) in [
            (format!("{good}\n\nxyz\n"), "line 3 is no key"),
            (format!("+f{}", &good[2..]), "line 1 is no key"),
            (String::new(), "0 ticket keys; there have to be 1 to 8"),
            (format!("{good}\n").repeat(9), "9 ticket keys"),
        ] {
            std::fs::write(&file, text).unwrap();
            let failure = load(&file).err().unwrap();
            assert_eq!(failure.exit(), Exit::Usage);
            assert!(failure.to_string().contains(said), "{failure}");
        }
        std::fs::write(&file, format!("{good}\n  {good}\n\n")).unwrap();
        assert!(load(&file).is_ok());
    }
}
