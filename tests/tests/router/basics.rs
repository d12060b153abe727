//! `guira route` as clients and operators meet it: the real binary in front of real memcacheds.

use guira_tests::client::Client;
use guira_tests::metrics::Scrape;
use guira_tests::server::{Program, Server, eventually, free_port, guira, own_directory};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// A router in front of pool `A`.
pub(super) fn router(ports: &[u16], flags: &[&str]) -> Server {
    Server::start_router_to(ports, flags)
}

fn routed(config: &[&str], flags: &[&str]) -> Server {
    Server::start_router(&[config, flags].concat())
}

pub(super) fn memcached() -> (Server, u16) {
    let server = Server::start_tcp(Program::Memcached, &[]);
    let port = server.port();
    (server, port)
}

fn talk(client: &mut Client, send: &str, expect: &str) {
    let reply = client.exchange(send.replace('\n', "\r\n").as_bytes());
    let reply = String::from_utf8_lossy(&reply.bytes).replace("\r\n", "\n");
    assert_eq!(reply, expect, "{send}");
}

#[test]
fn a_get_of_many_keys_gathers_the_values_of_all_servers_in_the_order_asked() {
    let servers: Vec<_> = (0..3).map(|_| memcached()).collect();
    let ports: Vec<_> = servers.iter().map(|(_, port)| *port).collect();
    let router = router(&ports, &[]);
    let mut client = router.connect();
    let mut expect = String::new();
    let mut ask = "get".to_owned();
    for n in 0..50 {
        assert_eq!(client.set(&format!("key{n}"), format!("value{n}").as_bytes()), "STORED\r\n");
        ask += &format!(" key{n} missing{n}");
        let value = format!("value{n}");
        expect += &format!("VALUE key{n} 0 {}\n{value}\n", value.len());
    }
    talk(&mut client, &(ask + "\n"), &(expect + "END\n"));
    let items: Vec<_> = servers.iter().map(|(s, _)| s.connect().stat("curr_items")).collect();
    assert_eq!(items.iter().sum::<u64>(), 50, "each key on one server: {items:?}");
    assert!(items.iter().all(|&n| n > 0), "and each server has some: {items:?}");
}

/// The later parts of such a get were once begun and not polled. It was answered when the client sent something more.
#[test]
fn a_get_of_several_keys_that_all_servers_answer_may_be_the_first_request() {
    let ((_one, one), (_two, two)) = (memcached(), memcached());
    let config = format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{one}\"]}}, \"B\": {{\"servers\": [\"127.0.0.1:{two}\"]}}}},
          \"route\": {{\"type\": \"AllSyncRoute\", \"children\": [\"PoolRoute|A\", \"PoolRoute|B\"]}}}}"
    );
    let router = routed(&["--config", &config], &[]);
    for get in ["get a b\n", "get a b c d\n", "gat 9 a b c\n"] {
        talk(&mut router.connect(), get, "END\n");
    }
}

#[test]
fn each_command_is_answered_as_memcached_answers_it() {
    let (_memcached, port) = memcached();
    let router = router(&[port], &["--enable-flush-cmd"]);
    let mut client = router.connect();
    for (send, expect) in [
        ("set k 5 0 3\nabc\n", "STORED\n"),
        ("add k 0 0 1\nx\n", "NOT_STORED\n"),
        ("append k 0 0 1\nd\n", "STORED\n"),
        ("prepend k 0 0 1\n_\n", "STORED\n"),
        ("get k\n", "VALUE k 5 5\n_abcd\nEND\n"),
        ("gat 100 k nothing\n", "VALUE k 5 5\n_abcd\nEND\n"),
        ("touch k 100\n", "TOUCHED\n"),
        ("touch nothing 100\n", "NOT_FOUND\n"),
        ("cas nothing 0 0 1 5\nx\n", "NOT_FOUND\n"),
        ("set n 0 0 2\n10\n", "STORED\n"),
        ("incr n 5\n", "15\n"),
        ("decr n 20\n", "0\n"),
        ("set q 0 0 1 noreply\nx\nget q\n", "VALUE q 0 1\nx\nEND\n"),
        ("delete q noreply\nget q\n", "END\n"),
        ("delete q\n", "NOT_FOUND\n"),
        ("mg k v f s O1\n", "VA 5 f5 s5 O1\n_abcd\n"),
        ("mg lease s v N30\nmg lease s v N30\n", "VA 0 s0 W\n\nVA 0 s0 Z\n\n"),
        ("mg a2F5IMO8IGI= b v\n", "EN\n"),
        ("ms m 2 T100 F7\nhi\nmg m f v q\nmg none v q\n", "HD\nVA 2 f7\nhi\n"),
        ("ma n v\n", "VA 1\n1\n"),
        ("md m q\nmg m v k\n", "EN km\n"),
        ("flush_all\n", "OK\n"),
        ("get k n\n", "END\n"),
        ("set k 0 0 3\ntoolong\n", ""),
    ] {
        if expect.is_empty() {
            client.send(send.replace('\n', "\r\n").as_bytes());
            assert_eq!(client.read_to_end(), b"CLIENT_ERROR malformed request\r\n");
        } else {
            talk(&mut client, send, expect);
        }
    }
}

