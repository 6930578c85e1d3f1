use super::*;

/// Returns rows of every kind: empty, full and extreme.
pub(crate) fn rows() -> Vec<Row> {
    let full = Row {
        experiment: "e".into(),
        variant: "single, \"ar5\"".into(),
        point: 94,
        repetition: 2,
        seed: u64::MAX,
        wire: "reverso".into(),
        failure: "x\ny".into(),
        transfer_time_s: Some(0.1 + 0.2),
        max_times_sent: Some(u64::MAX),
        ranges_histogram: vec![1, 2, u64::MAX],
        placed_bytes: Some(0),
        eben: Some(-0.25),
        request_delays_s: vec![0.5, 1.0 / 3.0],
        path_bytes: vec![0],
        ..Row::default()
    };
    vec![Row::default(), full.clone(), Row { ranges_histogram: vec![], ..full }, Row::default()]
}

#[test]
fn every_field_is_a_column() {
    assert!(column::is_complete(Row::default()));
}

#[test]
fn rows_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &rows()).unwrap();
    assert_eq!(read(dir.path()).unwrap(), rows());
    let bytes = |name| fs::read(dir.path().join(name)).unwrap();
    let before = [bytes(PARQUET), bytes(CSV)];
    write(dir.path(), &rows()).unwrap();
    assert_eq!(before, [bytes(PARQUET), bytes(CSV)]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left behind");
    write(dir.path(), &[]).unwrap();
    assert_eq!(read(dir.path()).unwrap(), []);
}

#[test]
fn text_has_the_columns_in_their_order() {
    let mut text = Vec::new();
    csv::write(&mut text, &rows()[1..2]).unwrap();
    let mut reader = ::csv::Reader::from_reader(&text[..]);
    let names = "experiment,variant,point,repetition,seed,commit,wire,failure,path_rate_mbps,";
    assert!(String::from_utf8(text.clone()).unwrap().starts_with(names));
    let at = |name| COLUMNS.iter().position(|column| column.name == name).unwrap();
    let record = reader.records().next().unwrap().unwrap();
    assert_eq!(&record[at("variant")], "single, \"ar5\"");
    assert_eq!(&record[at("transfer_time_s")], "0.30000000000000004");
    assert_eq!(&record[at("ranges_histogram")], "1;2;18446744073709551615");
    assert_eq!(&record[at("mean_ranges")], "");
}

#[test]
fn timelines_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let timeline = Timeline { bin_s: 0.016, reordering: vec![1, 2], ..Timeline::default() };
    let all = vec![RunTimeline { variant: "v".into(), point: 3, repetition: 1, timeline }; 2];
    write_timelines(dir.path(), all.iter().cloned().map(Ok)).unwrap();
    assert_eq!(timelines(dir.path()).unwrap(), all);
    let fault = read(dir.path()).unwrap_err().to_string();
    assert!(fault.contains(PARQUET) && fault.lines().count() == 1, "{fault}");
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &rows()).unwrap();
    let full = || Err(io::Error::from(io::ErrorKind::StorageFull));
    assert!(atomically(&dir.path().join(PARQUET), |_| full()).is_err());
    assert_eq!(read(dir.path()).unwrap(), rows());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// `docs/lab-results.md` contains the table that follows from the list of columns.
#[test]
fn the_columns_are_described() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab-results.md");
    let text = fs::read_to_string(page).unwrap();
    assert!(text.contains(&markdown()), "the table should be:\n{}", markdown());
}
