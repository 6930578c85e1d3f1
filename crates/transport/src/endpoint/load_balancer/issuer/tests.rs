use std::collections::HashSet;

use super::super::ServerId;
use super::*;

const LEN: usize = 8;

fn config(config_id: u8, nonce_len: usize) -> LoadBalancing {
    LoadBalancing::new(config_id, ServerId::new(&[0x17]).unwrap(), nonce_len)
}

fn issuers(config: LoadBalancing) -> Issuers {
    let mut issuers = Issuers::default();
    issuers.set(config, &mut Random::new([3; 32]));
    issuers
}

fn current(issuers: &Issuers) -> &Issuer {
    issuers.current().unwrap()
}

#[test]
fn connection_ids_name_server_configuration_and_worker() {
    for config in [config(3, 6), config(3, 6).with_key([9; 16]), config(3, 4).with_key([9; 16])] {
        let (issuers, mut random) = (issuers(config), Random::new([1; 32]));
        for worker in Worker::all(4) {
            for _ in 0..200 {
                let cid = current(&issuers).cid(worker, &mut random, LEN);
                assert_eq!((cid.len(), cid[0] >> 5), (LEN, 3));
                assert_eq!(current(&issuers).codec.server_id(&cid).as_deref(), Some(&[0x17][..]));
                assert_eq!(worker.other_owner(&cid), None);
            }
        }
    }
}

#[test]
fn the_first_byte_is_random_or_has_the_length() {
    let (encoding, random) = (issuers(config(1, 6).with_encoded_length(true)), issuers(config(1, 6)));
    let mut seed = Random::new([1; 32]);
    let mut firsts = |issuers: &Issuers, len| {
        (0..300).map(|_| current(issuers).cid(Worker::ALONE, &mut seed, len)[0]).collect::<HashSet<u8>>()
    };
    assert_eq!(firsts(&encoding, 8), HashSet::from([0x27]));
    assert_eq!(firsts(&encoding, 20), HashSet::from([0x33]));
    assert_eq!(firsts(&random, 8).len(), 32);
}

#[test]
fn nonces_count_from_a_random_one_and_do_not_repeat() {
    let (issuers, mut random) = (issuers(config(0, 4).with_key([9; 16])), Random::new([1; 32]));
    let mut nonce = |worker| {
        let cid = current(&issuers).cid(worker, &mut random, LEN);
        let block = current(&issuers).codec.block(&cid).unwrap();
        u32::from_be_bytes(block[1..].try_into().unwrap())
    };
    let first = nonce(Worker::ALONE);
    assert_ne!(first, 0);
    // All workers draw from the same numbers.
    let workers: Vec<_> = Worker::all(4).collect();
    for (step, worker) in (1..100).zip(workers.iter().cycle()) {
        assert_eq!(nonce(*worker), first.wrapping_add(step));
    }
}

/// Without a key, nonces are different, too, and neighbours have nothing in common.
#[test]
fn plain_nonces_look_unrelated() {
    let (issuers, mut random) = (issuers(config(0, 4)), Random::new([1; 32]));
    let mut seen = HashSet::new();
    let mut before = 0_u32;
    let mut changed = 0;
    for _ in 0..100_000 {
        let cid = current(&issuers).cid(Worker::ALONE, &mut random, 6);
        let nonce = u32::from_be_bytes(cid[2..6].try_into().unwrap());
        assert!(seen.insert(nonce), "random nonces of 4 bytes would repeat after 65,000 on average");
        changed += (nonce ^ before).count_ones();
        before = nonce;
    }
    assert!((1_590_000..1_610_000).contains(&changed), "half of 32 bits change: {changed}");
}

#[test]
fn without_nonces_connection_ids_name_no_server() {
    let (issuers, mut random) = (issuers(config(0, 4).with_key([9; 16])), Random::new([1; 32]));
    current(&issuers).nonces.used.store(u64::from(u32::MAX), Ordering::Relaxed);
    assert_eq!(issuers.remaining(), Some(1));
    assert_eq!(current(&issuers).cid(Worker::ALONE, &mut random, LEN)[0] >> 5, 0);
    assert_eq!(issuers.remaining(), Some(0));
    let mut seen = HashSet::new();
    for _ in 0..100 {
        // They contain their length, and are random otherwise.
        let cid = current(&issuers).cid(Worker::ALONE, &mut random, LEN);
        assert_eq!((cid[0], cid.len()), (0xe7, LEN));
        assert!(seen.insert(cid));
    }
    // Several workers need the bits of the length.
    let second = Worker::all(4).nth(1).unwrap();
    let cid = current(&issuers).cid(second, &mut random, LEN);
    assert_eq!((cid[0] >> 5, second.other_owner(&cid)), (7, None));
    assert_eq!(issuers.remaining(), Some(0));
}

