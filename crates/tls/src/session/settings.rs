//! Settings that clients and servers have in common.

/// Defines the setters of a builder's fields `alpn`, `key_log`, `provider` and `time`.
macro_rules! common_settings {
    () => {
        /// Sets the application protocols, most preferred first. A client offers them, and a server accepts
        /// them.
        #[must_use]
        pub fn alpn<T: AsRef<[u8]>>(mut self, protocols: impl IntoIterator<Item = T>) -> Self {
            self.alpn = protocols.into_iter().map(|name| name.as_ref().to_vec()).collect();
            self
        }

        /// Logs secrets to `key_log`, for debugging.
        #[must_use]
        pub fn key_log(mut self, key_log: Arc<dyn KeyLog>) -> Self {
            self.key_log = key_log;
            self
        }

        /// Logs secrets to the file named by the environment variable SSLKEYLOGFILE, if it is set.
        #[must_use]
        pub fn key_log_from_environment(self) -> Self {
            self.key_log(Arc::new(rustls::KeyLogFile::new()))
        }

        /// Sets the crypto provider; the default is that of aws-lc-rs.
        #[must_use]
        pub fn provider(mut self, provider: Arc<CryptoProvider>) -> Self {
            self.provider = Some(provider);
            self
        }

        /// Sets the clock for certificates and tickets; the default is the system clock.
        #[must_use]
        pub fn time(mut self, time: Arc<dyn TimeProvider>) -> Self {
            self.time = time;
            self
        }
    };
}

pub(super) use common_settings;
