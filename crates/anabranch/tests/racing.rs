//! Connections that try one candidate after the other, over the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use anabranch::{
    AttemptError, Candidate, ConnectError, Connection, ConnectionError, Endpoint, LocalAddress,
    MultipathConfig, PathId, RacePolicy, TransportConfig, VarInt,
};
use anabranch_testkit::endpoints::{Pair, loopback, within};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anabranch::paths::{ATTEMPT_DELAY, MAX_ATTEMPTS};

/// Maximum duration of a quick attempt: well under a second, but enough for a busy machine.
const SOON: Duration = Duration::from_millis(900);

/// A socket that never responds.
struct Hole(UdpSocket);

impl Hole {
    fn new() -> Self {
        let socket = UdpSocket::bind(loopback()).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self(socket)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Returns the lengths of the datagrams that have arrived.
    fn swallowed(&self) -> Vec<usize> {
        let mut buffer = [0; 2048];
        std::iter::from_fn(|| self.0.recv(&mut buffer).ok()).collect()
    }
}

fn from(local: impl Into<IpAddr>, remote: SocketAddr) -> Candidate {
    Candidate::new(Some(LocalAddress::from(local.into())), remote)
}

/// Connects. Returns both sides of the connection, the time that this took, and the addresses of the attempts
/// that the server has ignored. The server ignores attempts from the IP address `ignored`.
async fn race(
    pair: &Pair,
    client: &Endpoint,
    server: &Endpoint,
    candidates: Vec<Candidate>,
    ignored: Option<IpAddr>,
) -> (Connection, Connection, Duration, Vec<SocketAddr>) {
    race_with(RacePolicy::default(), pair, [client, server], candidates, ignored).await
}

async fn race_with(
    policy: RacePolicy,
    pair: &Pair,
    [client, server]: [&Endpoint; 2],
    candidates: Vec<Candidate>,
    ignored: Option<IpAddr>,
) -> (Connection, Connection, Duration, Vec<SocketAddr>) {
    let begin = Instant::now();
    let connecting = async {
        let racing = client.connect_any(&pair.client, candidates, "localhost", policy);
        (racing.await.unwrap(), begin.elapsed())
    };
    let accepting = async {
        let mut unheard = Vec::new();
        loop {
            let incoming = server.accept().await.unwrap();
            let address = incoming.remote_address().unwrap();
            if Some(address.ip()) != ignored {
                return (incoming.await.unwrap(), unheard);
            }
            unheard.push(address);
            incoming.ignore();
        }
    };
    let ((ours, took), (theirs, unheard)) = within(async { tokio::join!(connecting, accepting) }).await;
    (ours, theirs, took, unheard)
}

async fn works(ours: &Connection, theirs: &Connection) {
    within(async {
        let mut stream = ours.open_uni().await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        stream.finish().unwrap();
        let heard = theirs.accept_uni().await.unwrap().read_to_end(10).await.unwrap();
        assert_eq!(heard, b"hello");
    })
    .await;
}

async fn until(mut holds: impl FnMut() -> bool) {
    within(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_address_that_stays_silent_is_passed_over() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let (hole, address) = (Hole::new(), server.local_addr().unwrap());
    let candidates = Candidate::to_any_of(&[hole.address(), address]);
    let (ours, theirs, took, _) = race(&pair, &client, &server, candidates, None).await;
    assert!(took >= ATTEMPT_DELAY && took < SOON, "{took:?}");
    assert_eq!(ours.remote_address(), address);
    let swallowed = hole.swallowed();
    assert!(!swallowed.is_empty() && swallowed.iter().all(|len| *len >= 1200), "{swallowed:?}");
    works(&ours, &theirs).await;
    // The other attempt disappears once it has sent its CONNECTION_CLOSE.
    until(|| client.open_connections() == 1).await;
    works(&ours, &theirs).await;
}

#[tokio::test]
async fn a_local_address_that_gets_no_answer_is_passed_over_and_its_socket_goes() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let address = server.local_addr().unwrap();
    let (silent, second): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
    let candidates = vec![from(silent, address), from(second, address)];
    let (ours, theirs, took, unheard) = race(&pair, &client, &server, candidates, Some(silent)).await;
    assert!(took >= ATTEMPT_DELAY && took < SOON, "{took:?}");
    let bound = ours.local_address().unwrap();
    assert_eq!((bound.ip(), theirs.remote_address()), (second, bound));
    assert_ne!(bound, client.local_addr().unwrap(), "a socket of its own");
    works(&ours, &theirs).await;
    let given_up = unheard[0];
    until(|| client.open_connections() == 1 && UdpSocket::bind(given_up).is_ok()).await;
    assert!(UdpSocket::bind(bound).is_err());
    works(&ours, &theirs).await;
    ours.close(VarInt::from_u32(0), b"");
    within(client.wait_idle()).await;
    until(|| UdpSocket::bind(bound).is_ok()).await;
}

#[tokio::test]
async fn a_server_that_answers_is_asked_once() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let hole = Hole::new();
    let candidates = Candidate::to_any_of(&[server.local_addr().unwrap(), hole.address()]);
    let (ours, theirs, took, _) = race(&pair, &client, &server, candidates, None).await;
    assert!(took < SOON, "{took:?}");
    tokio::time::sleep(2 * ATTEMPT_DELAY).await;
    assert_eq!((client.open_connections(), hole.swallowed()), (1, vec![]));
    assert_eq!(
        ours.local_address().unwrap().port(),
        client.local_addr().unwrap().port(),
        "the endpoint's own"
    );
    works(&ours, &theirs).await;
}

