//! Comparison of this library with other stacks on the same links. Over several paths, noq and Linux's
//! Multipath TCP are compared, each with CUBIC, their default, and with BBR. On each path alone, quinn,
//! quiche and Linux's TCP are compared.
//!
//! Other QUIC stacks are guests (`docs/guest-protocol.md`), built with `peers/build.sh guests`. Linux is the
//! kernel of `anabranch lab linux build`, with TLS 1.3. Both ends of a run are the same stack with its
//! defaults. There are two exceptions: the settings that the variant's name states, and the receive windows.
//! All QUIC stacks have this library's maximum window, and Linux has 16 MiB.

use core::time::Duration;

use super::{End, Experiment, ExperimentError, Source, Workload, over};
use crate::guest::Programs;
use crate::profile::{Settings, UnknownLayer, Variant};

/// The experiments that belong together, as `anabranch lab run compare` runs them.
pub const COMPARE: &[&str] = &[
    "compare-2path-50mb",
    "compare-3path-50mb",
    "compare-2path-2mb",
    "compare-3path-2mb",
    "compare-2path-256kb",
    "compare-3path-256kb",
];

/// Creates the comparison `name`: a download over the heterogeneous points of 2022. The name states the
/// number of paths and the size.
pub(super) fn compare(name: &str, source: Source<'_>) -> Result<Experiment, ExperimentError> {
    let three = name.contains("3path");
    let base = over(if three { "ccr22-heterogeneous-3path" } else { "ccr22-heterogeneous-2path" }, source)?;
    let (bytes, size) = match name.rsplit('-').next() {
        Some("256kb") => (256_000, "256 KB"),
        Some("2mb") => (2_000_000, "2 MB"),
        _ => (50_000_000, "50 MB"),
    };
    let paths = if three { 3 } else { 2 };
    let (mut variants, others) = variants(paths)?;
    let usual = variants.len();
    variants.extend(others);
    let points = base.about.rsplit("; ").next().unwrap_or_default();
    Ok(Experiment {
        name: name.to_owned(),
        about: format!("{size} over {paths} different paths, this library beside other stacks; {points}"),
        workload: Workload::Download { bytes, until: End::LastByte },
        points: base.points,
        variants,
        usual,
        repetitions: 1,
        deadline: Duration::from_secs(1000),
    })
}

/// Returns the variants that run by default, and those that run only on request.
fn variants(paths: usize) -> Result<(Vec<Variant>, Vec<Variant>), UnknownLayer> {
    let mut usual =
        vec![own("anabranch-multiple", "multiple", &[])?, own("anabranch-single", "single", &[])?];
    usual.push(guest("noq", &["guest-noq"], None));
    usual.push(guest("noq-bbr", &["guest-noq", "--congestion", "bbr"], None));
    usual.extend(linux(&["mptcp", "mptcp-bbr"], 1)?);
    for path in 0..paths {
        usual.push(super::variant::single_path(&["default"], path)?);
    }
    for stack in ["quinn", "quiche"] {
        let program = format!("guest-{stack}");
        usual.extend((0..paths).map(|path| guest(&format!("{stack}-path-{path}"), &[&program], Some(path))));
    }
    usual.extend(linux(&["tcp-cubic", "tcp-bbr"], paths)?);
    let cubic = &["cubic"];
    let mut others = vec![
        own("anabranch-multiple-cubic", "multiple", cubic)?,
        own("anabranch-single-cubic", "single", cubic)?,
    ];
    for stack in ["quinn", "quiche"] {
        let command = [&format!("guest-{stack}"), "--congestion", "bbr"];
        others
            .extend((0..paths).map(|path| guest(&format!("{stack}-bbr-path-{path}"), &command, Some(path))));
    }
    Ok((usual, others))
}

/// Creates variants of Linux with TLS 1.3. Stacks of TCP have one variant for each of `paths` paths.
fn linux(stacks: &[&str], paths: usize) -> Result<Vec<Variant>, UnknownLayer> {
    let names = stacks.iter().flat_map(|stack| {
        (0..paths).map(move |path| match stack.starts_with("mptcp") {
            true => format!("linux-{stack}-tls13"),
            false => format!("linux-{stack}-path-{path}-tls13"),
        })
    });
    names.map(|name| super::variant::variant(&name)).collect()
}

/// Creates a variant of this library, with another congestion controller if one is named.
fn own(name: &str, numbering: &str, congestion: &[&str]) -> Result<Variant, UnknownLayer> {
    let congestion = congestion.first().and_then(|name| name.parse().ok());
    Variant::with(name, &["default", numbering], Settings { congestion, ..Settings::default() })
}

/// Creates a variant with guests at both ends. If `path` is given, they use only this path.
fn guest(name: &str, command: &[&str], path: Option<usize>) -> Variant {
    let settings = Settings {
        guest: Some(Programs::both(command)),
        multipath: path.map(|_| false),
        paths: path.map(|path| vec![path]),
        ..Settings::default()
    };
    Variant { name: name.to_owned(), settings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stack_meets_the_points_of_2022() {
        for name in COMPARE {
            let experiment = over(name, Source::Drawn(0)).unwrap();
            let paths = experiment.points[0].paths.len();
            assert_eq!(experiment.points.len(), 95);
            let usual: Vec<_> =
                experiment.usual_variants().iter().map(|variant| variant.name.as_str()).collect();
            assert_eq!(usual.len(), 6 + 5 * paths);
            for both in ["noq", "noq-bbr", "linux-mptcp-tls13", "linux-mptcp-bbr-tls13"] {
                assert!(usual.contains(&both), "{both}");
            }
            let Workload::Download { bytes, until: End::LastByte } = experiment.workload else {
                panic!("{name}")
            };
            assert!(name.ends_with(match bytes {
                256_000 => "256kb",
                2_000_000 => "2mb",
                _ => "50mb",
            }));
            for variant in &experiment.variants {
                let used = variant.paths(paths).len();
                let alone = variant.name.contains("-path-");
                assert_eq!(used, if alone { 1 } else { paths }, "{}", variant.name);
            }
        }
    }

    #[test]
    fn congestion_control_is_the_default_but_where_the_name_says_it() {
        let experiment = over("compare-2path-50mb", Source::Drawn(0)).unwrap();
        let of = |name: &str| {
            let variant = experiment.variants.iter().find(|variant| variant.name == name).unwrap();
            variant.server().recovery().congestion().name().to_owned()
        };
        assert_eq!(of("anabranch-multiple-cubic"), "cubic");
        assert_eq!(
            of("anabranch-multiple"),
            anabranch_transport::TransportConfig::default().recovery().congestion().name()
        );
    }
}
