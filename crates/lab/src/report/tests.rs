use serde_json::{Value, json};

use super::{FIGURES, page, write};
use crate::record::{PathTimeline, Row, Timeline};
use crate::stats::Sample;
use crate::store::RunTimeline;

fn row(variant: &str, point: u64, time: f64) -> Row {
    Row {
        experiment: "ccr22-heterogeneous-3path".to_owned(),
        variant: variant.to_owned(),
        point,
        transfer_time_s: Some(time),
        ..Row::default()
    }
}

fn timeline(variant: &str, point: u64) -> RunTimeline {
    let path = PathTimeline { sent: vec![1, 2], window: vec![3, 4], ..PathTimeline::default() };
    let timeline = Timeline { bin_s: 0.5, paths: vec![path], reordering: vec![0, 7] };
    RunTimeline { variant: variant.to_owned(), point, repetition: 0, timeline }
}

#[test]
fn a_page_has_everything_in_it() {
    let rows = [row("single-cubic-fixed", 3, 4.5)];
    let page = page(
        "e",
        &rows,
        &[timeline("single-cubic-fixed", 3)],
        &[("ccr22-7a".to_owned(), "<svg/>".to_owned())],
    );
    for place in ["title", "style", "library", "figures", "data", "script"] {
        assert!(!page.contains(&format!("{{{{{place}}}}}")), "{place} is left empty");
    }
    for part in
        ["<title>e</title>", "\"transfer_time_s\":4.5", "\"reordering\":[0,7]", "<figure id=\"ccr22-7a\">"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script src"), "nothing is fetched");
    assert!(page.len() > 1_000_000, "the plotting library is part of it");
}

#[test]
fn no_name_ends_the_script() {
    let page = page("e", &[row("</script><b>", 0, 1.0)], &[], &[]);
    assert!(!page.contains("</script><b>") && page.contains("\\u003c/script>\\u003cb>"));
}

#[test]
fn figures_are_written_beside_the_page() {
    let dir = std::env::temp_dir().join(format!("anabranch-report-{}", std::process::id()));
    let rows = [row("single-cubic-fixed", 3, 4.5), row("single-cubic-fixed", 4, 5.5)];
    let written = write(&dir, &rows, &[]).unwrap();
    assert_eq!(written.figures, ["ccr22-7a"]);
    assert_eq!(written.missing, ["ccr22-7b"]);
    for ending in ["svg", "pdf", "png"] {
        assert!(dir.join(FIGURES).join(format!("ccr22-7a.{ending}")).exists(), "{ending}");
    }
    assert!(written.page.exists());
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Runs a script that prints a value as JSON. Returns `None` on a machine without node.
fn node(script: &str) -> Option<Value> {
    let Ok(output) = std::process::Command::new("node").args(["-e", script]).output() else {
        assert!(std::env::var_os("STRICT").is_none(), "STRICT: nothing may be skipped");
        eprintln!("skipped: no node to run the page's script");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Stand-ins for the document and the plotting library. They store the values that the page's script passes
/// to them, by the element's name.
const STAND_IN: &str = r#"
const element = () => ({
  add(option) { this.value ??= option.value; },
  addEventListener() {}, on() {}, replaceChildren() {}, appendChild: (child) => child, insertRow: element,
});
const elements = { data: { textContent: DATA } };
globalThis.document = { getElementById: (id) => (elements[id] ??= element()), createElement: element };
globalThis.Option = function (text, value) { this.value = value; };
const drawn = {};
globalThis.Plotly = { react: (id, traces, layout) => (drawn[id] = { traces, layout }), purge: (id) => delete drawn[id] };
"#;

/// The page draws, for each path over time, the reason why it sent nothing more.
#[test]
fn the_page_shows_why_paths_were_idle() {
    let mut run = timeline("single-cubic-fixed", 3);
    let reasons = |all: [&str; 2]| all.map(str::to_owned).to_vec();
    run.timeline.paths[0].idle = reasons(["congestion_window", ""]);
    run.timeline
        .paths
        .push(PathTimeline { idle: reasons(["scheduler", "nothing_to_send"]), ..PathTimeline::default() });
    // Results of earlier versions have no reasons.
    run.timeline.paths.push(PathTimeline::default());
    let rows = [row("single-cubic-fixed", 3, 4.5)];
    let page = page("e", &rows, &[run], &[]);
    assert!(page.contains("<div id=\"idle\""), "there is a place for the chart");
    let between = |start: &str| page.rsplit_once(start).unwrap().1.split_once("</script>").unwrap().0;
    let (data, script) = (between("id=\"data\">"), between("<script>\n"));
    let data = serde_json::to_string(data).unwrap();
    let stand_in = STAND_IN.replace("DATA", &data);
    let script = format!("{stand_in}(() => {{{script}}})();\nconsole.log(JSON.stringify(drawn));");
    let Some(drawn) = node(&script) else { return };

    let idle = &drawn["idle"];
    assert_eq!(idle["layout"]["yaxis"]["title"]["text"], "held back by");
    let traces: Vec<[&Value; 3]> = idle["traces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trace| ["name", "x", "y"].map(|name| &trace[name]))
        .collect();
    let times = json!([0.5, 1]);
    assert_eq!(
        traces,
        [
            [&json!("path 0"), &times, &json!(["congestion window", "may send"])],
            [&json!("path 1"), &times, &json!(["scheduler", "nothing to send"])],
            [&json!("path 2"), &times, &json!([])],
        ]
    );
    assert_eq!(drawn["sent"]["traces"].as_array().unwrap().len(), 3, "the other charts are drawn, too");
}

/// The page's script computes the same percentiles as tables and figures, and its curves begin at 0.
#[test]
fn the_page_has_the_same_percentiles() {
    let shares = [0.0, 0.05, 0.1, 0.25, 0.5, 0.9, 0.95, 1.0];
    let samples =
        [vec![], vec![7.0], vec![8.0, 8.22, 8.606, 9.1], (0..20).map(|n| f64::from(n * n)).collect()];
    let script = format!(
        "{}\nconst all = {samples:?}.map((values) => [{shares:?}.map((share) => percentile(values, share)), steps(values)]);\n\
         console.log(JSON.stringify(all));",
        include_str!("stats.js")
    );
    let Some(found) = node(&script) else { return };
    let found = found.as_array().unwrap();
    for (values, found) in samples.iter().zip(found) {
        let sample: Sample = values.iter().copied().collect();
        for (share, found) in shares.iter().zip(found[0].as_array().unwrap()) {
            let (found, expected) = (found.as_f64(), sample.percentile(*share));
            let close =
                found.zip(expected).map_or(found == expected, |(one, other)| (one - other).abs() < 1e-9);
            assert!(close, "{share} of {values:?}: {found:?} instead of {expected:?}");
        }
        let shares = found[1]["y"].as_array().unwrap();
        assert_eq!(shares.len(), if values.is_empty() { 0 } else { values.len() + 1 });
        assert_eq!(shares.first().and_then(Value::as_f64), (!values.is_empty()).then_some(0.0));
    }
}
