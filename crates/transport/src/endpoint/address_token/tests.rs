use proptest::prelude::*;

use super::*;

const LIFETIMES: Lifetimes =
    Lifetimes { retry: Duration::from_secs(15), new: Duration::from_secs(1000), skew: Duration::ZERO };

fn key() -> TokenKey {
    TokenKey::new(&[7; 32], &[])
}

fn unused() -> Used {
    Used::new(Keyed::new([1; 16]))
}

fn cid(n: u8) -> ConnectionId {
    ConnectionId::new(&[n; 8]).unwrap()
}

fn client() -> SocketAddr {
    "[2001:db8::1]:5000".parse().unwrap()
}

fn at(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

fn retry_token() -> Vec<u8> {
    let token =
        AddressToken::Retry { issued: at(100), remote: client(), original_dcid: cid(1), retry_scid: cid(2) };
    key().seal(&token, [3; 16])
}

fn new_token(n: u64) -> Vec<u8> {
    let mut random = [0; 16];
    random[..8].copy_from_slice(&n.to_le_bytes());
    key().seal(&AddressToken::New { issued: at(100 + n), ip: client().ip() }, random)
}

fn check(token: &[u8], now: Time, remote: SocketAddr, dcid: ConnectionId) -> Proof {
    super::check(&key(), now, token, (remote, &dcid), LIFETIMES, |token, issued| {
        unused().first(token, issued)
    })
}

#[test]
fn tokens_come_back_as_they_were() {
    let longest = ConnectionId::new(&[9; 20]).unwrap();
    let tokens = [
        AddressToken::Retry { issued: at(5), remote: client(), original_dcid: longest, retry_scid: longest },
        AddressToken::Retry {
            issued: Time::ZERO,
            remote: "192.0.2.1:1".parse().unwrap(),
            original_dcid: cid(1),
            retry_scid: ConnectionId::EMPTY,
        },
        AddressToken::New { issued: at(5), ip: "192.0.2.1".parse().unwrap() },
    ];
    for token in tokens {
        let sealed = key().seal(&token, [4; 16]);
        assert!(sealed.len() <= MAX_TOKEN_LEN);
        assert_eq!(key().open(&sealed), Some((token, Fingerprint([4; 16]))));
    }
}

#[test]
fn a_retry_token_proves_where_the_first_initial_went() {
    for seconds in [100, 115] {
        assert_eq!(check(&retry_token(), at(seconds), client(), cid(2)), Proof::Retried(cid(1)));
    }
}

#[test]
fn the_ipv4_mapped_form_of_an_address_is_the_address() {
    let [plain, mapped] = ["192.0.2.1:1", "[::ffff:192.0.2.1]:1"].map(|a| a.parse::<SocketAddr>().unwrap());
    for (from, to) in [(plain, mapped), (mapped, plain)] {
        let token = AddressToken::New { issued: at(1), ip: from.ip() };
        assert_eq!(check(&key().seal(&token, [0; 16]), at(2), to, cid(2)), Proof::Address);
    }
}

/// Row 19 of the attack table: invalid tokens of our own Retry packets.
#[test]
fn row_19_wrong_retry_tokens_are_told_from_foreign_ones() {
    let token = retry_token();
    let other_ip = "[2001:db8::2]:5000".parse().unwrap();
    let other_port = "[2001:db8::1]:5001".parse().unwrap();
    assert_eq!(check(&token, at(116), client(), cid(2)), Proof::Wrong, "expired");
    assert_eq!(check(&token, at(99), client(), cid(2)), Proof::Wrong, "from the future");
    assert_eq!(check(&token, at(100), other_ip, cid(2)), Proof::Wrong);
    assert_eq!(check(&token, at(100), other_port, cid(2)), Proof::Wrong);
    assert_eq!(check(&token, at(100), client(), cid(3)), Proof::Wrong, "another connection's");
}

/// Row 19: NEW_TOKEN tokens that are expired, not issued yet, or issued to another IP address.
#[test]
fn row_19_new_tokens_that_do_not_count_are_ignored() {
    let token = new_token(0);
    let other_ip = "[2001:db8::2]:5000".parse().unwrap();
    let other_port = "[2001:db8::1]:5001".parse().unwrap();
    assert_eq!(check(&token, at(100), client(), cid(9)), Proof::Address);
    assert_eq!(check(&token, at(1100), other_port, cid(9)), Proof::Address);
    assert_eq!(check(&token, at(1101), client(), cid(9)), Proof::Nothing, "expired");
    assert_eq!(check(&token, at(99), client(), cid(9)), Proof::Nothing, "from the future");
    assert_eq!(check(&token, at(100), other_ip, cid(9)), Proof::Nothing);
}

/// Row 19: changing any bit of a token, or the key, invalidates it.
#[test]
fn row_19_changed_and_foreign_tokens_are_ignored() {
    for token in [retry_token(), new_token(0)] {
        for bit in 0..8 * token.len() {
            let mut changed = token.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&changed, at(100), client(), cid(2)), Proof::Nothing, "bit {bit}");
        }
        for len in 0..token.len() {
            assert_eq!(key().open(&token[..len]), None);
        }
        assert_eq!(TokenKey::new(&[8; 32], &[]).open(&token), None);
        let mut oversized = token;
        oversized.resize(MAX_TOKEN_LEN + 1, 0);
        assert_eq!(key().open(&oversized), None);
    }
}

