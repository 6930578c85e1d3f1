//! Tunnels that the proxy does not open, and its responses.

use std::net::IpAddr;
use std::time::Duration;

use anabranch::proxy::server::{Access, Cause, Outcome, ProxyOptions, User, UserLimits, Users, hash_secret};
use data_encoding::BASE64;
use http::Request;
use tokio::net::TcpListener;

use super::support::{Plan, joined, proxy_status, tcp, udp, within};

/// An address of each kind that is not public.
const FORBIDDEN: [&str; 24] = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fd00:ec2::254",
    "fe80::1",
    "ff02::1",
    "2001:db8::1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::1",
];

#[tokio::test]
async fn addresses_that_are_not_public_are_out_of_reach() {
    let site = Plan::strict().serve();
    let connection = site.connect().await;
    let mut count = 0;
    for address in FORBIDDEN.map(|text| text.parse::<IpAddr>().unwrap()) {
        let mut forms = vec![std::net::SocketAddr::new(address, 80).to_string()];
        if let IpAddr::V4(v4) = address {
            forms.push(format!("[::ffff:{v4}]:80"));
            forms.push(format!("[64:ff9b::{v4}]:80"));
        }
        for form in forms {
            for tunnel in [tcp(&connection, &form, &[]).await, udp(&connection, &form, &[]).await] {
                assert_eq!(tunnel.response.status(), 502, "{form}");
                assert_eq!(proxy_status(tunnel.response.headers()), "destination_ip_prohibited", "{form}");
                count += 1;
            }
        }
    }
    let refused = Outcome::Refused(Cause::ForbiddenAddress);
    assert!(
        site.records(count).await.iter().all(|record| record.outcome == refused && record.address.is_none())
    );
}

#[tokio::test]
async fn names_that_point_to_such_addresses_are_out_of_reach() {
    let mut plan = Plan::strict();
    for (n, address) in FORBIDDEN.iter().enumerate() {
        plan.names.0.insert(format!("n{n}.example"), vec![address.parse().unwrap()]);
    }
    let mapped = ["::ffff:127.0.0.1", "::ffff:169.254.169.254"].map(|a| a.parse().unwrap()).to_vec();
    plan.names.0.insert("mapped.example".to_owned(), mapped);
    let site = plan.serve();
    let connection = site.connect().await;
    let names: Vec<_> = (0..FORBIDDEN.len()).map(|n| format!("n{n}.example:80")).collect();
    for name in names.iter().map(String::as_str).chain(["mapped.example:80"]) {
        for tunnel in [tcp(&connection, name, &[]).await, udp(&connection, name, &[]).await] {
            assert_eq!(proxy_status(tunnel.response.headers()), "destination_ip_prohibited", "{name}");
        }
    }
}

#[tokio::test]
async fn spellings_of_addresses_do_not_help() {
    // The system's resolver accepts such spellings; the addresses that it returns are checked like all
    // others.
    let users = Users::new().with_anyone(UserLimits::default());
    let proxy =
        anabranch::proxy::server::Proxy::new(ProxyOptions::default(), users, Access::default()).unwrap();
    for host in ["localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1."] {
        let request = Request::connect(format!("{host}:80")).body(()).unwrap();
        let asked = proxy.asked(&request.into_parts().0, None, ([192, 0, 2, 1], 1).into()).unwrap();
        let cause = proxy.open(asked).await.unwrap_err().cause();
        assert!([Cause::ForbiddenAddress, Cause::Resolution].contains(&cause), "{host}: {cause:?}");
    }
}

#[tokio::test]
async fn causes_are_told() {
    let mut plan = Plan::open();
    plan.access = plan.access.with_deny(["*:25".parse().unwrap(), ".bad.example".parse().unwrap()]);
    plan.options = plan.options.with_resolve_timeout(Duration::from_millis(200));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    plan.names.0.insert("empty.example".to_owned(), Vec::new());
    let site = plan.serve();
    let connection = site.connect().await;
    for (target, status, error) in [
        (closed.to_string().as_str(), 502, "connection_refused"),
        ("missing.example:80", 502, "dns_error"),
        ("empty.example:80", 502, "dns_error"),
        ("mail.example:25", 403, "http_request_denied"),
        ("www.bad.example:80", 403, "http_request_denied"),
    ] {
        let tunnel = tcp(&connection, target, &[]).await;
        assert_eq!(tunnel.response.status(), status, "{target}");
        assert_eq!(proxy_status(tunnel.response.headers()), error, "{target}");
    }
    let tunnel = udp(&connection, "a%20b:80", &[]).await;
    assert_eq!(tunnel.response.status(), 400);
    assert_eq!(proxy_status(tunnel.response.headers()), "http_request_error");
    // Other requests are passed to the service behind the proxy.
    let other = Request::get("https://localhost/").body(()).unwrap();
    let mut receive = within(connection.request_without_body(other)).await.unwrap();
    assert_eq!(within(receive.response()).await.unwrap().status(), 404);
}

