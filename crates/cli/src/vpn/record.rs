//! State of the running VPN.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::state::{Place, State};
use crate::exit::Result;

/// State of the running VPN, which is written down before the changes that it describes.
#[derive(Debug)]
pub(super) struct Record {
    place: Place,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    state: State,
    /// `true` once everything is undone.
    is_over: bool,
}

impl Record {
    /// Begins with an empty state. What an earlier VPN has left stays written down until the first update.
    pub(super) fn new(place: Place) -> Self {
        Self { place, written: Mutex::default() }
    }

    /// Changes the state.
    ///
    /// # Errors
    /// Fails if the file cannot be written. Nothing is changed then.
    pub(super) fn update(&self, change: impl FnOnce(&mut State)) -> Result {
        let mut written = self.lock();
        let mut next = written.state.clone();
        change(&mut next);
        if next != written.state && !written.is_over {
            self.place.write(&next)?;
            written.state = next;
        }
        Ok(())
    }

    /// Changes the addresses of the proxy, if this is the one in use.
    ///
    /// # Errors
    /// Fails as [`Record::update`] does.
    pub(super) fn set_remotes(&self, proxy: &str, remotes: Vec<SocketAddr>) -> Result {
        self.update(|state| {
            if state.proxy == proxy {
                state.remotes = remotes;
            }
        })
    }

    pub(super) fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// Returns whether nothing was written down that has to be undone.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().state == State::default()
    }

    /// Removes the files: everything is undone.
    pub(super) fn leave(&self) {
        self.lock().is_over = true;
        self.place.leave();
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::STATE;
    use super::*;

    #[test]
    fn only_the_proxy_in_use_changes_the_addresses_on_record() {
        let dir = tempfile::tempdir().unwrap();
        let record = Record::new(Place::take_in(dir.path()).unwrap());
        let remotes: Vec<SocketAddr> = vec!["192.0.2.1:443".parse().unwrap()];
        record.set_remotes("https://p", remotes.clone()).unwrap();
        assert!(record.is_empty() && !dir.path().join(STATE).exists());
        record.update(|state| "https://p".clone_into(&mut state.proxy)).unwrap();
        record.set_remotes("https://q", remotes.clone()).unwrap();
        assert!(!record.is_empty() && record.state().remotes.is_empty());
        record.set_remotes("https://p", remotes.clone()).unwrap();
        assert_eq!(record.place.left(), Some(record.state()));
        assert_eq!(record.state().remotes, remotes);
        record.leave();
        record.set_remotes("https://p", Vec::new()).unwrap();
        assert!(!dir.path().join(STATE).exists());
    }
}
