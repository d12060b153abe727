//! What an operator gets wrong, and what `guira route` says of it: typos in the configuration, addresses, a start that
//! isn't over.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use guira_tests::metrics::get_http;
use guira_tests::server::{
    Address, Program, Server, accepts, eventually, free_port, guira, own_directory,
};
use rustix::process::Signal;

fn route(arguments: &[&str]) -> Output {
    let done = Command::new(guira()).arg("route").args(arguments).output();
    done.expect("guira runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().expect("a path in UTF-8").to_owned()
}

/// A configuration of one server, with more fields of its pool and its route.
fn config(port: u16, pool: &str, route: &str) -> String {
    format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{port}\"]{pool}}}}},\n \
         \"route\": {{\"type\": \"PoolRoute\", \"pool\": \"A\"{route}}}}}"
    )
}

#[test]
fn a_typo_fails_validation_and_what_was_meant_is_said() {
    for (pool, of_route, said) in [
        (", \"use_ssll\": true", "", "unknown field 'use_ssll', did you mean 'use_ssl'? line: 1"),
        (", \"protocl\": \"meta\"", "", "did you mean 'protocol'?"),
        ("", ", \"hash\": \"crc99\"", "'crc99' is no such word"),
        (
            "",
            ", \"hash\": {\"hash_func\": \"Ch3\", \"salty\": \"x\"}",
            "did you mean 'salt'? line: 2",
        ),
        (", \"weights\": [\"1\"]", "", "weights[0] is a string, expected a number"),
    ] {
        let config = config(1, pool, of_route);
        let done = route(&["--config", &config, "--validate-config"]);
        let words = text(&done.stderr);
        assert_eq!(done.status.code(), Some(3), "{config}: {words}");
        assert!(words.contains(said), "{config}: {words}");
        assert!(!text(&done.stdout).contains("good"));
    }
    let good = config(1, ", \"service_id_override\": \"x\"", "");
    let done = route(&["--config", &good, "--validate-config"]);
    assert!(done.status.success() && text(&done.stdout).contains("the configuration is good"));
    assert!(text(&done.stderr).contains("'service_id_override' has no effect here"));
}

#[test]
fn a_start_with_a_typo_warns_and_a_strict_one_is_refused_whatever_was_kept() {
    let memcached = Server::start_tcp(Program::Memcached, &[]);
    let port = memcached.port();
    let dir = own_directory();
    let (main, kept) = (path(&dir, "route.json"), path(&dir, "kept"));
    let flags = ["-f", &main, "--config-dump-root", &kept, "--reconfiguration-delay-ms", "0"];
    let write = |pool: &str| fs::write(&main, config(port, pool, "")).expect("a file");
    write("");
    drop(Server::start_router(&flags));
    write(", \"server_timeuot\": 5");
    let router = Server::start_router(&flags);
    eventually("it warns", || router.said().contains("did you mean 'server_timeout'?"));
    assert_eq!(router.connect().set("k", b"v"), "STORED\r\n");
    let strict = [&["-p", "0", "--strict"], &flags[..]].concat();
    let done = route(&strict);
    assert_eq!(done.status.code(), Some(3));
    assert!(text(&done.stderr).contains("did you mean 'server_timeout'?"));
    write("");
    let router = Server::start_router(&[&["--strict"], &flags[..]].concat());
    write(", \"protocl\": \"ascii\"");
    let stays = || router.said().contains("did you mean 'protocol'?");
    eventually("a strict reload is refused", stays);
    assert!(router.said().contains("the configuration in use stays"), "{}", router.said());
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn a_configuration_is_named_by_its_path_as_the_help_shows_it() {
    let dir = own_directory();
    let main = path(&dir, "ok.json");
    fs::write(&main, config(7, "", "")).expect("a file");
    let done = route(&["explain", "--config", &main, "get", "user:1"]);
    let (out, words) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{words}");
    assert!(out.starts_with("sent to, if each server answers:\n  127.0.0.1:7:"), "{out}");
    let done = route(&["explain", "--config", "/none/such.json", "get", "user:1"]);
    assert!(text(&done.stderr).contains("/none/such.json: No such file"), "{done:?}");
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn the_schema_is_printed_without_a_configuration() {
    let done = route(&["--schema"]);
    assert!(done.status.success());
    let schema = text(&done.stdout);
    assert!(schema.contains("\"$schema\": \"https://json-schema.org/draft/2020-12/schema\""));
    assert!(schema.contains("\"type.PoolRoute\": {") && schema.ends_with("}\n"), "{schema}");
}

#[test]
fn a_router_says_where_it_listens_and_who_may_come() {
    let config = config(free_port(), "", "");
    let flags = ["--config", &config, "--config-dump-root", ""];
    let router = Server::start_router(&flags);
    let port = router.port();
    eventually("it says so", || {
        router.said().contains(&format!("listening on 127.0.0.1:{port}\n"))
    });
    assert!(!router.said().contains("is open to"), "{}", router.said());
    let port = free_port();
    let text = port.to_string();
    let flags = [&["-p", &text], &flags[..]].concat();
    let router = Server::start_at(Program::Router, &flags, Address::Tcp(port)).expect("it starts");
    let warns = || router.said().contains("is open to whoever reaches this machine");
    eventually("it warns", warns);
    let any = [format!("listening on [::]:{port}\n"), format!("listening on 0.0.0.0:{port}\n")];
    assert!(any.iter().any(|said| router.said().contains(said)), "{}", router.said());
}

#[test]
fn http_takes_the_addresses_that_serve_takes() {
    let config = config(free_port(), "", "");
    let http = free_port();
    let address = format!("*:{http}");
    let router =
        Server::start_router(&["--config", &config, "--config-dump-root", "", "--http", &address]);
    let is_ready = || accepts(&Address::Tcp(http)) && get_http(http, "/readyz").0.contains("200");
    eventually("it is ready", is_ready);
    drop(router);
    let bad = ["--config", &config, "-p", "0", "--config-dump-root", "", "--http", "99999"];
    let done = route(&bad);
    assert!(text(&done.stderr).contains("--http 99999: a port is a number"), "{done:?}");
}

#[test]
fn a_router_is_not_ready_while_it_sends_what_was_left_from_before() {
    let dir = own_directory();
    let spool = path(&dir, "spool");
    fs::create_dir(&spool).expect("a directory");
    let (server, http) = (free_port(), free_port());
    let (config, text) = (config(server, "", ""), http.to_string());
    let flags = ["--config", &config, "--config-dump-root", "", "-a", &spool];
    let router = Server::start_router(&flags);
    router.connect().ask("delete k");
    let is_written = || fs::read_dir(&spool).is_ok_and(|mut inside| inside.next().is_some());
    eventually("it is written down", is_written);
    router.signal(Signal::KILL);
    drop(router);
    // A server that accepts and says nothing keeps the deletes waiting.
    let mute = TcpListener::bind(("127.0.0.1", server)).expect("the port is free");
    let more = ["--http", &text, "--server-timeout", "4000"];
    let router = Server::start_router(&[&flags[..], &more].concat());
    let unready = || {
        accepts(&Address::Tcp(http))
            && get_http(http, "/readyz")
                == ("HTTP/1.1 503 Service Unavailable".into(), "starting\n".into())
    };
    eventually("it isn't ready", unready);
    assert!(get_http(http, "/livez").0.contains("200"));
    eventually("it is ready", || get_http(http, "/readyz").0.contains("200"));
    eventually("it says where", || router.said().contains("listening on"));
    drop(mute);
    fs::remove_dir_all(dir).expect("it is there");
}
