use std::io::{Seek, SeekFrom, Write};

use http_body_util::BodyExt;

use super::*;

fn file_of(len: u64) -> (File, Vec<u8>) {
    let content: Vec<u8> = (0..len).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    (file, content)
}

#[tokio::test]
async fn files_come_in_bounded_pieces() {
    for len in [0, 1, MAX_PIECE - 1, MAX_PIECE, MAX_PIECE + 1, 5 * MAX_PIECE + 77] {
        let (file, content) = file_of(len);
        let mut body = FileBody::file(file, len, &Memory::default()).unwrap();
        let mut received = Vec::new();
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(!piece.is_empty() && piece.len() as u64 <= MAX_PIECE);
            received.extend_from_slice(&piece);
            assert_eq!(body.size_hint().exact(), Some(len - received.len() as u64));
        }
        assert!(received == content && body.is_end_stream(), "{len}");
    }
}

#[tokio::test]
async fn no_more_than_was_promised() {
    let (mut file, content) = file_of(3 * MAX_PIECE);
    file.seek(SeekFrom::Start(10)).unwrap();
    let body = FileBody::file(file, MAX_PIECE + 5, &Memory::default()).unwrap();
    assert!(body.collect().await.unwrap().to_bytes() == content[10..MAX_PIECE as usize + 15]);
}

#[tokio::test]
async fn a_file_that_became_shorter_is_an_error() {
    let (file, _) = file_of(2 * MAX_PIECE);
    let body = FileBody::file(file, 3 * MAX_PIECE, &Memory::default()).unwrap();
    assert_eq!(body.collect().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

/// If a reader keeps its pieces, the memory holds these pieces and at most two more.
#[tokio::test]
async fn no_more_is_held_than_was_taken_and_two_pieces() {
    let (file, _) = file_of(40 * MAX_PIECE);
    let memory = Memory::default();
    let mut body = FileBody::file(file, 40 * MAX_PIECE, &memory).unwrap();
    let mut kept = std::collections::VecDeque::new();
    while let Some(frame) = body.frame().await {
        kept.push_back(frame.unwrap().into_data().unwrap());
        if kept.len() > 5 {
            kept.pop_front();
        }
    }
    assert!(memory.most() <= 7 * MAX_PIECE, "{} bytes", memory.most());
    drop((kept, body));
    assert_eq!(memory.held(), 0);
}
