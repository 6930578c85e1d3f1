//! Streams of a client.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use msquic::{
    BufferRef, Connection, SendFlags, Status, Stream, StreamEvent, StreamOpenFlags, StreamRef,
    StreamStartFlags,
};
use peer_common::Failure;
use peer_common::files;
use peer_common::progress::Progress;

use crate::caller::News;
use crate::owned;
use crate::stream::Sending;

/// Opens a stream for `hq-interop`, in 0-RTT if that is wanted and possible. Its callback stores the file and
/// closes the handle at the end.
pub fn fetch(
    connection: &Connection,
    path: &str,
    target: Option<PathBuf>,
    early: bool,
    tell: Sender<News>,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    let (mut body, mut received) = (Vec::new(), 0);
    let (open, flags) = if early {
        (StreamOpenFlags::ZERO_RTT, SendFlags::ALLOW_0_RTT)
    } else {
        (StreamOpenFlags::NONE, SendFlags::NONE)
    };
    let stream = Stream::open(connection, open, move |stream: StreamRef, event| {
        match event {
            StreamEvent::Receive { total_buffer_length, buffers, .. } => {
                received += *total_buffer_length;
                if target.is_some() {
                    buffers.iter().for_each(|buffer| body.extend_from_slice(buffer.as_bytes()));
                }
                progress.add(*total_buffer_length);
            }
            StreamEvent::PeerSendShutdown => {
                let stored = target.as_ref().map_or(Ok(()), |target| std::fs::write(target, &body));
                let _ = tell.send(match stored {
                    Ok(()) => News::Received(received),
                    Err(error) => News::Failed(error.to_string()),
                });
            }
            StreamEvent::PeerSendAborted { error_code } => {
                let _ = tell.send(News::Failed(format!("stream reset: {error_code}")));
            }
            // SAFETY: the only send on this stream is that of the request below.
            StreamEvent::SendComplete { client_context, .. } => unsafe { owned::free(client_context) },
            // SAFETY: this is the last event, and ownership of the handle was released below.
            StreamEvent::ShutdownComplete { .. } => drop(unsafe { Stream::from_raw(stream.as_raw()) }),
            _ => {}
        }
        Ok::<(), Status>(())
    })?;
    owned::send(&stream, files::request(path), flags | SendFlags::FIN)?;
    stream.start(StreamStartFlags::NONE)?;
    // SAFETY: the callback owns the handle from here on.
    let _ = unsafe { stream.into_raw() };
    Ok(())
}

/// Opens one stream. Its callback does the stream's part of the work and closes the handle at the end.
pub fn perf(
    connection: &Connection,
    download: u64,
    upload: u64,
    tell: Sender<News>,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    let mut sending = Sending::new(upload, true);
    let mut received = 0;
    // The callback owns the request's bytes, which therefore live as long as the stream.
    let head = Box::new(download.to_be_bytes());
    let request = Box::new([BufferRef::from(&head[..])]);
    let view = (&raw const *request).cast::<[BufferRef; 1]>();
    let stream = Stream::open(connection, StreamOpenFlags::NONE, move |stream: StreamRef, event| {
        let (_, _) = (&head, &request);
        match event {
            StreamEvent::Receive { total_buffer_length, .. } => {
                received += *total_buffer_length;
                progress.add(*total_buffer_length);
            }
            StreamEvent::PeerSendShutdown => _ = tell.send(News::Received(received)),
            StreamEvent::PeerSendAborted { error_code } => {
                let _ = tell.send(News::Failed(format!("stream reset: {error_code}")));
            }
            StreamEvent::SendComplete { cancelled, client_context } => {
                sending.completed(client_context);
                if !cancelled {
                    sending.push(&stream)?;
                }
            }
            StreamEvent::IdealSendBufferSize { byte_count } => {
                sending.ideal(byte_count);
                sending.push(&stream)?;
            }
            // The upload begins here, in the callback that continues it.
            StreamEvent::StartComplete { .. } => sending.push(&stream)?,
            // SAFETY: this is the last event, and ownership of the handle was released below.
            StreamEvent::ShutdownComplete { .. } => drop(unsafe { Stream::from_raw(stream.as_raw()) }),
            _ => {}
        }
        Ok::<(), Status>(())
    })?;
    // SAFETY: the buffer is owned by the callback, which lives as long as the stream.
    unsafe { stream.send(&*view, SendFlags::NONE, std::ptr::null())? };
    stream.start(StreamStartFlags::NONE)?;
    // SAFETY: the callback owns the handle from here on.
    let _ = unsafe { stream.into_raw() };
    Ok(())
}
