use std::os::unix::net::UnixStream;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn sockets_that_were_left_behind_are_replaced_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    // A process that was killed leaves both files, but no longer holds the lock.
    drop(UnixListener::bind(&path).unwrap());
    File::create(path.with_extension(LOCK)).unwrap();
    let (place, listener) = Place::take_named(&path).unwrap();
    assert_eq!(mode(&path), MODE);
    UnixStream::connect(&path).unwrap();
    listener.accept().unwrap();
    let busy = Place::take_named(&path).unwrap_err();
    assert_eq!(busy.exit(), Exit::BusyPort);
    assert!(busy.to_string().contains("belongs to a running process"), "{busy}");
    UnixStream::connect(&path).unwrap();
    drop(place);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    File::create(&path).unwrap();
    assert_eq!(Place::take_named(&path).unwrap_err().exit(), Exit::Usage);
    assert!(path.exists());
}

#[test]
fn lock_files_are_no_links() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let other = dir.path().join("other");
    std::os::unix::fs::symlink(&other, path.with_extension(LOCK)).unwrap();
    assert_eq!(Place::take_named(&path).unwrap_err().exit(), Exit::Io);
    assert!(!other.exists() && !path.exists());
}

#[test]
fn max_names_processes_of_a_role_have_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("run");
    prepare(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    prepare(&directory).unwrap();
    assert_eq!(mode(&directory), DIRECTORY_MODE);
    let mut places: Vec<_> = (0..MAX_NAMES).map(|_| Place::take_in(&directory, "connect").unwrap()).collect();
    assert!(places[0].0.socket.ends_with("connect.sock") && places[1].0.socket.ends_with("connect-2.sock"));
    assert_eq!(Place::take_in(&directory, "connect").unwrap_err().exit(), Exit::BusyPort);
    assert!(Place::take_in(&directory, "serve").is_ok());
    places.remove(4);
    assert!(Place::take_in(&directory, "connect").unwrap().0.socket.ends_with("connect-5.sock"));
}

#[test]
fn places_that_do_not_belong_to_the_user_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    File::create(&file).unwrap();
    assert!(prepare(&file).is_err());
    let missing = Place::take_named(&dir.path().join("none/x.sock")).unwrap_err();
    assert_eq!(missing.exit(), Exit::Io);
    assert!(missing.to_string().contains("cannot publish the state at"), "{missing}");
    let long = dir.path().join("x".repeat(200)).with_extension(SOCKET);
    assert!(
        Place::take_named(&long).is_ok() || Place::take_named(&long).is_err_and(|e| e.exit() == Exit::Io)
    );
}
