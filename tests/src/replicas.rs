//! Three nodes of `guira store --cluster` and a real etcd.

use crate::etcd::Etcd;
use crate::relay::Relay;
use crate::server::{Address, Program, Refused, Server, free_port, guira, own_directory, within};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An etcd, and nodes whose directories outlive them.
#[derive(Debug)]
pub struct Replicas {
    /// Where their view is.
    pub etcd: Etcd,
    directory: PathBuf,
    /// For clients, and for other nodes.
    ports: BTreeMap<&'static str, [u16; 2]>,
    /// Those that run, by name.
    pub nodes: BTreeMap<&'static str, Server>,
    /// By which each node finds etcd, and routers too (`router`), if not directly.
    pub relays: BTreeMap<&'static str, Relay>,
    /// One cluster at a time: three nodes at once are enough for a machine with two processors.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

/// The nodes' names, in the order in which they begin.
pub const NAMES: [&str; 3] = ["heron", "ibis", "jay"];

impl Replicas {
    /// Three nodes that have all slots.
    ///
    /// # Panics
    /// If they don't get there within a minute.
    #[must_use]
    pub fn start() -> Self {
        Self::start_by(&[])
    }

    /// As `start`, with a relay between etcd and each node, and one for routers.
    #[must_use]
    pub fn start_relayed() -> Self {
        Self::start_by(&[NAMES[0], NAMES[1], NAMES[2], "router"])
    }

    fn start_by(relayed: &[&'static str]) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (directory, nodes) = (own_directory(), BTreeMap::new());
        let ports = NAMES.map(|name| (name, [free_port(), free_port()])).into();
        let etcd = Etcd::start();
        let relays = relayed.iter().map(|name| (*name, Relay::start(etcd.port()))).collect();
        let mut all = Self { etcd, directory, ports, nodes, relays, _turn: turn };
        let made = Command::new(guira()).args(["cluster", "init", &all.place()]).output();
        assert!(made.expect("guira runs").status.success());
        NAMES.iter().for_each(|name| all.begin(name));
        all.until_whole();
        all
    }

    /// The cluster's place, as flags name it.
    #[must_use]
    pub fn place(&self) -> String {
        format!("etcd:127.0.0.1:{}/birds", self.etcd.port())
    }

    /// The cluster's place for a node, or for a `router`.
    #[must_use]
    pub fn place_of(&self, name: &str) -> String {
        let port = self.relays.get(name).map_or(self.etcd.port(), Relay::port);
        format!("etcd:127.0.0.1:{port}/birds")
    }

    /// Where clients and other nodes reach a node.
    #[must_use]
    pub fn ports(&self, name: &str) -> [u16; 2] {
        self.ports[name]
    }

    /// Starts a node, on the directory that it had.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn begin(&mut self, name: &'static str) {
        self.try_begin(name).unwrap_or_else(|refused| panic!("{refused:?}"));
    }

    /// As [`begin`](Self::begin).
    ///
    /// # Errors
    /// It doesn't start.
    pub fn try_begin(&mut self, name: &'static str) -> Result<(), Refused> {
        let store = self.directory.join(format!("store-{name}")).display().to_string();
        let [clients, peers] = self.ports[name];
        let (place, peers) = (self.place_of(name), format!("127.0.0.1:{peers}"));
        let (port, at) = (clients.to_string(), Address::Tcp(clients));
        let flags =
            ["-p", &port, "-d", &store, "--cluster", &place, "--name", name, "--peers", &peers];
        self.nodes.insert(name, Server::start_at(Program::Store, &flags, at)?);
        Ok(())
    }

    /// Starts one more node.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn add(&mut self, name: &'static str) {
        self.ports.insert(name, [free_port(), free_port()]);
        self.begin(name);
    }

    /// Runs `guira cluster` with this command and the cluster's place. Returns the exit code, and all that it said.
    ///
    /// # Panics
    /// If the program isn't there.
    #[must_use]
    pub fn command(&self, command: &str, flags: &[&str]) -> (Option<i32>, String) {
        let mut words = vec!["cluster", command];
        let place = self.place();
        words.push(&place);
        words.extend(flags);
        let told = Command::new(guira()).args(words).output().expect("guira runs");
        let said = [told.stdout, told.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        (told.status.code(), said.concat())
    }

    /// Waits until the controller has nothing left to do.
    pub fn until_spread(&self) {
        within(180, "nothing is left to do", || {
            self.command("plan", &[]).1.contains("left        nothing is to be done")
        });
    }

    /// Kills a node.
    pub fn kill(&mut self, name: &str) {
        self.nodes[name].signal(Signal::KILL);
        self.nodes.remove(name);
    }

    /// What `guira cluster status --json` says.
    ///
    /// # Panics
    /// If the program isn't there.
    #[must_use]
    pub fn status(&self) -> String {
        let asked = ["cluster", "status", &self.place(), "--json"];
        let told = Command::new(guira()).args(asked).output().expect("guira runs");
        String::from_utf8_lossy(&told.stdout).into_owned()
    }

    /// Waits until the status says so.
    pub fn until(&self, slots: &str) {
        within(60, slots, || self.status().contains(slots));
    }

    /// Waits until each slot has all its copies, and the controller has nothing left to do: heads and readers are spread.
    pub fn until_whole(&self) {
        self.until("\"whole\": 16384,\n    \"degraded\": 0");
        self.until_spread();
    }

    /// What a key has. Without an answer it is asked again: on a machine that does much else, a view takes long.
    #[must_use]
    pub fn get(&self, name: &str, key: &str) -> Option<String> {
        let told = self.told(name, &format!("get {key}"));
        Some(told.strip_prefix(&format!("VALUE {key} 0 "))?.split("\r\n").nth(1)?.to_owned())
    }

    /// Stores a value, in any number of attempts.
    ///
    /// # Panics
    /// If it isn't stored.
    pub fn set(&self, name: &str, key: &str, value: &str) {
        let told = self.told(name, &format!("set {key} 0 0 {}\r\n{value}", value.len()));
        assert_eq!(told, "STORED\r\n");
    }

    fn told(&self, name: &str, request: &str) -> String {
        let (mut client, mut told) = (self.nodes[name].connect(), String::new());
        within(60, "an answer", || {
            told = client.ask(request);
            !told.starts_with("SERVER_ERROR slot ")
        });
        told
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.nodes.clear();
        fs::remove_dir_all(&self.directory).ok();
    }
}
