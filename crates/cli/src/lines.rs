//! Lines written by a separate thread, so that a blocked reader does not delay the program. Lines that exceed
//! the queue are dropped and counted.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Maximum number of lines that wait to be written.
const MAX_WAITING: usize = 4_096;
/// Maximum time that [`Lines::flush`] waits.
const FLUSH: Duration = Duration::from_millis(500);

/// Queue of lines for the writing thread. Cloning it is cheap.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    queue: SyncSender<Message<T>>,
    lost: Arc<AtomicU64>,
}

impl<T> Clone for Lines<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), lost: Arc::clone(&self.lost) }
    }
}

#[derive(Debug)]
enum Message<T> {
    Line(T),
    /// Request to flush. The sender is notified when all earlier lines are written.
    Flush(SyncSender<()>),
}

/// Functions that format an entry, and the number of dropped entries.
pub(crate) struct Form<T> {
    pub(crate) line: fn(&T) -> String,
    pub(crate) lost: fn(u64) -> String,
}

impl<T: Send + 'static> Lines<T> {
    /// Starts the thread that writes to `out`.
    pub(crate) fn start(out: impl Write + Send + 'static, form: Form<T>) -> Self {
        let lost = Arc::new(AtomicU64::new(0));
        let (queue, lines) = sync_channel(MAX_WAITING);
        let counter = Arc::clone(&lost);
        // A write error cannot be reported anywhere.
        std::thread::spawn(move || _ = write_all(&lines, out, &form, &counter));
        Self { queue, lost }
    }

    /// Queues a line without waiting. Drops the line if the queue is full.
    pub(crate) fn push(&self, line: T) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all queued lines are written, but at most [`FLUSH`].
    pub(crate) fn flush(&self) {
        let (tell, told) = sync_channel(1);
        if self.queue.try_send(Message::Flush(tell)).is_ok() {
            let _ = told.recv_timeout(FLUSH);
        }
    }
}

/// Writes queued lines until all senders are gone. Flushes `out` whenever the queue is empty.
fn write_all<T>(
    lines: &Receiver<Message<T>>,
    out: impl Write,
    form: &Form<T>,
    lost: &AtomicU64,
) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    while let Ok(first) = lines.recv() {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => writeln!(out, "{}", (form.line)(&line))?,
                Message::Flush(tell) => {
                    out.flush()?;
                    let _ = tell.send(());
                }
            }
            next = lines.try_recv().ok();
        }
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lost => writeln!(out, "{}", (form.lost)(lost))?,
        }
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn lines_that_nobody_writes_are_bounded() {
        let (queue, _waiting) = sync_channel(MAX_WAITING);
        let lines = Lines { queue, lost: Arc::default() };
        (0..MAX_WAITING + 5).for_each(|n| lines.push(n));
        assert_eq!(lines.lost.load(Ordering::Relaxed), 5);
        let begin = Instant::now();
        lines.flush();
        assert!(begin.elapsed() < 2 * FLUSH);
    }

    #[test]
    fn lost_lines_are_told() {
        let (queue, waiting) = sync_channel(2);
        queue.send(Message::Line(7)).unwrap();
        drop(queue);
        let mut out = Vec::new();
        let form = Form { line: u64::to_string, lost: |lost| format!("{lost} lost") };
        write_all(&waiting, &mut out, &form, &AtomicU64::new(3)).unwrap();
        assert_eq!(out, b"7\n3 lost\n");
    }
}
