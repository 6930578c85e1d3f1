//! The file service: GET and HEAD on the files of a directory (RFC 9110), for every protocol.
//!
//! Disk operations run on blocking threads. Paths are resolved below an open directory (with `openat2` where
//! the system has it), so no link can be swapped in between check and use. Only content below the root is
//! served; relative links that stay inside are followed. Absolute links are refused, regardless of their
//! target.

mod body;
mod listing;
mod memory;
mod path;
mod preconditions;
mod range;
mod response;
mod root;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tower_service::Service;

pub(crate) use self::body::FileBody;
pub(crate) use self::memory::Memory;
use self::path::Wanted;
use self::root::{Found, Root};

/// File that is served for its directory.
const INDEX: &str = "index.html";

/// Maximum number of listings that are created or sent at a time. A large one takes megabytes.
const MAX_LISTINGS: usize = 32;

/// Service for the files of a directory. Cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    root: Arc<Root>,
    listing: bool,
    memory: Memory,
    /// Permits for listings.
    listings: Arc<Semaphore>,
}

impl Files {
    /// Opens a directory. With `listing`, directories without an index are listed.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened.
    pub(crate) fn open(directory: &Path, listing: bool) -> io::Result<Self> {
        let (root, listings) = (Arc::new(Root::open(directory)?), Arc::new(Semaphore::new(MAX_LISTINGS)));
        Ok(Self { root, listing, memory: Memory::default(), listings })
    }

    /// Returns the memory that the responses share.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Creates the response. Only the first piece of a file is read now, the rest while the body is sent. May
    /// block on the disk.
    fn answer(&self, request: &Parts) -> Response<FileBody> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return response::not_allowed();
        }
        let found = Wanted::parse(request.uri.path()).and_then(|wanted| self.represent(&wanted, request));
        let response = found.unwrap_or_else(response::refusal);
        if request.method == Method::HEAD { response.map(|_| FileBody::empty()) } else { response }
    }

    fn represent(&self, wanted: &Wanted, request: &Parts) -> Result<Response<FileBody>, StatusCode> {
        let of_error = |error| response::status_of(&error);
        match (self.root.find(wanted.path()).map_err(of_error)?, wanted.names_directory()) {
            (Found::File(file), false) => {
                response::file(file, wanted.path(), request, &self.memory).map_err(of_error)
            }
            (Found::File(_), true) => Err(StatusCode::NOT_FOUND),
            (Found::Directory, false) => Ok(response::moved(&wanted.as_directory(), request.uri.query())),
            (Found::Directory, true) => self.directory(wanted, request),
        }
    }

    fn directory(&self, wanted: &Wanted, request: &Parts) -> Result<Response<FileBody>, StatusCode> {
        let index = wanted.path().join(INDEX);
        match self.root.find(&index) {
            Ok(Found::File(file)) => response::file(file, &index, request, &self.memory),
            Ok(Found::Directory) => self.list(wanted),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.list(wanted),
            Err(error) => Err(error),
        }
        .map_err(|error| response::status_of(&error))
    }

    fn list(&self, wanted: &Wanted) -> io::Result<Response<FileBody>> {
        if !self.listing {
            return Ok(response::refusal(StatusCode::FORBIDDEN));
        }
        let Ok(room) = Arc::clone(&self.listings).try_acquire_owned() else {
            return Ok(response::refusal(StatusCode::SERVICE_UNAVAILABLE));
        };
        let entries = self.root.list(wanted.path())?;
        Ok(response::page(listing::page(wanted, &entries), room))
    }
}

/// The service ignores the content of requests.
impl<B> Service<Request<B>> for Files {
    type Response = Response<FileBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let files = self.clone();
        let (parts, _) = request.into_parts();
        Box::pin(async move {
            let answered = spawn_blocking(move || files.answer(&parts)).await;
            Ok(answered.unwrap_or_else(|_| response::refusal(StatusCode::INTERNAL_SERVER_ERROR)))
        })
    }
}
