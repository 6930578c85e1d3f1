//! Tunnels through a proxy.
