//! Messages in a stream of bytes, each preceded by its length.

use std::io::{self, ErrorKind, Read, Write};

use crate::MAX_MESSAGE;

/// Writes the length of `message` and the message, without flushing `to`.
///
/// # Errors
/// Fails if the message is longer than [`MAX_MESSAGE`], or cannot be written.
pub fn write(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    if message.len() > MAX_MESSAGE {
        let what = format!("a message of {} bytes: at most {MAX_MESSAGE} are allowed", message.len());
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    to.write_all(&(message.len() as u32).to_le_bytes())?;
    to.write_all(message)
}

/// Reads the next message into `message`, without its length. Returns `false` if the stream has ended before
/// the message.
///
/// # Errors
/// Fails if the stream ends within a message, cannot be read, or announces more than [`MAX_MESSAGE`] bytes.
pub fn read(from: &mut impl Read, message: &mut Vec<u8>) -> io::Result<bool> {
    message.clear();
    let mut len = [0; 4];
    match from.read(&mut len)? {
        0 => return Ok(false),
        some => from.read_exact(&mut len[some..])?,
    }
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_MESSAGE {
        let what =
            format!("not the guest protocol: a message of {len} bytes, at most {MAX_MESSAGE} are allowed");
        return Err(io::Error::new(ErrorKind::InvalidData, what));
    }
    message.resize(len, 0);
    from.read_exact(message)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_one_by_one() {
        let mut stream = Vec::new();
        write(&mut stream, b"first").unwrap();
        write(&mut stream, b"").unwrap();
        let (mut from, mut message) = (&stream[..], Vec::new());
        assert!(read(&mut from, &mut message).unwrap());
        assert_eq!(message, b"first");
        assert!(read(&mut from, &mut message).unwrap());
        assert!(message.is_empty() && !read(&mut from, &mut message).unwrap());
        assert!(read(&mut &stream[..6], &mut message).is_err(), "it ends within a message");
    }

    #[test]
    fn more_than_max_message_is_refused_before_there_is_memory_for_it() {
        let mut message = Vec::new();
        let announced = (MAX_MESSAGE as u32 + 1).to_le_bytes();
        let error = read(&mut &announced[..], &mut message).unwrap_err();
        assert!(error.to_string().contains("8388609 bytes"), "{error}");
        assert_eq!(message.capacity(), 0);
        assert!(write(&mut Vec::new(), &vec![0; MAX_MESSAGE + 1]).is_err());
    }
}
