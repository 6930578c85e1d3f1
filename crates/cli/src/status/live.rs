//! View in a terminal that shows a tunnel's state and updates it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use ratatui::{DefaultTerminal, Frame};
use tokio::runtime::Builder;

use super::read::Reader;
use super::report::Report;
use super::view;
use crate::exit::{Failure, Result};
use crate::signal::Stop;

/// Maximum number of past rates that are kept, one for each second: as many as a wide terminal has columns.
const MAX_HISTORY: usize = 300;
/// Maximum number of received reports that wait to be shown.
const QUEUE: usize = 2;
/// Maximum time that the view waits for a key before it checks for a report.
const LOOK: Duration = Duration::from_millis(100);

/// Content of the view.
#[derive(Debug, Default)]
struct Shown {
    report: Report,
    /// Sums of the rates of all paths, in kbit/s: those up, and those down.
    history: [VecDeque<u64>; 2],
}

impl Shown {
    fn add(&mut self, report: Report) {
        let sum = |rate: fn(&super::report::PathReport) -> f64| report.paths.iter().map(rate).sum::<f64>();
        let rates = [sum(|path| path.sent.rate()), sum(|path| path.received.rate())];
        for (history, rate) in self.history.iter_mut().zip(rates) {
            history.push_back((rate * 1e3) as u64);
            if history.len() > MAX_HISTORY {
                history.pop_front();
            }
        }
        self.report = report;
    }
}

/// Shows the state until the user ends the view, or the process that publishes the state ends.
pub(super) fn run(mut reader: Reader) -> Result {
    let mut shown = Shown::default();
    shown.add(reader.next()?.1);
    let (tell, reports) = sync_channel(QUEUE);
    thread::spawn(move || {
        loop {
            let next = reader.next().map(|(_, report)| report);
            let is_over = next.is_err();
            if tell.send(next).is_err() || is_over {
                return;
            }
        }
    });
    // A signal that ended this process at once would leave the terminal as the view needs it.
    let is_over = caught()?;
    let mut terminal = ratatui::try_init().map_err(|error| Failure::io("cannot use the terminal", &error))?;
    let ended = follow(&mut terminal, &mut shown, &reports, &is_over);
    ratatui::restore();
    ended
}

/// Returns a flag that is set when a signal ends the command.
fn caught() -> Result<Arc<AtomicBool>> {
    let cannot = |error| Failure::io("cannot start the runtime", &error);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    // Signals are caught from here on, and not only once the thread runs.
    let mut stop = {
        let _entered = runtime.enter();
        Stop::catch()?
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&is_over);
    thread::spawn(move || {
        runtime.block_on(stop.wait());
        tell.store(true, Ordering::Relaxed);
    });
    Ok(is_over)
}

fn follow(
    terminal: &mut DefaultTerminal,
    shown: &mut Shown,
    reports: &Receiver<Result<Report>>,
    is_over: &AtomicBool,
) -> Result {
    let failed = |error: io::Error| Failure::io("cannot use the terminal", &error);
    loop {
        terminal.draw(|frame| draw(frame, shown)).map_err(failed)?;
        loop {
            let is_waiting = event::poll(LOOK);
            // A terminal that was closed has no events; the signal comes with it.
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            if is_waiting.map_err(failed)? {
                match event::read().map_err(failed)? {
                    event if is_end(&event) => return Ok(()),
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
            match reports.try_recv() {
                Ok(report) => {
                    shown.add(report?);
                    break;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
}

fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let Shown { report, history } = shown;
    let height = |rows: usize| Constraint::Length(u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(3));
    let areas = Layout::vertical([
        Constraint::Length(1),
        height(report.paths.len()),
        Constraint::Length(5),
        Constraint::Min(if report.flows.top.is_empty() { 3 } else { 5 }),
        if report.users.is_empty() { Constraint::Length(0) } else { height(report.users.len()) },
        Constraint::Length(1),
    ]);
    let [head, paths, rates, flows, users, foot] = areas.areas(frame.area());
    let color = if report.why.is_some() { Color::Red } else { Color::Green };
    frame.render_widget(Paragraph::new(Line::styled(view::head(report), Style::new().fg(color))), head);
    let path = |path: &super::report::PathReport| {
        let color = match path.state.as_str() {
            "open" => Color::Green,
            "backup" | "opening" => Color::Yellow,
            _ => Color::Red,
        };
        Row::new(view::path(path)).fg(color)
    };
    let widths = [5, 12, 26, 10, 8, 10, 12, 7, 30];
    frame.render_widget(
        rows(&view::PATHS, &widths, report.paths.iter().map(path)).block(titled("paths".into())),
        paths,
    );
    let [up, down] = Layout::horizontal([Constraint::Fill(1); 2]).areas(rates);
    for (area, history, name) in [(up, &history[0], "up"), (down, &history[1], "down")] {
        chart(frame, area, history, name);
    }
    let top = report.flows.top.iter().map(|flow| Row::new(view::flow(flow)));
    let block = titled(view::flows(report));
    frame.render_widget(rows(&view::FLOWS, &[4, 40, 8, 10, 12, 10], top).block(block), flows);
    if !report.users.is_empty() {
        let list = report.users.iter().map(|user| Row::new(view::user(user)));
        frame.render_widget(
            rows(&view::USERS, &[24, 7, 10, 12, 10, 8], list).block(titled("users".into())),
            users,
        );
    }
    frame.render_widget(Paragraph::new("q ends the view, not the tunnel").dim(), foot);
}

fn titled(title: String) -> Block<'static> {
    Block::bordered().title(title)
}

fn rows<'a>(header: &[&'static str], widths: &[u16], rows: impl Iterator<Item = Row<'a>>) -> Table<'a> {
    let widths = widths.iter().map(|width| Constraint::Length(*width));
    Table::new(rows, widths).header(Row::new(header.to_vec()).bold())
}

/// Draws a chart of the newest rates that fit into `area`.
fn chart(frame: &mut Frame<'_>, area: Rect, history: &VecDeque<u64>, name: &str) {
    let width = usize::from(area.width.saturating_sub(2));
    let newest: Vec<u64> = history.iter().skip(history.len().saturating_sub(width)).copied().collect();
    let now = newest.last().copied().unwrap_or(0) as f64 / 1e3;
    let block = titled(format!("{name}: {now:.1} Mbit/s"));
    frame.render_widget(Sparkline::default().data(&newest).block(block), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn the_view_has_paths_rates_and_tunnels() {
        let mut shown = Shown::default();
        for _ in 0..MAX_HISTORY + 10 {
            shown.add(view::tests::sample());
        }
        assert_eq!(shown.history[1].len(), MAX_HISTORY);
        assert_eq!(shown.history[1].back(), Some(&77_000));
        for (width, height) in [(140, 30), (20, 5), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &shown)).unwrap();
            let text = terminal.backend().to_string();
            if width == 140 {
                for wanted in
                    ["connected", "wlan0", "wwan0", "closed", "down: 77.0 Mbit/s", "example.org:443", "alice"]
                {
                    assert!(text.contains(wanted), "{wanted}:\n{text}");
                }
            }
        }
    }

    #[test]
    fn q_escape_and_control_c_end_the_view() {
        let key = |code, modifiers| Event::Key(event::KeyEvent::new(code, modifiers));
        assert!(is_end(&key(KeyCode::Char('q'), KeyModifiers::NONE)));
        assert!(is_end(&key(KeyCode::Esc, KeyModifiers::NONE)));
        assert!(is_end(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!is_end(&key(KeyCode::Char('c'), KeyModifiers::NONE)));
    }
}
