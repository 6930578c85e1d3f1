use super::*;

fn of(value: &str) -> FlowTerms {
    let mut fields = HeaderMap::new();
    fields.insert(FIELD, value.parse().unwrap());
    FlowTerms::of(&fields)
}

#[test]
fn wishes_are_written_and_read() {
    let terms = FlowTerms::default();
    assert_eq!((terms.value(), FlowTerms::of(&HeaderMap::new())), (None, terms));
    let deadline = Duration::from_millis(50);
    for (terms, text) in [
        (terms.with_copies(), "copies"),
        (terms.with_deadline(deadline), "deadline=50"),
        (terms.with_copies().with_deadline(deadline), "copies, deadline=50"),
        (terms.with_order(deadline), "order=50"),
        (terms.with_deadline(deadline).with_order(2 * deadline), "deadline=50, order=100"),
    ] {
        assert_eq!(terms.value().unwrap(), text);
        assert_eq!(of(text), terms);
    }
    assert_eq!(of("other=1, copies=?1;x, deadline=50"), terms.with_copies().with_deadline(deadline));
    let mut lines = HeaderMap::new();
    for line in ["deadline=20, copies", "deadline=50"] {
        lines.append(FIELD, line.parse().unwrap());
    }
    assert_eq!(FlowTerms::of(&lines), terms.with_copies().with_deadline(deadline));
    assert_eq!(of("deadline=999999999").deadline(), Some(MAX_DEADLINE));
    assert_eq!(of("order=999999999").order(), Some(MAX_HOLD));
    for nothing in [
        "",
        "copies=?0",
        "copies=1",
        "deadline=0",
        "deadline=-5",
        "deadline=1.5",
        "order=0",
        "order",
        "copies, =",
    ] {
        assert_eq!(of(nothing), terms, "{nothing}");
    }
}

#[test]
fn each_number_is_admitted_once_among_max_window() {
    for first in [0, u32::MAX - 700] {
        let mut window = Window::default();
        for n in (0..3 * MAX_WINDOW).map(|n| first.wrapping_add(n)) {
            assert!(window.admit(n), "{n}");
            assert!(!window.admit(n), "{n}");
        }
        // Later numbers may arrive first.
        let next = first.wrapping_add(3 * MAX_WINDOW);
        assert!(window.admit(next.wrapping_add(5)) && window.admit(next) && !window.admit(next));
        assert!(window.admit(next.wrapping_add(4)) && !window.admit(next.wrapping_add(5)));
        // Numbers older than the window are dropped.
        assert!(window.admit(next.wrapping_add(MAX_WINDOW)));
        assert!(window.admit(next.wrapping_add(1)) && !window.admit(next), "{next}");
        // After a leap, all earlier numbers are older than the window.
        assert!(window.admit(next.wrapping_add(1 << 30)) && !window.admit(next.wrapping_add(2)));
    }
}

#[test]
fn numbered_payloads_have_a_prefix() {
    let (from, to) = (Numbers::default(), Numbers::default());
    let [one, two] = [from.prefix(), from.prefix()];
    assert_eq!((one, two), ([2, 0, 0, 0, 0], [2, 0, 0, 0, 1]));
    assert_eq!([to.first(&two), to.first(&one), to.first(&one)], [Some(1), Some(0), None]);
    for bad in [&b""[..], b"\x02\0\0\0", b"\0\0\0\0\x07"] {
        assert_eq!(to.first(bad), None);
    }
}
