//! Stacks in the results of comparisons: variants that differ only in the one path that they use are one stack,
//! of which the fastest run at each point counts.

use std::collections::BTreeMap;

use crate::record::Row;

/// Between the name of a stack and the number of the path that it uses alone.
const PATH: &str = "-path-";

/// Returns the stack of a variant, and whether the variant uses one path alone. Such a stack has `best-path`
/// in its name; the library's own is `anabranch-best-path`, whose variants are called `quic-path-N`.
pub fn of(variant: &str) -> (String, bool) {
    match variant.split_once(PATH) {
        Some(("quic", _)) => ("anabranch-best-path".to_owned(), true),
        Some((stack, _)) => (format!("{stack}-best-path"), true),
        None => (variant.to_owned(), false),
    }
}

/// Returns the fastest run of each stack for each point and repetition, by stacks. Runs that failed do not
/// count.
pub fn best(rows: &[Row]) -> BTreeMap<(String, u64, u32), &Row> {
    let mut best: BTreeMap<_, &Row> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.failure.is_empty() && row.transfer_time_s.is_some()) {
        let slot = best.entry((of(&row.variant).0, row.point, row.repetition)).or_insert(row);
        if row.transfer_time_s < slot.transfer_time_s {
            *slot = row;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_single_paths_the_fastest_counts() {
        let row = |variant: &str, point, time| Row {
            variant: variant.to_owned(),
            point,
            transfer_time_s: Some(time),
            ..Row::default()
        };
        let failed = Row { failure: "gave up".to_owned(), ..row("quinn-path-0", 1, 0.1) };
        let rows = [
            row("quinn-path-0", 0, 5.0),
            row("quinn-path-1", 0, 4.0),
            failed,
            row("quinn-path-1", 1, 6.0),
            row("noq", 0, 3.0),
            row("quic-path-1", 0, 8.0),
        ];
        let told: Vec<_> = best(&rows)
            .into_iter()
            .map(|((stack, point, _), row)| (stack, point, row.transfer_time_s.unwrap()))
            .collect();
        let expected = [
            ("anabranch-best-path", 0, 8.0),
            ("noq", 0, 3.0),
            ("quinn-best-path", 0, 4.0),
            ("quinn-best-path", 1, 6.0),
        ];
        assert_eq!(told, expected.map(|(stack, point, time)| (stack.to_owned(), point, time)));
    }

    #[test]
    fn linux_variants_are_stacks_of_their_own() {
        assert_eq!(of("linux-mptcp-cubic"), ("linux-mptcp-cubic".to_owned(), false));
        assert_eq!(of("linux-tcp-bbr-path-2"), ("linux-tcp-bbr-best-path".to_owned(), true));
    }
}
