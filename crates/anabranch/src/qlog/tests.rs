use super::*;
use anabranch_wire::VarInt;

/// A disk that fills up during a trace.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Output of a subscriber.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the lines that are logged for [`TRACE`] while `happens` runs. Nothing else in this process logs to
/// that target.
fn told(happens: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, happens);
    let text = String::from_utf8(lock(&lines.0).clone()).unwrap();
    text.lines().filter(|line| line.contains(TRACE)).map(str::to_owned).collect()
}

#[test]
fn a_disk_that_fills_up_is_told_once() {
    let failed = Arc::<AtomicBool>::default();
    let lines = told(|| {
        for side in [Side::Client, Side::Server] {
            let group_id = ConnectionId::EMPTY;
            let info = TraceInfo { side, title: String::new(), group_id, clock: Clock::Virtual };
            let file = QlogFile::new("/traces".into(), None, side, None);
            let qlog = Some(Qlog::new(Box::new(Full(40_000)), &info));
            let mut file = QlogFile { qlog, failed: Arc::clone(&failed), ..file };
            for millis in 0..10_000 {
                let event =
                    TraceEvent::PathAbandoned { path: anabranch_wire::PathId(1), code: VarInt::from_u32(0) };
                Observer::event(&mut file, Time::from_millis(millis), &event);
            }
        }
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("traces end: they cannot be written any more dir=/traces error="), "{lines:?}");
}
