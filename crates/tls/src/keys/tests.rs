//! Test vectors of RFC 9001 appendix A and RFC 9369 appendix A.

use anabranch_wire::{ConnectionId, Format, PathId, Side, Version};

use super::{DirectionKeys, Secrets, initial_keys, initial_secrets};
use crate::hex::{hex, hex_array};
use crate::hkdf::Secret;
use crate::{EarlySecret, HeaderKey, PacketKey, Suite, TAG_LEN, retry_tag};

/// CRYPTO frame of the client's Initial packet, which is the same in both RFCs.
const CLIENT_CRYPTO: &str = "
    060040f1010000ed0303ebf8fa56f129 39b9584a3896472ec40bb863cfd3e868 04fe3a47f06a2b69484c000004130113
    02010000c000000010000e00000b6578 616d706c652e636f6dff01000100000a 00080006001d00170018001000070005
    04616c706e0005000501000000000033 00260024001d00209370b2c9caa47fba baf4559fedba753de171fa71f50f1ce1
    5d43e994ec74d748002b000302030400 0d0010000e0403050306030203080408 050806002d00020101001c0002400100
    3900320408ffffffffffffffff050480 00ffff07048000ffff08011001048000 75300901100f088394c8f03e51570806
    048000ffff";
const CLIENT_PAYLOAD_LEN: usize = 1162;
const SERVER_PAYLOAD: &str = "
    02000000000600405a020000560303ee fce7f7b37ba1d1632e96677825ddf739 88cfc79825df566dc5430b9a045a1200
    130100002e00330024001d00209d3c94 0d89690b84d08a60993c144eca684d10 81287c834d5311bcf32bb9da1a002b00
    020304";
const CHACHA_SECRET: &str = "9ac312a7f877468ebe69422748ad00a1 5443f18203a07d6060f688f30f21632b";
const CHACHA_PN: u64 = 654_360_564;

