//! Tests of the whole file service, without a network.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http_body::Body;
use http_body_util::BodyExt;
use tempfile::TempDir;

use super::root::MAX_LISTED;
use super::*;

/// Creates a root beside a directory that must stay hidden.
fn tree() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(root.join("site")).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(dir.path().join("outside/secret"), "secret").unwrap();
    fs::write(root.join("file.txt"), "0123456789").unwrap();
    fs::write(root.join("sub/deep/a b%2e.json"), "{}").unwrap();
    fs::write(root.join("site/index.html"), "<p>index").unwrap();
    fs::write(root.join("app.js"), "1").unwrap();
    fs::write(root.join("image.png"), "png").unwrap();
    fs::write(root.join("unknown"), "?").unwrap();
    dir
}

fn files(dir: &TempDir) -> Files {
    Files::open(&dir.path().join("root"), true).unwrap()
}

fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Parts {
    let mut builder = Request::builder().method(method).uri(path);
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap().into_parts().0
}

fn get(files: &Files, path: &str) -> Response<FileBody> {
    files.answer(&request("GET", path, &[]))
}

fn header(response: &Response<FileBody>, name: impl http::header::AsHeaderName) -> String {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
}

async fn text(response: Response<FileBody>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn files_and_their_types() {
    let dir = tree();
    let files = files(&dir);
    for (path, expected, content) in [
        ("/file.txt", "text/plain; charset=utf-8", "0123456789"),
        ("/file.txt?query=%zz", "text/plain; charset=utf-8", "0123456789"),
        ("/sub/deep/a%20b%252e.json", "application/json", "{}"),
        ("/app.js", "text/javascript; charset=utf-8", "1"),
        ("/image.png", "image/png", "png"),
        ("/unknown", "application/octet-stream", "?"),
        ("/site/", "text/html; charset=utf-8", "<p>index"),
    ] {
        let response = get(&files, path);
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(header(&response, CONTENT_TYPE), expected, "{path}");
        assert_eq!(header(&response, CONTENT_LENGTH), content.len().to_string(), "{path}");
        for present in ["etag", "last-modified", "date", "accept-ranges", "x-content-type-options"] {
            assert_ne!(header(&response, present), "", "{path} {present}");
        }
        assert_eq!(text(response).await, content, "{path}");
    }
}

#[tokio::test]
async fn head_says_the_same_and_sends_nothing() {
    let dir = tree();
    let files = files(&dir);
    for path in ["/file.txt", "/site/", "/", "/missing", "/sub"] {
        let mut expected = get(&files, path);
        let mut response = files.answer(&request("HEAD", path, &[("range", "bytes=0-1")]));
        assert_eq!(response.status(), expected.status(), "{path}");
        for headers in [expected.headers_mut(), response.headers_mut()] {
            headers.remove("date");
        }
        assert_eq!(response.headers(), expected.headers(), "{path}");
        assert_eq!(text(response).await, "");
    }
}

#[tokio::test]
async fn statuses() {
    let dir = tree();
    let files = files(&dir);
    let long = format!("/{}", "x".repeat(path::MAX_PATH));
    let long_name = format!("/{}", "x".repeat(300));
    for (path, status) in [
        ("/missing", 404),
        ("/file.txt/", 404),
        ("/file.txt/more", 404),
        ("//file.txt", 404),
        ("/%00", 400),
        ("/file%2etxt%2f..", 400),
        ("/%zz", 400),
        (&long_name, 404),
        (&long, 414),
    ] {
        let response = get(&files, path);
        assert_eq!(response.status(), status, "{path}");
        assert!(text(response).await.starts_with(&status.to_string()));
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let response = files.answer(&request(method, "/file.txt", &[]));
        assert_eq!((response.status().as_u16(), header(&response, "allow").as_str()), (405, "GET, HEAD"));
    }
}

#[test]
fn directories_end_with_a_slash() {
    let dir = tree();
    fs::create_dir(dir.path().join("root/a b")).unwrap();
    let files = files(&dir);
    for (path, location) in
        [("/sub", "/sub/"), ("/sub/deep?a=b", "/sub/deep/?a=b"), ("/a%20b", "/a%20b/"), ("/%73ub", "/sub/")]
    {
        let response = get(&files, path);
        assert_eq!((response.status().as_u16(), header(&response, LOCATION).as_str()), (301, location));
    }
}

#[tokio::test]
async fn listings_can_be_turned_off() {
    let dir = tree();
    let listed = text(get(&files(&dir), "/")).await;
    assert!(listed.contains("href=\"./file.txt\"") && listed.contains("href=\"./sub/\""));
    let quiet = Files::open(&dir.path().join("root"), false).unwrap();
    assert_eq!(get(&quiet, "/").status(), 403);
    assert_eq!(get(&quiet, "/site/").status(), 200);
}

#[tokio::test]
async fn listings_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..MAX_LISTED + 1 {
        fs::write(dir.path().join(n.to_string()), "").unwrap();
    }
    let files = Files::open(dir.path(), true).unwrap();
    let listed = text(get(&files, "/")).await;
    assert_eq!(listed.matches("href=").count(), MAX_LISTED);
    assert!(listed.contains("There are more"));
}

