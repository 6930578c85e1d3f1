//! Server side: `/bytes/N` and files below the root.

use std::path::PathBuf;

use bytes::Bytes;
use h3::error::StreamError;
use h3::server::{RequestResolver, RequestStream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, SERVER};
use http::{Response, StatusCode};
use peer_common::http3::{self, Content};

use super::{BidiStream, NAME, Transport};

type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// Responds to each request of one connection in a separate task. The client reports errors.
pub async fn serve(transport: Transport, root: Option<PathBuf>) {
    let Ok(mut connection) = h3::server::Connection::new(transport).await else { return };
    while let Ok(Some(resolver)) = connection.accept().await {
        tokio::spawn(answer(resolver, root.clone()));
    }
}

async fn answer(
    resolver: RequestResolver<Transport, Bytes>,
    root: Option<PathBuf>,
) -> Result<(), StreamError> {
    let (request, mut stream) = resolver.resolve_request().await?;
    let content = http3::content(root.as_deref(), request.uri().path());
    stream.send_response(head(content.as_ref())).await?;
    match content {
        Some(Content::Pattern(count)) => send_pattern(&mut stream, count).await?,
        Some(Content::File(body)) => stream.send_data(Bytes::from(body)).await?,
        None => {}
    }
    stream.finish().await
}

fn head(content: Option<&Content>) -> Response<()> {
    let mut response = Response::new(());
    let fields = response.headers_mut();
    fields.insert(CONTENT_LENGTH, content.map_or(0, Content::len).into());
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(http3::CONTENT_TYPE));
    fields.insert(SERVER, HeaderValue::from_static(NAME));
    if content.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

async fn send_pattern(stream: &mut Stream, mut left: u64) -> Result<(), StreamError> {
    while left > 0 {
        let piece = http3::piece(left);
        stream.send_data(Bytes::from_static(piece)).await?;
        left -= piece.len() as u64;
    }
    Ok(())
}
