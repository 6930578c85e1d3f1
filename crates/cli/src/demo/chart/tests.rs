use super::*;

const CHART: Chart =
    Chart { window: Window::Wide, height: 130.0, seconds: 10.0, max: 100.0, unit: "Mbit/s", has_times: true };

#[test]
fn axes_have_round_numbers() {
    assert_eq!(ticks(100.0, 4.0), [0.0, 50.0, 100.0]);
    assert_eq!(ticks(11.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(
        ticks(0.3, 4.0).iter().map(|tick| label(*tick)).collect::<Vec<_>>(),
        ["0", "0.1", "0.2", "0.3"]
    );
    assert!(ticks(0.0, 4.0).is_empty() && ticks(f64::NAN, 4.0).is_empty());
}

#[test]
fn lines_stay_inside() {
    let line = CHART.line("p0", &[(0.0, 0.0), (5.0, 50.0), (10.0, 1e9), (-1.0, -5.0)]).into_string();
    assert!(line.contains("M58 110L503 64L948 18L58 110"), "{line}");
}

#[test]
fn many_samples_become_few_points() {
    for samples in [0, 1, 2, 449, 450, 451, 2_000] {
        let drawn: Vec<_> = drawn(samples).collect();
        assert!(drawn.len() <= MAX_POINTS + 1, "{samples}");
        assert_eq!(drawn.last().copied(), samples.checked_sub(1));
        assert!(drawn.windows(2).all(|two| two[0] < two[1]));
    }
}

#[test]
fn names_are_escaped() {
    assert!(CHART.level(5.0, "<&>", Anchor::Left).into_string().contains("&lt;&amp;&gt;"));
}

#[test]
fn labels_have_a_ground_and_stay_inside() {
    for window in Window::ALL {
        let chart = Chart { window, ..CHART };
        for drawn in [
            chart.level(50.0, "sum of the links 80", Anchor::Right),
            chart.level(50.0, "best single path 46.5", Anchor::Left),
            chart.dead(9.9, 10.0, "path 1 dead"),
        ] {
            let drawn = drawn.into_string();
            let (_, ground) = drawn.split_once("class=\"ground\" x=\"").unwrap();
            let mut numbers = ground.split('"');
            let left: f64 = numbers.next().unwrap().parse().unwrap();
            let width: f64 = numbers.nth(3).unwrap().parse().unwrap();
            assert!(left > 0.0 && left + width <= window.width(), "{window:?}: {drawn}");
        }
    }
}