#[test]
fn pipelined_requests_are_answered_in_their_order_whichever_server_is_quicker() {
    let servers: Vec<_> = (0..3).map(|_| memcached()).collect();
    let ports: Vec<_> = servers.iter().map(|(_, port)| *port).collect();
    let router = router(&ports, &[]);
    let mut client = router.connect();
    let (mut send, mut expect) = (String::new(), String::new());
    for n in 0..500 {
        let value = "x".repeat(n * 7 % 3000);
        send += &format!("set k{n} 0 0 {}\n{value}\nget k{n}\n", value.len());
        expect += &format!("STORED\nVALUE k{n} 0 {}\n{value}\nEND\n", value.len());
    }
    talk(&mut client, &send, &expect);
}

#[test]
fn one_key_that_fails_makes_the_whole_answer_one_line() {
    let (_alive, port) = memcached();
    let router = router(&[port, free_port()], &[]);
    let mut client = router.connect();
    let keys: Vec<_> = (0..40).map(|n| format!("key{n}")).collect();
    let reply = client.ask(&format!("get {}", keys.join(" ")));
    assert!(reply.starts_with("SERVER_ERROR "), "{reply}");
    assert_eq!(reply.lines().count(), 1, "{reply}");
    let answered = keys.iter().filter(|key| client.ask(&format!("get {key}")) == "END\r\n").count();
    assert!((1..40).contains(&answered), "keys of the other server are served: {answered}");
}

