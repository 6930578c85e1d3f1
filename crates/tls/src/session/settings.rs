//! Settings that a client and a server have alike.

/// Declares the setters of a builder's fields `alpn`, `key_log`, `provider` and `time`.
macro_rules! common_settings {
    () => {
        /// Sets the application protocols, most preferred first: a client offers them, a server accepts them.
        #[must_use]
        pub fn alpn<T: AsRef<[u8]>>(mut self, protocols: impl IntoIterator<Item = T>) -> Self {
            self.alpn = protocols.into_iter().map(|name| name.as_ref().to_vec()).collect();
            self
        }

        /// Logs secrets, for debugging.
        #[must_use]
        pub fn key_log(mut self, key_log: Arc<dyn KeyLog>) -> Self {
            self.key_log = key_log;
            self
        }

        /// Logs secrets to the file that the environment variable SSLKEYLOGFILE names, if it does.
        #[must_use]
        pub fn key_log_from_environment(self) -> Self {
            self.key_log(Arc::new(rustls::KeyLogFile::new()))
        }

        /// Sets cryptography other than aws-lc-rs's own.
        #[must_use]
        pub fn provider(mut self, provider: Arc<CryptoProvider>) -> Self {
            self.provider = Some(provider);
            self
        }

        /// Sets the source of the time for certificates and tickets; the default is the system's clock.
        #[must_use]
        pub fn time(mut self, time: Arc<dyn TimeProvider>) -> Self {
            self.time = time;
            self
        }
    };
}

pub(super) use common_settings;
