//! `guira route convert` beside twemproxy: what Debian's nutcracker stores by its YAML, a router finds by the configuration
//! made of it, on the same servers.

use guira_tests::server::{Address, Program, Server, accepts, free_port, guira, own_directory};
use std::fmt::Write;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A running nutcracker, ended when dropped.
struct Nutcracker(Child);

impl Nutcracker {
    fn start(config: &Path, ports: &[u16]) -> Self {
        let nutcracker = ["/usr/sbin/nutcracker", "/usr/bin/nutcracker"].map(PathBuf::from);
        let program = nutcracker.into_iter().find(|path| path.exists());
        let program = program.expect("nutcracker is installed (apt-get install nutcracker)");
        let child = Command::new(program)
            .arg("-c")
            .arg(config)
            .args(["-s", &free_port().to_string(), "-a", "127.0.0.1", "-m", "16384"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let running = Self(child.expect("nutcracker runs"));
        for _ in 0..6000 {
            if ports.iter().all(|&port| accepts(&Address::Tcp(port))) {
                return running;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("nutcracker listens within a minute");
    }
}

impl Drop for Nutcracker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A router by the configuration that is made of a pool.
fn converted(file: &Path, pool: &str) -> Server {
    let mut command = Command::new(guira());
    command.args(["route", "convert"]).arg(file).args(["--pool", pool]);
    let done = command.output().expect("guira runs");
    let config = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{pool}: {}", String::from_utf8_lossy(&done.stderr));
    for _ in 0..3 {
        let port = free_port();
        let text = port.to_string();
        let flags = ["-p", &text, "--listen-addresses", "127.0.0.1", "--num-proxies", "1"];
        let flags = [&flags[..], &["--config", &config]].concat();
        if let Ok(server) = Server::start_at(Program::Router, &flags, Address::Tcp(port)) {
            return server;
        }
    }
    panic!("{pool}: no router came up in three tries: {config}");
}

/// Pools of the same servers, one a hash and distribution: names, ports, and the YAML of all.
fn pools(servers: &[u16]) -> (Vec<(String, u16)>, String) {
    let hashes = [
        "one_at_a_time",
        "md5",
        "crc16",
        "crc32",
        "crc32a",
        "fnv1_64",
        "fnv1a_64",
        "fnv1_32",
        "fnv1a_32",
        "murmur",
    ];
    let ways = ["ketama", "modula"].into_iter();
    let mut kinds: Vec<(String, String)> = ways
        .flat_map(|way| {
            hashes.map(|hash| {
                (format!("{way}-{hash}"), format!("  hash: {hash}\n  distribution: {way}\n"))
            })
        })
        .collect();
    kinds.push(("defaults".into(), String::new()));
    kinds.push(("tagged".into(), "  hash: fnv1a_64\n  hash_tag: \"{}\"\n".into()));
    let (mut yaml, mut named) = (String::new(), Vec::new());
    for (n, (name, fields)) in kinds.into_iter().enumerate() {
        let port = free_port();
        // Every other pool names its servers; one has its own weights.
        let server = |(at, server): (usize, &u16)| {
            let weight = if n % 3 == 0 { at + 1 } else { 1 };
            let own_name = if n % 2 == 0 { format!(" server{at}") } else { String::new() };
            format!("   - 127.0.0.1:{server}:{weight}{own_name}\n")
        };
        let list: String = servers.iter().enumerate().map(server).collect();
        // Writing to a string doesn't fail.
        let _ = write!(
            yaml,
            "{name}:\n  listen: 127.0.0.1:{port}\n{fields}  timeout: 5000\n  servers:\n{list}"
        );
        named.push((name, port));
    }
    (named, yaml)
}

#[test]
fn keys_stay_where_twemproxy_put_them() {
    let servers: Vec<_> = (0..4).map(|_| Server::start_tcp(Program::Memcached, &[])).collect();
    let ports = servers.iter().map(Server::port);
    let (pools, yaml) = pools(&ports.collect::<Vec<_>>());
    let dir = own_directory();
    let file = dir.join("nutcracker.yml");
    fs::write(&file, yaml).expect("a file");
    let listening: Vec<u16> = pools.iter().map(|(_, port)| *port).collect();
    let _nutcracker = Nutcracker::start(&file, &listening);
    for (pool, port) in &pools {
        // The client of these tests ends what it asks with a command that nutcracker doesn't know.
        let mut through = TcpStream::connect(("127.0.0.1", *port)).expect("nutcracker listens");
        let keys: Vec<String> =
            (0..100).map(|n| format!("{pool}:{}{{{}}}k\u{e9}", n * 7919, n % 40)).collect();
        for key in &keys {
            let set = format!("set {key} 0 0 {}\r\n{key}\r\n", key.len());
            through.write_all(set.as_bytes()).expect("it reads");
            let mut reply = [0; 8];
            through.read_exact(&mut reply).expect("it answers");
            assert_eq!(&reply, b"STORED\r\n", "{pool}");
        }
        let router = converted(&file, pool);
        let mut client = router.connect();
        let missing = keys.iter().filter(|key| client.get(key).as_deref() != Some(key.as_bytes()));
        assert_eq!(missing.count(), 0, "{pool}");
    }
    let items: Vec<_> = servers.iter().map(|server| server.connect().stat("curr_items")).collect();
    assert!(items.iter().all(|&n| n > 100), "all servers have keys: {items:?}");
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn a_pool_that_is_dealt_at_random_stays_so_and_what_differs_is_said() {
    let dir = own_directory();
    let file = dir.join("nutcracker.yml");
    let yaml = "a:\n  listen: 127.0.0.1:22121\n  distribution: random\n  auto_eject_hosts: true\n  \
                server_failure_limit: 3\n  servers:\n   - 127.0.0.1:1:1\n   - 127.0.0.1:2:1\n";
    fs::write(&file, yaml).expect("a file");
    let done = Command::new(guira()).args(["route", "convert"]).arg(&file).output();
    let text = String::from_utf8_lossy(&done.expect("guira runs").stdout).into_owned();
    assert!(text.contains("RandomRoute"), "{text}");
    assert!(text.contains("--timeouts-until-tko 3"), "{text}");
    assert!(text.contains("keys of a server that fails don't move"), "{text}");
    let validated = Command::new(guira())
        .args(["route", "--config", &text, "--validate-config"])
        .output()
        .expect("guira runs");
    assert!(validated.status.success(), "{}", String::from_utf8_lossy(&validated.stderr));
    fs::remove_dir_all(dir).expect("the directory is there");
}