#[test]
fn pools_that_are_named_have_statistics_of_their_own() {
    let (_memcached, port) = memcached();
    let dir = own_directory();
    let path = dir.join("pools.json");
    fs::write(&path, "{\"stats_enabled_pools\": [\"app\", \"gone\"]}").expect("written");
    let config = format!(
        "{{\"pools\": {{\"app.1\": {{\"servers\": [\"127.0.0.1:{port}\"]}}, \"gone\": {{\"servers\": [\"127.0.0.1:{}\"]}}}}, \
           \"route\": {{\"type\": \"PrefixSelectorRoute\", \"policies\": {{\"a\": \"PoolRoute|app.1\", \"f\": \
           {{\"type\": \"FailoverRoute\", \"children\": [\"PoolRoute|gone\", \"PoolRoute|app.1\"]}}}}, \
           \"wildcard\": \"PoolRoute|gone\"}}}}",
        free_port()
    );
    let path_text = path.display().to_string();
    let router = routed(&["--config", &config], &["--pool-stats-config-file", &path_text]);
    let mut client = router.connect();
    for key in ["a1", "a2", "f1", "x1"] {
        client.ask(&format!("get {key}"));
    }
    for (name, expected) in [
        ("app.requests.sum", "3"),
        ("app.connections", "1"),
        ("app.final_result_error.sum", "0"),
        ("gone.requests.sum", "2"),
        ("gone.connections", "0"),
        ("gone.final_result_error.sum", "1"),
    ] {
        assert_eq!(client.stat_word("stats all", name), expected, "{name}");
    }
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn a_second_router_in_a_flavor_keeps_replies() {
    let ((_one, child), (two, cache)) = (memcached(), memcached());
    let dir = own_directory();
    pool_of(&dir.join("cache.json"), cache);
    let flavor = dir.join("flavor.json");
    let of = dir.join("cache.json").display().to_string();
    let text = format!("{{\"options\": {{\"config\": \"file:{of}\", \"num_proxies\": \"4\"}}}}");
    fs::write(&flavor, text).expect("written");
    let config = format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{child}\"]}}}}, \"route\": {{\"type\": \"CarbonLookasideRoute\", \
           \"prefix\": \"kept:\", \"ttl\": 0, \"child\": \"PoolRoute|A\", \"flavor\": \"file:{}\"}}}}",
        flavor.display()
    );
    let router = routed(&["--config", &config], &[]);
    let mut client = router.connect();
    client.set("k", b"value");
    assert_eq!(client.get("k").as_deref(), Some(&b"value"[..]));
    let mut behind = two.connect();
    eventually("the reply is kept", || behind.get("kept:k").is_some());
    behind.set("kept:k", b"from there");
    assert_eq!(client.get("k").as_deref(), Some(&b"from there"[..]));
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn buckets_and_constants_are_told_over_a_client_s_connection() {
    let config = "{\"pools\": {\"A\": {\"servers\": [\"127.0.0.1:1\", \"127.0.0.1:2\"]}}, \"route\": {\"type\": \"PoolRoute\", \
                  \"pool\": \"A\", \"hash\": {\"hash_func\": \"WeightedCh3\", \"weights\": [1, 1]}, \"bucketize\": true, \"total_buckets\": 1, \"bucketization_keyspace\": \"space\"}}";
    let router =
        routed(&["--config", config], &["--config-params", "size:7", "--num-proxies", "3"]);
    let mut client = router.connect();
    let mut told = |what: &str| {
        let value = client.get(&format!("__mcrouter__.{what}")).expect("an answer");
        String::from_utf8_lossy(&value).into_owned()
    };
    assert_eq!(told("get_bucket(k)"), "k\t0\tspace\tnull");
    assert!(told("get_bucket").starts_with("ERROR: get_bucket"));
    let params = told("global_params");
    assert!(
        params.contains("\"size\": \"7\"") && params.contains("\"num-proxies\": 3"),
        "{params}"
    );
}

fn pool_of(path: &Path, port: u16) {
    let text = format!(
        "{{ // one server\n\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{port}\"]}}}},\n\"route\": \"PoolRoute|A\"}}"
    );
    fs::write(path, text).expect("the test's directory can be written");
}

#[test]
fn a_changed_configuration_is_used_and_a_bad_one_is_not_while_clients_stay() {
    let ((one, first), (two, second)) = (memcached(), memcached());
    one.connect().set("k", b"one");
    two.connect().set("k", b"two");
    let dir = own_directory();
    let path = dir.join("route.json");
    pool_of(&path, first);
    let config = format!("file:{}", path.display());
    let flags = ["--reconfiguration-delay-ms", "10", "--file-observer-poll-period-ms", "20"];
    let router = routed(&["--config", &config], &flags);
    let mut client = router.connect();
    assert_eq!(client.get("k").as_deref(), Some(&b"one"[..]));
    fs::write(&path, "{\"route\": \"NoSuchRoute\"}").expect("written");
    eventually("the bad configuration is refused", || {
        client.stat_word("stats all", "config_failures") != "0"
    });
    assert_eq!(client.get("k").as_deref(), Some(&b"one"[..]));
    pool_of(&path, second);
    eventually("the good one is used", || client.get("k").as_deref() == Some(b"two"));
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn validate_config_names_the_line_and_exits() {
    let run = |config: &str| {
        let mut command = Command::new(guira());
        let flags = ["route", "--config", config, "--validate-config", "--use-thrift"];
        command.args(flags).output().expect("guira runs")
    };
    let good = run("{\"route\": \"NullRoute\"}");
    assert!(good.status.success());
    let said = String::from_utf8_lossy(&good.stderr);
    assert!(said.contains("--use-thrift has no effect"), "{said}");
    let bad = run("{\n// a comment\n\"route\": {\"type\": \"XyzRoute\"}\n}");
    assert_eq!(bad.status.code(), Some(3));
    let said = String::from_utf8_lossy(&bad.stderr);
    assert!(said.contains("Unknown RouteHandle: XyzRoute line: 3"), "{said}");
    assert_eq!(run("file:/nowhere/route.json").status.code(), Some(2));
}

#[test]
fn explain_says_where_a_key_would_go_without_sending_it() {
    let config = "{\"pools\": {\"A\": {\"servers\": [\"10.0.0.1:1\"]}, \"B\": {\"servers\": [\"10.0.0.2:2\"]}}, \
                  \"route\": {\"type\": \"FailoverRoute\", \"children\": [\"PoolRoute|A\", \"PoolRoute|B\"]}}";
    let mut command = Command::new(guira());
    let done = command.args(["route", "explain", "--config", config, "get", "user:1"]).output();
    let said = String::from_utf8_lossy(&done.expect("guira runs").stdout).into_owned();
    let expect = "sent to, if each server answers:\n  10.0.0.1:1:ascii:plain:notcompressed\n\
                  may be sent to, depending on how servers answer, first choice first:\n  \
                  10.0.0.1:1:ascii:plain:notcompressed\n  10.0.0.2:2:ascii:plain:notcompressed\n";
    assert!(said.starts_with(expect), "{said}");
}

#[test]
fn metrics_have_a_histogram_for_each_pool_and_server() {
    let (_memcached, port) = memcached();
    let http = free_port();
    let text = http.to_string();
    let router = router(&[port], &["--http", &text]);
    let mut client = router.connect();
    for _ in 0..10 {
        assert_eq!(client.get("k"), None);
    }
    let scrape = Scrape::of(http);
    let labels = format!("{{pool=\"A\",server=\"127.0.0.1:{port}\"}}");
    let count = format!("guira_route_request_duration_seconds_count{labels}");
    assert_eq!(scrape.series.get(&count), Some(&10.0), "{:?}", scrape.series);
    let commands = "guira_route_commands_total{command=\"get\"}";
    assert_eq!(scrape.series.get(commands), Some(&10.0));
}

#[test]
fn pools_that_give_a_server_other_times_to_connect_have_connections_of_their_own() {
    let port = free_port();
    let pool = |times: &str| format!("{{\"servers\": [\"127.0.0.1:{port}\"], {times}}}");
    for (other, links) in [("\"connect_timeout\": 200", 2), ("\"connect_timeout\": 100", 1)] {
        let config = format!(
            "{{\"pools\": {{\"A\": {}, \"B\": {}}}, \"route\": {{\"type\": \"FailoverRoute\", \"children\": [\"PoolRoute|A\", \"PoolRoute|B\"]}}}}",
            pool("\"connect_timeout\": 100"),
            pool(other)
        );
        let router = routed(&["--config", &config], &["--num-proxies", "1"]);
        assert_eq!(router.connect().stat("num_servers"), links, "{other}");
    }
}

/// A server that answers each get with another key's value. The router once passed it on under the key that was asked.
#[test]
fn a_value_of_another_key_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(20) {
            let mut stream = stream.expect("a client");
            std::thread::spawn(move || {
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
                while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
                    let is_get = line.starts_with("get");
                    let reply =
                        if is_get { "VALUE other 0 1\r\nx\r\nEND\r\n" } else { "VERSION 1\r\n" };
                    if stream.write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    let answer = router(&[port], &[]).connect().ask("get asked");
    assert!(answer.starts_with("SERVER_ERROR"), "{answer}");
    let trusting = router(&[port], &["--trust-reply-order"]);
    let answer = trusting.connect().exchange(b"get asked\r\n").bytes;
    assert_eq!(String::from_utf8_lossy(&answer), "VALUE asked 0 1\r\nx\r\nEND\r\n");
}

/// What ten clients are answered who ask at once, while the server is silent and when it returns, under these limits: how
/// many values, how many of these words. Meanwhile as many requests are under way, and wait, as the names say.
fn asked_at_once(limits: &[&str], words: &str, under_way: &str, waiting: &str) -> [usize; 2] {
    let (server, port) = memcached();
    let flags = [&["--num-proxies", "1", "--server-timeout", "60000"], limits].concat();
    let router = router(&[port], &flags);
    let mut watcher = router.connect();
    watcher.set("k", b"x");
    server.signal(Signal::STOP);
    let mut clients: Vec<Client> = (0..10).map(|_| router.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(b"get k\r\n"));
    eventually("the rest is refused", || watcher.stat("request_error_count") == 5);
    assert_eq!((watcher.stat(under_way), watcher.stat(waiting)), (2, 3));
    server.signal(Signal::CONT);
    let answers: Vec<String> = clients
        .iter_mut()
        .map(|client| String::from_utf8_lossy(&client.read_exact(21)).into_owned())
        .collect();
    eventually("all is done", || watcher.stat(under_way) + watcher.stat(waiting) == 0);
    let with = |part: &str| answers.iter().filter(|answer| answer.starts_with(part)).count();
    [with("VALUE k 0 1\r\nx\r\nEND\r\n"), with(words)]
}

#[test]
fn what_is_above_a_limit_waits_its_turn_and_what_is_above_two_is_refused() {
    let at_servers = ["--target-max-inflight-requests", "2", "--target-max-pending-requests", "3"];
    let (under_way, waiting) = ("destination_inflight_reqs", "destination_pending_reqs");
    let words = "SERVER_ERROR Max pend";
    assert_eq!(asked_at_once(&at_servers, words, under_way, waiting), [5, 5]);
    let routed = ["--proxy-max-inflight-requests", "2", "--proxy-max-throttled-requests", "3"];
    let (under_way, waiting) = ("proxy_reqs_processing", "proxy_reqs_waiting");
    assert_eq!(asked_at_once(&routed, "SERVER_ERROR 307 busy", under_way, waiting), [5, 5]);
}

#[test]
fn stats_have_a_rate_beside_each_count() {
    let (_memcached, port) = memcached();
    let router = router(&[port], &[]);
    let mut client = router.connect();
    (0..100).for_each(|n| drop(client.set(&format!("k{n}"), b"x")));
    let mut number =
        |name: &str| -> f64 { client.stat_word("stats all", name).parse().expect("a number") };
    assert_eq!(number("cmd_set_count"), 100.0);
    for rate in ["cmd_set", "request_sent", "request_replied"] {
        let rate = number(rate);
        assert!(rate > 0.0 && rate <= 100.0, "{rate}");
    }
    assert!(number("duration_us") > 0.0);
    assert_eq!((number("cmd_get"), number("result_error")), (0.0, 0.0));
}

#[test]
fn a_cold_cluster_of_stock_memcacheds_keeps_values_as_long_as_the_warm_one() {
    let ((warm, warm_port), (cold, cold_port)) = (memcached(), memcached());
    let config = format!(
        "{{\"pools\": {{\"w\": {{\"servers\": [\"127.0.0.1:{warm_port}\"]}}, \
         \"c\": {{\"servers\": [\"127.0.0.1:{cold_port}\"]}}}}, \
         \"route\": {{\"type\": \"WarmUpRoute\", \"cold\": \"PoolRoute|c\", \"warm\": \"PoolRoute|w\"}}}}"
    );
    let router = routed(&["--config", &config], &[]);
    let mut behind = warm.connect();
    behind.exchange(b"set dies 0 1000 1\r\nx\r\nset stays 0 0 1\r\nx\r\n");
    for key in ["dies", "stays"] {
        assert_eq!(router.connect().get(key).as_deref(), Some(&b"x"[..]));
    }
    let mut cold = cold.connect();
    assert_eq!(cold.ask("mg stays t"), "HD t-1\r\n");
    let left = cold.ask("mg dies t");
    let left = left.trim_end().strip_prefix("HD t").and_then(|left| left.parse::<u32>().ok());
    assert!(left.is_some_and(|left| (1..=1000).contains(&left)), "{left:?}");
}
