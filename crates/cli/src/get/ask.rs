//! Request options, and the requests that they produce.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use anabranch::http3::SendHalf;
use bytes::Bytes;
use clap::Args;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use tokio::task::spawn_blocking;

use crate::exit::{Exit, Failure, Result};
use crate::target::Target;

/// Number of bytes of a file that are read at a time.
const PIECE: usize = 256 * 1024;
/// Value of User-Agent.
const USER_AGENT: &str = concat!("anabranch/", env!("CARGO_PKG_VERSION"));
/// Default content type of `--data`, as in other clients.
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
/// Header fields that are not forwarded to another server on a redirection.
const PRIVATE: [HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// Options of HTTP requests, which hq-interop does not support.
#[derive(Args, Clone, Debug)]
#[group(multiple = true, conflicts_with = "hq")]
pub(super) struct Ask {
    /// Method of the request [default: GET, or HEAD with --head, or POST with --data]
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    method: Option<Method>,
    /// Send DATA, or the content of FILE, with POST
    #[arg(short = 'd', long, value_name = "DATA|@FILE")]
    data: Option<String>,
    /// Request the header only, and print it
    #[arg(short = 'I', long, conflicts_with_all = ["data", "include", "range", "rest"])]
    pub(super) head: bool,
    /// Header field to send; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", value_parser = field)]
    fields: Vec<(HeaderName, HeaderValue)>,
    /// Request these bytes only, as 0-99, 100- or -50
    #[arg(short = 'r', long, value_name = "FROM-TO", value_parser = range, conflicts_with = "rest")]
    range: Option<HeaderValue>,
    /// Write the header before the content
    #[arg(short = 'i', long)]
    pub(super) include: bool,
    /// Follow redirections to https URLs
    #[arg(short = 'L', long = "location")]
    pub(super) follow: bool,
    /// Request the missing rest of FILE and append it; bytes that were received are kept even if the rest
    /// fails
    #[arg(short = 'C', long = "continue", conflicts_with = "include")]
    pub(super) rest: bool,
}

fn field(line: &str) -> std::result::Result<(HeaderName, HeaderValue), String> {
    let (name, value) = line.split_once(':').ok_or("write NAME:VALUE")?;
    let name = name.trim().parse::<HeaderName>().map_err(|error| error.to_string())?;
    let value = value.trim().parse().map_err(|_| "not the value of a header field".to_owned())?;
    if name == header::HOST {
        return Err("the host is that of the URL".to_owned());
    }
    Ok((name, value))
}

fn range(ranges: &str) -> std::result::Result<HeaderValue, String> {
    let number = |text: &str| text.is_empty() || text.parse::<u64>().is_ok();
    let good = |range: &str| {
        range.trim().split_once('-').is_some_and(|(a, b)| a.len() + b.len() > 0 && number(a) && number(b))
    };
    if !good(ranges) {
        return Err("write it as 0-99, 100- or -50".to_owned());
    }
    HeaderValue::try_from(format!("bytes={}", ranges.trim())).map_err(|error| error.to_string())
}

/// A request, which redirections may send to another server.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    method: Method,
    fields: HeaderMap,
    payload: Option<Payload>,
    /// `true` if only a part of the content is requested.
    pub(super) partial: bool,
}

impl Ask {
    /// Creates the request. With `from`, only the content from that offset on is requested.
    pub(super) fn errand(&self, from: Option<u64>) -> Result<Errand> {
        let payload = self.data.as_deref().map(Payload::open).transpose()?;
        let method = match (&self.method, self.head, &payload) {
            (Some(method), ..) => method.clone(),
            (None, true, _) => Method::HEAD,
            (None, false, Some(_)) => Method::POST,
            (None, false, None) => Method::GET,
        };
        let mut fields = HeaderMap::new();
        fields.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        fields.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        if let Some(payload) = &payload {
            fields.insert(header::CONTENT_TYPE, FORM);
            fields.insert(header::CONTENT_LENGTH, payload.len().into());
        }
        let rest = from.and_then(|from| format!("bytes={from}-").try_into().ok());
        let range = self.range.clone().or(rest);
        let partial = range.is_some();
        range.map(|range| fields.insert(header::RANGE, range));
        // Fields of the command line replace ours, and may be repeated.
        for (name, _) in &self.fields {
            fields.remove(name);
        }
        for (name, value) in &self.fields {
            fields.append(name, value.clone());
        }
        Ok(Errand { method, fields, payload, partial })
    }
}

