use super::*;

const WINDOW: u64 = 100_000;

#[test]
fn burst_then_steady_rate() {
    let mut pacer = Pacer::new(true, PacingBurst::Timely, Time::ZERO);
    let rate = 1_200_000; // one packet of 1200 bytes per millisecond
    assert_eq!(pacer.budget(Time::ZERO, rate, WINDOW, 1200), Ok(12_000));
    pacer.on_sent(12_000);
    assert_eq!(pacer.budget(Time::ZERO, rate, WINDOW, 1200), Err(Time::from_millis(1)));
    assert_eq!(pacer.budget(Time::from_millis(1), rate, WINDOW, 1200), Ok(1200));
    pacer.on_sent(1200);
    assert_eq!(
        pacer.budget(Time::from_millis(500), rate, WINDOW, 1200),
        Ok(12_000),
        "idle time gives one burst"
    );
}

#[test]
fn fast_paths_get_bursts_of_two_milliseconds_and_rare_wake_ups() {
    let mut pacer = Pacer::new(true, PacingBurst::Timely, Time::ZERO);
    let rate = 125_000_000; // 1 Gbit/s
    assert_eq!(pacer.budget(Time::ZERO, rate, WINDOW, 1452), Ok(250_000));
    pacer.on_sent(250_000);
    let wake = pacer.budget(Time::ZERO, rate, WINDOW, 1452).unwrap_err();
    assert_eq!(wake.as_nanos(), 64 * 1024 * 8, "64 KiB at 8 ns per byte");
    assert_eq!(pacer.budget(wake, rate, WINDOW, 1452), Ok(64 * 1024));
}

#[test]
fn packets_one_by_one_if_bursts_are_counted_in_them() {
    let mut pacer = Pacer::new(true, PacingBurst::Packets(16), Time::ZERO);
    let rate = 12_000_000; // ten packets of 1200 bytes per millisecond
    assert_eq!(pacer.budget(Time::ZERO, rate, WINDOW, 1200), Ok(19_200));
    pacer.on_sent(19_200);
    let next = Time::from_micros(100);
    assert_eq!(pacer.budget(Time::ZERO, rate, WINDOW, 1200), Err(next));
    assert_eq!(pacer.budget(next, rate, WINDOW, 1200), Ok(1200));
    let idle = Time::from_millis(500);
    assert_eq!(pacer.budget(idle, rate, 12_000, 1200), Ok(3000), "a quarter of the window");
}

#[test]
fn long_run_average_is_the_rate() {
    let mut pacer = Pacer::new(true, PacingBurst::Timely, Time::ZERO);
    let (rate, mut now, mut sent) = (777_777, Time::ZERO, 0u64);
    while now < Time::from_millis(10_000) {
        match pacer.budget(now, rate, WINDOW, 1200) {
            Ok(_) => {
                pacer.on_sent(1200);
                sent += 1200;
            }
            Err(until) => {
                assert!(until > now);
                now = until;
            }
        }
    }
    assert!((7_777_770..7_777_770 + 14_000).contains(&sent), "{sent}");
}