/// Test vectors of one version.
struct Vectors {
    version: Version,
    /// Secret, key, IV and header protection key.
    client: [&'static str; 4],
    server: [&'static str; 4],
    client_header: &'static str,
    client_masked: &'static str,
    client_sample: &'static str,
    /// Tag of the client's packet. It covers header and payload, so the test need not contain all 1200 bytes.
    client_tag: &'static str,
    server_header: &'static str,
    server_packet: &'static str,
    retry: &'static str,
    /// Key, IV, header protection key, next secret and packet.
    chacha: [&'static str; 5],
}

const V1: Vectors = Vectors {
    version: Version::V1,
    client: [
        "c00cf151ca5be075ed0ebfb5c80323c4 2d6b7db67881289af4008f1f6c357aea",
        "1f369613dd76d5467730efcbe3b1a22d",
        "fa044b2f42a3fd3b46fb255c",
        "9f50449e04a0e810283a1e9933adedd2",
    ],
    server: [
        "3c199828fd139efd216c155ad844cc81 fb82fa8d7446fa7d78be803acdda951b",
        "cf3a5331653c364c88f0f379b6067e37",
        "0ac1493ca1905853b0bba03e",
        "c206b8d9b9f0f37644430b490eeaa314",
    ],
    client_header: "c300000001088394c8f03e5157080000449e00000002",
    client_masked: "c000000001088394c8f03e5157080000449e7b9aec34",
    client_sample: "d1b1c98dd7689fb8ec11d242b123dc9b",
    client_tag: "e221af44860018ab0856972e194cd934",
    server_header: "c1000000010008f067a5502a4262b50040750001",
    server_packet: "
        cf000000010008f067a5502a4262b500 4075c0d95a482cd0991cd25b0aac406a 5816b6394100f37a1c69797554780bb3
        8cc5a99f5ede4cf73c3ec2493a1839b3 dbcba3f6ea46c5b7684df3548e7ddeb9 c3bf9c73cc3f3bded74b562bfb19fb84
        022f8ef4cdd93795d77d06edbb7aaf2f 58891850abbdca3d20398c276456cbc4 2158407dd074ee",
    retry: "ff000000010008f067a5502a4262b574 6f6b656e04a265ba2eff4d829058fb3f 0f2496ba",
    chacha: [
        "c6d98ff3441c3fe1b2182094f69caa2e d4b716b65488960a7a984979fb23e1c8",
        "e0459b3474bdd0e44a41c144",
        "25a282b9e82f06f21f488917a4fc8f1b 73573685608597d0efcb076b0ab7a7a4",
        "1223504755036d556342ee9361d25342 1a826c9ecdf3c7148684b36b714881f9",
        "4cfe4189655e5cd55c41f69080575d79 99c25a5bfb",
    ],
};

const V2: Vectors = Vectors {
    version: Version::V2,
    client: [
        "14ec9d6eb9fd7af83bf5a668bc17a7e2 83766aade7ecd0891f70f9ff7f4bf47b",
        "8b1a0bc121284290a29e0971b5cd045d",
        "91f73e2351d8fa91660e909f",
        "45b95e15235d6f45a6b19cbcb0294ba9",
    ],
    server: [
        "0263db1782731bf4588e7e4d93b74639 07cb8cd8200b5da55a8bd488eafc37c1",
        "82db637861d55e1d011f19ea71d5d2a7",
        "dd13c276499c0249d3310652",
        "edf6d05c83121201b436e16877593c3a",
    ],
    client_header: "d36b3343cf088394c8f03e5157080000449e00000002",
    client_masked: "d76b3343cf088394c8f03e5157080000449ea0c95e82",
    client_sample: "ffe67b6abcdb4298b485dd04de806071",
    client_tag: "a18b2faa745b6fe189cf772a9f84cbfc",
    server_header: "d16b3343cf0008f067a5502a4262b50040750001",
    server_packet: "
        dc6b3343cf0008f067a5502a4262b500 4075d92faaf16f05d8a4398c47089698 baeea26b91eb761d9b89237bbf872630
        17915358230035f7fd3945d88965cf17 f9af6e16886c61bfc703106fbaf3cb4c fa52382dd16a393e42757507698075b2
        c984c707f0a0812d8cd5a6881eaf21ce da98f4bd23f6fe1a3e2c43edd9ce7ca8 4bed8521e2e140",
    retry: "cf6b3343cf0008f067a5502a4262b574 6f6b656ec8646ce8bfe33952d9555436 65dcc7b6",
    chacha: [
        "3bfcddd72bcf02541d7fa0dd1f5f9eee a817e09a6963a0e6c7df0f9a1bab90f2",
        "a6b5bc6ab7dafce30ffff5dd",
        "d659760d2ba434a226fd37b35c69e2da 8211d10c4f12538787d65645d5d1b8e2",
        "c69374c49e3d2a9466fa689e49d476db 5d0dfbc87d32ceeaa6343fd0ae4c7d88",
        "5558b1c60ae7b6b932bc27d786f4bc2b b20f2162ba",
    ],
};

impl Vectors {
    fn format(&self) -> &'static Format {
        self.version.format().expect("a version that is spoken")
    }
}

fn dcid() -> ConnectionId {
    ConnectionId::new(&hex("8394c8f03e515708")).unwrap()
}

fn chacha_secret() -> Secret {
    Secret::new(&hex(CHACHA_SECRET)).unwrap()
}

/// Seals a packet and protects its header. The first byte contains the length of the packet number.
fn protect(keys: &DirectionKeys, pn: u64, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = [header, payload, &[0; TAG_LEN]].concat();
    keys.packet.seal(PathId::ZERO, pn, header.len(), &mut packet);
    let pn_len = usize::from(header[0] & 3) + 1;
    let pn_offset = header.len() - pn_len;
    let mask = keys.header.mask(packet[pn_offset + 4..][..16].try_into().unwrap());
    packet[0] ^= mask[0] & if header[0] & 0x80 == 0 { 0x1f } else { 0x0f };
    for (byte, mask) in packet[pn_offset..header.len()].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
    packet
}

#[test]
fn initial_secrets_and_their_keys() {
    for vectors in [V1, V2] {
        let (client, server) = initial_secrets(vectors.format(), &dcid());
        for (secret, [expected, key, iv, hp]) in [(client, vectors.client), (server, vectors.server)] {
            assert_eq!(secret.as_bytes(), hex(expected));
            let labels = &vectors.format().labels;
            for (label, expected) in [(labels.key, key), (labels.iv, iv), (labels.hp, hp)] {
                let mut out = vec![0; hex(expected).len()];
                secret.expand_label(Suite::Aes128Gcm, label, &mut out);
                assert_eq!(out, hex(expected), "{label}");
            }
        }
    }
}

#[test]
fn client_initial_packet() {
    for vectors in [V1, V2] {
        let keys = initial_keys(vectors.format(), &dcid(), Side::Client);
        let mut payload = hex(CLIENT_CRYPTO);
        payload.resize(CLIENT_PAYLOAD_LEN, 0);
        let packet = protect(&keys.local, 2, &hex(vectors.client_header), &payload);
        assert_eq!(packet.len(), 1200);
        let masked = hex(vectors.client_masked);
        assert_eq!(packet[..masked.len()], masked);
        assert_eq!(packet[masked.len()..][..16], hex(vectors.client_sample));
        assert_eq!(packet[packet.len() - TAG_LEN..], hex(vectors.client_tag));
    }
}

#[test]
fn server_initial_packet_both_ways() {
    for vectors in [V1, V2] {
        let header = hex(vectors.server_header);
        let server = initial_keys(vectors.format(), &dcid(), Side::Server);
        let mut packet = protect(&server.local, 1, &header, &hex(SERVER_PAYLOAD));
        assert_eq!(packet, hex(vectors.server_packet));

        let client = initial_keys(vectors.format(), &dcid(), Side::Client);
        packet[..header.len()].copy_from_slice(&header);
        let len = client.remote.packet.open(PathId::ZERO, 1, header.len(), &mut packet).unwrap();
        assert_eq!(packet[header.len()..][..len], hex(SERVER_PAYLOAD));
    }
}

#[test]
fn retry_integrity_tag() {
    for vectors in [V1, V2] {
        let retry = hex(vectors.retry);
        let (body, tag) = retry.split_at(retry.len() - TAG_LEN);
        assert_eq!(retry_tag(vectors.format(), &dcid(), body), tag);
        let other = ConnectionId::new(&[1]).unwrap();
        assert_ne!(retry_tag(vectors.format(), &other, body), tag, "bound to the first connection ID");
    }
}

#[test]
fn chacha20_short_header_packet() {
    for vectors in [V1, V2] {
        let [key, iv, hp, ku, packet] = vectors.chacha;
        let labels = &vectors.format().labels;
        for (label, expected) in [(labels.key, key), (labels.iv, iv), (labels.hp, hp), (labels.ku, ku)] {
            let mut out = vec![0; hex(expected).len()];
            chacha_secret().expand_label(Suite::ChaCha20Poly1305, label, &mut out);
            assert_eq!(out, hex(expected), "{label}");
        }
        let secret = EarlySecret { suite: Suite::ChaCha20Poly1305, secret: chacha_secret() };
        let keys = secret.keys(vectors.format());
        assert_eq!(protect(&keys, CHACHA_PN, &hex("4200bff4"), &[1]), hex(packet));
    }
}

#[test]
fn key_update_moves_both_secrets_and_keeps_header_keys() {
    let format = V1.format();
    let mut secrets = Secrets {
        suite: Suite::ChaCha20Poly1305,
        local: chacha_secret(),
        remote: Secret::new(&[7; 32]).unwrap(),
    };
    let before = secrets.keys(format);
    let local = secrets.next_local(format).key();
    assert_eq!(secrets.remote.as_bytes(), [7; 32], "the other secret");
    let remote = secrets.next_remote(format).key();
    assert_eq!(secrets.local.as_bytes(), hex(V1.chacha[3]), "quic ku");

    // The updated keys equal those derived from the updated secrets, and differ from the old keys.
    let after = secrets.keys(format);
    for (updated, now, old) in
        [(&local, &after.local, &before.local), (&remote, &after.remote, &before.remote)]
    {
        let mut packet = [0; 40];
        updated.seal(PathId::ZERO, 9, 4, &mut packet);
        assert!(now.packet.open(PathId::ZERO, 9, 4, &mut packet.clone()).is_ok());
        assert!(old.packet.open(PathId::ZERO, 9, 4, &mut packet).is_err());
    }
}

#[test]
fn header_keys_of_every_suite_differ_by_secret_and_fill_sixteen_bytes() {
    for suite in [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
        let masks = [[1; 48], [2; 48]]
            .map(|secret| HeaderKey::derive(suite, &Secret::new(&secret).unwrap(), "quic hp").mask(&[3; 16]));
        assert_ne!(masks[0], masks[1], "{suite:?}");
        assert!(masks.iter().all(|mask| mask[5..].iter().any(|&byte| byte != 0)), "{suite:?}");
    }
    // RFC 9001 appendix A.2 and A.3
    let keys = initial_keys(V1.format(), &dcid(), Side::Client);
    assert_eq!(keys.local.header.mask(&hex_array(V1.client_sample))[..5], hex("437b9aec36"));
    assert_eq!(
        keys.remote.header.mask(&hex_array("2cd0991cd25b0aac406a5816b6394100"))[..5],
        hex("2ec0d8356a")
    );
}

#[test]
fn masks_of_a_batch_are_those_of_its_packets() {
    for suite in [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
        let key = HeaderKey::derive(suite, &Secret::new(&[1; 32]).unwrap(), "quic hp");
        let samples: Vec<[u8; 16]> = (0..40).map(|i| [i; 16]).collect();
        let mut masks = samples.clone();
        key.masks(&mut masks);
        assert!(masks.iter().zip(&samples).all(|(mask, sample)| *mask == key.mask(sample)), "{suite:?}");
        key.masks(&mut []);
    }
}

#[test]
fn nothing_secret_is_printed() {
    let secrets = Secrets { suite: Suite::Aes128Gcm, local: chacha_secret(), remote: chacha_secret() };
    let printed = format!("{secrets:?} {:?}", secrets.keys(V1.format()));
    assert!(printed.contains("PacketKey(Aes128Gcm)"), "{printed}");
    assert!(!printed.contains("154") && !printed.to_lowercase().contains("9a"), "{printed}");
}

#[test]
fn secrets_longer_than_any_hash_are_refused() {
    assert!(Secret::new(&[0; 48]).is_some());
    assert!(Secret::new(&[0; 49]).is_none());
}

#[test]
fn keys_cross_threads() {
    fn assert_send_and_sync<T: Send + Sync>() {}
    assert_send_and_sync::<PacketKey>();
    assert_send_and_sync::<DirectionKeys>();
    assert_send_and_sync::<Secrets>();
}
