//! Client side: files to fetch, or one small request repeatedly.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::error::{Code, StreamError};
use http::{Request, StatusCode, Uri};
use peer_common::args::Requests;
use peer_common::latency::Latencies;
use peer_common::progress::{Progress, share};
use peer_common::{Failure, failed, files};
use tokio::task::JoinSet;

use super::{OpenStreams, Transport};

/// `:authority` of every request. The servers of the contract have one host and ignore it.
const AUTHORITY: &str = "localhost";

/// Handle that opens requests on one connection.
type Opener = SendRequest<OpenStreams, Bytes>;

/// Starts HTTP/3 on a connection. A task drives it until it ends.
async fn start(transport: Transport) -> Result<Opener, Failure> {
    let (mut driver, opener) = h3::client::new(transport).await?;
    tokio::spawn(async move { std::future::poll_fn(|context| driver.poll_close(context)).await });
    Ok(opener)
}

/// Fetches each path on a separate stream and stores the responses in `out`.
pub async fn fetch(
    transport: Transport,
    out: Option<&Path>,
    paths: &[String],
    progress: &Arc<Progress>,
) -> Result<(), Failure> {
    let opener = start(transport).await?;
    let mut tasks = JoinSet::new();
    for path in paths {
        let target = out.map(|out| files::destination(out, path));
        if target == Some(None) {
            return failed(format!("no file name in {path}"));
        }
        let (opener, uri) = (opener.clone(), uri(path)?);
        tasks.spawn(store(opener, uri, target.flatten(), Arc::clone(progress)));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Repeats the same request the requested number of times. Returns the number of content bytes received, and the
/// times of the requests.
pub async fn repeat(transports: Vec<Transport>, requests: &Requests) -> Result<(u64, Latencies), Failure> {
    let mut lanes = JoinSet::new();
    let uri = uri(&requests.path)?;
    let count = requests.concurrency * transports.len() as u64;
    for (index, transport) in (0..).zip(transports) {
        let opener = start(transport).await?;
        for lane in 0..requests.concurrency {
            let (mut opener, uri) = (opener.clone(), uri.clone());
            let rounds = share(requests.count, index * requests.concurrency + lane, count);
            lanes.spawn(async move {
                let (mut bytes, mut times) = (0, Latencies::default());
                for _ in 0..rounds {
                    let begin = Instant::now();
                    get(&mut opener, &uri, |piece| bytes += piece.remaining() as u64).await?;
                    times.add(begin.elapsed());
                }
                Ok::<_, Failure>((bytes, times))
            });
        }
    }
    let (mut bytes, mut times) = (0, Latencies::default());
    while let Some(lane) = lanes.join_next().await {
        let (more, of_lane) = lane??;
        bytes += more;
        times.append(of_lane);
    }
    Ok((bytes, times))
}

fn uri(path: &str) -> Result<Uri, Failure> {
    Ok(format!("https://{AUTHORITY}/{}", path.trim_start_matches('/')).parse()?)
}

async fn store(
    mut opener: Opener,
    uri: Uri,
    target: Option<PathBuf>,
    progress: Arc<Progress>,
) -> Result<(), Failure> {
    let mut body = Vec::new();
    get(&mut opener, &uri, |piece| {
        progress.add(piece.remaining() as u64);
        while target.is_some() && piece.has_remaining() {
            let chunk = piece.chunk();
            body.extend_from_slice(chunk);
            let n = chunk.len();
            piece.advance(n);
        }
    })
    .await?;
    Ok(target.map_or(Ok(()), |target| std::fs::write(target, body))?)
}

/// Makes one GET request. `each` gets the pieces of the content as they arrive.
async fn get(opener: &mut Opener, uri: &Uri, mut each: impl FnMut(&mut dyn Buf)) -> Result<(), Failure> {
    let mut request = Request::new(());
    *request.uri_mut() = uri.clone();
    let mut stream = opener.send_request(request).await?;
    match stream.finish().await {
        // The server has responded without waiting for the end of the request (RFC 9114 §4.1).
        Err(StreamError::RemoteTerminate { code: Code::H3_NO_ERROR, .. }) => {}
        other => other?,
    }
    let response = stream.recv_response().await?;
    if response.status() != StatusCode::OK {
        return failed(format!("{} for {uri}", response.status()));
    }
    while let Some(mut piece) = stream.recv_data().await? {
        each(&mut piece);
    }
    Ok(())
}
