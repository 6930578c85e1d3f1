use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncReadExt;

use super::*;

#[test]
fn a_guard_admits_one_name_and_password_from_a_file_of_max_file_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("user");
    std::fs::write(&path, "me:pass:word\n").unwrap();
    let guard = Guard::load(&path).unwrap();
    assert!(guard.admits("me", "pass:word"));
    assert!(!guard.admits("me", "pass") && !guard.admits("", "") && !guard.admits("me:pass", "wor"));
    for bad in ["", "me", ":password", "me:\n", &"x:".repeat(MAX_FILE as usize)] {
        std::fs::write(&path, bad).unwrap();
        assert_eq!(Guard::load(&path).unwrap_err().exit(), Exit::Usage);
    }
    // A file without an end is read up to the limit only.
    for bad in ["/nowhere", "/dev/zero"] {
        assert_eq!(Guard::load(Path::new(bad)).unwrap_err().exit(), Exit::Usage);
    }
}

#[tokio::test]
async fn max_programs_are_served_at_a_time() {
    crate::serve::raise_descriptors();
    let place = "127.0.0.1:0".parse().unwrap();
    let local = Local::bind(&place).await.unwrap().unwrap();
    let address = local.address();
    let (served, counted) = (Arc::new(AtomicUsize::new(0)), MAX_PROGRAMS + 8);
    let count = Arc::clone(&served);
    let accepting = tokio::spawn(local.accept(CancellationToken::new(), move |stream: TcpStream| {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            // Waits until the program closes its connection.
            let _ = { stream }.read_u8().await;
        }
    }));
    let mut programs = Vec::new();
    for _ in 0..counted {
        programs.push(TcpStream::connect(address).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(served.load(Ordering::Relaxed), MAX_PROGRAMS);
    programs.drain(..8);
    while served.load(Ordering::Relaxed) < counted {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    accepting.abort();
}

#[tokio::test]
async fn a_port_in_use_has_its_status() {
    let taken = StdTcpListener::bind("127.0.0.1:0").unwrap();
    let place: HostPort = taken.local_addr().unwrap().to_string().parse().unwrap();
    assert_eq!(Local::bind(&place).await.unwrap_err().exit(), Exit::BusyPort);
}
