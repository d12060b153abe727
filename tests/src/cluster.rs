//! A cluster of one server and its router, as `guira invalidate` sends deletes to.

use crate::client::Client;
use crate::server::{Address, Program, Server, free_port};

/// A server and its router; both end with it.
#[derive(Debug)]
pub struct Cluster {
    /// Clients ask the server itself what it has.
    pub server: Server,
    /// Deletes come in here.
    pub router_port: u16,
    _router: Server,
}

impl Cluster {
    /// Starts both. The router answers a delete when the server has, and keeps none for later.
    #[must_use]
    pub fn start() -> Self {
        let server = Server::start_tcp(Program::Guira, &["-m", "64"]);
        let Address::Tcp(port) = *server.address() else { panic!("a port") };
        let router_port = free_port();
        let config = format!(
            "{{\"pools\": {{\"a\": {{\"servers\": [\"127.0.0.1:{port}\"]}}}}, \"route\": \"PoolRoute|a\"}}"
        );
        let flags = ["-p", &router_port.to_string(), "--config-str", &config, "--asynclog-disable"];
        let router = Server::start_at(Program::Router, &flags, Address::Tcp(router_port))
            .expect("a test can have it");
        Self { server, router_port, _router: router }
    }

    /// A client of the server.
    #[must_use]
    pub fn client(&self) -> Client {
        self.server.connect()
    }
}
