//! ICMP messages from hosts and routers about datagrams that they could not deliver, for connections whose
//! server has not responded yet.
//!
//! Sockets report such messages only on request (`IP_RECVERR`, ip(7)), and any call on the socket may then
//! fail because of a message. Reports are therefore requested only while connections wait for their server's
//! first packet. Anybody can forge such messages. So a message ends no connection whose server has responded
//! (RFC 9000 §21.6). A message that quotes a datagram counts only if the connection has sent that datagram.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anabranch_transport::Obstacle;

use crate::connection_inner::ConnectionInner;
use crate::endpoint_inner::EndpointInner;
use crate::runtime::sleep;
use crate::socket::{Refusal, Socket};

/// Interval at which the task checks whether connections still wait for their server's first packet.
const INTERVAL: Duration = Duration::from_millis(500);

/// Listens for ICMP messages on a socket while connections wait for their server's first packet.
pub(crate) async fn listen(endpoint: Weak<EndpointInner>, socket: Arc<Socket>) {
    socket.report_errors(true);
    loop {
        let refusals = tokio::select! {
            refusals = next_refusals(&socket) => refusals,
            () = sleep(INTERVAL) => Vec::new(),
        };
        let Some(endpoint) = endpoint.upgrade() else { return };
        let (begun, connections) = endpoint.census();
        let waiting: Vec<_> =
            connections.into_iter().filter(|connection| is_unanswered(connection)).collect();
        for refusal in &refusals {
            waiting.iter().for_each(|connection| refuse(&endpoint, connection, refusal));
        }
        if waiting.is_empty() {
            let table = endpoint.table();
            if table.begun == begun {
                socket.report_errors(false);
                socket.set_listened_to(false);
                return;
            }
        }
    }
}

/// Waits for the next messages. After an error, waits for `INTERVAL` and returns none.
async fn next_refusals(socket: &Socket) -> Vec<Refusal> {
    match socket.refusals().await {
        Ok(refusals) => refusals,
        Err(_) => {
            sleep(INTERVAL).await;
            Vec::new()
        }
    }
}

fn is_unanswered(connection: &ConnectionInner) -> bool {
    connection.with_state(|state| {
        let client = state.core.side().is_client();
        let silence = state.core.silence(connection.driver.now());
        client && state.ended.is_none() && silence.heard.is_none()
    })
}

fn refuse(endpoint: &EndpointInner, connection: &ConnectionInner, refusal: &Refusal) {
    let to = (refusal.to.ip().to_canonical(), refusal.to.port());
    connection.update(|state| {
        let is_there = |remote: SocketAddr| (remote.ip().to_canonical(), remote.port()) == to;
        let sent_there = state.core.paths().any(|path| is_there(path.tuple.remote));
        if sent_there && state.core.has_sent(&refusal.quoted) {
            state.core.refuse(endpoint.driver.now(), Obstacle::from(&refusal.error));
        }
    });
}