#[tokio::test]
async fn users_show_their_secrets() {
    let mut users = Users::new();
    users.add(User::new("alice", &hash_secret(b"tea").unwrap()).unwrap()).unwrap();
    let site = Plan { users, ..Plan::open() }.serve();
    let connection = site.connect().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let basic = |text: &str| format!("Basic {}", BASE64.encode(text.as_bytes()));
    for (value, status) in [
        (None, 407),
        (Some(basic("alice:coffee")), 407),
        (Some(basic("bob:tea")), 407),
        (Some("Bearer alice.coffee".to_owned()), 407),
        (Some("Negotiate x".to_owned()), 407),
        (Some(basic("alice:tea")), 200),
        (Some("Bearer alice.tea".to_owned()), 200),
    ] {
        let fields: Vec<_> = value.iter().map(|value| ("proxy-authorization", value.as_str())).collect();
        let tunnel = tcp(&connection, &target, &fields).await;
        assert_eq!(tunnel.response.status(), status, "{value:?}");
        let challenges = tunnel.response.headers().get_all("proxy-authenticate").iter().count();
        assert_eq!(challenges, if status == 407 { 2 } else { 0 });
        // Some clients of CONNECT-UDP send `Authorization`, as to an origin server.
        let fields: Vec<_> = value.iter().map(|value| ("authorization", value.as_str())).collect();
        assert_eq!(udp(&connection, &target, &fields).await.response.status(), status, "{value:?}");
    }
    let records = site.records(14).await;
    let named = records.iter().filter(|record| record.user.as_deref() == Some("alice")).count();
    assert_eq!(named, 4, "only who has the secret is named");
}

#[tokio::test]
async fn an_open_proxy_knows_its_users() {
    let mut users = Users::new().with_anyone(UserLimits::default());
    let limits = UserLimits::default().with_max_flows(0);
    let alice = User::new("alice", &hash_secret(b"tea").unwrap()).unwrap().with_limits(limits);
    users.add(alice).unwrap();
    let site = Plan { users, ..Plan::open() }.serve();
    let connection = site.connect().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    for (value, status) in [(None, 200), (Some("Bearer alice.coffee"), 200), (Some("Bearer alice.tea"), 503)]
    {
        let fields: Vec<_> = value.iter().map(|value| ("proxy-authorization", *value)).collect();
        assert_eq!(tcp(&connection, &target, &fields).await.response.status(), status, "{value:?}");
    }
    let users: Vec<_> = site.records(3).await.into_iter().filter_map(|record| record.user).collect();
    assert_eq!(users.iter().filter(|user| *user == "alice").count(), 1, "{users:?}");
    assert_eq!(users.iter().filter(|user| *user == "*").count(), 2, "{users:?}");
}

#[tokio::test]
async fn users_that_are_taken_away_cannot_open_more() {
    let mut users = Users::new();
    users.add(User::new("alice", &hash_secret(b"tea").unwrap()).unwrap()).unwrap();
    let site = Plan { users, ..Plan::open() }.serve();
    let connection = site.connect().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let fields = [("proxy-authorization", "Bearer alice.tea")];
    let mut open = tcp(&connection, &target, &fields).await;
    assert_eq!(open.response.status(), 200);
    site.proxy.replace(Users::new(), Access::default());
    assert_eq!(tcp(&connection, &target, &fields).await.response.status(), 407);
    // The open tunnel goes on.
    let (accepted, _) = within(listener.accept()).await.unwrap();
    accepted.try_write(b"on").unwrap();
    assert_eq!(within(open.receive.read_chunk(10)).await.unwrap().unwrap(), "on");
}

#[tokio::test]
async fn limits_hold_and_places_are_given_back() {
    let mut plan = Plan::open();
    plan.users = Users::new().with_anyone(UserLimits::default().with_max_flows(2).with_max_connections(1));
    let site = plan.serve();
    let connection = site.connect().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let first = joined(&site, &connection).await;
    let other = site.connect().await;
    let refused = tcp(&other, &target, &[]).await;
    assert_eq!(
        (refused.response.status().as_u16(), proxy_status(refused.response.headers()).as_str()),
        (503, "connection_limit_reached")
    );
    let _second = joined(&site, &connection).await;
    assert_eq!(tcp(&connection, &target, &[]).await.response.status(), 503);
    drop(first);
    site.records(3).await;
    assert_eq!(tcp(&connection, &target, &[]).await.response.status(), 200);
}

#[tokio::test]
async fn times_longer_than_max_time_are_reduced() {
    let mut plan = Plan::open();
    let forever = Duration::MAX;
    plan.options =
        plan.options.with_resolve_timeout(forever).with_connect_timeout(forever).with_udp_idle(forever);
    plan.names.0.insert("here.example".to_owned(), vec![[127, 0, 0, 1].into()]);
    let site = plan.serve();
    let connection = site.connect().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("here.example:{}", listener.local_addr().unwrap().port());
    assert_eq!(tcp(&connection, &target, &[]).await.response.status(), 200);
    let mut flow = udp(&connection, &target, &[]).await;
    assert_eq!(flow.response.status(), 200);
    let ended = tokio::time::timeout(Duration::from_millis(100), flow.receive.read_chunk(10)).await;
    assert!(ended.is_err(), "the flow goes on");
}

#[tokio::test]
async fn the_proxy_has_a_limit_of_its_own() {
    let mut plan = Plan::open();
    plan.options = plan.options.with_max_flows(1);
    let site = plan.serve();
    let connection = site.connect().await;
    let _open = joined(&site, &connection).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = tcp(&connection, &listener.local_addr().unwrap().to_string(), &[]).await;
    assert_eq!(proxy_status(refused.response.headers()), "connection_limit_reached");
}
