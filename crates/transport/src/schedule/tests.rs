//! Tests of the decisions of each scheduler.

use anabranch_wire::{MAX_REGISTERED, RegisterError};

use super::*;

fn view(id: u32, rtt: u64, room: u64) -> PathView {
    PathView {
        id: PathId(id),
        is_available: true,
        is_failing: false,
        smoothed_rtt: Duration::from_millis(rtt),
        return_delay: Duration::from_millis(rtt) / 2,
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

/// Returns a megabyte of new data that flow control does not limit.
fn work() -> Work {
    Work { new: 1 << 20, credit: 1 << 20, send_window: 4 << 20, ..Work::default() }
}

fn ask(scheduler: &mut AnyScheduler, work: &Work, paths: &[PathView]) -> Option<u32> {
    scheduler.pick(Time::ZERO, work, paths).path.map(|path| path.0)
}

fn pick(algorithm: Algorithm, paths: &[PathView]) -> Option<u32> {
    ask(&mut AnyScheduler::new(algorithm), &work(), paths)
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
    let order: Vec<_> = (0..5).map(|_| ask(&mut scheduler, &work(), &paths).unwrap()).collect();
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
        let path = ask(&mut scheduler, &work(), &paths).unwrap();
        paths[path as usize].bytes_sent += 1_000;
    }
    assert_eq!(paths.map(|path| path.bytes_sent), [300_000, 100_000, 0]);
    assert_eq!(pick(Algorithm::Weighted, &paths[2..]), Some(2), "better than nothing");
}

#[test]
fn copies_go_where_the_scheduler_says() {
    let mut paths = [view(0, 30, 5_000), view(1, 10, 5_000), view(2, 20, 0)];
    let redundant = AnyScheduler::new(Algorithm::Redundant).pick(Time::ZERO, &work(), &paths);
    assert_eq!((redundant.path, &redundant.also[..]), (Some(PathId(1)), &[PathId(0), PathId(2)][..]));

    let mut scheduler = AnyScheduler::new(Algorithm::MinRttDuplicate);
    assert_eq!(scheduler.pick(Time::ZERO, &work(), &paths), Pick::on(PathId(1)), "all are known");
    paths[0].has_rtt = false;
    let duplicated = scheduler.pick(Time::ZERO, &work(), &paths);
    assert_eq!((duplicated.path, &duplicated.also[..]), (Some(PathId(0)), &[PathId(1)][..]));
    let control = scheduler.pick_control(Time::ZERO, &work(), &paths);
    assert_eq!((control.path, control.also.len()), (Some(PathId(1)), 2));
}

#[test]
fn blocking_estimation_leaves_a_slow_path_alone_when_credit_is_short() {
    // In 100 ms the fast path sends ten windows of 20 kB, together 200 kB. The growth of its window raises
    // this to 240 kB. The slow path has 15 kB in flight and would add a packet of 1 kB.
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    let limited = |send_window| Work { new: 10_000, credit: 5_000, send_window, continues: true, ..work() };
    let mut scheduler = AnyScheduler::new(Algorithm::Blest);
    assert_eq!(ask(&mut scheduler, &limited(255_999), &paths), None);
    assert_eq!(ask(&mut scheduler, &limited(256_000), &paths), Some(1));
    let open = [view(0, 10, 5_000), view(1, 100, 5_000)];
    assert_eq!(
        ask(&mut scheduler, &limited(0), &open),
        Some(0),
        "the fast path is not waited for if it has room"
    );
}

#[test]
fn blocking_estimation_is_corrected_once_in_a_round_trip() {
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    let mut scheduler = AnyScheduler::new(Algorithm::Blest);
    // The window is 2 % more than the uncorrected estimate needs. Packets without credit raise λ by 1 % per
    // round trip, however many there are.
    let window = |credit| Work { credit, send_window: 16_000 + 240_000 * 102 / 100, ..work() };
    let mut at = |ms, credit| {
        scheduler.pick(Time::ZERO + Duration::from_millis(ms), &window(credit), &paths).path.is_some()
    };
    assert!((1..=100).all(|ms| at(ms, 0)), "one correction at most");
    assert!(at(202, 0) && !at(303, 0), "the third makes 3 %");
    assert!(at(404, 1 << 20), "unblocked, it falls again");
}

#[test]
fn earliest_completion_waits_if_little_is_left() {
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    let mut scheduler = AnyScheduler::new(Algorithm::Ecf);
    // The fast path needs one round trip for room and two for the data. It finishes before the slow path's
    // 100 ms, even if flow control holds back more data.
    for continues in [false, true] {
        let short = Work { new: 30_000, repeated: 10_000, continues, ..work() };
        assert_eq!(ask(&mut scheduler, &short, &paths), None);
    }
    assert_eq!(ask(&mut scheduler, &work(), &paths), Some(1));
}

#[test]
fn earliest_completion_does_not_wait_for_two_rounds_of_a_path_hardly_faster() {
    // The fast path needs 60 ms for room and one round trip for the queue. It would finish after the slow
    // path's 80 ms.
    let mut scheduler = AnyScheduler::new(Algorithm::Ecf);
    let short = Work { new: 10_000, ..work() };
    assert_eq!(ask(&mut scheduler, &short, &[view(0, 60, 0), view(1, 80, 5_000)]), Some(1));
    // Here ECF's first condition would wait, because waiting ends sooner. The second condition does not: one
    // round trip of 110 ms on the slow path is less than two of 50 ms plus the RTT variation.
    let mut paths = [view(0, 50, 0), view(1, 110, 5_000)];
    paths[1].rtt_variation = Duration::from_millis(20);
    assert_eq!(ask(&mut scheduler, &short, &paths), Some(1));
    paths[1].rtt_variation = Duration::ZERO;
    assert_eq!(ask(&mut scheduler, &short, &paths), None);
}

#[test]
fn waiting_for_the_earliest_completion_goes_on_a_quarter_longer() {
    let mut scheduler = AnyScheduler::new(Algorithm::Ecf);
    let queue = |new| Work { new, ..work() };
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    // At 20 kB per round, 190 kB need 9.5 rounds and one for room: 105 ms.
    assert_eq!(ask(&mut scheduler, &queue(190_000), &paths), Some(1));
    assert_eq!(ask(&mut scheduler, &queue(170_000), &paths), None);
    assert_eq!(ask(&mut scheduler, &queue(190_000), &paths), None, "it has begun to wait: 125 ms count");
    assert_eq!(ask(&mut scheduler, &queue(240_000), &paths), Some(1));
    assert_eq!(ask(&mut scheduler, &queue(190_000), &paths), Some(1));
}

#[test]
fn lost_data_and_acknowledgments_keep_to_the_fastest_path() {
    let mut scheduler = AnyScheduler::new(Algorithm::Rescue);
    let lost = Work { repeated: 1_000, ..work() };
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    assert_eq!(ask(&mut scheduler, &lost, &paths), Some(1), "new data goes where there is room");
    assert_eq!(scheduler.pick_repeated(Time::ZERO, &lost, &paths), Some(Pick::wait()));
    assert_eq!(scheduler.pick_ack(PathId(1), &paths), Some(PathId(0)));
    // The path with room delivers in 15 ms. So does the fast path: 10 ms of waiting for room plus 5 ms.
    let paths = [view(0, 10, 0), view(1, 30, 5_000)];
    assert_eq!(scheduler.pick_repeated(Time::ZERO, &lost, &paths), Some(Pick::on(PathId(1))));
    for name in Algorithm::NAMES.iter().filter(|name| **name != "rescue") {
        let mut other = AnyScheduler::new(name.parse().unwrap());
        assert_eq!(other.pick_repeated(Time::ZERO, &lost, &paths), None, "{name}");
        assert!(!other.routes_acks(), "{name}");
    }
}

#[test]
fn a_slow_path_is_left_out_of_the_end_of_a_transfer() {
    // The fast path delivers 20 kB per 10 ms, and its packets arrive 45 ms sooner, so it delivers 90 kB
    // first.
    let paths = [view(0, 10, 0), view(1, 100, 5_000)];
    let mut scheduler = AnyScheduler::new(Algorithm::Confluence);
    assert_eq!(ask(&mut scheduler, &Work { new: 80_000, repeated: 9_000, ..work() }, &paths), None);
    assert_eq!(ask(&mut scheduler, &Work { new: 91_000, ..work() }, &paths), Some(1));
    let goes_on = Work { new: 1_000, continues: true, ..work() };
    assert_eq!(ask(&mut scheduler, &goes_on, &paths), Some(1), "what is queued is not the end");
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

#[test]
fn a_path_that_its_pacer_holds_back_is_waited_for_too() {
    let (fast, slow) = (view(0, 10, 5_000), view(1, 100, 5_000));
    let work = Work { new: 10_000, send_window: 100_000, paced: SmallVec::from_slice(&[fast]), ..work() };
    for algorithm in [Algorithm::Ecf, Algorithm::Blest] {
        let mut scheduler = AnyScheduler::new(algorithm);
        assert_eq!(ask(&mut scheduler, &work, &[slow]), None, "{algorithm}");
        let routed = Work { routed: true, ..work.clone() };
        assert_eq!(ask(&mut scheduler, &routed, &[slow]), Some(1), "{algorithm}: it may have to go there");
    }
    let mut scheduler = AnyScheduler::new(Algorithm::Rescue);
    assert_eq!(scheduler.pick_repeated(Time::ZERO, &work, &[slow]), Some(Pick::wait()));
}

/// Scheduler that always uses the slowest path.
#[derive(Debug)]
struct Slowest;

impl Scheduler for Slowest {
    fn pick(&mut self, _: Time, _: &Work, paths: &[PathView]) -> Pick {
        let slowest = paths.iter().filter(|path| path.has_room()).max_by_key(|path| path.smoothed_rtt);
        slowest.map_or_else(Pick::wait, |path| Pick::on(path.id))
    }
}

impl SchedulerFactory for Slowest {
    fn name(&self) -> &'static str {
        "slowest"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(Slowest)
    }
}

/// Factory whose name is taken by a scheduler of this crate.
#[derive(Debug)]
struct Impostor;

impl SchedulerFactory for Impostor {
    fn name(&self) -> &'static str {
        "min-rtt"
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(Slowest)
    }
}

