//! Invariants of the guest protocol: any message is read or refused within its bounds, and what was read is the
//! same after it is encoded and decoded again.

use anabranch_guest::{
    Answer, Hello, MAX_DATAGRAMS, MAX_MESSAGE, MAX_PATHS, MAX_PAYLOAD, Step, Welcome, read, write,
};

/// Maximum number of messages that are read from a stream.
const MAX_MESSAGES: usize = 64;

pub(crate) fn run(data: &[u8]) {
    message(data);
    let mut stream = data;
    let mut bytes = Vec::new();
    for _ in 0..MAX_MESSAGES {
        let Ok(true) = read(&mut stream, &mut bytes) else { break };
        message(&bytes);
        let mut again = Vec::new();
        write(&mut again, &bytes).expect("a message that was read is short enough");
        assert!(data.windows(again.len()).any(|window| window == again));
    }
    assert!(bytes.len() <= MAX_MESSAGE);
}

/// Decodes a message as each kind.
fn message(bytes: &[u8]) {
    let mut out = Vec::new();
    if let Ok(hello) = Hello::decode(bytes) {
        assert!((1..=MAX_PATHS).contains(&hello.paths.len()));
        hello.encode(&mut out);
        assert_eq!(Hello::decode(&out).as_ref(), Ok(&hello));
        assert_eq!(out, bytes, "a hello has one encoding");
    } else if let Ok(welcome) = Welcome::decode(bytes) {
        welcome.encode(&mut out);
        assert_eq!(Welcome::decode(&out).as_ref(), Ok(&welcome));
        assert_eq!(out, bytes, "a welcome has one encoding");
    } else if let Ok(step) = Step::decode(bytes) {
        step.encode(&mut out);
        assert_eq!(Step::decode(&out).as_ref(), Ok(&step));
        assert_eq!(out, bytes, "a step has one encoding");
        assert!(step.datagrams.len() <= MAX_DATAGRAMS);
    } else if let Ok(answer) = Answer::decode(bytes) {
        answer.encode(&mut out);
        assert_eq!(Answer::decode(&out).as_ref(), Ok(&answer));
        assert!(answer.datagrams.len() <= MAX_DATAGRAMS);
        assert!(answer.datagrams.iter().all(|datagram| datagram.payload.len() <= MAX_PAYLOAD));
    }
}
