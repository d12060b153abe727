//! `guira route` and DNS: names of servers that lead elsewhere after a while, with dnsmasq as the server that says so.

use guira_tests::server::{
    Address, Program, Server, eventually, free_port, own_directory, send_signal, within,
};
use rustix::process::Signal;
use std::fmt::Write;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A DNS server that answers from a file of addresses and names, each answer good for a second.
struct Dns {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Dns {
    fn start(hosts: &str, flags: &[&str]) -> Self {
        let (port, dir) = (free_port(), own_directory());
        fs::write(dir.join("hosts"), hosts).expect("a file");
        let child = Self::command(port, &dir, flags);
        let dns = Self { child, port, dir };
        dns.wait();
        dns
    }

    fn command(port: u16, dir: &Path, flags: &[&str]) -> Child {
        let mut command = Command::new("dnsmasq");
        command
            .args(["--no-daemon", "--conf-file=/dev/null", "--listen-address=127.0.0.1"])
            .args(["--bind-interfaces", "--no-resolv", "--no-hosts", "--local-ttl=1", "--user="])
            .arg("--pid-file=")
            .arg(format!("--port={port}"))
            .arg(format!("--addn-hosts={}", dir.join("hosts").display()))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("dnsmasq runs (apt-get install dnsmasq-base)")
    }

    /// Waits until the server answers a question, whatever the answer is.
    fn wait(&self) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let patience = Some(Duration::from_millis(50));
        socket.set_read_timeout(patience).expect("an option of sockets");
        let question = b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x04test\0\0\x01\0\x01";
        eventually("the DNS server answers", || {
            let _ = socket.send_to(question, ("127.0.0.1", self.port));
            socket.recv(&mut [0; 512]).is_ok()
        });
    }

    /// Answers from other addresses from now on.
    fn change(&self, hosts: &str) {
        fs::write(self.dir.join("hosts"), hosts).expect("a file");
        send_signal(self.child.id(), Signal::HUP);
    }

    /// Restarts it at the same port with other flags.
    fn restart(&mut self, flags: &[&str]) {
        self.end();
        self.child = Self::command(self.port, &self.dir, flags);
        self.wait();
    }

    fn end(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.end();
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// A memcached that also listens on `port` of another address of this machine.
fn memcached_at(address: &str, port: u16) -> Server {
    for _ in 0..3 {
        let own = free_port();
        let both = format!("127.0.0.1:{own},{address}:{port}");
        let flags = ["-l", &both];
        if let Ok(server) = Server::start_at(Program::Memcached, &flags, Address::Tcp(own)) {
            return server;
        }
    }
    panic!("no memcached came up in three tries");
}

fn router(servers: &str, dns: &Dns, flags: &[&str]) -> Server {
    let config = format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"{servers}\"]}}}}, \"route\": \"PoolRoute|A\"}}"
    );
    let asked = format!("127.0.0.1:{}", dns.port);
    let all = ["--config", &config, "--dns-servers", &asked];
    Server::start_router(&[&all[..], flags].concat())
}

#[test]
fn connections_follow_a_name_that_leads_elsewhere_without_an_error() {
    let port = free_port();
    let (one, two) = (memcached_at("127.0.0.2", port), memcached_at("127.0.0.3", port));
    one.connect().set("k", b"one");
    two.connect().set("k", b"two");
    let before = one.connect().stat("curr_connections");
    let dns = Dns::start("127.0.0.2 cache.test\n", &[]);
    let router = router(&format!("cache.test:{port}"), &dns, &["--num-proxies", "2"]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Four clients, so that each thread has some; each has many requests under way at any time.
        let ask = || {
            let mut client = router.connect();
            let mut last = String::new();
            while !is_over.load(Ordering::Relaxed) {
                let replies = client.exchange("get k\r\n".repeat(50).as_bytes()).bytes;
                last = String::from_utf8_lossy(&replies).into_owned();
                assert!(!last.contains("ERROR"), "{last}");
            }
            last
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        let mut client = router.connect();
        assert_eq!(client.get("k").as_deref(), Some(&b"one"[..]));
        dns.change("127.0.0.3 cache.test\n");
        eventually("all threads ask the new server", || {
            (0..4).all(|_| router.connect().get("k").as_deref() == Some(b"two"))
        });
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            let last = client.join().expect("no client met an error");
            assert!(last.contains("two"), "{last}");
        }
    });
    eventually("nothing is left at the old server", || {
        one.connect().stat("curr_connections") <= before
    });
}

