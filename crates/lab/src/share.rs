//! Share of a bottleneck: the goodput of the first connection, compared with that of its competitors.

use std::collections::BTreeMap;

use crate::record::Row;
use crate::stats::{Sample, median};

/// Goodput of a variant, divided by the mean goodput of its competitors.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Share {
    /// The variant's name.
    pub variant: String,
    /// Number of each point with the median ratio of its repetitions.
    pub ratios: Vec<(u64, f64)>,
}

impl Share {
    /// Returns the ratios of all points as a sample.
    pub fn sample(&self) -> Sample {
        self.ratios.iter().map(|(_, ratio)| *ratio).collect()
    }
}

/// Returns the shares in `rows`, in the order of the variants' first rows. Runs without competitors and
/// failed runs do not count.
pub fn of(rows: &[Row]) -> Vec<Share> {
    let mut names: Vec<&str> = Vec::new();
    let mut ratios: BTreeMap<(&str, u64), Vec<f64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.failure.is_empty()) {
        let [own, others @ ..] = &row.flow_goodput_bps[..] else { continue };
        let Some(mean) = others.iter().copied().collect::<Sample>().mean().filter(|mean| *mean > 0.0) else {
            continue;
        };
        if !names.contains(&row.variant.as_str()) {
            names.push(&row.variant);
        }
        ratios.entry((&row.variant, row.point)).or_default().push(own / mean);
    }
    let of = |name: &&str| Share {
        variant: (*name).to_owned(),
        ratios: ratios
            .range((*name, 0)..=(*name, u64::MAX))
            .filter_map(|((_, point), ratios)| Some((*point, median(ratios)?)))
            .collect(),
    };
    names.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_the_goodput_over_the_mean_of_the_others() {
        let row = |variant: &str, point, goodput: &[f64]| Row {
            variant: variant.to_owned(),
            point,
            flow_goodput_bps: goodput.to_vec(),
            ..Row::default()
        };
        let rows = [
            row("lia", 1, &[4.0, 2.0]),
            row("lia", 1, &[2.0, 2.0]),
            row("lia", 1, &[9.0, 1.0]),
            row("lia", 2, &[3.0, 5.0, 7.0]),
            row("alone", 1, &[3.0]),
            Row { failure: "gave up".to_owned(), ..row("olia", 1, &[1.0, 1.0]) },
        ];
        let found = of(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].variant.as_str(), &found[0].ratios[..]), ("lia", &[(1, 2.0), (2, 0.5)][..]));
        assert_eq!(found[0].sample().mean(), Some(1.25));
    }
}
