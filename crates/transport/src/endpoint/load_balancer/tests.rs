use super::*;

/// Key of the draft's test vectors.
const KEY: [u8; 16] =
    [0x8f, 0x95, 0xf0, 0x92, 0x45, 0x76, 0x5f, 0x80, 0x25, 0x69, 0x34, 0xe5, 0x0c, 0x66, 0x20, 0x7f];

fn hex(digits: &str) -> Vec<u8> {
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn server(id: &str) -> ServerId {
    ServerId::new(&hex(id)).unwrap()
}

fn config(config_id: u8, server_id: &str, nonce_len: usize, key: Option<[u8; 16]>) -> LoadBalancing {
    let config = LoadBalancing::new(config_id, server(server_id), nonce_len);
    key.into_iter().fold(config, LoadBalancing::with_key)
}

/// Checks that the server ID and the nonce become this connection ID, and that a load balancer gets the server ID back.
#[track_caller]
fn check(config: &LoadBalancing, nonce: &str, cid: &str) {
    let (decoder, cid) = (ServerIdDecoder::new(config).unwrap(), hex(cid));
    let plain = [&*config.server_id, &hex(nonce)].concat();
    let mut block = plain.clone();
    decoder.encrypt(&mut block);
    assert_eq!(block, cid[1..]);
    assert_eq!(usize::from(cid[0] & 0x1f), cid.len() - 1, "the draft's connection IDs contain their length");
    assert_eq!(decoder.server_id(&cid), Some(config.server_id));
    assert_eq!(decoder.block(&cid), Some(plain));
}

/// The vectors of appendix B. The draft gives the last one the number 3, but its first byte has 0.
#[test]
fn the_drafts_vectors() {
    check(&config(0, "c4605e", 4, None), "4504cc4f", "07c4605e4504cc4f");
    check(&config(0, "ed793a", 4, Some(KEY)), "ee080dbf", "0720b1d07b359d3c");
    let (ten, nine) = ("ed793a51d49b8f5fab65", "ed793a51d49b8f5fab");
    check(&config(1, ten, 5, Some(KEY)), "ee080dbf48", "2fcc381bc74cb4fbad2823a3d1f8fed2");
    let eight = config(2, "ed793a51d49b8f5f", 8, Some(KEY));
    check(&eight, "ee080dbf48c0d1e5", "504dd2d05a7b0de9b2b9907afb5ecf8cc3");
    let cid = "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc";
    check(&config(0, nine, 9, Some(KEY)), "ee080dbf48c0d1e55d", cid);
}

/// The example of §5.4.2.4.
#[test]
fn the_drafts_example() {
    let key = hex("fdf726a9893ec05c0632d3956680baf0").try_into().unwrap();
    check(&config(0, "31441a", 4, Some(key)), "9c69c275", "0767947d29be054a");
}

#[test]
fn every_length_is_decrypted() {
    for server_len in 1..=MAX_SERVER_ID_LEN {
        for nonce_len in MIN_NONCE_LEN..=MAX_BLOCK_LEN - server_len {
            let id: Vec<u8> = (1..).take(server_len).collect();
            let config = LoadBalancing::new(5, ServerId::new(&id).unwrap(), nonce_len).with_key(KEY);
            let decoder = ServerIdDecoder::new(&config).unwrap();
            let plain: Vec<u8> = (1..).take(server_len + nonce_len).collect();
            let mut cid = [&[5 << 5][..], &plain].concat();
            decoder.encrypt(&mut cid[1..]);
            assert_ne!(cid[1..], plain);
            // More bytes follow in a packet.
            cid.extend([9; 30]);
            assert_eq!(decoder.block(&cid), Some(plain));
            assert_eq!(decoder.server_id(&cid).as_deref(), Some(&*id), "{server_len} and {nonce_len}");
        }
    }
}

#[test]
fn other_connection_ids_name_no_server() {
    let config = config(2, "0102", 4, Some(KEY));
    let decoder = ServerIdDecoder::new(&config).unwrap();
    assert_eq!((decoder.config_id(), decoder.cid_len()), (2, 7));
    assert!(decoder.server_id(&[0x40; 7]).is_some());
    assert_eq!(decoder.server_id(&[0x40; 6]), None);
    assert_eq!(decoder.server_id(&[]), None);
    for other in [0x00, 0x20, 0x60, 0xe0] {
        assert_eq!(decoder.server_id(&[other; 7]), None);
    }
}

#[test]
fn settings_that_contradict_the_draft_are_named() {
    let broken = |config: LoadBalancing| config.validate().unwrap_err().to_string();
    assert_eq!(config(6, "01", 18, None).validate(), Ok(()));
    assert_eq!(broken(config(7, "01", 4, None)), "the setting config_id must be 0 to 6");
    assert_eq!(broken(config(0, "01", 3, None)), "the setting nonce_len must be at least 4 bytes");
    let long = "the setting nonce_len must be 19 bytes at most together with the server ID";
    assert_eq!(broken(config(0, "01", 19, None)), long);
    assert_eq!(broken(config(0, "01", usize::MAX, None)), long);
    assert!(ServerIdDecoder::new(&config(7, "01", 4, None)).is_err());
    let encoded = config(0, "01", 6, None).with_encoded_length(true);
    assert_eq!(encoded.validate_for(8, 1), Ok(()));
    assert_eq!(encoded.validate_for(8, 2).unwrap_err().setting(), "encoded_length");
    assert_eq!(encoded.validate_for(7, 1).unwrap_err().setting(), "cid_len");
}

/// A server ID of more than [`MAX_SERVER_ID_LEN`] bytes leaves no room for a nonce.
#[test]
fn server_ids_have_bounds() {
    assert_eq!(ServerId::new(&[]), None);
    assert_eq!(ServerId::new(&[7; MAX_SERVER_ID_LEN + 1]), None);
    let longest = ServerId::new(&[7; MAX_SERVER_ID_LEN]).unwrap();
    assert_eq!(longest.len(), MAX_SERVER_ID_LEN);
    assert_eq!(LoadBalancing::new(0, longest, 4).validate(), Ok(()));
    assert_eq!(format!("{} {:?}", server("0aff"), server("0aff")), "0aff ServerId(0aff)");
}

#[test]
fn the_key_is_not_printed() {
    let printed = format!("{:?}", config(1, "0a", 4, Some(KEY)));
    assert!(printed.contains("has_key: true") && !printed.contains("143"), "{printed}");
}
