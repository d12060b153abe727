//! Mistakes that people make on a command line or in a file: one sentence says what is wrong and names the flag, the file
//! or the place in it that is to be put right, and the exit code is that of docs/reference/process.md.
//!
//! What each `-o` setting and flag of the server refuses by itself stands in `serve/src/settings/tests.rs`, typos in
//! configurations in `router/mistakes.rs`.

use guira_tests::server::{
    Program, Running, Server, command, eventually, free_port, guira, own_directory,
};
use guira_tests::tls::Authority;
use std::fs;
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command line without its program, where `{taken}` is a port that somebody listens on, `{dir}` a directory with the
/// files below; the exit code; what is said, all of it.
type Mistake = (&'static str, i32, &'static [&'static str]);

const SERVE: &[Mistake] = &[
    ("-l notls:127.0.0.1", 64, &["-l notls:127.0.0.1", "valid only when SSL is enabled: add -Z"]),
    ("-p 0 -s {dir}/s --http {taken}", 71, &["another server has it", "choose another (--http)"]),
    ("-p {taken}", 71, &["another server has it", "choose another (-p)"]),
    ("-l 127.0.0.1:{taken}", 71, &["another server has it", "choose another (-l or -p)"]),
    ("-l 127.0.0.1 -p -1 -U {udp}", 71, &["another server has it", "choose another (-U)"]),
    ("-p {free} --http {free}", 71, &["127.0.0.1:{free}: it is that of --http as well", "(-p)"]),
    (
        "-p -1 -l 127.0.0.1:{free},127.0.0.1:{free}",
        71,
        &["127.0.0.1:{free}: it is named twice", "(-l or -p)"],
    ),
    ("-s {dir}/noise", 71, &["{dir}/noise: a file is there that is no socket", "(-s)"]),
    ("-p -1 -Y {dir}/empty", 1, &["-Y {dir}/empty: the file is empty", "user:password"]),
    (
        "-p -1 -S",
        1,
        &["-S has no passwords", "MEMCACHED_SASL_PWDB", "saslpasswd2's database isn't read"],
    ),
    ("-p -1 -c 10", 71, &["4 threads (-t) need more descriptors than -c 10 allows"]),
    ("-p -1 -t 100000", 71, &["100000 threads (-t) need more", "raise -c, or lower -t"]),
    ("--http 99999", 1, &["--http 99999: a port is a number from 1 to 65535"]),
    ("-s {dir}/none/s", 71, &["{dir}/none/s", "(-s)"]),
    ("-p -1 -l 192.0.2.1", 71, &["192.0.2.1", "(-l or -p)"]),
    ("-I 2x", 1, &["-I 2x", "512k or 2m"]),
    ("-n 2x", 1, &["-n 2x", "48 or 1k"]),
    ("-p 99999", 64, &["99999", "-p takes 0 to 65535"]),
    ("-U 99999", 64, &["99999", "-U takes 0 to 65535"]),
    ("-l 127.0.0.1:x", 1, &["-l 127.0.0.1:x: Invalid port"]),
    ("--http 127.0.0.1:x", 1, &["--http 127.0.0.1:x: Invalid port"]),
    ("-p -1 -Y {dir}/none", 1, &["-Y {dir}/none", "No such file"]),
    (
        "-p -1 -P {dir}/none/pid",
        71,
        &["{dir}/none/pid (-P)", "No such file", "make its directory, or name a file elsewhere"],
    ),
    (
        "-p -1 -u nobody -P {dir}/locked/pid",
        71,
        &["{dir}/locked/pid (-P)", "the server's user nobody (-u) must be able to write there"],
    ),
    (
        "-p -1 -o ext_path={dir}/none/f:64m",
        71,
        &["{dir}/none/f: No such file", "make its directory, or name a file elsewhere"],
    ),
    (
        "-p -1 -u nobody -o ext_path={dir}/locked/f:64m",
        71,
        &[
            "{dir}/locked/f: Permission denied",
            "the server's user nobody (-u) must be able to write there",
        ],
    ),
    (
        "-p {taken} -o ext_item_age=1",
        71,
        &["-o ext_item_age has no effect without ext_path, which names storage's file"],
    ),
    ("-m 1", 64, &["-m 1m needs -I 512k or less"]),
    (
        "-p -1 -Z -o ssl_chain_cert={dir}/none",
        64,
        &["(-o ssl_chain_cert)", "{dir}/none", "No such file"],
    ),
    (
        "-p -1 -Z -o ssl_chain_cert={dir}/chain.pem",
        64,
        &["{dir}/chain.pem", "name it by -o ssl_key=FILE"],
    ),
    (
        "-p -1 -Z -o ssl_chain_cert={dir}/chain.pem,ssl_key={dir}/none",
        64,
        &["(-o ssl_key)", "{dir}/none", "No such file"],
    ),
    (
        "-p -1 -Z -o ssl_chain_cert={dir}/chain.pem,ssl_key={dir}/key.pem,ssl_ca_cert={dir}/none",
        64,
        &["(-o ssl_ca_cert)", "{dir}/none", "No such file"],
    ),
    ("--log-format xml", 1, &["--log-format", "[possible values: text, json, journald]"]),
    (
        "--log-format json -p 99999",
        64,
        &["{\"time\":\"", "\"level\":\"error\",\"message\":\"ERROR: Invalid port"],
    ),
    ("-p {free} -l 192.0.2.1", 71, &["this machine has no such address: choose one"]),
    (
        "-p -1 -u nobody -s {dir}/locked/s",
        71,
        &["Permission denied", "let the server's user write there, or choose another path (-s)"],
    ),
    (
        "-p -1 -c 2000000000",
        71,
        &["-c 2000000000 needs 2000000000, and the system allows", "LimitNOFILE=", "lower -c"],
    ),
    ("-p {taken} -e {dir}/memory", 71, &["take its place (-e, --take-over)"]),
    ("-p -1 -m 999999999", 71, &["give at most", " MB (-m)"]),
    ("-p -1 -e {dir}/none/memory", 71, &["make its directory, or name a file elsewhere (-e)"]),
    ("-p -1 -e {dir}", 71, &["cannot use {dir} as memory file: Is a directory", "in it (-e)"]),
    ("-p -1 -o maxconn_fast", 1, &["\"maxconn_fast\", did you mean \"maxconns_fast\"?"]),
    (
        "-p -1 -u nobody -Y {dir}/locked/users",
        1,
        &[
            "-Y {dir}/locked/users: Permission denied",
            "the server's user (-u) must be able to read it",
        ],
    ),
    ("--log-format journald -p {taken}", 71, &["<3>failed to listen on TCP port"]),
];

/// Behind a configuration that is good.
const ROUTE: &[Mistake] = &[
    (
        "-p {taken}",
        3,
        &["guira route: -p {taken}: can't listen on 127.0.0.1:{taken}", "another program has it"],
    ),
    ("-p 0 --http {taken}", 3, &["--http {taken}: can't listen", "another program has it"]),
    (
        "-p 0 --ssl-port {taken} --pem-cert-path {dir}/chain.pem --pem-key-path {dir}/key.pem",
        3,
        &["--ssl-port {taken}: can't listen", "another program has it"],
    ),
    (
        "-p {free},{free}",
        3,
        &["-p {free}: can't listen on 127.0.0.1:{free}: the flags name it twice"],
    ),
    ("-p {free} --http {free}", 3, &["--http {free}: can't listen on", "the flags name it twice"]),
    ("-p 0 --http 99999", 3, &["--http 99999: a port is a number from 1 to 65535"]),
    ("-p 0 --nosuch", 1, &["unexpected argument '--nosuch' found"]),
    (
        "--unix-domain-sock {dir}/noise",
        3,
        &["can't listen on {dir}/noise: a file is there that is no socket; remove it"],
    ),
    ("--unix-domain-sock {dir}/none/s", 3, &["--unix-domain-sock: can't listen on {dir}/none/s"]),
    ("-p 0 --auth-file {dir}/none", 3, &["--auth-file {dir}/none: No such file"]),
    ("-p 0 --auth-file {dir}/noise", 3, &["--auth-file {dir}/noise: line 1 is no user:password"]),
    ("-p 0 --server-auth-file {dir}/none", 3, &["--server-auth-file {dir}/none: No such file"]),
    (
        "--ssl-port 0 --pem-cert-path {dir}/chain.pem",
        3,
        &["--pem-key-path {dir}/chain.pem: no private key is in it"],
    ),
    ("--ssl-port 0 --pem-cert-path {dir}/none", 3, &["--pem-cert-path {dir}/none: No such file"]),
    (
        "--ssl-port 0 --server-pem-cert-path {dir}/none",
        3,
        &["--server-pem-cert-path {dir}/none: No such file"],
    ),
    ("-p 0 --pem-ca-path {dir}/none", 3, &["--pem-ca-path {dir}/none: No such file"]),
    ("-p 0 --config-budget 10", 3, &["more than 10 bytes: --config-budget allows more"]),
    ("-p 0 --config-budget 2x", 1, &["--config-budget", "512k, 4m, 1g"]),
    ("-p 0 --server-timeout -5", 3, &["--server-timeout -5: not below 0"]),
    ("-p 0 --enable-qos --default-qos-class 9", 3, &["--default-qos-class 9: from 0 to 4"]),
    ("-p 0 --log-path {dir}/none/log", 3, &["--log-path {dir}/none/log: No such file"]),
    ("-p 0 --log-format xml", 1, &["--log-format", "[possible values: text, json, journald]"]),
    ("-p {taken} --log-format journald", 3, &["<3>guira route: -p {taken}: can't listen"]),
    (
        "-p {taken} --log-format json",
        3,
        &["\"level\":\"error\",\"message\":\"guira route: -p {taken}: can't"],
    ),
];

/// Configurations by their files.
const CONFIGS: &[Mistake] = &[
    (
        "-f {dir}/none.json",
        2,
        &["{dir}/none.json: No such file", "name a file that can be read (-f, --config)"],
    ),
    ("-f {dir}/comma.json", 3, &["{dir}/comma.json:3:3: parse error: expected ',' or '}'"]),
    ("explain -f {dir}/comma.json get k", 3, &["{dir}/comma.json:3:3: parse error"]),
    ("-f {dir}/imports.json", 3, &["{dir}/comma.json:3:3: ", "parse error: expected ',' or '}'"]),
    (
        "-f {dir}/type.json",
        3,
        &["{dir}/type.json:2: config: pools: A: servers[1] is a number, expected a string"],
    ),
    ("-f {dir}/pool.json", 3, &["{dir}/pool.json:2: Can not read pool: B"]),
    ("-f {dir}/kind.json", 3, &["{dir}/kind.json:2: ", "Unknown RouteHandle: XYZRoute line: 2"]),
    (
        "-f {dir}/typo.json --validate-config",
        3,
        &["{dir}/typo.json:1: config: pools: A: unknown field 'protocl'"],
    ),
    (
        "-f {dir}/port.json",
        3,
        &["{dir}/port.json:1: Pool A: '99999' is no port, a number from 1 to 65535"],
    ),
    (
        "-f {dir}/portless.json",
        3,
        &["{dir}/portless.json:1: Pool A: no port in server 'h': write host:port"],
    ),
    ("-f {dir}/letter.json", 3, &["Can not read pool: cach, did you mean 'cache'? line: 1"]),
    (
        "{dir}/letter.json",
        3,
        &["no configuration: ", "{dir}/letter.json stands alone: write -f before it"],
    ),
    ("--config-str {\"pools\":", 3, &["expected a value, found the end of the text line: 1"]),
    (
        "--config-str {\"pools\":1x}",
        3,
        &["parse error: expected a number, found '1x}' line: 1 column: 10"],
    ),
];

const OTHERS: &[Mistake] = &[
    (
        "replay -a {dir}/none",
        1,
        &[
            "guira replay: --async-dir {dir}/none: No such file",
            "name the directory of the router's --async-dir",
        ],
    ),
    (
        "completions bash",
        1,
        &["'completions'", "tip: guira generate completions SHELL prints them"],
    ),
    ("bench --connections 0", 1, &["--connections", "a whole number, 1 or more"]),
    ("bench --seconds 0", 1, &["--seconds is above 0"]),
    ("replay -a {dir} --server foo", 1, &["guira replay: --server: ", "'foo': write host:port"]),
    (
        "bench --server 127.0.0.1:1 --seconds 1",
        1,
        &["cannot connect to 127.0.0.1:1: Connection refused", "(--server)?"],
    ),
    // `-s` is seconds here, as before, and the server in `guira get` and its like.
    ("bench --server 127.0.0.1:1 -s 1", 1, &["cannot connect to 127.0.0.1:1"]),
    ("bench -s 127.0.0.1:1", 1, &["--seconds", "--server names the server"]),
];

/// Everything that a mistake names.
struct Setting {
    dir: String,
    taken: TcpListener,
    udp: std::net::UdpSocket,
    free: u16,
}

impl Setting {
    fn new() -> Setting {
        let dir = own_directory();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).expect("a file");
        Authority::new("the test's authority").identity("server").write(&dir);
        write("noise", "no colon\n");
        fs::create_dir(dir.join("locked")).expect("a directory");
        fs::set_permissions(dir.join("locked"), Permissions::from_mode(0o000)).expect("it is ours");
        write("empty", "");
        write("port.json", r#"{"pools":{"A":{"servers":["h:99999"]}},"route":"PoolRoute|A"}"#);
        write("portless.json", r#"{"pools":{"A":{"servers":["h"]}},"route":"PoolRoute|A"}"#);
        write("letter.json", r#"{"pools":{"cache":{"servers":["h:1"]}},"route":"PoolRoute|cach"}"#);
        write("kind.json", "{\n \"route\": {\"type\": \"XYZRoute\"}\n}\n");
        write("comma.json", "{\n \"pools\": {}\n  \"route\": \"NullRoute\"\n}\n");
        let import = dir.join("comma.json");
        write("imports.json", &format!("{{\n\"route\": \"@import(file:{})\"}}", import.display()));
        write(
            "type.json",
            "{\"pools\": {\"A\": {\"servers\": [\"h:1\",\n 5]}},\n \"route\": \"PoolRoute|A\"}",
        );
        write(
            "pool.json",
            "{\"pools\": {\"A\": {\"servers\": [\"h:1\"]}},\n \"route\": \"PoolRoute|B\"}",
        );
        write(
            "typo.json",
            "{\"pools\": {\"A\": {\"servers\": [\"h:1\"], \"protocl\": \"x\"}}, \"route\": \"PoolRoute|A\"}",
        );
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        Setting {
            dir: dir.to_str().expect("a path in UTF-8").to_owned(),
            taken,
            udp,
            free: free_port(),
        }
    }

    fn fill(&self, text: &str) -> String {
        let taken = self.taken.local_addr().expect("it is bound").port();
        let udp = self.udp.local_addr().expect("it is bound").port();
        let text = text.replace("{dir}", &self.dir).replace("{taken}", &taken.to_string());
        text.replace("{udp}", &udp.to_string()).replace("{free}", &self.free.to_string())
    }

    fn check(&self, mistakes: &[Mistake], begin: impl Fn() -> Command) {
        for (line, code, said) in mistakes {
            let mut command = begin();
            command.args(self.fill(line).split(' '));
            let (ended, words) = end(&mut command, &self.dir);
            assert_eq!(ended, Some(*code), "{line}: {words}");
            for said in *said {
                assert!(words.contains(&self.fill(said)), "{line}: {said:?} isn't said: {words}");
            }
            assert!(words.matches("(os error").count() <= 1, "{line}: said twice: {words}");
            assert!(!words.contains(" INFO "), "{line}: begun before it is refused: {words}");
            assert!(!words.contains("as a value"), "{line}: a tip that leads astray: {words}");
        }
    }
}

/// The exit code, and what was said on standard error; a program that goes on is killed.
fn end(command: &mut Command, dir: &str) -> (Option<i32>, String) {
    let path = Path::new(dir).join("said");
    let said = fs::File::create(&path).expect("a file");
    let child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn().expect("it runs");
    let mut running = Running(child);
    // Two minutes: on a machine that is busy with other things it takes its time.
    for _ in 0..12_000 {
        if let Ok(Some(status)) = running.0.try_wait() {
            return (status.code(), fs::read_to_string(&path).expect("what it said"));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    (None, fs::read_to_string(&path).expect("what it said"))
}

#[test]
fn a_mistake_is_named_with_the_flag_or_the_place_that_is_to_be_put_right() {
    let setting = Setting::new();
    setting.check(SERVE, || command(Program::Guira));
    setting.check(ROUTE, || {
        let mut command = command(Program::Router);
        command.args(["--listen-addresses", "127.0.0.1", "--asynclog-disable"]);
        command.args(["--config-str", r#"{"route":"NullRoute"}"#]);
        command
    });
    // The server once removed the file, as it does with a socket that nobody listens on.
    let noise = fs::read_to_string(format!("{}/noise", setting.dir));
    assert_eq!(noise.expect("a file that is no socket stays"), "no colon\n");
    setting.check(CONFIGS, || {
        let mut command = Command::new(guira());
        command.arg("route");
        command
    });
    setting.check(OTHERS, || Command::new(guira()));
    fs::remove_dir_all(&setting.dir).expect("it is there");
}

/// A user who asks for one server's deletes is told about that server even if it has none: its name may be mistyped.
#[test]
fn a_replay_says_that_nothing_waits_for_the_server_that_is_named() {
    let dir = own_directory();
    let mut command = Command::new(guira());
    let done = command.arg("replay").arg("-a").arg(&dir).args(["--server", "127.0.0.1:7"]).output();
    let done = done.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "127.0.0.1:7: no deletes wait\n");
    assert_eq!(done.status.code(), Some(0));
    fs::remove_dir_all(&dir).expect("it is there");
}

#[test]
fn a_bench_names_the_process_that_it_cannot_look_at() {
    let server = Server::start_tcp(Program::Guira, &[]);
    let port = server.port();
    let place = format!("127.0.0.1:{port}");
    let flags = ["--server", &place, "-s", "1", "--server-pid", "4294967295"];
    let done = Command::new(guira()).arg("bench").args(flags).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("the server's process 4294967295 can be read: No such file"), "{said}");
    assert_eq!(done.status.code(), Some(1));
}

/// Where the metrics are, whichever address was meant.
#[test]
fn both_programs_say_where_metrics_are() {
    let router =
        Server::start_router(&["--config-str", r#"{"route":"NullRoute"}"#, "--http", "*:0"]);
    let server = Server::start(Program::Guira, &["--http", "*:0"]);
    for program in [&router, &server] {
        let says = |any: &str| program.said().contains(&format!("INFO metrics at http://{any}:"));
        eventually("it says so", || says("[::]") || says("0.0.0.0"));
        assert!(!program.said().contains(":0/metrics"), "{}", program.said());
    }
}
