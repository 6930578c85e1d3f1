//! Resolvers of proxies' names.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// Result of a [`Resolve`] that is on its way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Resolver of a proxy's name.
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// Returns the proxy's addresses. The client asks before each attempt to connect, and counts the time as part of the attempt.
    /// If there are none, it tries those of the attempt before.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}
