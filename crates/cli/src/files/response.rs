//! Construction of the file service's responses: files, listings, redirections and refusals.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, DATE,
    LOCATION, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use maud::Markup;
use nix::libc;
use tokio::sync::OwnedSemaphorePermit;

use super::body::FileBody;
use super::memory::Memory;
use super::preconditions::{Validators, Verdict};
use super::range::{self, Part};

/// Content Security Policy of listings: only their own style is allowed.
const LISTING_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");

/// Creates the response with the file at `path`, or with the part that the request asks for.
pub(super) fn file(
    mut file: File,
    path: &Path,
    request: &Parts,
    memory: &Memory,
) -> io::Result<Response<FileBody>> {
    let metadata = file.metadata()?;
    let validators = Validators::of(&metadata, SystemTime::now());
    let validators = validators.ok_or_else(|| io::Error::other("no entity tag"))?;
    let verdict = validators.judge(&request.headers);
    let mut response = match verdict {
        Verdict::Failed => return Ok(refusal(StatusCode::PRECONDITION_FAILED)),
        Verdict::NotModified => answer(StatusCode::NOT_MODIFIED, FileBody::empty()),
        Verdict::Proceed => {
            let ranged = request.method == Method::GET && validators.allow_range(&request.headers);
            let size = metadata.len();
            let part = if ranged { range::wanted(&request.headers, size) } else { Part::Whole };
            let mut response = match part {
                Part::Unsatisfiable => return Ok(unsatisfiable(size)),
                Part::Whole if request.method == Method::HEAD => answer(StatusCode::OK, FileBody::empty()),
                Part::Whole => answer(StatusCode::OK, FileBody::file(file, size, memory)?),
                Part::Range { start, len } => {
                    file.seek(SeekFrom::Start(start))?;
                    let mut response =
                        answer(StatusCode::PARTIAL_CONTENT, FileBody::file(file, len, memory)?);
                    let range = format!("bytes {start}-{}/{size}", start + len - 1);
                    set(response.headers_mut(), CONTENT_RANGE, &range);
                    response
                }
            };
            let len = if let Part::Range { len, .. } = part { len } else { size };
            response.headers_mut().insert(CONTENT_LENGTH, len.into());
            set(response.headers_mut(), CONTENT_TYPE, &content_type(path));
            response
        }
    };
    validators.tell(response.headers_mut());
    response.headers_mut().insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

/// Creates the response with a generated page. Its body releases `room` at its end.
pub(super) fn page(page: Markup, room: OwnedSemaphorePermit) -> Response<FileBody> {
    let mut response = text(StatusCode::OK, page.into_string(), "text/html; charset=utf-8", Some(room));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, LISTING_POLICY);
    response
}

/// Creates the redirection of a request for a directory without the final slash.
pub(super) fn moved(to: &str, query: Option<&str>) -> Response<FileBody> {
    let mut response = refusal(StatusCode::MOVED_PERMANENTLY);
    let location = query.map_or_else(|| to.to_owned(), |query| format!("{to}?{query}"));
    set(response.headers_mut(), LOCATION, &location);
    response
}

pub(super) fn not_allowed() -> Response<FileBody> {
    let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn unsatisfiable(size: u64) -> Response<FileBody> {
    let mut response = refusal(StatusCode::RANGE_NOT_SATISFIABLE);
    set(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{size}"));
    response
}

/// Creates the response with a status and its text.
pub(super) fn refusal(status: StatusCode) -> Response<FileBody> {
    text(status, format!("{status}\n"), "text/plain; charset=utf-8", None)
}

/// Returns the status for an error of finding or reading a file.
pub(super) fn status_of(error: &io::Error) -> StatusCode {
    use io::ErrorKind::{
        InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    match (error.kind(), error.raw_os_error()) {
        // Links that lead outside the root also give this error.
        (PermissionDenied, _) => StatusCode::FORBIDDEN,
        (NotFound | NotADirectory | IsADirectory | InvalidFilename | InvalidInput, _)
        | (_, Some(libc::ELOOP)) => StatusCode::NOT_FOUND,
        (_, Some(libc::EMFILE | libc::ENFILE)) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn text(
    status: StatusCode,
    text: String,
    content_type: &'static str,
    room: Option<OwnedSemaphorePermit>,
) -> Response<FileBody> {
    let len = text.len();
    let mut response = answer(status, FileBody::text(text, room));
    response.headers_mut().insert(CONTENT_LENGTH, len.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn answer(status: StatusCode, body: FileBody) -> Response<FileBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    set(response.headers_mut(), DATE, &httpdate::fmt_http_date(SystemTime::now()));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Derives the content type from the file name extension; text is assumed to be UTF-8.
fn content_type(path: &Path) -> String {
    let guess = mime_guess::from_path(path).first_or_octet_stream();
    let textual = guess.type_() == mime_guess::mime::TEXT || guess.subtype() == mime_guess::mime::JAVASCRIPT;
    if textual { format!("{guess}; charset=utf-8") } else { guess.to_string() }
}

/// Sets a header field. All values here are visible ASCII; any other value is omitted.
fn set(headers: &mut HeaderMap, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
