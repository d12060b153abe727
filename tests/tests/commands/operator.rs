//! What operators rely on besides the protocol: exit codes, pipes, and units for systemd.

use guira_tests::client::PATIENCE;
use guira_tests::etcd::Etcd;
use guira_tests::server::{
    Address, Program, Running, Server, command, free_port, guira, own_directory, workspace,
};
use rustix::process::{Signal, geteuid};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `guira` to its end.
fn run(arguments: &[&str]) -> Output {
    Command::new(guira()).args(arguments).stdin(Stdio::null()).output().expect("it runs")
}

fn document(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).expect("a document")
}

/// Everything that prints and ends.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["serve", "--help"],
    &["serve", "--license"],
    &["route", "--help"],
    &["route", "--schema"],
    &["route", "--config-str", GOOD, "--validate-config"],
    &["route", "explain", "--config-str", GOOD, "get", "k"],
    &["generate", "completions", "bash"],
    &["plan", "--servers", "100"],
    &["lab", "list"],
];
const GOOD: &str = r#"{"pools": {"A": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|A"}"#;

#[test]
fn a_reader_that_has_enough_ends_a_program_quietly() {
    for arguments in PRINTING {
        assert_eq!(run(arguments).status.code(), Some(0), "{arguments:?} by itself");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(guira());
        let output = command.args(*arguments).stdin(Stdio::null()).stdout(writer).output();
        let output = output.expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

/// A full disk is another case.
#[test]
fn output_that_cannot_be_written_is_an_error_in_a_sentence() {
    for arguments in [
        &["route", "--schema"][..],
        &["generate", "completions", "bash"],
        &["serve", "--help"],
        &["route", "--help"],
        &["--version"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let mut command = Command::new(guira());
        let output = command.args(arguments).stdout(full).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "guira: standard output: No space left on device (os error 28)\n");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

/// A spool with a file that another process, this one, holds.
fn held_spool(dir: &str) -> fs::File {
    let folder = format!("{dir}/20260101T10-1767261600");
    fs::create_dir_all(&folder).expect("a directory");
    let file = fs::File::create(format!("{folder}/20260101T100000-1767261600-a-b-t1-0x0"));
    let file = file.expect("a file");
    file.try_lock().expect("nobody else has it");
    file
}

/// The configuration of a daemon whose database isn't there; `state` is below the directory, unless it is absolute.
fn daemon(directory: &str, state: &str) -> String {
    let state = Path::new(directory).join(state);
    let name = state.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
    let (path, secret) = (format!("{directory}/{name}.json"), format!("{directory}/secret"));
    fs::write(&secret, "secret").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("a mode");
    let config = format!(
        r#"{{"state": "{}", "sources": {{"db": {{"kind": "mariadb", "hosts": ["127.0.0.1:1"],
            "server_id": 7, "user": "guira", "password_file": "{secret}"}}}},
            "rules": [{{"table": "shop.users", "keys": ["user:{{id}}"]}}],
            "destinations": {{"c1": {{"routers": ["127.0.0.1:1"]}}}}}}"#,
        state.display()
    );
    fs::write(&path, config).expect("a file");
    path
}

/// As the table names the client's commands, which have the same codes.
const CLIENTS: &str = "`guira ping`, `guira get`, `guira set`, `guira delete`, `guira incr`, `guira stats`, `guira keys`";

