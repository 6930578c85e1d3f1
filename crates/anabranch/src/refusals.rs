//! What hosts and routers say about datagrams that they could not deliver (ICMP), for connections that were never answered.
//!
//! Sockets give such messages only to those who ask for it (`IP_RECVERR`, ip(7)), and then every call may fail because of one.
//! So it is asked for as long as there are connections that wait for their first answer. Anybody can make such messages up:
//! they end no connection whose server has answered (RFC 9000 §21.6), and if they quote what was sent, it has to be right.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anabranch_transport::Obstacle;

use crate::connection_inner::ConnectionInner;
use crate::endpoint_inner::EndpointInner;
use crate::socket::{Refusal, Socket};

/// How often it is looked whether anybody still waits.
const INTERVAL: Duration = Duration::from_millis(500);

/// Listens on a socket as long as connections wait for their first answer.
pub(crate) async fn listen(endpoint: Weak<EndpointInner>, socket: Arc<Socket>) {
    socket.report_errors(true);
    loop {
        let refusals = tokio::select! {
            refusals = next_refusals(&socket) => refusals,
            () = tokio::time::sleep(INTERVAL) => Vec::new(),
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

/// The next messages; of a socket that gives none, nothing for a while.
async fn next_refusals(socket: &Socket) -> Vec<Refusal> {
    match socket.refusals().await {
        Ok(refusals) => refusals,
        Err(_) => {
            tokio::time::sleep(INTERVAL).await;
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
