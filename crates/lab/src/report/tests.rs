use super::{FIGURES, page, write};
use crate::record::{PathTimeline, Row, Timeline};
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
    let page = page("e", &rows, &[timeline("single-cubic-fixed", 3)], &[("ccr22-7a", "<svg/>".to_owned())]);
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
    assert!(
        dir.join(FIGURES).join("ccr22-7a.svg").exists() && dir.join(FIGURES).join("ccr22-7a.png").exists()
    );
    assert!(written.page.exists());
    std::fs::remove_dir_all(&dir).unwrap();
}