#[test]
fn long_nonces_do_not_run_out() {
    for len in [8, 9, 18] {
        let issuers = issuers(config(0, len).with_key([9; 16]));
        assert_eq!(issuers.remaining(), Some(u64::MAX));
        let nonces = &current(&issuers).nonces;
        let (first, second) = (nonces.next().unwrap(), nonces.next().unwrap());
        assert_eq!(first[..len - 8], second[..len - 8]);
        let number = |nonce: [u8; MAX_BLOCK_LEN]| u64::from_be_bytes(nonce[len - 8..len].try_into().unwrap());
        assert_eq!(number(second), number(first).wrapping_add(1));
    }
}

/// With the same key, another number or a return to an earlier configuration does not make nonces repeat.
#[test]
fn nonces_go_on_as_long_as_the_key_is_the_same() {
    let mut issuers = issuers(config(0, 4).with_key([9; 16]));
    let mut random = Random::new([8; 32]);
    let used = |issuers: &Issuers| current(issuers).nonces.used.load(Ordering::Relaxed);
    current(&issuers).cid(Worker::ALONE, &mut random, LEN);
    for (next, expected) in [
        (config(0, 4).with_key([9; 16]), 1),
        (config(1, 4).with_key([9; 16]), 1),
        (config(2, 4).with_key([8; 16]), 0),
        (config(2, 5).with_key([9; 16]), 0),
        (config(0, 4).with_key([9; 16]), 1),
    ] {
        issuers.set(next, &mut random);
        assert_eq!(used(&issuers), expected);
    }
    assert!(issuers.earlier.len() <= 7);
    // Neither do they after others have had the number several times.
    for key in [[7; 16], [6; 16]] {
        issuers.set(config(0, 4).with_key(key), &mut random);
        assert_eq!(used(&issuers), 0);
    }
    issuers.set(config(0, 4).with_key([9; 16]), &mut random);
    assert_eq!(used(&issuers), 1);
}

/// Anybody can ask for Retries, which must not use nonces up.
#[test]
fn retries_take_no_nonces() {
    let (issuers, mut random) = (issuers(config(0, 4).with_key([9; 16])), Random::new([1; 32]));
    let mut seen = HashSet::new();
    for _ in 0..100 {
        let cid = current(&issuers).retry_cid(Worker::ALONE, &mut random, LEN);
        assert_eq!(current(&issuers).codec.server_id(&cid).as_deref(), Some(&[0x17][..]));
        assert!(seen.insert(cid));
    }
    assert_eq!(issuers.remaining(), Some(1 << 32));
}

/// A number that a new configuration has is decoded with that one alone, or connection IDs of other servers would look like own ones.
#[test]
fn a_number_that_is_used_again_is_decoded_with_its_new_key() {
    let mut issuers = issuers(config(0, 4).with_key([9; 16]));
    let mut random = Random::new([8; 32]);
    let old = current(&issuers).cid(Worker::ALONE, &mut random, LEN);
    issuers.set(config(1, 4).with_key([9; 16]), &mut random);
    assert!(issuers.may_reset(&old));
    issuers.set(config(0, 4).with_key([7; 16]), &mut random);
    assert!(issuers.earlier.iter().all(|issuer| issuer.codec.config_id() == 1));
    // So it is if the number stays and the key changes.
    issuers.set(config(0, 4).with_key([6; 16]), &mut random);
    let ids: Vec<_> = issuers.earlier.iter().map(|issuer| issuer.codec.config_id()).collect();
    assert_eq!(ids, [1]);
}

#[test]
fn only_connection_ids_of_this_server_are_reset() {
    let other = LoadBalancing::new(0, ServerId::new(&[0x18]).unwrap(), 4).with_key([9; 16]);
    let (own, other) = (issuers(config(0, 4).with_key([9; 16])), issuers(other));
    let mut random = Random::new([1; 32]);
    let mut cid = |issuers: &Issuers| current(issuers).cid(Worker::ALONE, &mut random, LEN);
    let (of_own, of_other) = (cid(&own), cid(&other));
    assert!(own.may_reset(&of_own) && other.may_reset(&of_other));
    assert!(!own.may_reset(&of_other) && !other.may_reset(&of_own));
    assert!(!own.may_reset(&[0xe7; LEN]), "it names no server");
    assert!(!own.may_reset(&[]));
    assert!(Issuers::default().may_reset(&of_own), "there are no other servers");
    // Connection IDs of earlier configurations are still this server's.
    let mut changed = own;
    changed.set(config(1, 5), &mut random);
    assert!(changed.may_reset(&of_own) && !changed.may_reset(&of_other));
    changed.set(config(1, 5).with_resets_for_others(true), &mut random);
    assert!(changed.may_reset(&of_other));
}