/// Row 19: a token above [`MAX_TOKEN_LEN`] is not opened, not even one that was sealed with this key.
#[test]
fn row_19_long_tokens_are_not_read() {
    let token = AddressToken::New { issued: at(100), ip: client().ip() };
    let sealed = |len: usize| {
        let random = [5; RANDOM_LEN];
        let (sealing, nonce) = derive(&key().sealing, &random);
        let mut statement = token.encode();
        // Bytes after a statement are not read.
        statement.resize(len - RANDOM_LEN - 16, 0);
        sealing.seal_in_place_append_tag(nonce, Aad::empty(), &mut statement).unwrap();
        [&random[..], &statement].concat()
    };
    assert!(key().open(&sealed(MAX_TOKEN_LEN)).is_some());
    assert_eq!(key().open(&sealed(MAX_TOKEN_LEN + 1)), None);
}

#[test]
fn a_new_token_counts_once() {
    let mut used = unused();
    for n in 0..3 {
        let mut check = || {
            let use_up = |token, issued| used.first(token, issued);
            super::check(&key(), at(200), &new_token(n), (client(), &cid(9)), LIFETIMES, use_up)
        };
        assert_eq!(check(), Proof::Address);
        assert_eq!(check(), Proof::Nothing);
    }
}

#[test]
fn used_tokens_are_bounded_and_what_was_forgotten_never_counts_again() {
    let mut used = Used::new(Keyed::new([1; 16]));
    let token = |n: u64| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        (Fingerprint(bytes), Time::from_millis(n))
    };
    let total = 4 * MAX_USED_TOKENS as u64;
    for n in 0..total {
        let (fingerprint, issued) = token(n);
        assert!(used.first(fingerprint, issued));
        assert!(used.young.tokens.len() + used.old.tokens.len() <= 2 * MAX_USED_TOKENS);
    }
    assert!(used.forgotten.is_some());
    for n in 0..total {
        let (fingerprint, issued) = token(n);
        assert!(!used.first(fingerprint, issued), "token {n} twice");
    }
}

proptest! {
    /// Row 19: arbitrary bytes are not a valid token.
    #[test]
    fn row_19_arbitrary_bytes(token in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(check(&token, at(100), client(), cid(2)), Proof::Nothing);
        let _ = AddressToken::decode(&token);
    }
}

/// Tokens are in the clear in Initial packets. An observer learns neither what they say nor what two of them
/// have in common.
#[test]
fn tokens_show_nothing_of_what_they_say() {
    let issued = at(0x0102_0304);
    let remote: SocketAddr = "203.0.113.77:50123".parse().unwrap();
    let dcid = ConnectionId::new(&[0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8]).unwrap();
    let retry_scid = ConnectionId::new(&[0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8]).unwrap();
    let statements = [
        AddressToken::Retry { issued, remote, original_dcid: dcid, retry_scid },
        AddressToken::New { issued, ip: remote.ip() },
    ];
    for statement in statements {
        let said = statement.encode();
        let sealed: Vec<Vec<u8>> = (0..50u8).map(|n| key().seal(&statement, [n; 16])).collect();
        for token in &sealed {
            let sealed = &token[RANDOM_LEN..];
            let shown = |part: &[u8]| sealed.windows(part.len()).any(|window| window == part);
            assert!(!said.windows(4).any(shown), "four bytes of the statement");
        }
        for (n, token) in sealed.iter().enumerate() {
            for other in &sealed[..n] {
                let (token, other) = (&token[RANDOM_LEN..], &other[RANDOM_LEN..]);
                assert!(!token.windows(4).zip(other.windows(4)).any(|(one, other)| one == other));
            }
        }
    }
}
