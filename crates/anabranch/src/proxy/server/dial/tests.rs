use super::*;

#[derive(Debug)]
struct Fixed(Vec<IpAddr>);

impl Resolve for Fixed {
    fn resolve(&self, _host: &str) -> Resolving {
        let found = self.0.clone();
        Box::pin(async move { Ok(found) })
    }
}

/// A resolver that never answers.
#[derive(Debug)]
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _host: &str) -> Resolving {
        Box::pin(std::future::pending())
    }
}

fn dialer(resolver: impl Resolve) -> Dialer {
    let soon = Duration::from_millis(300);
    Dialer { resolver: Arc::new(resolver), resolve_timeout: soon, connect_timeout: soon }
}

/// Returns permits for `count` lookups at the same time.
fn lookups(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count))
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

async fn allowed(found: &[&str]) -> Result<Vec<String>, Cause> {
    let target = "name.example:80".parse().unwrap();
    let allowed = dialer(Fixed(addresses(found))).addresses(&target, &Access::default(), &lookups(1)).await;
    allowed.map(|found| found.iter().map(ToString::to_string).collect()).map_err(|refusal| refusal.cause())
}

#[tokio::test]
async fn every_address_of_a_name_is_checked() {
    let mixed = [
        "127.0.0.1",
        "9.9.9.9",
        "::ffff:10.0.0.1",
        "::1",
        "2a00::1",
        "169.254.169.254",
        "fd00:ec2::254",
        "8.8.8.8",
    ];
    let expected = ["[2a00::1]:80", "9.9.9.9:80", "8.8.8.8:80"].map(str::to_owned).to_vec();
    assert_eq!(allowed(&mixed).await, Ok(expected));
    assert_eq!(
        allowed(&["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1"]).await,
        Err(Cause::ForbiddenAddress)
    );
    assert_eq!(allowed(&[]).await, Err(Cause::Resolution));
    let many: Vec<_> = (1..50).map(|n| format!("9.9.9.{n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(allowed(&many).await.unwrap().len(), MAX_ADDRESSES);
    // Many addresses of one family do not hide the other one.
    let mut both: Vec<_> = (1..50).map(|n| format!("2a00::{n}")).collect();
    both.push("9.9.9.9".to_owned());
    let both: Vec<_> = both.iter().map(String::as_str).collect();
    let tried = allowed(&both).await.unwrap();
    assert_eq!((tried.len(), tried[1].as_str()), (MAX_ADDRESSES, "9.9.9.9:80"));
}

#[tokio::test]
async fn a_resolver_that_does_not_answer_is_not_waited_for() {
    let target = "name.example:80".parse().unwrap();
    let refusal = dialer(Silent).addresses(&target, &Access::default(), &lookups(1)).await.unwrap_err();
    assert_eq!(refusal.cause(), Cause::ResolutionTimeout);
}

#[tokio::test(start_paused = true)]
async fn a_lookup_without_an_end_keeps_its_place_for_max_lookup_at_most() {
    let (dialer, lookups) = (dialer(Silent), lookups(2));
    let target = "name.example:80".parse().unwrap();
    for _ in 0..3 {
        let refusal = dialer.addresses(&target, &Access::default(), &lookups).await.unwrap_err();
        assert_eq!(refusal.cause(), Cause::ResolutionTimeout);
    }
    // Two lookups still run, and the third one timed out while it waited for a permit.
    assert_eq!(lookups.available_permits(), 0);
    tokio::time::sleep(MAX_LOOKUP).await;
    assert_eq!(lookups.available_permits(), 2);
}

#[tokio::test]
async fn an_address_that_answers_is_found_behind_one_that_does_not() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let good = listener.local_addr().unwrap();
    // No socket listens on the port, because its listener is closed.
    let closed = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let dialer = dialer(Silent);
    let (_, address) = dialer.tcp([closed, good].into()).await.unwrap();
    assert_eq!(address, good);
    let refusal = dialer.tcp([closed].into()).await.unwrap_err();
    assert_eq!(refusal.cause(), Cause::Refused);
    // A socket whose queue is full drops further attempts, like a host that does not answer.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 3], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let silent = full.local_addr().unwrap().as_socket().unwrap();
    let fill = std::net::TcpStream::connect(silent).unwrap();
    let (_, address) = dialer.tcp([silent, good].into()).await.unwrap();
    assert_eq!(address, good);
    let refusal = dialer.tcp([silent].into()).await.unwrap_err();
    assert_eq!(refusal.cause(), Cause::Timeout);
    drop((fill, full));
}

#[test]
fn families_take_turns() {
    let ordered = interleave(addresses(&["9.9.9.9", "8.8.8.8", "2a00::1", "::ffff:7.7.7.7"]));
    assert_eq!(ordered, addresses(&["2a00::1", "9.9.9.9", "8.8.8.8", "7.7.7.7"]));
}
