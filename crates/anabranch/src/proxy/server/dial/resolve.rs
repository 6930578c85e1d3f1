//! Resolution of names of targets.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Maximum number of names that the operating system resolves at the same time, each in a thread. Further ones wait.
const MAX_LOOKUPS: usize = 64;

/// Result of [`Resolve::resolve`].
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolver of the names of targets.
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// Returns the addresses of a name, in order of preference. The proxy checks each of them against its access list.
    fn resolve(&self, host: &str) -> Resolving;
}

/// Resolver of the operating system.
#[derive(Clone, Debug)]
pub struct SystemResolver(Arc<Semaphore>);

impl SystemResolver {
    /// Creates the resolver.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LOOKUPS)))
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str) -> Resolving {
        let (host, lookups) = (host.to_owned(), Arc::clone(&self.0));
        Box::pin(async move {
            let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
            // The task holds the permit until the lookup's thread has ended, also if the caller stops waiting.
            let looked_up = tokio::spawn(async move {
                let _permit = permit;
                let found = tokio::net::lookup_host((host, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            });
            looked_up.await.map_err(io::Error::other)?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_knows_this_host_and_lookups_are_bounded() {
        let resolver = SystemResolver::default();
        assert_eq!(resolver.0.available_permits(), MAX_LOOKUPS);
        let addresses = resolver.resolve("localhost").await.unwrap();
        assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
        assert_eq!(resolver.0.available_permits(), MAX_LOOKUPS);
    }
}
