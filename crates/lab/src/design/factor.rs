//! Factors. A factor maps a coordinate of a design to a value of one parameter.

/// Values of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// A constant value, which needs no dimension.
    Constant(f64),
    /// Range from the lowest to the highest value.
    Range(f64, f64),
    /// List of values.
    Values(Vec<f64>),
}

impl Factor {
    /// Returns whether the parameter needs a dimension of the design.
    pub fn varies(&self) -> bool {
        !matches!(self, Self::Constant(_))
    }

    /// Returns the value at coordinate `unit`. In a range it is `lowest + unit · (highest − lowest)`, rounded
    /// to two decimals as in the published designs. In a range that is narrower than theirs, it is rounded to
    /// more decimals. In a list each value has an equal share of the coordinate.
    pub fn at(&self, unit: f64) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Range(lowest, highest) => {
                let width = highest - lowest;
                let decimals = (1.0 - width.log10().floor()).clamp(2.0, 12.0);
                let scale = 10_f64.powf(decimals);
                (((lowest + unit * width) * scale).round() / scale).clamp(*lowest, *highest)
            }
            Self::Values(values) => {
                let index = (unit * values.len() as f64) as usize;
                values.get(index.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_within_their_ranges() {
        let range = Factor::Range(2.5, 100.0);
        assert_eq!([range.at(0.0), range.at(0.5), range.at(1.0)], [2.5, 51.25, 100.0]);
        assert_eq!(range.at(0.123_456), 14.54);
        assert_eq!(Factor::Range(0.1, 0.9).at(0.123_456), 0.2);
        // A narrow range has more decimals, and rounded values stay within it.
        let narrow = Factor::Range(0.001, 0.002);
        assert_eq!([narrow.at(0.0), narrow.at(0.2), narrow.at(1.0)], [0.001, 0.0012, 0.002]);
        assert_eq!(Factor::Range(0.004, 1.004).at(0.0), 0.004);
        assert_eq!(Factor::Range(3.0, 3.0).at(0.7), 3.0);
        assert_eq!(Factor::Constant(7.0).at(0.3), 7.0);
        let values = Factor::Values(vec![1.0, 5.0, 9.0]);
        assert_eq!(
            [0.0, 0.33, 0.34, 0.5, 0.67, 1.0].map(|unit| values.at(unit)),
            [1.0, 1.0, 5.0, 5.0, 9.0, 9.0]
        );
    }
}
