//! Support: targets behind the proxy, in threads of the test.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use anabranch_testkit::pattern;

/// Starts a TCP server that runs `serve` for each connection.
fn tcp(serve: impl Fn(TcpStream) -> std::io::Result<()> + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream.unwrap()));
        }
    });
    address
}

/// Starts an HTTP server with one file of `len` bytes.
pub fn web(len: usize) -> SocketAddr {
    tcp(move |mut stream| {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            request.push(byte[0]);
        }
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n")?;
        stream.write_all(&pattern(len))
    })
}

/// Starts a server that sends each byte back at once.
pub fn echo() -> SocketAddr {
    tcp(|mut stream| {
        let mut buffer = vec![0; 65_536];
        loop {
            match stream.read(&mut buffer)? {
                0 => return stream.shutdown(Shutdown::Write),
                len => stream.write_all(&buffer[..len])?,
            }
        }
    })
}

/// Starts a server that responds with the number of received bytes after the client has ended its direction.
pub fn counter() -> SocketAddr {
    tcp(|mut stream| {
        let mut request = Vec::new();
        stream.read_to_end(&mut request)?;
        write!(stream, "{} bytes", request.len())
    })
}

/// Starts a server that resets each connection after its first byte.
pub fn resetter() -> SocketAddr {
    tcp(|mut stream| {
        stream.read_exact(&mut [0])?;
        // The second byte stays unread, so the kernel resets the connection when it is closed.
        stream.peek(&mut [0]).map(drop)
    })
}

/// Starts a server that reads, and tells how each connection has ended: `None` for an end in order.
pub fn witness() -> (SocketAddr, Receiver<Option<ErrorKind>>) {
    let (tell, told) = mpsc::channel();
    let address = tcp(move |mut stream| {
        stream.write_all(b"ready")?;
        let end = std::io::copy(&mut stream, &mut std::io::sink()).err().map(|error| error.kind());
        tell.send(end).map_err(std::io::Error::other)
    });
    (address, told)
}

/// Starts a UDP server that returns each datagram with the word `echo` in front.
pub fn udp_echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_535];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            let _ = socket.send_to(&[b"echo", &buffer[..len]].concat(), from);
        }
    });
    address
}
