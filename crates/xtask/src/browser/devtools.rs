//! Client of the Chrome DevTools Protocol: JSON over a WebSocket on the loopback interface.

use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// Connection to a browser. Calls that are not complete at the deadline fail.
pub(super) struct DevTools {
    socket: WebSocket<TcpStream>,
    deadline: Instant,
    calls: u64,
}

impl DevTools {
    /// Connects to the browser that listens on this port of the loopback interface.
    pub(super) fn connect(port: u16, path: &str, deadline: Instant) -> Result<Self, String> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let stream = stream.map_err(|error| format!("DevTools: {error}"))?;
        limit(&stream, deadline)?;
        // Calls are small, and each waits for its response.
        stream.set_nodelay(true).map_err(|error| format!("DevTools: {error}"))?;
        let (socket, _) = tungstenite::client(format!("ws://127.0.0.1:{port}{path}"), stream)
            .map_err(|error| format!("DevTools: {error}"))?;
        Ok(Self { socket, deadline, calls: 0 })
    }

    /// Calls a method of the browser, or of the page of `session`, and waits for the result.
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        arguments: &Value,
    ) -> Result<Value, String> {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": arguments });
        if let Some(session) = session {
            call["sessionId"] = session.into();
        }
        let blame = |what: &dyn std::fmt::Display| format!("{method}: {what}");
        self.socket.send(Message::text(call.to_string())).map_err(|error| blame(&error))?;
        loop {
            limit(self.socket.get_ref(), self.deadline).map_err(|late| blame(&late))?;
            let message = self.socket.read().map_err(|error| blame(&error))?;
            let Message::Text(text) = message else { continue };
            let answer: Value = serde_json::from_str(text.as_str()).map_err(|error| blame(&error))?;
            // Events have no ID.
            if answer["id"] == self.calls {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].clone()),
                    error => Err(blame(&error["message"])),
                };
            }
        }
    }
}

/// Sets the read timeout of the stream to the time left until the deadline.
fn limit(stream: &TcpStream, deadline: Instant) -> Result<(), String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left < Duration::from_millis(1) {
        return Err("the time is over".to_owned());
    }
    stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Calls a method of a stub browser that answers with `lines`.
    fn call(lines: &'static [&str]) -> Result<Value, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let browser = thread::spawn(move || {
            let mut socket = tungstenite::accept(listener.accept().unwrap().0).unwrap();
            let asked: Value = serde_json::from_str(socket.read().unwrap().to_text().unwrap()).unwrap();
            lines.iter().for_each(|line| socket.send(Message::text(*line)).unwrap());
            // Waits until the caller has disconnected.
            while socket.read().is_ok() {}
            asked
        });
        let mut devtools = DevTools::connect(port, "/", Instant::now() + Duration::from_millis(500)).unwrap();
        let result = devtools.call(Some("S"), "Page.navigate", &json!({ "url": "x" }));
        drop(devtools);
        let expected =
            json!({ "id": 1, "method": "Page.navigate", "params": { "url": "x" }, "sessionId": "S" });
        assert_eq!(browser.join().unwrap(), expected);
        result
    }

    #[test]
    fn answers_are_told_from_events_and_errors() {
        const EVENT: &str = r#"{"method":"Page.loadEventFired","params":{}}"#;
        assert_eq!(call(&[EVENT, r#"{"id":1,"result":{"frameId":"F"}}"#]), Ok(json!({ "frameId": "F" })));
        let refused = call(&[r#"{"id":1,"error":{"code":-32000,"message":"no such page"}}"#]).unwrap_err();
        assert!(refused.contains("Page.navigate") && refused.contains("no such page"), "{refused}");
        assert!(call(&["no JSON"]).is_err());
    }

    #[test]
    fn a_browser_that_does_not_answer_is_not_waited_for() {
        let begun = Instant::now();
        assert!(call(&[r#"{"id":2,"result":{}}"#]).is_err());
        assert!((Duration::from_millis(400)..Duration::from_secs(20)).contains(&begun.elapsed()));
    }
}
