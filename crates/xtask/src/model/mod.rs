//! `cargo xtask model`: compares the lab's link with ns-3, packet by packet, on the same packet trains.

mod draw;
mod lab;
mod ns3;
mod reference;
mod train;

use std::path::Path;

use draw::{CLASSES, Class};
use ns3::Ns3;
use train::{Arrival, Train};

/// Selection of the trains that are sent.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Seed of the trains
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of trains of each class, about 300 packets each
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    trains: u16,
    /// If ns-3 is missing, print that, and succeed if the lab follows its own rules
    #[arg(long)]
    allow_missing: bool,
}

/// Results over the trains of a class.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    packets: usize,
    /// Number of packets that the lab's link dropped.
    dropped: usize,
    /// Number of packets for which the lab's link deviates from its rules.
    lab_wrong: usize,
    /// Number of packets for which ns-3 deviates from its rules.
    ns3_wrong: usize,
    /// Number of packets for which both links agree to the nanosecond.
    equal: usize,
    /// Number of packets that only one of the links dropped.
    dropped_by_one: usize,
    /// Largest difference between the two arrivals, in nanoseconds.
    largest: u64,
}

/// Prints the table. Returns whether all results are equal or explained.
pub(super) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let ns3 = Ns3::build(root)?;
    match &ns3 {
        Some(ns3) => {
            println!("ns-3 {}, seed {}, {} trains a class", ns3.version, arguments.seed, arguments.trains);
        }
        None => println!("skipped: ns-3 is not installed; the lab's link is held against its own rules only"),
    }
    println!(
        "{:<12} {:>7} {:>8} {:>8} {:>7} {:>9} {:>11}  result",
        "class", "packets", "dropped", "equal", "differ", "drop in 1", "largest, ns"
    );
    let mut good = ns3.is_some() || arguments.allow_missing;
    for class in CLASSES {
        let trains = class.trains(arguments.seed, arguments.trains.into());
        let theirs = ns3.as_ref().map(|ns3| ns3.run(&trains)).transpose()?;
        let tally = compare(class, &trains, theirs.as_deref());
        let (passed, verdict) = judge(class, &tally, theirs.is_some());
        good &= passed;
        print_row(class, &tally, theirs.is_some(), &verdict);
    }
    Ok(good)
}

/// Compares both links with the rules, and with each other.
fn compare(class: &Class, trains: &[Train], theirs: Option<&[Vec<Arrival>]>) -> Tally {
    let rules = class.rules();
    let their_rules = class.rule.map_or(rules, |rule| rules.with(rule));
    let mut tally = Tally::default();
    for (index, train) in trains.iter().enumerate() {
        let ours = lab::run(train, rules.framing);
        tally.packets += ours.len();
        tally.dropped += ours.iter().filter(|arrival| arrival.is_none()).count();
        tally.lab_wrong += differences(&ours, &reference::run(train, rules));
        if let Some(theirs) = theirs.and_then(|theirs| theirs.get(index)) {
            tally.ns3_wrong += differences(theirs, &reference::run(train, their_rules));
            tally.against(&ours, theirs);
        }
    }
    tally
}

impl Tally {
    fn against(&mut self, ours: &[Arrival], theirs: &[Arrival]) {
        for pair in ours.iter().zip(theirs) {
            self.equal += usize::from(pair.0 == pair.1);
            match pair {
                (Some(ours), Some(theirs)) => self.largest = self.largest.max(ours.abs_diff(*theirs)),
                (None, None) => {}
                _ => self.dropped_by_one += 1,
            }
        }
    }
}

fn differences(one: &[Arrival], other: &[Arrival]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count() + one.len().abs_diff(other.len())
}

/// Judges a class. Without a rule, the results of all packets must be equal. With a rule, some results must
/// differ, because the class would otherwise show nothing. The rule must explain all differences.
fn judge(class: &Class, tally: &Tally, compared: bool) -> (bool, String) {
    let differ = tally.packets - tally.equal;
    if tally.lab_wrong > 0 {
        return (false, format!("FAIL: the lab breaks its rules for {} packets", tally.lab_wrong));
    }
    if tally.dropped == 0 || tally.dropped == tally.packets {
        return (false, "FAIL: shows nothing, for all or no packets are dropped".to_owned());
    }
    if !compared {
        return (true, "lab follows its rules".to_owned());
    }
    if tally.ns3_wrong > 0 {
        return (false, format!("FAIL: {} packets in ns-3 are not explained", tally.ns3_wrong));
    }
    match class.rule {
        None if differ > 0 => (false, "FAIL: not equal".to_owned()),
        None => (true, "equal".to_owned()),
        Some(_) if differ == 0 => (false, "FAIL: shows nothing, for nothing differs".to_owned()),
        Some(rule) => (true, format!("explained: {}", rule.text())),
    }
}

fn print_row(class: &Class, tally: &Tally, compared: bool, verdict: &str) {
    let figure = |value: u64| if compared { value.to_string() } else { "-".to_owned() };
    let [equal, differ, one] =
        [tally.equal, tally.packets - tally.equal, tally.dropped_by_one].map(|count| figure(count as u64));
    let largest = figure(tally.largest);
    println!(
        "{:<12} {:>7} {:>8} {equal:>8} {differ:>7} {one:>9} {largest:>11}  {verdict}",
        class.name, tally.packets, tally.dropped
    );
}

#[cfg(test)]
mod tests;
