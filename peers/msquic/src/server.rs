//! Server: `perf` and `hq-interop`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, mpsc};

use msquic::ffi::{
    QUIC_PARAM_GLOBAL_VERSION_SETTINGS, QUIC_SEND_RESUMPTION_FLAGS_QUIC_SEND_RESUMPTION_FLAG_NONE,
};
use msquic::{
    Addr, Api, CertificateFile, Connection, ConnectionEvent, ConnectionRef, Credential, CredentialConfig,
    Listener, ListenerEvent, SendFlags, Status, Stream, StreamEvent, StreamRef, StreamShutdownFlags,
};
use peer_common::args::{ResetKey, Server};
use peer_common::report::Report;
use peer_common::{Failure, files, life};

use crate::stream::Sending;
use crate::{V2, configuration, open, owned, param};

/// ALPN protocols.
const ALPN: [&str; 2] = ["perf", "hq-interop"];

/// Serves until `ending` yields.
pub fn run(options: &Server, ending: &mpsc::Receiver<()>) -> Result<(), Failure> {
    if options.preferred.is_some() || !options.migration {
        return Err(Failure::Unsupported("msquic's interface has no switch for this".into()));
    }
    if options.retry {
        param::always_retry()?;
    }
    // SAFETY: the parameter is global.
    unsafe {
        let versions: &[u32] = if options.common.v2 { &[V2, 1] } else { &[1] };
        param::versions(ptr::null_mut(), QUIC_PARAM_GLOBAL_VERSION_SETTINGS, versions)?;
    }
    let tickets = options.issues_tickets(1)?;
    let registration = open(&options.common)?;
    // The library takes the key only once it has begun to work.
    if let Some(ResetKey(key)) = &options.reset_key {
        param::reset_key(key)?;
    }
    let configuration = Arc::new(configuration(&registration, &options.common, &ALPN, None)?);
    let (key, cert) = (options.key.display().to_string(), options.cert.display().to_string());
    let credential = Credential::CertificateFile(CertificateFile::new(key, cert));
    configuration.load_credential(&CredentialConfig::new().set_credential(credential))?;

    let accept = Arc::clone(&configuration);
    let root = options.root.clone();
    let listener = Listener::open(&registration, move |_, event| {
        if let ListenerEvent::NewConnection { connection, info } = event {
            // Streams may come in 0-RTT, before anything else is heard of the connection.
            let root = (info.negotiated_alpn == b"hq-interop").then(|| root.clone());
            connection.set_callback_handler(move |connection: ConnectionRef, event: ConnectionEvent<'_>| {
                on_connection(&connection, event, root.as_ref(), tickets)
            });
            connection.set_configuration(&accept)?;
        }
        Ok(())
    })?;
    listener.start(&ALPN.map(msquic::BufferRef::from), Some(&Addr::from(options.listen)))?;
    let local: Option<SocketAddr> = listener.get_local_addr()?.as_socket();
    life::ready(local.unwrap_or(options.listen));
    let _ = ending.recv();
    Report::new().cpu().print();
    // Closing the library waits for all connections, so they must be shut down before.
    listener.stop();
    registration.shutdown();
    Ok(())
}

/// Handles an event. `files` has the folder of the files if the protocol is `hq-interop`.
fn on_connection(
    connection: &ConnectionRef,
    event: ConnectionEvent<'_>,
    files: Option<&Option<PathBuf>>,
    tickets: bool,
) -> Result<(), Status> {
    match event {
        ConnectionEvent::PeerStreamStarted { stream, .. } => match files {
            Some(root) => stream.set_callback_handler(answer_file(root.clone())),
            None => stream.set_callback_handler(answer()),
        },
        ConnectionEvent::Connected { .. } if tickets => send_ticket(connection),
        ConnectionEvent::DatagramReceived { buffer, .. } => {
            // A client that takes no datagrams gets no echo.
            let _ = owned::send_datagram(connection, buffer.as_bytes().to_vec());
        }
        ConnectionEvent::DatagramSendStateChanged { client_context, state } => {
            owned::datagram_state(client_context, state);
        }
        // SAFETY: this is the last event of an accepted connection, which has no other owner.
        ConnectionEvent::ShutdownComplete { .. } => {
            drop(unsafe { Connection::from_raw(connection.as_raw()) })
        }
        _ => {}
    }
    Ok(())
}

