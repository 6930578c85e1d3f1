use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::UnixTime;

use super::*;

#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

fn keys(first_bytes: &[u8], clock: &Arc<Clock>) -> Arc<TicketKeys> {
    let keys = first_bytes.iter().map(|byte| [*byte; TICKET_KEY_LEN]);
    TicketKeys::with_time(keys, Arc::clone(clock) as _).unwrap()
}

#[test]
fn servers_with_the_same_key_read_each_others_tickets() {
    let clock = Arc::default();
    let (one, rotated, other) = (keys(&[1], &clock), keys(&[2, 1], &clock), keys(&[3], &clock));
    let ticket = one.encrypt(b"session").unwrap();
    assert_eq!(keys(&[1], &clock).decrypt(&ticket).unwrap(), b"session");
    assert_eq!(rotated.decrypt(&ticket).unwrap(), b"session");
    assert_eq!(other.decrypt(&ticket), None);
    assert_eq!(one.decrypt(&rotated.encrypt(b"session").unwrap()), None, "the first key protects");
    assert_ne!(one.encrypt(b"session").unwrap(), ticket);
    assert_eq!(format!("{rotated:?}"), "TicketKeys { keys: 2, .. }");
}

#[test]
fn tickets_grow_old() {
    let clock = Arc::<Clock>::default();
    let one = keys(&[1], &clock);
    let ticket = one.encrypt(b"session").unwrap();
    clock.0.store(u64::from(one.lifetime()) - 1, Ordering::Relaxed);
    assert!(one.decrypt(&ticket).is_some());
    clock.0.store(u64::from(one.lifetime()), Ordering::Relaxed);
    assert_eq!(one.decrypt(&ticket), None);
}

#[test]
fn what_was_changed_or_cut_is_no_ticket() {
    let one = keys(&[1], &Arc::default());
    let ticket = one.encrypt(b"session").unwrap();
    for len in 0..ticket.len() {
        assert_eq!(one.decrypt(&ticket[..len]), None, "{len}");
    }
    for at in 0..ticket.len() {
        let mut changed = ticket.clone();
        changed[at] ^= 1;
        assert_eq!(one.decrypt(&changed), None, "{at}");
    }
}

#[test]
fn their_number_has_bounds() {
    let some = |count: usize| TicketKeys::new(vec![[0; TICKET_KEY_LEN]; count]).map(|_| ());
    assert_eq!(some(0), Err(TicketKeysError(0)));
    assert_eq!(some(MAX_TICKET_KEYS), Ok(()));
    assert_eq!(some(MAX_TICKET_KEYS + 1), Err(TicketKeysError(MAX_TICKET_KEYS + 1)));
}
