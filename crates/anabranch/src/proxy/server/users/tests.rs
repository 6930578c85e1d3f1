use std::net::IpAddr;
use std::time::Duration;

use argon2::Params;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::failures::{Failures, MAX_NETWORKS, MAX_WRONG};
use super::*;
use crate::proxy::server::refusal::Cause;
use crate::proxy::server::target::Carried;

/// Hashes with the least work that argon2 allows.
fn quick(secret: &str) -> String {
    let params = Params::new(Params::MIN_M_COST, 1, 1, None).unwrap();
    let argon2 = Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    argon2.hash_password(secret.as_bytes(), &SaltString::generate(&mut OsRng)).unwrap().to_string()
}

fn users(names: &[(&str, &str)]) -> Users {
    let mut users = Users::new();
    for (name, secret) in names {
        users.add(User::new(name, &quick(secret)).unwrap()).unwrap();
    }
    users
}

async fn verify(verifier: &Verifier, users: &Users, token: &str, client: &str) -> Result<String, Cause> {
    let mut fields = HeaderMap::new();
    fields.insert(PROXY_AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
    let verified = verifier.verify(users, &fields, Carried::Tcp, client.parse().unwrap()).await;
    verified.map(|user| user.name().to_owned()).map_err(|refusal| refusal.cause())
}

#[tokio::test]
async fn users_without_a_secret_have_none_that_is_right() {
    let mut users = users(&[("alice", "tea")]);
    users.add(User::without_secret("bob").unwrap()).unwrap();
    assert!(User::without_secret("a.b").is_err());
    let verifier = Verifier::new().unwrap();
    for token in ["bob.", "bob.tea", "bob.x"] {
        assert_eq!(
            verify(&verifier, &users, token, "192.0.2.1").await,
            Err(Cause::Unauthenticated),
            "{token}"
        );
    }
    assert_eq!(verify(&verifier, &users, "alice.tea", "192.0.2.1").await, Ok("alice".to_owned()));
}

#[test]
fn users_have_names_and_hashes() {
    let hash = hash_secret(b"tea").unwrap();
    assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
    assert!(User::new("alice_-1", &hash).is_ok());
    for bad in ["", "a.b", "a:b", "ä", "a b", &"a".repeat(MAX_NAME + 1)] {
        assert_eq!(User::new(bad, &hash).unwrap_err(), UserError::Name(bad.to_owned()));
    }
    for bad in ["", "tea", "$2b$12$abc", "$argon2id$v=19$m=1,t=1,p=1$c2FsdHNhbHQ$aGFzaA"] {
        assert_eq!(User::new("a", bad).unwrap_err(), UserError::Hash("a".to_owned()), "{bad}");
    }
    assert_eq!(hash_secret(b"").unwrap_err(), UserError::Secret);
    assert_eq!(hash_secret(&[0; MAX_SECRET + 1]).unwrap_err(), UserError::Secret);
    let mut users = users(&[("alice", "tea")]);
    assert_eq!(users.add(User::new("alice", &hash).unwrap()), Err(UserError::Twice("alice".to_owned())));
    let shown = format!("{users:?}");
    assert!(shown.contains("alice") && !shown.contains("argon2"), "{shown}");
}

#[tokio::test]
async fn secrets_are_remembered_until_the_hash_changes() {
    let verifier = Verifier::new().unwrap();
    let before = users(&[("alice", "tea"), ("bob", "milk")]);
    assert_eq!(verify(&verifier, &before, "alice.tea", "192.0.2.1").await, Ok("alice".to_owned()));
    assert_eq!(verify(&verifier, &before, "alice.tea", "192.0.2.1").await, Ok("alice".to_owned()));
    for wrong in ["alice.milk", "bob.tea", "carol.tea", "alice.", "alice", ".tea"] {
        let refused = verify(&verifier, &before, wrong, "192.0.2.2").await;
        assert_eq!(refused, Err(Cause::Unauthenticated), "{wrong}");
    }
    let after = users(&[("alice", "coffee")]);
    assert_eq!(verify(&verifier, &after, "alice.tea", "192.0.2.1").await, Err(Cause::Unauthenticated));
    assert_eq!(verify(&verifier, &after, "bob.milk", "192.0.2.1").await, Err(Cause::Unauthenticated));
}

#[tokio::test]
async fn networks_that_guess_are_slowed_down_alone() {
    let verifier = Verifier::new().unwrap();
    let users = users(&[("alice", "tea")]);
    for _ in 0..MAX_WRONG {
        assert_eq!(verify(&verifier, &users, "alice.no", "2001:db8::1").await, Err(Cause::Unauthenticated));
    }
    // Another address of the same network is refused, even with the right secret.
    assert_eq!(verify(&verifier, &users, "alice.tea", "2001:db8::2").await, Err(Cause::TooManySecrets));
    assert_eq!(verify(&verifier, &users, "alice.tea", "2001:db8:0:1::1").await, Ok("alice".to_owned()));
    // A remembered secret is not hashed again, so the network may use it.
    assert_eq!(verify(&verifier, &users, "alice.tea", "2001:db8::2").await, Ok("alice".to_owned()));
}

#[tokio::test]
async fn a_request_that_is_cancelled_is_no_wrong_secret() {
    let verifier = Verifier::new().unwrap();
    let secrets: Vec<_> = (0..2 * MAX_WRONG).map(|n| (format!("u{n}"), format!("u{n}.tea"))).collect();
    let users = users(&secrets.iter().map(|(name, _)| (name.as_str(), "tea")).collect::<Vec<_>>());
    for (_, token) in &secrets {
        let verifying = std::pin::pin!(verify(&verifier, &users, token, "192.0.2.1"));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        // The thread may have finished already. Otherwise the request is cancelled at the end of this block.
        let _ = verifying.poll(&mut cx);
        verifier.hashed().await;
    }
    assert_eq!(verify(&verifier, &users, "u0.no", "192.0.2.1").await, Err(Cause::Unauthenticated));
    assert_eq!(verify(&verifier, &users, "u1.tea", "192.0.2.1").await, Ok("u1".to_owned()));
}

#[test]
fn wrong_secrets_are_pardoned_in_time_and_counted_in_bounded_memory() {
    let mut failures = Failures::default();
    let now = Instant::now();
    let client = |n: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(n));
    for _ in 0..MAX_WRONG {
        assert!(failures.begin(client(1), now));
    }
    assert!(!failures.begin(client(1), now));
    let later = now + Duration::from_secs(7);
    assert!(failures.begin(client(1), later));
    assert!(!failures.begin(client(1), later));
    assert!(failures.begin(client(1), later + Duration::from_secs(600)));
    for n in 0..2 * MAX_NETWORKS as u32 {
        assert!(failures.begin(client(n + 10), later));
        assert!(failures.len() <= MAX_NETWORKS);
    }
    failures.succeed(client(2 * MAX_NETWORKS as u32 + 9));
    assert_eq!(failures.len(), MAX_NETWORKS - 1);
}