/// Sends a session ticket, which the crate has no function for.
fn send_ticket(connection: &ConnectionRef) {
    let flags = QUIC_SEND_RESUMPTION_FLAGS_QUIC_SEND_RESUMPTION_FLAG_NONE;
    if let Some(send) = Api::get_ffi().ConnectionSendResumptionTicket {
        // SAFETY: the handle is open, and there is no data besides the ticket.
        let _ = unsafe { send(connection.as_raw(), flags, 0, ptr::null()) };
    }
}

/// Creates the callback of a stream of `hq-interop`.
fn answer_file(
    root: Option<PathBuf>,
) -> impl FnMut(StreamRef, StreamEvent<'_>) -> Result<(), Status> + 'static {
    let mut request = Vec::new();
    move |stream, event| {
        match event {
            StreamEvent::Receive { buffers, .. } => {
                for buffer in buffers {
                    let left = files::MAX_REQUEST.saturating_sub(request.len());
                    request.extend(buffer.as_bytes().iter().take(left));
                }
            }
            StreamEvent::PeerSendShutdown => match requested(root.as_deref(), &request) {
                Some(body) => owned::send(&stream, body, SendFlags::FIN)?,
                None => stream.shutdown(StreamShutdownFlags::ABORT, 1)?,
            },
            // SAFETY: the only send on this stream is that of the file.
            StreamEvent::SendComplete { client_context, .. } => unsafe { owned::free(client_context) },
            // SAFETY: this is the last event of a stream, which has no other owner.
            StreamEvent::ShutdownComplete { .. } => drop(unsafe { Stream::from_raw(stream.as_raw()) }),
            _ => {}
        }
        Ok(())
    }
}

fn requested(root: Option<&Path>, request: &[u8]) -> Option<Vec<u8>> {
    std::fs::read(files::requested(root?, request)?).ok()
}

/// Creates a stream's callback. The first eight bytes are the number of bytes to send back; all other data
/// from the client is discarded.
fn answer() -> impl FnMut(StreamRef, StreamEvent<'_>) -> Result<(), Status> + 'static {
    let mut request = Vec::with_capacity(8);
    let mut answer: Option<Sending> = None;
    move |stream, event| {
        match event {
            StreamEvent::Receive { buffers, .. } if answer.is_none() => {
                for buffer in buffers {
                    let missing = 8 - request.len();
                    request.extend(buffer.as_bytes().iter().take(missing));
                }
                if let Some(count) = request.first_chunk() {
                    answer.insert(Sending::new(u64::from_be_bytes(*count), false)).push(&stream)?;
                }
            }
            StreamEvent::PeerSendShutdown => match &mut answer {
                // The end of the response tells the client that all of its data has arrived.
                Some(answer) => {
                    answer.end = true;
                    answer.push(&stream)?;
                }
                None => stream.shutdown(StreamShutdownFlags::ABORT, 1)?,
            },
            StreamEvent::SendComplete { cancelled, client_context } => {
                if let Some(answer) = &mut answer {
                    answer.completed(client_context);
                    if !cancelled {
                        answer.push(&stream)?;
                    }
                }
            }
            StreamEvent::IdealSendBufferSize { byte_count } => {
                if let Some(answer) = &mut answer {
                    answer.ideal(byte_count);
                    answer.push(&stream)?;
                }
            }
            // SAFETY: this is the last event of a stream, which has no other owner.
            StreamEvent::ShutdownComplete { .. } => drop(unsafe { Stream::from_raw(stream.as_raw()) }),
            _ => {}
        }
        Ok(())
    }
}
