//! What `guira route` says of files that go, or that it can't use, while it runs.

use guira_tests::server::{Server, eventually, guira, own_directory};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Command;

const CONFIG: &str = r#"{"pools": {"A": {"servers": ["127.0.0.1:1"]}}, "route": "PoolRoute|A"}"#;

fn says(router: &Server, what: &str) {
    eventually(what, || router.said().contains(what));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// The signal once ended the router at once, together with all requests of its clients.
#[test]
fn the_second_user_signal_is_ignored() {
    let mut router = Server::start_router(&["--config", CONFIG]);
    router.signal(Signal::USR2);
    says(&router, "INFO SIGUSR2 is ignored");
    assert!(router.is_running());
    assert!(router.connect().ask("version").starts_with("VERSION"));
}

/// The router once said nothing until an operator sent SIGHUP or restarted it.
#[test]
fn a_configuration_that_is_removed_is_told_once_and_when_it_is_back() {
    let dir = own_directory();
    let (file, aside) = (dir.join("route.json"), dir.join("aside"));
    fs::write(&file, CONFIG).expect("a file");
    let router = Server::start_router(&["-f", text(&file)]);
    let gone =
        format!("WARN the configuration's file can't be read: {}: No such file", text(&file));
    let back = format!("INFO the configuration's file {} can be read again", text(&file));
    for times in 1..=2 {
        fs::rename(&file, &aside).expect("the same directory");
        eventually(&gone, || router.said().matches(&gone).count() == times);
        fs::rename(&aside, &file).expect("the same directory");
        eventually(&back, || router.said().matches(&back).count() == times);
    }
    let said = router.said();
    assert!(said.contains("; the configuration in use stays"), "{said}");
    assert!(!said.contains("reconfigured"), "{said}");
    assert!(router.connect().ask("get k").starts_with("SERVER_ERROR"), "it routes");
    fs::remove_file(&file).expect("it is there");
    eventually(&gone, || router.said().matches(&gone).count() == 3);
    fs::write(&file, CONFIG.replace("PoolRoute|A", "NullRoute")).expect("a file");
    says(&router, "INFO reconfigured with");
    assert_eq!(router.connect().ask("get k"), "END\r\n");
    fs::remove_dir_all(dir).expect("it is there");
}

const SHADOWED: &str = r#"{"pools": {"A": {"servers": ["127.0.0.1:1"]}}, "route": {
    "type": "PoolRoute", "pool": "A", "shadows": [
        {"target": "NullRoute", "index_range": [0, 0], "key_fraction_range_rv": "share"}]}}"#;

/// Whatever was wrong with the file, its variables once had no effect, without a message.
#[test]
fn a_file_of_runtime_variables_that_is_of_no_use_is_told_at_the_start_and_at_each_change() {
    let dir = own_directory();
    let path = dir.join("variables.json");
    let start =
        || Server::start_router(&["--config", SHADOWED, "--runtime-vars-file", text(&path)]);
    let missing =
        format!("WARN runtime variables: --runtime-vars-file {}: No such file", text(&path));
    says(&start(), &missing);
    let of_no_use = [
        ("{", "parse error"),
        ("[1]", "it is of type array, not an object; "),
        (r#"{"share": 1}"#, "'share' is of type int64, not an array of two numbers"),
        (r#"{"share": [0, "x"]}"#, "'share' is of type array, not an array of two numbers"),
    ];
    for (text, why) in of_no_use {
        fs::write(&path, text).expect("a file");
        says(&start(), why);
    }
    let good = r#"{"share": [0, 0.5], "of nobody": true}"#;
    fs::write(&path, good).expect("a file");
    let router = start();
    // The router accepts connections before it reads the file.
    says(&router, "listening on");
    for (text, why) in of_no_use {
        fs::write(&path, text).expect("a file");
        says(&router, why);
    }
    assert!(router.said().contains("those that were read before stay"), "{}", router.said());
    fs::remove_file(&path).expect("it is there");
    says(&router, &missing);
    fs::write(&path, good).expect("a file");
    let read = format!("INFO runtime variables {}: read", text(&path));
    eventually(&read, || router.said().trim_end().ends_with(&read));
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn the_usual_file_of_runtime_variables_need_not_be_there() {
    let router = Server::start_router(&["--config", CONFIG]);
    says(&router, "listening on");
    assert!(!router.said().contains("runtime variables"), "{}", router.said());
}

/// mcrouter takes such a pool, and so does Guira, although it is probably a mistake.
#[test]
fn a_pool_without_servers_is_warned_of() {
    let config = r#"{"pools": {"A": {"servers": []}}, "route": "PoolRoute|A"}"#;
    let warning = "pools: A: the pool has no servers";
    let mut command = Command::new(guira());
    let done = command.args(["route", "--validate-config", "--config", config]).output();
    let done = done.expect("it runs");
    assert!(String::from_utf8_lossy(&done.stderr).contains(warning), "{done:?}");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "the configuration is good\n");
    assert_eq!(done.status.code(), Some(0));
    let router = Server::start_router(&["--config", config]);
    says(&router, &format!("WARN config: {warning}"));
    assert!(router.connect().ask("get k").starts_with("SERVER_ERROR"), "{}", router.said());
    let router = Server::start_router(&["--config", CONFIG]);
    says(&router, "listening on");
    assert!(!router.said().contains("no servers"), "{}", router.said());
}

#[test]
fn a_hangup_says_what_was_read_again_and_only_that() {
    let dir = own_directory();
    let file = dir.join("route.json");
    fs::write(&file, CONFIG).expect("a file");
    let router = Server::start_router(&["-f", text(&file)]);
    router.signal(Signal::HUP);
    says(&router, "INFO reconfigured with");
    let said = router.said();
    assert!(!said.contains("certificates") && !said.contains("logins"), "{said}");
    let users = dir.join("users");
    fs::write(&users, "user:password\n").expect("a file");
    let router = Server::start_router(&["-f", text(&file), "--auth-file", text(&users)]);
    router.signal(Signal::HUP);
    says(&router, "INFO the clients' logins were read again");
    assert!(!router.said().contains("certificates"), "{}", router.said());
    fs::remove_dir_all(dir).expect("it is there");
}
