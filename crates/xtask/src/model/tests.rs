use super::*;

/// Runs the reference in place of ns-3, with ns-3's rule for the class.
fn reference_as_ns3(class: &Class, trains: &[Train]) -> Vec<Vec<Arrival>> {
    let rules = class.rules();
    let rules = class.rule.map_or(rules, |rule| rules.with(rule));
    trains.iter().map(|train| reference::run(train, rules)).collect()
}

#[test]
fn the_labs_link_follows_its_rules_in_every_class() {
    for class in CLASSES {
        let tally = compare(class, &class.trains(11, 4), None);
        assert_eq!(tally.lab_wrong, 0, "{}", class.name);
        assert!(tally.dropped > 0 && tally.dropped < tally.packets, "{}: {tally:?}", class.name);
    }
}

#[test]
fn classes_with_a_rule_meet_it_and_those_without_have_nothing_to_explain() {
    for class in CLASSES {
        let trains = class.trains(12, 8);
        let tally = compare(class, &trains, Some(&reference_as_ns3(class, &trains)));
        assert_eq!(tally.equal < tally.packets, class.rule.is_some(), "{}: {tally:?}", class.name);
        assert!(judge(class, &tally, true).0, "{}", class.name);
    }
}

#[test]
fn one_nanosecond_and_one_drop_are_noticed() {
    let class = &CLASSES[0];
    let trains = class.trains(13, 1);
    let mut theirs = reference_as_ns3(class, &trains);
    let arrived = theirs[0].iter().position(Option::is_some).unwrap();
    theirs[0][arrived] = theirs[0][arrived].map(|at| at + 1);
    let tally = compare(class, &trains, Some(&theirs));
    assert_eq!((tally.packets - tally.equal, tally.largest, tally.ns3_wrong), (1, 1, 1));
    assert!(!judge(class, &tally, true).0);
    theirs[0][arrived] = None;
    let tally = compare(class, &trains, Some(&theirs));
    assert_eq!((tally.dropped_by_one, tally.ns3_wrong), (1, 1));
}