#[test]
fn of_several_addresses_the_first_that_answers_is_taken() {
    let port = free_port();
    let there = memcached_at("127.0.0.3", port);
    let dns = Dns::start("127.0.0.2 cache.test\n127.0.0.3 cache.test\n", &[]);
    let router = router(&format!("cache.test:{port}"), &dns, &[]);
    assert_eq!(router.connect().set("k", b"v"), "STORED\r\n");
    assert_eq!(there.connect().get("k").as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_name_without_an_address_is_named_in_the_answer() {
    let dns = Dns::start("", &["--local=/test/"]);
    let router = router("nowhere.test:11211", &dns, &[]);
    let reply = router.connect().ask("get k");
    assert!(reply.contains("the name nowhere.test has no address"), "{reply}");
}

#[test]
fn a_pool_has_the_servers_that_srv_records_name_and_follows_them() {
    let servers: Vec<_> = (0..3).map(|_| Server::start_tcp(Program::Memcached, &[])).collect();
    let record = |server: &Server| {
        let port = server.port();
        format!("--srv-host=_memcache._tcp.test,cache.test,{port}")
    };
    let records: Vec<_> = servers.iter().map(record).collect();
    let mut dns = Dns::start("127.0.0.1 cache.test\n", &[&records[0], &records[1]]);
    let router = router("srv:_memcache._tcp.test", &dns, &[]);
    let mut client = router.connect();
    let mut fill = |round: &str| {
        let mut sets = String::new();
        for n in 0..60 {
            // Writing to a string doesn't fail.
            let _ = write!(sets, "set {round}{n} 0 0 1\r\nx\r\n");
        }
        let reply = client.exchange(sets.as_bytes());
        assert_eq!(String::from_utf8_lossy(&reply.bytes), "STORED\r\n".repeat(60));
    };
    fill("a");
    let items: Vec<_> = servers.iter().map(|s| s.connect().stat("curr_items")).collect();
    assert!(items[0] > 0 && items[1] > 0 && items[2] == 0, "{items:?}");
    dns.restart(&[&records[0], &records[1], &records[2]]);
    let mut rounds = 0;
    eventually("the third server has keys", || {
        rounds += 1;
        fill(&format!("b{rounds}-"));
        servers[2].connect().stat("curr_items") > 0
    });
}

#[test]
fn a_pool_has_all_addresses_of_a_host_as_servers_where_it_says_so() {
    let port = free_port();
    let servers = [memcached_at("127.0.0.2", port), memcached_at("127.0.0.3", port)];
    let dns = Dns::start("127.0.0.2 cache.test\n127.0.0.3 cache.test\n", &[]);
    let router = router(&format!("all:cache.test:{port}"), &dns, &[]);
    let mut client = router.connect();
    for n in 0..60 {
        assert_eq!(client.set(&format!("k{n}"), b"x"), "STORED\r\n");
    }
    let items = servers.each_ref().map(|server| server.connect().stat("curr_items"));
    assert!(items[0] > 0 && items[1] > 0 && items[0] + items[1] == 60, "{items:?}");
}

#[test]
fn a_reload_that_dns_gave_no_answer_for_is_tried_again() {
    let server = Server::start_tcp(Program::Memcached, &[]);
    let port = server.port();
    let record = format!("--srv-host=_memcache._tcp.test,cache.test,{port}");
    let mut dns = Dns::start("127.0.0.1 cache.test\n", &[&record]);
    let path = server.dir().join("route.json");
    let write = |entry: &str| {
        let pool = format!("{{\"servers\": [\"{entry}\"]}}");
        let config = format!("{{\"pools\": {{\"A\": {pool}}}, \"route\": \"PoolRoute|A\"}}");
        fs::write(&path, config).expect("a file");
    };
    write(&format!("127.0.0.1:{}", free_port()));
    let file = format!("file:{}", path.to_str().expect("a path in UTF-8"));
    let flags = ["--config", &file, "--reconfiguration-delay-ms", "0", "--config-dump-root", ""];
    let router = router("unused", &dns, &flags);
    dns.end();
    write("srv:_memcache._tcp.test");
    within(60, "nobody answers", || router.said().contains("_memcache._tcp.test has no SRV"));
    dns.restart(&[&record]);
    let mut client = router.connect();
    within(60, "the pool's servers are known", || client.set("k", b"x") == "STORED\r\n");
}
