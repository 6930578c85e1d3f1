//! What each scheduler decides.

use super::*;

fn view(id: u32, rtt: u64, room: u64) -> PathView {
    PathView {
        id: PathId(id),
        is_available: true,
        is_failing: false,
        smoothed_rtt: Duration::from_millis(rtt),
        way_back: Duration::from_millis(rtt) / 2,
        min_rtt: Duration::from_millis(rtt),
        rtt_variation: Duration::ZERO,
        has_rtt: true,
        room,
        window: 20_000,
        in_flight: 20_000 - room.min(20_000),
        mtu: 1_000,
        packets_sent: 0,
        bytes_sent: 0,
        last_sent: Time::ZERO,
        weight: 1,
    }
}

const WORK: Work = Work { queued: 1 << 20, credit: 1 << 20 };

fn ask(scheduler: &mut AnyScheduler, work: &Work, paths: &[PathView]) -> Option<u32> {
    scheduler.pick(Time::ZERO, work, paths).path.map(|path| path.0)
}

fn pick(algorithm: Algorithm, paths: &[PathView]) -> Option<u32> {
    ask(&mut AnyScheduler::new(algorithm), &WORK, paths)
}

#[test]
fn names_lead_back() {
    for name in Algorithm::NAMES {
        assert_eq!(name.parse::<Algorithm>().unwrap().name(), *name);
    }
    assert_eq!("fastest".parse::<Algorithm>(), Err(UnknownAlgorithm));
}

#[test]
fn nobody_picks_a_path_without_room() {
    for name in Algorithm::NAMES {
        let algorithm = name.parse().unwrap();
        assert_eq!(pick(algorithm, &[view(0, 30, 0), view(1, 10, 0)]), None, "{name}");
        assert_eq!(pick(algorithm, &[]), None, "{name}");
        assert_eq!(pick(algorithm, &[view(0, 30, 0), view(1, 10, 5_000)]), Some(1), "{name}");
    }
}

#[test]
fn the_fastest_path_with_room_comes_first() {
    let paths = [view(0, 30, 5_000), view(1, 10, 0), view(2, 20, 1_400)];
    assert_eq!(pick(Algorithm::MinRtt, &paths), Some(2));
    assert_eq!(pick(Algorithm::MinRtt, &paths[..2]), Some(0));
}

#[test]
fn paths_take_turns() {
    let paths = [view(0, 30, 5_000), view(1, 10, 5_000), view(2, 20, 0), view(3, 9, 1)];
    let mut scheduler = AnyScheduler::new(Algorithm::RoundRobin);
    let order: Vec<_> = (0..5).map(|_| ask(&mut scheduler, &WORK, &paths).unwrap()).collect();
    assert_eq!(order, [0, 1, 3, 0, 1]);
}

#[test]
fn the_path_that_rested_or_sent_least() {
    let mut paths = [view(0, 30, 5_000), view(1, 10, 5_000)];
    paths[1].last_sent = Time::ZERO + Duration::from_millis(3);
    paths[0].packets_sent = 9;
    assert_eq!(pick(Algorithm::LeastRecent, &paths), Some(0));
    assert_eq!(pick(Algorithm::FewestPackets, &paths), Some(1));
}

#[test]
fn weights_are_shares_of_bytes() {
    let mut paths = [view(0, 30, 5_000), view(1, 10, 5_000), view(2, 1, 5_000)];
    (paths[0].weight, paths[1].weight, paths[2].weight) = (3, 1, 0);
    let mut scheduler = AnyScheduler::new(Algorithm::Weighted);
    for _ in 0..400 {
        let path = ask(&mut scheduler, &WORK, &paths).unwrap();
        paths[path as usize].bytes_sent += 1_000;
    }
    assert_eq!(paths.map(|path| path.bytes_sent), [300_000, 100_000, 0]);
    assert_eq!(pick(Algorithm::Weighted, &paths[2..]), Some(2), "better than nothing");
}

#[test]
fn copies_go_where_the_scheduler_says() {
    let mut paths = [view(0, 30, 5_000), view(1, 10, 5_000), view(2, 20, 0)];
    let redundant = AnyScheduler::new(Algorithm::Redundant).pick(Time::ZERO, &WORK, &paths);
    assert_eq!((redundant.path, &redundant.also[..]), (Some(PathId(1)), &[PathId(0), PathId(2)][..]));

    let mut scheduler = AnyScheduler::new(Algorithm::MinRttDuplicate);
    assert_eq!(scheduler.pick(Time::ZERO, &WORK, &paths), Pick::on(PathId(1)), "all are known");
    paths[0].has_rtt = false;
    let duplicated = scheduler.pick(Time::ZERO, &WORK, &paths);
    assert_eq!((duplicated.path, &duplicated.also[..]), (Some(PathId(0)), &[PathId(1)][..]));
    let control = scheduler.pick_control(Time::ZERO, &WORK, &paths);
    assert_eq!((control.path, control.also.len()), (Some(PathId(1)), 2));
}

#[test]
fn blocking_estimation_leaves_a_slow_path_alone_when_credit_is_short() {
    // In 100 ms the fast path sends ten windows of 20 kB: 200 kB and what it grows by.
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    let work = |credit| Work { credit, queued: 10_000 };
    let mut scheduler = AnyScheduler::new(Algorithm::Blest);
    assert_eq!(ask(&mut scheduler, &work(100_000), &paths), None);
    assert_eq!(ask(&mut scheduler, &work(1_000_000), &paths), Some(1));
    let open = [view(0, 10, 5_000), view(1, 100, 5_000)];
    assert_eq!(
        ask(&mut scheduler, &work(0), &open),
        Some(0),
        "the fast path is not waited for if it has room"
    );
}

#[test]
fn earliest_completion_waits_if_little_is_left() {
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    let mut scheduler = AnyScheduler::new(Algorithm::Ecf);
    // Three rounds of 10 ms end before the slow path's 100 ms.
    assert_eq!(ask(&mut scheduler, &Work { queued: 40_000, ..WORK }, &paths), None);
    assert_eq!(ask(&mut scheduler, &WORK, &paths), Some(1));
}

#[test]
fn a_slow_path_is_left_out_of_the_end_of_a_transfer() {
    // The fast path delivers 20 kB in each 10 ms, and its packets arrive 45 ms sooner: 90 kB.
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    let mut scheduler = AnyScheduler::new(Algorithm::Confluence);
    assert_eq!(ask(&mut scheduler, &Work { queued: 89_000, ..WORK }, &paths), None);
    assert_eq!(ask(&mut scheduler, &Work { queued: 91_000, ..WORK }, &paths), Some(1));
    assert!(scheduler.reinjects(&paths[0], &paths[1]));
    assert!(!scheduler.reinjects(&paths[1], &paths[0]), "what arrives later anyway is of no use");
}

#[test]
fn backups_and_failing_paths_are_for_when_there_is_nothing_else() {
    let (good, mut backup, mut failing) = (view(0, 90, 0), view(1, 10, 9_000), view(2, 1, 9_000));
    backup.is_available = false;
    failing.is_failing = true;
    for (paths, expected) in [
        (vec![good, backup, failing], vec![0]),
        (vec![backup, failing], vec![1]),
        (vec![failing], vec![2]),
        (vec![], vec![]),
    ] {
        let rank = |path: &PathView| rank(path.is_failing, path.is_available);
        let best = paths.iter().map(rank).min();
        let chosen = paths.iter().filter(|path| Some(rank(path)) == best);
        assert_eq!(chosen.map(|path| path.id.0).collect::<Vec<_>>(), expected);
    }
}
