use super::*;

fn tuple(port: u16) -> FourTuple {
    let address = |port| std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
    FourTuple { local: address(443), remote: address(port) }
}

const PTO: Duration = Duration::from_millis(1);

#[test]
fn a_validation_remembers_few_challenges() {
    let now = Time::from_millis(1);
    let mut confirm =
        Validation::new(now, tuple(1), ConnectionId::EMPTY, Purpose::Confirm, PTO, PTO * 1_000_000);
    let mut life = Validation::of_life(now, tuple(1), ConnectionId::EMPTY, PTO, PTO);
    let mut asked = [0u8; 2];
    for second in 0..200u8 {
        let now = now + Duration::from_secs(second.into());
        for (validation, asked) in [&mut confirm, &mut life].into_iter().zip(&mut asked) {
            if validation.challenge_due(now) {
                validation.on_sent(now, [second; 8], true);
                *asked += 1;
            }
            assert!(validation.challenges.len() <= MAX_CHALLENGES);
        }
    }
    assert_eq!(usize::from(asked[0]), MAX_CHALLENGES, "one with a deadline asks no more");
    assert!(confirm.answered_by([0; 8]).is_some(), "and all of them may be answered");
    assert_eq!(asked[1], 200, "one without goes on");
    assert!(life.answered_by([0; 8]).is_none() && life.answered_by([199; 8]).is_some());
}

/// RFC 9000 §9.4. Those for silent and failing paths come at a bounded interval in the end, but never
/// sooner than after a PTO.
#[test]
fn challenges_are_no_more_frequent_than_probes() {
    let (at, cid, most) = (tuple(1), ConnectionId::EMPTY, Duration::from_millis(400));
    for pto in [50, 3_000].map(Duration::from_millis) {
        let begin = Time::from_millis(1);
        let confirm = Validation::new(begin, at, cid, Purpose::Confirm, pto, pto * 1_000);
        let life = Validation::of_life(begin, at, cid, pto, most);
        let rescue = Validation::of_rescue(begin, at, cid, 7, (pto, most));
        for (mut validation, most) in
            [(confirm, Duration::MAX), (life, most.max(pto)), (rescue, most.max(pto))]
        {
            let mut now = begin;
            for round in 0..MAX_CHALLENGES as u32 - 1 {
                assert!(validation.challenge_due(now));
                validation.on_sent(now, [0; 8], true);
                let next = now + (pto * (1 << round)).min(most);
                assert!(!validation.challenge_due(next - Duration::from_nanos(1)), "{round}");
                now = next;
            }
        }
    }
}

#[test]
fn the_newest_responses_are_kept() {
    let mut responses = Responses::default();
    for n in 0..100 {
        responses.push(Response { tuple: tuple(1), data: [n; 8], received: 1_200 });
        assert!(responses.len() <= MAX_PATH_RESPONSES);
    }
    let data: Vec<u8> = responses.iter().map(|response| response.data[0]).collect();
    assert_eq!(data, (100 - MAX_PATH_RESPONSES as u8..100).collect::<Vec<_>>());
}
