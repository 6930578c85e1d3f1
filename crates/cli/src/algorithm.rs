//! Names of schedulers and congestion controllers on the command line, outside of `anabranch lab`.

use std::str::FromStr;

use anabranch::{congestion, schedule};

/// Parses the name of a congestion controller. Controllers that are only for research are refused.
pub(crate) fn controller(name: &str) -> Result<congestion::Algorithm, String> {
    use congestion::Algorithm;
    production(name, Algorithm::NAMES, Algorithm::is_for_research)
}

/// Parses the name of a scheduler. Schedulers that are only for research are refused.
pub(crate) fn scheduler(name: &str) -> Result<schedule::Algorithm, String> {
    use schedule::Algorithm;
    production(name, Algorithm::NAMES, Algorithm::is_for_research)
}

/// Parses a name; an error lists those of `names` that may be used.
fn production<A: Copy + FromStr>(
    name: &str,
    names: &[&str],
    is_for_research: fn(A) -> bool,
) -> Result<A, String> {
    let usable = |name: &str| name.parse().ok().filter(|algorithm| !is_for_research(*algorithm));
    if let Some(algorithm) = usable(name) {
        return Ok(algorithm);
    }
    let names: Vec<_> = names.iter().copied().filter(|name| usable(name).is_some()).collect();
    let reason = match name.parse::<A>() {
        Ok(_) => "it only repeats a published study, in `anabranch lab`; ",
        Err(_) => "",
    };
    Err(format!("{reason}use one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_usable_or_refused_with_the_reason() {
        for name in congestion::Algorithm::NAMES {
            let is_for_research = name.parse::<congestion::Algorithm>().unwrap().is_for_research();
            let studied = ["bbr1", "cubic-20"].iter().any(|study| name.starts_with(study));
            assert_eq!(is_for_research, studied, "{name}");
            match controller(name) {
                Ok(algorithm) => assert_eq!((algorithm.name(), is_for_research), (*name, false)),
                Err(error) => {
                    assert!(is_for_research && error.contains("published study"), "{name}: {error}");
                    assert!(error.contains("cubic, bbr,") && !error.contains("bbr1"), "{error}");
                }
            }
        }
        let refused = schedule::Algorithm::NAMES.iter().filter(|name| scheduler(name).is_err());
        let expected: &[_] = if cfg!(feature = "lab") { &["min-rtt-duplicate", "least-recent"] } else { &[] };
        assert!(refused.eq(expected));
        assert_eq!(
            scheduler("best").unwrap_err().find("use one of confluence, min-rtt, round-robin"),
            Some(0)
        );
    }
}