impl Errand {
    /// Creates a plain GET request.
    pub(super) fn plain() -> Self {
        Self { method: Method::GET, fields: HeaderMap::new(), payload: None, partial: false }
    }

    /// Returns the request with these header fields set.
    pub(super) fn with(mut self, fields: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> Self {
        self.fields.extend(fields);
        self
    }

    /// Returns whether the method is safe, so that the request may be sent in early data (RFC 8470 §3).
    pub(super) fn is_safe(&self) -> bool {
        self.method.is_safe()
    }

    pub(super) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    pub(super) fn payload(&self) -> Option<&Payload> {
        self.payload.as_ref()
    }

    /// Returns the request's header for the server of `target`.
    pub(super) fn request(&self, target: &Target) -> Result<Request<()>> {
        let uri = http::Uri::builder().scheme("https").authority(target.authority());
        let uri = uri.path_and_query(target.path.as_str()).build();
        let uri = uri.map_err(|error| Failure::new(Exit::Usage, format!("{target}: {error}")))?;
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = self.fields.clone();
        Ok(request)
    }

    /// Adapts the request to a redirection (RFC 9110 §15.4). Credentials are removed if the new server is a
    /// `foreign` one.
    pub(super) fn redirect(&mut self, status: StatusCode, foreign: bool) {
        let becomes_get = match status {
            StatusCode::SEE_OTHER => !self.is_head(),
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.payload = None;
            for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH] {
                self.fields.remove(name);
            }
        }
        if foreign {
            for name in PRIVATE {
                self.fields.remove(name);
            }
        }
    }
}

/// A request's content.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    Text(Bytes),
    File { name: PathBuf, len: u64 },
}

impl Payload {
    fn open(data: &str) -> Result<Self> {
        let Some(name) = data.strip_prefix('@') else {
            return Ok(Self::Text(Bytes::copy_from_slice(data.as_bytes())));
        };
        let unusable = |what: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{name}: {what}"));
        let found = std::fs::metadata(name).map_err(|error| unusable(&error))?;
        if !found.is_file() {
            return Err(unusable(&"not a file"));
        }
        Ok(Self::File { name: name.into(), len: found.len() })
    }

    fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::File { len, .. } => *len,
        }
    }

    /// Sends the content. It is no error if the server stops reading it: the server has responded already.
    pub(super) async fn send(self, mut to: SendHalf) -> Result {
        let (name, len) = match self {
            Self::Text(text) => {
                let _ = to.write(text).await.and_then(|()| to.finish());
                return Ok(());
            }
            Self::File { name, len } => (name, len),
        };
        let failed = |error| Failure::io(format_args!("cannot read {}", name.display()), &error);
        let mut file = File::open(&name).map_err(failed)?;
        let mut left = len;
        while left > 0 {
            let piece;
            (file, piece) = spawn_blocking(move || read_piece(file, left)).await.map_err(broken)?;
            let piece = piece.map_err(failed)?;
            left -= piece.len() as u64;
            if to.write(piece).await.is_err() {
                return Ok(());
            }
        }
        let _ = to.finish();
        Ok(())
    }
}

fn broken(error: tokio::task::JoinError) -> Failure {
    Failure::new(Exit::Io, error)
}

fn read_piece(mut file: File, left: u64) -> (File, io::Result<Bytes>) {
    let mut piece = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
    let read = match file.read(&mut piece) {
        Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has become shorter")),
        Ok(len) => {
            piece.truncate(len);
            Ok(Bytes::from(piece))
        }
        Err(error) => Err(error),
    };
    (file, read)
}