#[tokio::test]
async fn links_lead_nowhere_outside() {
    let dir = tree();
    let root = dir.path().join("root");
    let secret = dir.path().join("outside/secret");
    let link = |target: &Path, name: &str| symlink(target, root.join(name)).unwrap();
    link(&secret, "absolute");
    link(Path::new("../outside/secret"), "relative");
    link(Path::new("relative"), "chain");
    link(Path::new("../outside"), "directory");
    link(Path::new("sub/../../outside/secret"), "winding");
    link(Path::new("loop"), "loop");
    link(Path::new("file.txt"), "inside");
    link(Path::new("inside"), "inside chain");
    link(Path::new("../root/file.txt"), "out and in");
    let files = files(&dir);
    for path in [
        "/absolute",
        "/relative",
        "/chain",
        "/directory/",
        "/directory/secret",
        "/winding",
        "/out%20and%20in",
    ] {
        let response = get(&files, path);
        assert_eq!(response.status(), 403, "{path}");
        assert!(!text(response).await.contains("secret"));
    }
    assert_eq!(get(&files, "/loop").status(), 404);
    assert_eq!(text(get(&files, "/inside")).await, "0123456789");
    assert_eq!(text(get(&files, "/inside%20chain")).await, "0123456789");
    let listed = text(get(&files, "/")).await;
    assert!(listed.contains("inside") && !listed.contains("absolute") && !listed.contains("directory"));
}

#[test]
fn only_files_are_served() {
    let dir = tree();
    let root = dir.path().join("root");
    let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    for path in ["/pipe", "/socket"] {
        assert_eq!(get(&files(&dir), path).status(), 404, "{path}");
    }
}

#[test]
fn what_may_not_be_read_is_forbidden() {
    let dir = tree();
    let file = dir.path().join("root/file.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read every file.
    let expected = if fs::File::open(&file).is_ok() { 200 } else { 403 };
    assert_eq!(get(&files(&dir), "/file.txt").status(), expected);
}

#[tokio::test]
async fn ranges_and_conditions() {
    let dir = tree();
    let files = files(&dir);
    let etag = header(&get(&files, "/file.txt"), "etag");
    let modified = header(&get(&files, "/file.txt"), "last-modified");
    let ask = |fields: &[(&str, &str)]| files.answer(&request("GET", "/file.txt", fields));
    let part = ("range", "bytes=2-4");
    for (fields, status, content) in [
        (vec![part], 206, "234"),
        (vec![("range", "bytes=-3")], 206, "789"),
        (vec![("range", "bytes=0-0,2-3")], 200, "0123456789"),
        (vec![part, ("if-range", &etag)], 206, "234"),
        (vec![part, ("if-range", &modified)], 206, "234"),
        (vec![part, ("if-range", "\"other\"")], 200, "0123456789"),
        (vec![("if-none-match", &etag)], 304, ""),
        (vec![("if-none-match", &etag), part], 304, ""),
        (vec![("if-modified-since", &modified)], 304, ""),
        (vec![("if-match", "\"other\"")], 412, "412 Precondition Failed\n"),
    ] {
        let response = ask(&fields);
        assert_eq!(response.status(), status, "{fields:?}");
        if status == 206 {
            assert!(header(&response, "content-range").ends_with("/10"));
        }
        assert_eq!(text(response).await, content, "{fields:?}");
    }
    let response = ask(&[("range", "bytes=10-")]);
    assert_eq!(
        (response.status().as_u16(), header(&response, "content-range").as_str()),
        (416, "bytes */10")
    );
    let file = fs::File::options().write(true).open(dir.path().join("root/file.txt")).unwrap();
    file.set_modified(file.metadata().unwrap().modified().unwrap() + Duration::from_nanos(1)).unwrap();
    assert_eq!(ask(&[("if-none-match", &etag)]).status(), 200, "another state has another tag");
}

/// Clients that do not read their responses cannot fill the memory with listings.
#[tokio::test]
async fn listings_at_a_time_are_bounded() {
    let dir = tree();
    for number in 0..1_500 {
        fs::write(dir.path().join("root/sub").join(format!("{number:0>200}")), "").unwrap();
    }
    let files = files(&dir);
    let mut waiting: Vec<_> = (0..MAX_LISTINGS).map(|_| get(&files, "/sub/").into_body()).collect();
    // The body is handed over in pieces.
    let first = waiting[0].frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.len() < waiting[0].size_hint().exact().unwrap() as usize);
    assert_eq!(get(&files, "/").status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&files, "/file.txt").status(), StatusCode::OK);
    assert_eq!(waiting.swap_remove(0).collect().await.unwrap().trailers(), None);
    let whole = text(get(&files, "/sub/")).await;
    assert!(whole.ends_with("</html>") && whole.matches("<tr>").count() == 1_502);
    drop(waiting);
    assert_eq!(get(&files, "/").status(), StatusCode::OK);
}