/// A row of the table, its exit code, a command line.
type Case = (&'static str, u8, &'static [&'static str]);

const SERVE: &[Case] = &[
    ("guira serve", 0, &["serve", "--version"]),
    ("guira serve", 1, &["serve", "--bogus"]),
    ("guira serve", 1, &["serve", "-m", "x"]),
    ("guira serve", 1, &["serve", "-u", "root", "-p", "-1", "-Y", "/no/such/file"]),
    ("guira serve", 1, &["serve", "-o", "bogus"]),
    ("guira serve", 64, &["serve", "-S", "-B", "ascii"]),
    ("guira serve", 64, &["serve", "-p", "99999"]),
    ("guira serve", 64, &["serve", "-l", "notls:127.0.0.1"]),
    ("guira serve", 64, &["serve", "-I", "1000"]),
    ("guira serve", 64, &["serve", "-Z", "-o", "ssl_chain_cert=/no/such/file"]),
    ("guira serve", 71, &["serve", "-u", "root", "-l", "192.0.2.1", "-p", "21211"]),
    ("guira serve", 71, &["serve", "-u", "root", "-l", "no-such-host.invalid"]),
    ("guira serve", 71, &["serve", "-u", "root", "-e", "/no/such/directory/file"]),
];

const ROUTE: &[Case] = &[
    ("guira route", 0, &["route", "--config-str", GOOD, "--validate-config"]),
    ("guira route", 0, &["route", "explain", "--config-str", GOOD, "get", "k"]),
    ("guira route", 1, &["route", "--bogus"]),
    ("guira route", 1, &["route", "--num-proxies", "x"]),
    ("guira route", 2, &["route", "-f", "/no/such/file", "--validate-config"]),
    ("guira route", 2, &["route", "explain", "--config", "/no/such/file", "get", "k"]),
    ("guira route", 3, &["route", "--config-str", "{", "--validate-config"]),
    ("guira route", 3, &["route", "explain", "--config-str", "{", "get", "k"]),
    ("guira route", 3, &["route", "-p", "1"]),
    ("guira route", 3, &["route", "--config-str", GOOD]),
    ("guira route", 3, &["route", "--config-str", GOOD, "-p", "0", "--auth-file", "/no/such"]),
];

/// The row of docs/reference/process.md that tells it, its exit code, the command line. Each row is tried.
#[test]
fn exit_codes_are_those_of_the_documents() {
    let docs = document("docs/reference/process.md");
    let server = Server::start(Program::Guira, &[]);
    let Address::Unix(socket) = server.address() else { panic!("a socket") };
    let socket = socket.to_str().expect("a path in UTF-8");
    let dir = own_directory();
    let directory = dir.to_str().expect("a path in UTF-8");
    let nutcracker = format!("{directory}/nutcracker.yml");
    let pool = "A:\n  listen: 127.0.0.1:1\n  distribution: ketama\n  servers:\n  - 127.0.0.1:2:1\n";
    fs::write(&nutcracker, pool).expect("a file");
    let [held, store] = ["spool", "store"].map(|name| format!("{directory}/{name}"));
    let _lock = held_spool(&held);
    let [follows, stateless] = ["state", "/proc/none"].map(|state| daemon(directory, state));
    let etcd = Etcd::start();
    let place = format!("etcd:127.0.0.1:{}/c1", etcd.port());
    let mut kept = Server::start(Program::Store, &["-d", &store]);
    let cases: &[(&str, u8, &[&str])] = &[
        ("guira store", 0, &["store", "stats", "-d", &store]),
        ("guira store", 1, &["store", "--bogus"]),
        ("guira store", 1, &["store", "-d", &store, "--durability", "x"]),
        ("guira store", 2, &["store", "-d", &store]),
        ("guira store", 2, &["store", "verify", "-d", "/no/such/directory"]),
        ("guira cluster", 0, &["cluster", "init", &place]),
        ("guira cluster", 1, &["cluster", "init", "etcd:h/c1"]),
        ("guira cluster", 2, &["cluster", "init", &place]),
        ("guira cluster", 2, &["cluster", "status", "etcd:127.0.0.1:1/c1"]),
        ("guira cluster", 3, &["cluster", "check", &place]),
        ("guira route convert", 0, &["route", "convert", &nutcracker]),
        ("guira route convert", 1, &["route", "convert"]),
        ("guira route convert", 3, &["route", "convert", "/no/such/file"]),
        ("guira invalidate", 0, &["invalidate", "positions", "-c", &follows]),
        ("guira invalidate", 1, &["invalidate", "run", "--bogus"]),
        ("guira invalidate", 1, &["invalidate", "run", "-c", "/no/such/file"]),
        ("guira invalidate", 2, &["invalidate", "run", "-c", &stateless]),
        ("guira invalidate", 3, &["invalidate", "check", "-c", &follows]),
        (CLIENTS, 0, &["set", "k", "v", "-s", socket]),
        (CLIENTS, 1, &["get", "nobody", "-s", socket]),
        (CLIENTS, 2, &["get"]),
        (CLIENTS, 3, &["get", "k", "-s", "unix:/no/such/socket"]),
        ("the others", 1, &["nonsense"]),
        ("the others", 1, &["bench", "--server", "127.0.0.1:1", "-s", "1"]),
        ("the others", 1, &["lab", "run", "nonsense"]),
        ("the others", 1, &["plan", "--bogus"]),
        ("guira replay", 1, &["replay", "nonsense"]),
        ("guira replay", 1, &["replay", "-a", "/no/such/directory"]),
        ("guira replay", 2, &["replay", "-a", &held]),
        ("the others", 1, &["generate"]),
        ("the others", 1, &[]),
        ("the others", 1, &["generate", "man", "/proc/none"]),
        ("the others", 0, &["lab", "list"]),
        ("guira replay", 0, &["replay", "-a", directory]),
    ];
    let mut tried = BTreeSet::new();
    for (name, code, arguments) in SERVE.iter().chain(ROUTE).chain(cases) {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(i32::from(*code)), "{arguments:?}: {output:?}");
        let name =
            if name.starts_with("guira ") { format!("`{name}`") } else { (*name).to_owned() };
        let row = format!("| {name} | {code} |");
        assert!(docs.contains(&row), "docs/reference/process.md has no row {row}");
        tried.insert(row);
    }
    if geteuid().is_root() {
        assert_eq!(run(&["serve", "-u", "no-such-user"]).status.code(), Some(67));
    }
    // Only root may become another.
    tried.insert("| `guira serve` | 67 |".to_owned());
    // It takes a database: invalidate/mariadb.rs.
    tried.insert("| `guira invalidate` | 4 |".to_owned());
    each_is_tried(&docs, &tried);
    kept.signal(Signal::TERM);
    assert_eq!(kept.ended_within(20).and_then(|status| status.code()), Some(0), "{}", kept.said());
    fs::remove_dir_all(&dir).ok();
}

/// Each row of the documents' table begins as one that was tried.
fn each_is_tried(docs: &str, tried: &BTreeSet<String>) {
    let table = docs.split("| program | exit code | when |").nth(1).expect("a table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    for row in rows {
        assert!(tried.iter().any(|tried| row.starts_with(tried)), "{row} is tried by no case");
    }
}

/// By each signal that ends it, and by a client where that is allowed.
#[test]
fn whoever_is_told_to_end_ends_with_0() {
    let signals = [
        (Some(Signal::TERM), "SIGTERM"),
        (Some(Signal::INT), "SIGINT"),
        (Some(Signal::USR1), "SIGUSR1"),
        (None, "a client's shutdown"),
    ];
    for (signal, cause) in signals {
        let server = Server::start(Program::Guira, &["-A"]);
        let router = Server::start_router(&["--config-str", GOOD, "--enable-shutdown"]);
        let store = Server::start(Program::Store, &["-A"]);
        for mut program in [server, router, store] {
            match signal {
                Some(signal) => {
                    // Signals are heard before clients are served.
                    program.connect().ask("version");
                    program.signal(signal);
                }
                None => program.connect().send(b"shutdown\r\n"),
            }
            let status = program.ended_within(20);
            assert_eq!(status.and_then(|status| status.code()), Some(0), "{signal:?}");
            let (said, line) = (program.said(), format!("INFO stopped by {cause}"));
            assert!(said.contains(&line), "{line}: {said}");
        }
    }
}

/// As they are in the package, but for where the program is.
#[test]
fn systemd_takes_the_units() {
    let dir = own_directory();
    let units = workspace().join("packaging/systemd");
    let program = guira();
    let mut count = 0;
    for unit in fs::read_dir(units).expect("a directory").flatten() {
        let text = fs::read_to_string(unit.path()).expect("a unit");
        let installed = "ExecStart=/usr/local/bin/guira ";
        assert!(text.contains(installed), "{unit:?} is started from where it is installed");
        assert!(text.contains("Type=notify\n") && text.contains("\nExecReload="), "{unit:?}");
        let keeps_items = !text.contains("/dev/shm") || text.contains("RemoveIPC=no");
        assert!(keeps_items || text.contains("DynamicUser=yes"), "{unit:?}");
        let here = format!("ExecStart={} ", program.display());
        let path = dir.join(unit.file_name());
        fs::write(&path, text.replace(installed, &here)).expect("written");
        let output = Command::new("systemd-analyze").arg("verify").arg(&path).output();
        let output = output.expect("systemd-analyze; `make setup` installs what the tests need");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{unit:?}: {said}");
        count += 1;
    }
    fs::remove_dir_all(&dir).ok();
    assert_eq!(count, 5, "guira, guira-warm@, guira-route, guira-store, guira-invalidate");
    let docs = document("docs/how-to/systemd.md");
    assert!(docs.contains("install target/release/guira /usr/local/bin/guira"));
}

/// The programs, as units with Type=notify start them.
#[test]
fn systemd_hears_when_they_are_ready_and_when_they_stop() {
    let dir = own_directory();
    let path = dir.join("notify");
    let told = UnixDatagram::bind(&path).expect("a socket");
    told.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let hear = |word: &str| {
        let mut room = [0; 100];
        let bytes = told.recv(&mut room).unwrap_or_else(|error| panic!("no {word}: {error}"));
        assert_eq!(String::from_utf8_lossy(&room[..bytes]).lines().next(), Some(word));
    };
    let port = free_port().to_string();
    let serve = ["-l", "127.0.0.1", "-p", &port];
    let route = ["-p", &port, "--listen-addresses", "127.0.0.1", "--config-str", GOOD];
    for (program, flags) in [(Program::Guira, &serve[..]), (Program::Router, &route)] {
        let mut command = command(program);
        command.args(flags).env("NOTIFY_SOCKET", &path).stderr(Stdio::null()).stdin(Stdio::null());
        let mut running = Running(command.spawn().expect("it starts"));
        hear("READY=1");
        let listens = guira_tests::server::accepts(&Address::Tcp(port.parse().expect("a number")));
        guira_tests::server::send_signal(running.0.id(), Signal::TERM);
        hear("STOPPING=1");
        assert!(running.0.wait().expect("it ends").success());
        assert!(listens, "{program:?} is ready before it listens");
    }
    // A database that can't be reached is asked again: the daemon is ready.
    let config = dir.join("invalidate.json");
    let text = format!(
        r#"{{"state": "{}", "sources": {{"shop": {{"kind": "mariadb", "hosts": ["127.0.0.1:{port}"], "user": "guira",
            "password_file": "{}", "server_id": 4242}}}}, "rules": [{{"table": "shop.users", "keys": ["user:{{id}}"]}}],
            "destinations": {{"main": {{"routers": ["127.0.0.1:{port}"]}}}}}}"#,
        dir.join("state").display(),
        dir.join("password").display()
    );
    fs::write(dir.join("password"), "p\n").expect("written");
    fs::write(&config, text).expect("written");
    let mut command = Command::new(guira());
    command.args(["invalidate", "run", "-c"]).arg(&config).env("NOTIFY_SOCKET", &path);
    let mut running = Running(command.stderr(Stdio::null()).spawn().expect("it starts"));
    hear("READY=1");
    guira_tests::server::send_signal(running.0.id(), Signal::TERM);
    hear("STOPPING=1");
    assert!(running.0.wait().expect("it ends").success());
    fs::remove_dir_all(&dir).ok();
}
