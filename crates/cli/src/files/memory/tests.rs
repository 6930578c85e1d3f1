use super::*;

/// The memory of many responses stays near the bound, and is free again when they end.
#[test]
fn many_answers_share_the_memory() {
    let memory = Memory::default();
    let fit = MAX_READ_AHEAD / (2 * MAX_PIECE);
    let mut claims: Vec<_> = (0..fit).map(|_| memory.claim()).collect();
    assert_eq!(claims[0].piece(), MAX_PIECE);
    claims.extend((0..fit).map(|_| memory.claim()));
    assert_eq!(claims[0].piece(), MAX_PIECE / 2);
    claims.extend((0..100 * fit).map(|_| memory.claim()));
    assert_eq!(claims[0].piece(), MIN_PIECE);
    claims.truncate(1);
    assert_eq!(claims[0].piece(), MAX_PIECE);
    drop(claims);
    assert_eq!(memory.0.answers.load(Ordering::Relaxed), 0);
}

/// Responses that began when there were few, and hold large pieces, do not take the memory of those that come later.
#[test]
fn responses_read_ahead_no_more_than_max_read_ahead() {
    const MANY: u64 = 10_000;
    let memory = Memory::default();
    let mut held = Vec::new();
    for _ in 0..MANY {
        let mut claim = memory.claim();
        let pieces = [(); 2].map(|()| claim.next(claim.piece()));
        held.push((pieces, claim));
    }
    assert!(memory.held() <= MAX_READ_AHEAD + 2 * MANY * MIN_PIECE, "{} bytes", memory.held());
    // Pieces before the last two are not ahead, although the client may not have acknowledged them.
    let (_, mut claim) = held.pop().unwrap();
    let ahead = memory.0.ahead.load(Ordering::Relaxed);
    let pieces = [(); 100].map(|()| claim.next(MIN_PIECE));
    assert_eq!(memory.0.ahead.load(Ordering::Relaxed), ahead);
    drop((claim, pieces, held));
    assert_eq!((memory.0.ahead.load(Ordering::Relaxed), memory.held()), (0, 0));
}

#[test]
fn pieces_are_counted_and_used_again_up_to_max_spare() {
    let memory = Memory::default();
    let pieces: Vec<Bytes> = (0..2 * MAX_SPARE)
        .map(|_| {
            let mut piece = memory.piece(MAX_PIECE);
            piece.bytes.extend_from_slice(b"content");
            piece.into()
        })
        .collect();
    let all = 2 * MAX_SPARE as u64 * MAX_PIECE;
    assert_eq!((memory.held(), memory.most()), (all, all));
    // A slice of a piece keeps the whole piece in use.
    let slices: Vec<_> = pieces.iter().map(|piece| piece.slice(..1)).collect();
    drop(pieces);
    assert_eq!(memory.held(), all);
    let places: Vec<_> = slices.iter().map(|slice| slice.as_ptr()).collect();
    drop(slices);
    assert_eq!((memory.held(), memory.spare().len()), (0, MAX_SPARE));
    let again = memory.piece(MAX_PIECE - 1);
    assert!(again.bytes.is_empty() && places.contains(&again.bytes.as_ptr()));
    drop(memory.piece(10));
    assert_eq!((memory.held(), memory.most()), (MAX_PIECE, all));
}