#[test]
fn programs_bring_schedulers_along() {
    assert_eq!("slowest".parse::<Algorithm>(), Err(UnknownAlgorithm));
    let slowest = Algorithm::register(&Slowest).unwrap();
    assert_eq!("slowest".parse(), Ok(slowest));
    assert_eq!((slowest.name(), slowest), ("slowest", Algorithm::Custom(CustomScheduler(&Slowest))));
    assert_eq!(pick(slowest, &[view(0, 10, 5_000), view(1, 90, 5_000), view(2, 99, 0)]), Some(1));
    assert_eq!(
        Algorithm::register(&Slowest),
        Err(RegisterError::NameTaken { what: "scheduler", name: "slowest" })
    );
    assert_eq!(
        Algorithm::register(&Impostor),
        Err(RegisterError::NameTaken { what: "scheduler", name: "min-rtt" })
    );
    assert_eq!("min-rtt".parse(), Ok(Algorithm::MinRtt));
    // The table of schedulers belongs to the process. It is filled here, so no later test may register one.
    let numbered = |n: usize| Algorithm::register(Box::leak(Box::new(Numbered(format!("n{n}").leak()))));
    assert_eq!((0..).take_while(|n| numbered(*n).is_ok()).count() + 1, MAX_REGISTERED);
    assert_eq!(Algorithm::register(&Numbered("one more")), Err(RegisterError::TooMany { what: "scheduler" }));
}

/// Factory with a numbered name, to fill the table.
#[derive(Debug)]
struct Numbered(&'static str);

impl SchedulerFactory for Numbered {
    fn name(&self) -> &'static str {
        self.0
    }

    fn build(&self) -> Box<dyn Scheduler> {
        Box::new(Slowest)
    }
}
