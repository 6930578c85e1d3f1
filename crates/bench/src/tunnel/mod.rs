//! The tunnel of `anabranch proxy` over links in user space: rates, gaps, losses, memory and CPU time.

mod cases;
mod idle;
mod plain;
mod quic;
mod site;
mod tcp;
mod udp;
mod wireguard;

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use self::cases::{Case, Kind};
use self::site::Site;
use crate::Error;
use crate::report::{Report, median, rounded};
use crate::stacks::Ours;

#[derive(Args)]
pub(crate) struct Options {
    /// Only these cases: names, or their beginnings before a dash, as in tcp-2x100,udp,profile
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    cases: Vec<String>,
    /// Number of runs of each case, whose medians are reported
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Seconds of each flow; the case `outage` lasts three times as long, and its first link is dead in the
    /// middle third
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// List the cases
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    ours: Ours,
}

/// Settings of all cases.
struct Settings {
    /// Duration of a flow.
    time: Duration,
    /// Time for the paths to open before a flow begins.
    settle: Duration,
}

/// Results of one run; `None` for figures that the case does not measure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Figures {
    mbps: Option<f64>,
    gap_ms: Option<f64>,
    /// Time from the end of an outage until the rate is at least 90 % of the rate before it.
    full_rate_ms: Option<f64>,
    loss_percent: Option<f64>,
    /// Loss without the first two seconds, in which the connection finds the rates of its paths.
    steady_loss_percent: Option<f64>,
    jitter_ms: Option<f64>,
    cpu_s_per_gb: Option<f64>,
    packets_per_s: Option<f64>,
    bytes_per_flow: Option<f64>,
}

/// Names of the figures in JSON, and their values.
type Named = [(&'static str, Option<f64>); 9];

impl Figures {
    fn named(&self) -> Named {
        [
            ("mbps", self.mbps),
            ("gap_ms", self.gap_ms),
            ("full_rate_ms", self.full_rate_ms),
            ("loss_percent", self.loss_percent),
            ("steady_loss_percent", self.steady_loss_percent),
            ("jitter_ms", self.jitter_ms),
            ("cpu_s_per_gb", self.cpu_s_per_gb),
            ("packets_per_s", self.packets_per_s),
            ("bytes_per_flow", self.bytes_per_flow),
        ]
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let chosen = chosen(&options.cases)?;
    if options.list {
        return Ok(list(&chosen));
    }
    let settings =
        Settings { time: Duration::from_secs(options.seconds), settle: Duration::from_millis(1_500) };
    let mut rows = Vec::new();
    for case in chosen {
        let mut runs = Vec::new();
        for repeat in 0..options.repeat {
            eprintln!("{}: run {} of {}", case.name, repeat + 1, options.repeat);
            let figures = measure(&case, &options.ours, u64::from(repeat), &settings);
            runs.push(figures.map_err(|error| format!("{}: {error}", case.name))?);
        }
        rows.push((case, medians(&runs)));
    }
    Ok(report(options, &rows))
}

fn chosen(names: &[String]) -> Result<Vec<Case>, Error> {
    let mut all = cases::all();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|case| case.is_named(name))) {
        return Err(format!("there is no case {unknown}; --list shows them").into());
    }
    all.retain(|case| names.is_empty() || names.iter().any(|name| case.is_named(name)));
    Ok(all)
}

fn measure(case: &Case, ours: &Ours, seed: u64, settings: &Settings) -> Result<Figures, Error> {
    let site = || Site::start(ours, case.links, 100 * seed);
    match case.kind {
        Kind::Tcp { up } => tcp::measure(site()?, up, settings),
        Kind::Outage => tcp::outage(site()?, settings),
        Kind::Quic { ordered } => quic::measure(site()?, case, settings, ordered),
        Kind::Udp { mbps, len } => udp::measure(site()?, mbps, len, settings),
        Kind::WireGuard { mbps, len } => wireguard::measure(mbps, len, settings),
        Kind::Idle { udp } => idle::measure(site()?, udp),
        Kind::Plain => plain::measure(ours, settings),
    }
}

/// Returns the median of each figure; `None` for a figure that not all runs have.
fn medians(runs: &[Figures]) -> Named {
    let mut all = Figures::default().named();
    for (at, (_, figure)) in all.iter_mut().enumerate() {
        let values: Vec<f64> = runs.iter().filter_map(|run| run.named()[at].1).collect();
        *figure = (values.len() == runs.len() && !values.is_empty()).then(|| median(&values));
    }
    all
}

fn report(options: &Options, rows: &[(Case, Named)]) -> Report {
    let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| rounded(value).to_string());
    let cells = |(case, figures): &(Case, Named)| {
        let mut cells = vec![case.name.clone(), cell(case.sum())];
        cells.extend(figures.iter().map(|(_, value)| cell(*value)));
        cells
    };
    let json = |(case, figures): &(Case, Named)| {
        let mut row = json!({
            "case": case.name,
            "sum_of_links_mbps": case.sum(),
            "better_link_mbps": case.links.iter().map(|link| link.mbps).reduce(f64::max),
        });
        for (name, value) in figures {
            row[*name] = value.map_or(Value::Null, |value| json!(rounded(value)));
        }
        row
    };
    Report {
        title: format!(
            "Tunnels over links in user space, medians of {} runs of {} s; CPU time is that of both ends",
            options.repeat, options.seconds
        ),
        columns: vec![
            "case",
            "links Mbit/s",
            "Mbit/s",
            "gap ms",
            "full rate ms",
            "loss %",
            "steady loss %",
            "jitter ms",
            "CPU s/GB",
            "packets/s",
            "bytes/flow",
        ],
        rows: rows.iter().map(cells).collect(),
        json: json!({ "rows": rows.iter().map(json).collect::<Vec<_>>() }),
    }
}

fn list(cases: &[Case]) -> Report {
    let link = |link: &anabranch_lab::tunnel::Link| {
        let mut text = format!("{} Mbit/s {} ms", link.mbps, link.delay);
        if link.jitter > 0 {
            text += &format!(" ±{} ms", link.jitter);
        }
        if link.loss > 0.0 {
            text += &format!(" {} %", link.loss);
        }
        text
    };
    let described = |case: &Case| match case.links {
        [] => "loopback".to_owned(),
        links => links.iter().map(link).collect::<Vec<_>>().join(" + "),
    };
    Report {
        title: "Cases, with the rate, the delay of each direction, jitter and loss of their links".to_owned(),
        columns: vec!["case", "links"],
        rows: cases.iter().map(|case| vec![case.name.clone(), described(case)]).collect(),
        json: json!({ "cases": cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_those_of_each_figure() {
        let run = |mbps, gap_ms| Figures { mbps: Some(mbps), gap_ms, ..Figures::default() };
        let medians = medians(&[run(3.0, Some(1.0)), run(1.0, None), run(2.0, Some(2.0))]);
        assert_eq!(medians[0], ("mbps", Some(2.0)));
        assert_eq!(medians[1], ("gap_ms", None), "one run has none");
        assert_eq!(medians[3].1, None);
    }

    #[test]
    fn cases_are_chosen_by_name_and_in_their_order() {
        let names = |patterns: &[&str]| -> Vec<String> {
            let patterns: Vec<_> = patterns.iter().map(|&name| name.to_owned()).collect();
            chosen(&patterns).unwrap().into_iter().map(|case| case.name).collect()
        };
        assert_eq!(names(&["idle", "outage"]), ["outage", "idle-tcp", "idle-udp"]);
        assert_eq!(names(&[]).len(), cases::all().len());
        assert!(chosen(&["nothing".to_owned()]).is_err());
    }
}
