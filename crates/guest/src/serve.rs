//! The loop of a guest: reads steps, passes them to the stack and writes the answers.

use std::io::{self, BufWriter, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use crate::step::{encode_head, put_datagram};
use crate::{Datagram, Hello, MAX_DATAGRAMS, MAX_MESSAGE, MAX_PAYLOAD, Progress, Step, Welcome};
use crate::{VERSION, message};

/// Maximum number of bytes that the addresses, the ECN bits and the length of a datagram take in a message.
const DATAGRAM_HEAD: usize = 2 * 19 + 3;
/// Number of bytes that are reserved for the fields of an answer before its datagrams.
const ANSWER_HEAD: usize = 2048;

/// A transport stack that is driven by time and datagrams.
pub trait Stack {
    /// Takes a step: handles the datagrams that arrive, or the deadline that is reached, and passes all
    /// datagrams that are sent at this instant to `out`. Step 0 is the start of the simulation. A client
    /// sends its first packet in it.
    fn step(&mut self, step: &Step<'_>, out: &mut Outgoing<'_>) -> Progress;
}

/// Datagrams that are sent with the answer to a step.
pub struct Outgoing<'a> {
    buffer: &'a mut Vec<u8>,
    count: usize,
}

impl Outgoing<'_> {
    /// Returns true if the answer cannot hold another datagram. A stack that has more datagrams to send sets
    /// its deadline to the current time and sends them in the next step.
    pub fn is_full(&self) -> bool {
        self.count == MAX_DATAGRAMS
            || self.buffer.len() + MAX_PAYLOAD + DATAGRAM_HEAD + ANSWER_HEAD > MAX_MESSAGE
    }

    /// Sends a datagram. Returns `false`, and sends nothing, if the answer cannot hold another one.
    pub fn send(&mut self, local: SocketAddr, remote: SocketAddr, ecn: u8, payload: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        put_datagram(self.buffer, &Datagram { local, remote, ecn: ecn & 3, payload });
        self.count += 1;
        true
    }
}

/// Runs a guest on standard input and output until the lab ends it. `name` is the name of the stack with its
/// version. Standard output carries the protocol, so the stack must print only to standard error.
///
/// The result is the exit code for `main`. It is a failure if the lab does not speak the protocol, or if
/// `make` fails.
pub fn serve<S: Stack>(name: &str, make: impl FnOnce(&Hello) -> Result<S, String>) -> ExitCode {
    match over(&mut io::stdin().lock(), &mut io::stdout().lock(), name, make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a guest over `from` and `to`.
fn over<S: Stack>(
    from: &mut impl Read,
    to: &mut impl Write,
    name: &str,
    make: impl FnOnce(&Hello) -> Result<S, String>,
) -> Result<(), String> {
    let said = |error: io::Error| error.to_string();
    let mut to = BufWriter::with_capacity(1 << 16, to);
    let (mut incoming, mut answer, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    if !message::read(from, &mut incoming).map_err(said)? {
        return Ok(());
    }
    let hello = Hello::decode(&incoming).map_err(|fault| fault.to_string())?;
    let mut stack = make(&hello)?;
    Welcome { version: VERSION, name: name.to_owned() }.encode(&mut answer);
    message::write(&mut to, &answer).and_then(|()| to.flush()).map_err(said)?;
    while message::read(from, &mut incoming).map_err(said)? {
        let step = Step::decode(&incoming).map_err(|fault| fault.to_string())?;
        sent.clear();
        let mut out = Outgoing { buffer: &mut sent, count: 0 };
        let progress = stack.step(&step, &mut out);
        let count = out.count as u16;
        answer.clear();
        encode_head(&mut answer, step.number, &progress);
        answer.extend_from_slice(&count.to_le_bytes());
        answer.extend_from_slice(&sent);
        message::write(&mut to, &answer).and_then(|()| to.flush()).map_err(said)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Path, Role, Workload};

    fn hello() -> Hello {
        let address = SocketAddr::from(([10, 0, 0, 1], 443));
        Hello {
            version: VERSION,
            role: Role::Client,
            seed: 1,
            paths: vec![Path { local: address, remote: address }],
            workload: Workload::Download { bytes: 1 },
            server_name: "server.lab".to_owned(),
            alpn: "lab".to_owned(),
            certificate: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Stack that sends datagrams in every step until the answer to the host is full.
    struct Flood(Path);

    impl Stack for Flood {
        fn step(&mut self, step: &Step<'_>, out: &mut Outgoing<'_>) -> Progress {
            while out.send(self.0.local, self.0.remote, 2, &[0; 1472]) {}
            Progress { deadline: Some(step.now), delivered: step.now, ..Progress::default() }
        }
    }

    fn played(messages: &[Vec<u8>]) -> (Result<(), String>, Vec<u8>) {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        messages.iter().for_each(|one| message::write(&mut input, one).unwrap());
        let result = over(&mut &input[..], &mut output, "flood 1", |hello| Ok(Flood(hello.paths[0])));
        (result, output)
    }

    #[test]
    fn an_answer_holds_max_datagrams_and_names_its_step() {
        let mut messages = vec![Vec::new(), Vec::new()];
        hello().encode(&mut messages[0]);
        Step { number: 0, now: 5, datagrams: Vec::new() }.encode(&mut messages[1]);
        let (result, output) = played(&messages);
        assert_eq!(result, Ok(()));
        let (mut from, mut one) = (&output[..], Vec::new());
        assert!(message::read(&mut from, &mut one).unwrap());
        assert_eq!(Welcome::decode(&one).unwrap().name, "flood 1");
        assert!(message::read(&mut from, &mut one).unwrap());
        let answer = Answer::decode(&one).unwrap();
        assert_eq!((answer.number, answer.progress.deadline), (0, Some(5)));
        assert_eq!(answer.datagrams.len(), MAX_DATAGRAMS);
        assert!(!message::read(&mut from, &mut one).unwrap());
    }

    #[test]
    fn a_lab_that_does_not_speak_the_protocol_ends_the_guest() {
        assert_eq!(played(&[]).0, Ok(()), "it went away");
        assert!(played(&[b"GET / HTTP/1.1".to_vec()]).0.unwrap_err().contains("not the guest protocol"));
        let mut first = Vec::new();
        hello().encode(&mut first);
        assert!(played(&[first.clone(), first]).0.unwrap_err().contains("no step"));
    }
}