#[tokio::test]
async fn what_cannot_be_sent_is_not_waited_for() {
    let pair = Pair::new();
    let (client, server) = pair.endpoints();
    let address = server.local_addr().unwrap();
    // The first local address is not on this host. The second remote address cannot be reached from a
    // loopback address.
    let foreign = from([192, 0, 2, 1], address);
    let nowhere = from([127, 0, 0, 1], "192.0.2.1:443".parse().unwrap());
    let candidates = vec![foreign, nowhere, Candidate::from(address)];
    let patient = RacePolicy::default().with_delay(Duration::from_secs(10));
    let (ours, theirs, took, _) = race_with(patient, &pair, [&client, &server], candidates, None).await;
    assert!(took < patient.delay() || cfg!(not(target_os = "linux")), "{took:?}");
    works(&ours, &theirs).await;
}

#[tokio::test]
async fn silence_everywhere_is_a_failure_after_a_bounded_number_of_attempts() {
    let transport = TransportConfig::default().with_handshake_timeout(Duration::from_millis(400));
    let pair = Pair::with_transport(transport);
    let client = pair.client();
    let holes: Vec<Hole> = (0..MAX_ATTEMPTS + 2).map(|_| Hole::new()).collect();
    let candidates: Vec<Candidate> = holes.iter().map(|hole| Candidate::from(hole.address())).collect();
    let quick = RacePolicy::default().with_delay(Duration::from_millis(20));
    let racing = client.connect_any(&pair.client, candidates.clone(), "localhost", quick);
    assert_eq!(racing.attempts(), 1);
    let error = within(racing).await.unwrap_err();
    assert!(matches!(error, AttemptError::Handshake(ConnectionError::TimedOut(_))), "{error}");
    let heard: Vec<bool> = holes.iter().map(|hole| !hole.swallowed().is_empty()).collect();
    assert_eq!(heard.iter().filter(|heard| **heard).count(), MAX_ATTEMPTS, "{heard:?}");
    assert!(heard[..MAX_ATTEMPTS].iter().all(|heard| *heard));
    within(client.wait_idle()).await;

    let none = within(client.connect_any(&pair.client, Vec::new(), "localhost", quick)).await;
    assert!(matches!(none, Err(AttemptError::NoCandidates)), "{none:?}");
    // Dropping the future leaves nothing behind.
    let mut racing = client.connect_any(&pair.client, candidates, "localhost", quick);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut racing).await.is_err());
    assert!(racing.attempts() > 2, "{racing:?}");
    drop(racing);
    within(client.wait_idle()).await;
    client.close(VarInt::from_u32(0), b"");
    let closed =
        within(client.connect_any(&pair.client, vec![Candidate::from(loopback())], "localhost", quick)).await;
    assert!(matches!(closed, Err(AttemptError::NotBegun(ConnectError::InvalidRemoteAddress(_)))), "port 0");
}

/// The first path's socket is removed with its path, like those of other paths.
#[tokio::test]
async fn a_connection_can_leave_where_it_began() {
    let transport = TransportConfig::default().with_multipath(MultipathConfig::default());
    let pair = Pair::with_transport(transport);
    let (client, server) = pair.endpoints();
    let candidates = vec![from([127, 0, 0, 1], server.local_addr().unwrap())];
    let (ours, theirs, ..) = race(&pair, &client, &server, candidates, None).await;
    let bound = ours.local_address().unwrap();
    let second = within(ours.open_path(IpAddr::from([127, 0, 0, 2]), None)).await.unwrap();
    assert!(UdpSocket::bind(bound).is_err());
    ours.abandon_path(PathId(0), VarInt::from_u32(0)).unwrap();
    until(|| UdpSocket::bind(bound).is_ok()).await;
    assert_eq!(ours.paths().iter().map(|path| path.id).collect::<Vec<_>>(), [second]);
    works(&ours, &theirs).await;
}

#[tokio::test]
async fn early_data_goes_one_way_only() {
    let mut pair = Pair::new();
    let (client, server) = pair.endpoints();
    let address = server.local_addr().unwrap();
    let hole = Hole::new();
    let candidates = Candidate::to_any_of(&[address, hole.address()]);
    let (ours, theirs, ..) = race(&pair, &client, &server, candidates.clone(), None).await;
    works(&ours, &theirs).await;
    // The session ticket has arrived with the server's data by now.
    works(&theirs, &ours).await;
    ours.close(VarInt::from_u32(0), b"");
    let transport = TransportConfig::default().with_handshake_timeout(Duration::from_secs(2));
    pair.client = pair.client.with_transport(transport);
    let racing = client.connect_any(&pair.client, candidates, "localhost", RacePolicy::default());
    let (ours, accepted) = racing.into_0rtt().expect("a ticket");
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (theirs, accepted) = within(async { tokio::join!(accepting, accepted) }).await;
    assert!(accepted);
    works(&ours, &theirs).await;
    assert_eq!(hole.swallowed(), []);
}
