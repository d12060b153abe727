//! `guira route` with its configuration in a real etcd: watched, replaced, and used on while etcd is away.

use guira_tests::server::{Address, Program, Server, free_port, own_directory, within};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

struct Etcd {
    child: Child,
    ports: [u16; 2],
    dir: PathBuf,
}

impl Etcd {
    fn start() -> Self {
        let (ports, dir) = ([free_port(), free_port()], own_directory());
        let child = Self::child(ports, &dir);
        let etcd = Self { child, ports, dir };
        within(30, "etcd answers", || etcd.ctl(&["endpoint", "health"]));
        etcd
    }

    fn child(ports: [u16; 2], dir: &std::path::Path) -> Child {
        let [clients, peers] = ports.map(|port| format!("http://127.0.0.1:{port}"));
        Command::new("etcd")
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .arg("--data-dir")
            .arg(dir.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd runs (apt-get install etcd-server etcd-client)")
    }

    fn ctl(&self, words: &[&str]) -> bool {
        let done = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &format!("127.0.0.1:{}", self.ports[0])])
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        done.expect("etcdctl runs").success()
    }

    fn put(&self, config: &str) {
        within(30, "etcd takes the text", || self.ctl(&["put", "/guira/route", config]));
    }

    fn end(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    fn restart(&mut self) {
        self.child = Self::child(self.ports, &self.dir);
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.end();
        fs::remove_dir_all(&self.dir).ok();
    }
}

fn pool_of(server: &Server) -> String {
    let Address::Tcp(port) = server.address() else { panic!("a port") };
    format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{port}\"]}}}}, \"route\": \"PoolRoute|A\"}}"
    )
}

#[test]
fn a_configuration_in_etcd_is_followed_and_the_last_good_one_kept() {
    let servers: Vec<_> = (0..3).map(|_| Server::start_tcp(Program::Memcached, &[])).collect();
    for (n, server) in servers.iter().enumerate() {
        server.connect().set("k", n.to_string().as_bytes());
    }
    let mut etcd = Etcd::start();
    etcd.put(&pool_of(&servers[0]));
    let kept = own_directory();
    let kept_text = kept.to_str().expect("a path in UTF-8").to_owned();
    let config = format!("etcd:127.0.0.1:{}//guira/route", etcd.ports[0]);
    let start = || {
        let port = free_port();
        let text = port.to_string();
        let flags = ["-p", &text, "--listen-addresses", "127.0.0.1", "--config", &config];
        let flags = [&flags[..], &["--config-dump-root", &kept_text]].concat();
        Server::start_at(Program::Router, &flags, Address::Tcp(port)).expect("the router comes up")
    };
    let router = start();
    let mut client = router.connect();
    assert_eq!(client.get("k").as_deref(), Some(&b"0"[..]));
    etcd.put(&pool_of(&servers[1]));
    within(30, "the change is used", || client.get("k").as_deref() == Some(b"1"));
    etcd.put("{\"route\": \"NoSuchRoute\"}");
    within(30, "the bad text is refused", || router.said().contains("NoSuchRoute"));
    assert_eq!(client.get("k").as_deref(), Some(&b"1"[..]));
    etcd.end();
    within(30, "the router knows", || router.said().contains("it is tried again"));
    assert_eq!(client.get("k").as_deref(), Some(&b"1"[..]), "without etcd too");
    let late = start();
    let said = late.said();
    assert!(said.contains("the last good configuration is used"), "{said}");
    assert_eq!(late.connect().get("k").as_deref(), Some(&b"1"[..]));
    etcd.restart();
    etcd.put(&pool_of(&servers[2]));
    within(30, "the change after the gap is used", || client.get("k").as_deref() == Some(b"2"));
    let mut of_late = late.connect();
    within(30, "by both routers", || of_late.get("k").as_deref() == Some(b"2"));
    fs::remove_dir_all(kept).expect("the directory is there");
}
