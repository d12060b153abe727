//! Three nodes of `guira store --cluster` and a real etcd.

use crate::client::Client;
use crate::etcd::Etcd;
use crate::relay::Relay;
use crate::server::{
    Address, Program, Refused, Server, free_port, guira, own_directory, within, within_seldom,
};
use crate::tls::Authority;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};

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
    /// More flags of each node.
    pub flags: BTreeMap<&'static str, Vec<String>>,
    /// Dropped last, after the nodes have ended.
    _turn: Turn,
}

/// The right to run a cluster. Most of the time a cluster waits for leases and promises, so several share the processors.
#[derive(Debug)]
pub struct Turn;

impl Turn {
    /// Waits until fewer than two clusters run.
    #[must_use]
    pub fn take() -> Self {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        while *running >= CLUSTERS_MAX {
            running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();
/// More of them would starve each other on a machine with two processors.
const CLUSTERS_MAX: usize = 2;

/// The nodes' names, in the order in which they begin.
pub const NAMES: [&str; 3] = ["heron", "ibis", "jay"];

impl Replicas {
    /// Three nodes that have all slots.
    ///
    /// # Panics
    /// If they don't get there within three minutes.
    #[must_use]
    pub fn start() -> Self {
        Self::start_by(Etcd::start, &[], |_| {})
    }

    /// As `start`, with these flags of each node beside the others.
    #[must_use]
    pub fn start_flagged(flags: impl Fn(&str) -> Vec<String>) -> Self {
        let give = |all: &mut Self| all.flags = NAMES.map(|name| (name, flags(name))).into();
        Self::start_by(Etcd::start, &[], give)
    }

    /// As `start`, with an etcd and links over TLS; clients' connections too, if `clients` says so.
    #[must_use]
    pub fn start_secured(authority: &Authority, clients: bool) -> Self {
        Self::start_by(Etcd::start_secured, &[], |all| {
            all.trust(&[authority]);
            for name in NAMES {
                all.certify(name, authority, "127.0.0.1", clients);
            }
        })
    }

    /// As `start`, with a relay between etcd and each node, and one for routers.
    #[must_use]
    pub fn start_relayed() -> Self {
        Self::start_by(Etcd::start, &[NAMES[0], NAMES[1], NAMES[2], "router"], |_| {})
    }

    fn start_by(
        etcd: impl Fn() -> Etcd,
        relayed: &[&'static str],
        prepare: impl FnOnce(&mut Self),
    ) -> Self {
        let turn = Turn::take();
        let (directory, nodes) = (own_directory(), BTreeMap::new());
        let ports = NAMES.map(|name| (name, [free_port(), free_port()])).into();
        let (etcd, flags) = (etcd(), BTreeMap::new());
        let relays = relayed.iter().map(|name| (*name, Relay::start(etcd.port()))).collect();
        let mut all = Self { etcd, directory, ports, nodes, relays, flags, _turn: turn };
        prepare(&mut all);
        let (code, said) = all.command("init", &[]);
        assert_eq!(code, Some(0), "{said}");
        NAMES.iter().for_each(|name| all.begin(name));
        all.until_whole();
        all
    }

    /// The cluster's place, as flags name it.
    #[must_use]
    pub fn place(&self) -> String {
        match self.etcd.pems {
            None => format!("etcd:127.0.0.1:{}/birds", self.etcd.port()),
            Some(_) => format!("etcds:localhost:{}/birds", self.etcd.port()),
        }
    }

    /// The flags by which etcd lets programs in, under TLS.
    #[must_use]
    pub fn etcd_flags(&self) -> Vec<String> {
        let names = ["--etcd-cacert", "--etcd-cert", "--etcd-key"];
        let pems = self.etcd.pems.iter().flatten();
        names.iter().zip(pems).flat_map(|(name, pem)| [(*name).to_owned(), pem.clone()]).collect()
    }

    /// Where the certificates of the authorities are that nodes trust.
    #[must_use]
    pub fn authorities(&self) -> PathBuf {
        self.directory.join("authorities.pem")
    }

    /// Has nodes trust these, once they read their files.
    ///
    /// # Panics
    /// If the file can't be written.
    pub fn trust(&self, authorities: &[&Authority]) {
        let pems: String = authorities.iter().map(|it| &*it.pem).collect();
        fs::write(self.authorities(), pems).expect("a file");
    }

    /// Gives a node a certificate for this host, and the flags that name it.
    ///
    /// # Panics
    /// If the files can't be written.
    pub fn certify(&mut self, name: &'static str, by: &Authority, host: &str, clients: bool) {
        let directory = self.directory.join(format!("tls-{name}"));
        fs::create_dir_all(&directory).expect("a directory");
        let files = by.identity_for(name, host).write(&directory);
        let [chain, key] = files.map(|path| path.display().to_string());
        let authorities = self.authorities().display().to_string();
        let mut flags = Vec::new();
        for (flag, path) in [("cert", &chain), ("key", &key), ("ca", &authorities)] {
            flags.extend([format!("--peer-tls-{flag}"), path.clone()]);
        }
        if clients {
            flags.push("-Z".to_owned());
            let files = [("chain-cert", chain), ("key", key), ("ca-cert", authorities)];
            files
                .into_iter()
                .for_each(|(flag, path)| flags.extend([format!("--ssl-{flag}"), path]));
        }
        self.flags.insert(name, flags);
    }

    /// The cluster's place for a node, or for a `router`.
    #[must_use]
    pub fn place_of(&self, name: &str) -> String {
        match self.relays.get(name) {
            Some(relay) => format!("etcd:127.0.0.1:{}/birds", relay.port()),
            None => self.place(),
        }
    }

    /// A node's directory.
    #[must_use]
    pub fn store_of(&self, name: &str) -> PathBuf {
        self.directory.join(format!("store-{name}"))
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
        let store = self.store_of(name).display().to_string();
        let [clients, peers] = self.ports[name];
        let (place, peers) = (self.place_of(name), format!("127.0.0.1:{peers}"));
        let (port, at) = (clients.to_string(), Address::Tcp(clients));
        let mut flags =
            vec!["-p", &port, "-d", &store, "--cluster", &place, "--name", name, "--peers", &peers];
        let more = [self.etcd_flags(), self.flags.get(name).cloned().unwrap_or_default()].concat();
        flags.extend(more.iter().map(String::as_str));
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
        let etcd = self.etcd_flags();
        words.extend(etcd.iter().map(String::as_str));
        let told = Command::new(guira()).args(words).output().expect("guira runs");
        let said = [told.stdout, told.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        (told.status.code(), said.concat())
    }

    /// Waits until the controller has nothing left to do.
    pub fn until_spread(&self) {
        within_seldom(180, "nothing is left to do", || {
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
        self.command("status", &["--json"]).1
    }

    /// The number of slots that a node serves.
    ///
    /// # Panics
    /// If the cluster has no such node.
    #[must_use]
    pub fn slots_of(&self, name: &str) -> usize {
        let status = self.status();
        let of_node = status.split_once(&format!("\"name\": \"{name}\"")).map(|it| it.1);
        let serving = of_node.and_then(|it| it.split_once("\"serving\": ")).map(|it| it.1);
        let serving = serving.and_then(|it| it.split_once(',')).and_then(|it| it.0.parse().ok());
        serving.unwrap_or_else(|| panic!("no {name} in {status}"))
    }

    /// Waits until the status says so.
    pub fn until(&self, slots: &str) {
        within_seldom(180, slots, || self.status().contains(slots));
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
        told(&mut self.nodes[name].connect(), request)
    }
}

/// Asks a router or a node again for as long as the cluster has no answer, since a machine that does much else is slow.
///
/// # Panics
/// If it has none within a minute.
pub fn told(client: &mut Client, request: &str) -> String {
    let mut told = String::new();
    within(60, "an answer", || {
        told = client.ask(request);
        !told.starts_with("SERVER_ERROR slot ")
    });
    told
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.nodes.clear();
        fs::remove_dir_all(&self.directory).ok();
    }
}
