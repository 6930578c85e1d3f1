use serde_json::json;

use super::*;

/// Returns the report and the requests of a successful visit.
fn good(site: &Site) -> (Report, Vec<Request>) {
    let loaded = site.files.map(|(path, bytes)| json!({ "path": path, "protocol": "h3", "bytes": bytes }));
    let report = json!({
        "files": loaded, "length": site.files[3].1, "digest": site.digest, "picture": [40, 116],
    });
    let request = |(path, bytes)| json!({ "peer": "127.0.0.1:9", "protocol": "h3", "path": path, "status": 200, "bytes": bytes, "seconds": 0.1 });
    let requests = site.files.map(|file| serde_json::from_value(request(file)).unwrap());
    (serde_json::from_value(report).unwrap(), requests.into())
}

/// Returns the screenshot of a successful visit.
fn shot(site: &Site) -> Picture {
    let mut shot = Picture::plain(VIEW.0, VIEW.1, BACKGROUND);
    shot.paste(&site.picture, 40, 116);
    shot
}

#[test]
fn reports_are_of_whole_files_over_http3() {
    let site = Site::new().unwrap();
    let (good, _) = good(&site);
    assert_eq!(report(&site, &good), [""; 0]);
    assert!(good.is_all("h3") && good.document() == "h3");
    let faults = |spoil: &dyn Fn(&mut Report)| {
        let mut bad = good.clone();
        spoil(&mut bad);
        report(&site, &bad).join("; ")
    };
    assert!(faults(&|bad| bad.files[1].protocol = "h2".to_owned()).contains("/style.css over h2"));
    assert!(faults(&|bad| bad.files[2].bytes -= 1).contains("/river.png"));
    assert_eq!(faults(&|bad| _ = bad.files.remove(3)), "the browser has not loaded /download.bin");
    assert!(faults(&|bad| bad.length += 1).contains("5000001 bytes"));
    assert!(faults(&|bad| bad.digest = "0".repeat(64)).contains("SHA-256 0000"));
}

#[test]
fn the_log_has_each_file_whole_over_http3() {
    let site = Site::new().unwrap();
    let (_, good) = good(&site);
    assert_eq!(log(&site, &good), [""; 0]);
    let faults = |spoil: &dyn Fn(&mut Vec<Request>)| {
        let mut bad = good.clone();
        spoil(&mut bad);
        log(&site, &bad).join("; ")
    };
    assert!(faults(&|bad| bad[0].protocol = "h2".to_owned()).contains(" of / over h3"));
    assert!(faults(&|bad| bad[3].bytes -= 1).contains("5000000 bytes of /download.bin"));
    assert!(faults(&|bad| _ = bad.remove(1)).contains("/style.css"));
    // A file may be requested again, but no request may fail.
    let again = |bad: &mut Vec<Request>| bad.push(bad[0].clone());
    assert_eq!(faults(&again), "");
    let failed = |bad: &mut Vec<Request>| bad.push(Request { status: None, ..bad[0].clone() });
    assert_eq!(faults(&failed), "the server answered / with None");
}

#[test]
fn screenshots_show_the_stylesheet_and_the_picture() {
    let site = Site::new().unwrap();
    let (report, _) = good(&site);
    let faults = |shot: &Picture| screenshot(&site, &report, &shot.encode().unwrap()).join("; ");
    assert_eq!(faults(&shot(&site)), "");
    assert!(faults(&Picture::plain(VIEW.0, VIEW.1, BACKGROUND)).contains("the picture is not shown"));
    let mut white = Picture::plain(VIEW.0, VIEW.1, [255; 3]);
    white.paste(&site.picture, 40, 116);
    assert_eq!(faults(&white).matches("no stylesheet").count(), 4);
    assert!(faults(&Picture::plain(2, 1, BACKGROUND)).contains("the screenshot is 2 by 1"));
    assert!(screenshot(&site, &report, b"GIF89a").join("").contains("not a picture"));
}

#[test]
fn traces_tell_of_both_layers() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(traces(folder.path()).len(), 3);
    let trace =
        |names: &[&str]| names.iter().map(|name| format!("{{\"name\":\"{name}\"}}\n")).collect::<String>();
    fs::write(folder.path().join("a"), trace(&["quic:packet_received", "http3:frame_created"])).unwrap();
    assert_eq!(traces(folder.path()), ["no http3:frame_parsed in the server's qlog"]);
    fs::write(folder.path().join("b"), trace(&["http3:frame_parsed"])).unwrap();
    assert_eq!(traces(folder.path()), [""; 0]);
}
