//! A cluster of one server and its router, as `guira invalidate` sends deletes to.

use rustix::process::Signal;

use crate::client::Client;
use crate::server::{Address, Program, Server, free_port};

/// A server and its router; both end with it.
#[derive(Debug)]
pub struct Cluster {
    /// Clients ask the server itself what it has.
    pub server: Server,
    /// Deletes come in here.
    pub router_port: u16,
    config: String,
    prefix: String,
    router: Option<Server>,
}

impl Cluster {
    /// Starts both. The router answers a delete when the server has, and keeps none for later. It lets a flush through.
    #[must_use]
    pub fn start() -> Self {
        let server = Server::start_tcp(Program::Guira, &["-m", "64"]);
        let port = server.port();
        let router_port = free_port();
        let config = format!(
            "{{\"pools\": {{\"a\": {{\"servers\": [\"127.0.0.1:{port}\"]}}}}, \"route\": \"PoolRoute|a\"}}"
        );
        let mut cluster =
            Self { server, router_port, config, prefix: "/././".to_owned(), router: None };
        cluster.refuse_flushes(false);
        cluster
    }

    /// Starts another router in place of the last. `route` makes its route of the one to the server.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn reroute(&mut self, route: impl FnOnce(&str) -> String) {
        let route = route("PoolRoute|a");
        self.config = self.config.replace("\"PoolRoute|a\"", &route);
        self.refuse_flushes(false);
    }

    /// Starts another router in place of the last, whose route has this prefix.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn serve_prefix(&mut self, prefix: &str) {
        prefix.clone_into(&mut self.prefix);
        self.refuse_flushes(false);
    }

    /// Starts another router in place of the last.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn refuse_flushes(&mut self, refuses: bool) {
        let port = self.router_port.to_string();
        let mut flags = vec!["-p", &port, "--config-str", &self.config, "--asynclog-disable"];
        flags.extend(["--route-prefix", &self.prefix]);
        flags.extend((!refuses).then_some("--enable-flush-cmd"));
        self.router = None;
        let address = Address::Tcp(self.router_port);
        let started = Server::start_at(Program::Router, &flags, address);
        self.router = Some(started.expect("a test can have it"));
    }

    /// Ends the router, until another one is started in its place.
    pub fn stop_router(&mut self) {
        self.router = None;
    }

    /// Kills the server, until another one is started in its place.
    ///
    /// # Panics
    /// If it doesn't end.
    pub fn kill_server(&mut self) {
        self.server.signal(Signal::KILL);
        assert!(self.server.ended_within(20).is_some(), "it was killed");
    }

    /// Starts another server in place of the last, at its port.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn restart_server(&mut self) {
        let port = self.server.port();
        let text = port.to_string();
        let flags = ["-m", "64", "-l", "127.0.0.1", "-p", &text];
        let started = Server::start_at(Program::Guira, &flags, Address::Tcp(port));
        self.server = started.expect("a test can have it");
    }

    /// A client of the server.
    #[must_use]
    pub fn client(&self) -> Client {
        self.server.connect()
    }
}
