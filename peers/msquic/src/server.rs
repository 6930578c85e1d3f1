//! Server with ALPN `perf`.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use msquic::{
    Addr, CertificateFile, Connection, ConnectionEvent, ConnectionRef, Credential, CredentialConfig,
    Listener, ListenerEvent, Status, Stream, StreamEvent, StreamRef, StreamShutdownFlags,
};
use peer_common::args::Server;
use peer_common::report::Report;
use peer_common::{Failure, life};

use crate::stream::Sending;
use crate::{configuration, open};

/// Serves until `ending` yields.
pub fn run(options: &Server, ending: &mpsc::Receiver<()>) -> Result<(), Failure> {
    if options.retry || options.preferred.is_some() || !options.migration {
        return Err(Failure::Unsupported("msquic's interface has no switch for this".into()));
    }
    // Tickets are sent by a call of the application, which this program never makes.
    options.issues_tickets(0)?;
    let registration = open(&options.common)?;
    let configuration = Arc::new(configuration(&registration, &options.common)?);
    let (key, cert) = (options.key.display().to_string(), options.cert.display().to_string());
    let credential = Credential::CertificateFile(CertificateFile::new(key, cert));
    configuration.load_credential(&CredentialConfig::new().set_credential(credential))?;

    let accept = Arc::clone(&configuration);
    let listener = Listener::open(&registration, move |_, event| {
        if let ListenerEvent::NewConnection { connection, .. } = event {
            connection.set_callback_handler(on_connection);
            connection.set_configuration(&accept)?;
        }
        Ok(())
    })?;
    listener.start(&[msquic::BufferRef::from("perf")], Some(&Addr::from(options.listen)))?;
    let local: Option<SocketAddr> = listener.get_local_addr()?.as_socket();
    life::ready(local.unwrap_or(options.listen));
    let _ = ending.recv();
    Report::new().cpu().print();
    // Closing the library waits for all connections, so they must be shut down before.
    listener.stop();
    registration.shutdown();
    Ok(())
}

fn on_connection(connection: ConnectionRef, event: ConnectionEvent<'_>) -> Result<(), Status> {
    match event {
        ConnectionEvent::PeerStreamStarted { stream, .. } => stream.set_callback_handler(answer()),
        // SAFETY: this is the last event of an accepted connection, which has no other owner.
        ConnectionEvent::ShutdownComplete { .. } => {
            drop(unsafe { Connection::from_raw(connection.as_raw()) })
        }
        _ => {}
    }
    Ok(())
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
