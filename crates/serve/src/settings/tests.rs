//! Tests of command lines that users and memcached's own tests give.

use super::{ClientCerts, Verify};
use super::{EXIT_VALUE, Host, Listen, ListenAddress, Refusal, ServerSettings, WireProtocol};
use crate::settings::Flags;
use clap::{Args, Command, FromArgMatches};
use guira_cache::{Eviction, IndexKind, Slabs};
use std::path::PathBuf;

fn parse(line: &str) -> Result<ServerSettings, Refusal> {
    let command = Flags::augment_args(Command::new("memcached")).args_override_self(true);
    let matches = command
        .try_get_matches_from(std::iter::once("memcached").chain(line.split_whitespace()))
        .map_err(|error| Refusal::new(EXIT_VALUE, error.to_string()))?;
    ServerSettings::new(&Flags::from_arg_matches(&matches).unwrap())
}

fn accepted(line: &str) -> ServerSettings {
    parse(line).unwrap_or_else(|refusal| panic!("{line}: {refusal}"))
}

#[test]
fn without_flags_the_values_are_memcacheds() {
    let settings = accepted("");
    assert_eq!(
        settings.listen,
        Listen::Tcp(vec![ListenAddress { host: Host::Loopback, port: 11211, tls: None }])
    );
    assert_eq!(settings.memory_bytes, 64 << 20);
    assert_eq!(settings.item_bytes_max, 1 << 20);
    assert_eq!((settings.threads, settings.connections_max, settings.backlog), (4, 1024, 1024));
    assert!(settings.evictions && settings.cas_enabled && settings.flush_enabled);
    assert!(!settings.shutdown_enabled && !settings.detail_enabled && !settings.daemon);
    assert_eq!(settings.protocol, WireProtocol::Auto);
    assert!(settings.extended.maxconns_fast && settings.extended.lru_crawler);
}

#[test]
fn debians_configuration_file_is_understood() {
    let settings =
        accepted("-m 64 -p 11211 -u memcache -l 127.0.0.1 -l ::1 -P /run/memcached/memcached.pid");
    let named =
        |host: &str| ListenAddress { host: Host::Named(host.to_owned()), port: 11211, tls: None };
    assert_eq!(settings.listen, Listen::Tcp(vec![named("127.0.0.1"), named("::1")]));
    assert_eq!(settings.user.as_deref(), Some("memcache"));
    assert_eq!(settings.pidfile, Some(PathBuf::from("/run/memcached/memcached.pid")));
    assert_eq!(settings.inter.as_deref(), Some("127.0.0.1,::1"));
}

#[test]
fn values_may_be_attached_repeated_and_long() {
    let settings =
        accepted("-p5001 -vv --memory-limit=128 -m 256 --conn-limit=7 -t8 -A -F -C -M -k");
    assert_eq!(settings.tcp_port(), 5001);
    assert_eq!((settings.memory_bytes, settings.connections_max), (256 << 20, 7));
    assert_eq!((settings.verbosity, settings.threads), (2, 8));
    assert!(settings.shutdown_enabled && settings.lock_memory);
    assert!(!settings.flush_enabled && !settings.cas_enabled && !settings.evictions);
    assert_eq!(accepted("-B binary -B ascii").protocol, WireProtocol::Ascii);
    let detail = accepted("-D /");
    assert_eq!((detail.prefix_delimiter, detail.detail_enabled), (b'/', true));
}

#[test]
fn an_index_is_chosen_by_name_and_a_wrong_name_is_told_the_right_ones() {
    assert_eq!(accepted("").index, IndexKind::Cuckoo);
    assert_eq!(accepted("--index hopscotch").index, IndexKind::Hopscotch);
    assert_eq!(accepted("--index=chained").index, IndexKind::Chained);
    let refusal = parse("--index btree").unwrap_err();
    assert!(refusal.message.contains("cuckoo, hopscotch, chained"), "{refusal}");
}

#[test]
fn an_eviction_policy_is_chosen_by_name_and_a_wrong_name_is_told_the_right_ones() {
    assert_eq!(accepted("").eviction, Eviction::S3Clock);
    assert_eq!(accepted("--eviction lru --eviction=sieve").eviction, Eviction::Sieve);
    let refusal = parse("--eviction random").unwrap_err();
    assert!(refusal.message.contains("s3-clock, clock, sieve, lru"), "{refusal}");
}

#[test]
fn addresses_are_read_in_each_of_memcacheds_notations() {
    let named =
        |host: &str, port| ListenAddress { host: Host::Named(host.to_owned()), port, tls: None };
    let all = |port| ListenAddress { host: Host::All, port, tls: None };
    for (list, want) in [
        ("127.0.0.1", vec![named("127.0.0.1", 11211)]),
        ("localhost:123", vec![named("localhost", 123)]),
        ("a,b:5;c", vec![named("a", 11211), named("b", 5), named("c", 11211)]),
        (
            "[::1]:77,[::2],fe80::1",
            vec![named("::1", 77), named("::2", 11211), named("fe80::1", 11211)],
        ),
        ("*,*:9", vec![all(11211), all(9)]),
        ("proto[ascii]:1.2.3.4:5", vec![named("1.2.3.4", 5)]),
        (
            "proto[negotiating]:1.2.3.4,tag[web]:5.6.7.8",
            vec![named("1.2.3.4", 11211), named("5.6.7.8", 11211)],
        ),
        ("tag_web_:5.6.7.8:1", vec![named("5.6.7.8", 1)]),
    ] {
        assert_eq!(accepted(&format!("-l {list}")).listen, Listen::Tcp(want), "{list}");
    }
    assert!(matches!(&accepted("-p 0 -U 0").listen, Listen::Udp(places) if places.len() == 1));
    assert_eq!(
        accepted("-p -1 -l 1.2.3.4").listen,
        Listen::Tcp(vec![named("1.2.3.4", 0)]),
        "any free port"
    );
    assert_eq!(
        accepted("-s /tmp/s -a 777 -p 5 -U 5").listen,
        Listen::Unix { path: PathBuf::from("/tmp/s"), mode: 0o777 }
    );
}

#[test]
fn only_protocols_with_a_login_are_spoken_where_logins_are_demanded() {
    assert_eq!(accepted("-S").protocol, WireProtocol::Binary);
    assert_eq!(accepted("-Y f").protocol, WireProtocol::Ascii);
    assert_eq!(accepted("-S -Y f").protocol, WireProtocol::Auto);
    assert_eq!(accepted("-S -Y f -B binary").protocol, WireProtocol::Binary);
}

#[test]
fn tls_is_asked_for_as_memcached_is_asked() {
    let settings = accepted(
        "-Z -o ssl_chain_cert=a.pem,ssl_key=b.pem,ssl_ca_cert=c.pem,ssl_verify_mode=2,ssl_wbuf_size=64 \
         -o ssl_session_cache,ssl_min_version=3 -l notls:a,b,btls:c:5,mtls:proto[ascii]:tag_web_:d",
    );
    let tls = &settings.extended.tls;
    assert!(settings.tls_enabled && tls.session_cache && tls.only_tls13);
    assert_eq!((tls.verify, tls.wbuf_bytes), (Verify::Require, 65_536));
    assert_eq!(tls.key, Some(PathBuf::from("b.pem")));
    let Listen::Tcp(addresses) = settings.listen else { panic!("{:?}", settings.listen) };
    let kinds: Vec<_> = addresses.iter().map(|a| a.tls).collect();
    let [set, never, always] =
        [ClientCerts::AsSet, ClientCerts::Never, ClientCerts::Always].map(Some);
    assert_eq!(kinds, [None, set, never, always]);
}

#[test]
fn memory_is_cut_finely_at_every_size_unless_memcacheds_classes_are_asked_for() {
    for (line, is_fine) in [
        ("", true),
        ("-m 3", true),
        ("-m 64", true),
        ("-m 1024", true),
        ("-o relaxed_privileges", true),
        ("--slabs memcached", false),
        ("-m 1024 --slabs memcached", false),
        ("-m 1024 -o no_modern", false),
        ("-o no_modern --slabs fine", true),
    ] {
        assert_eq!(parse(line).expect(line).slabs == Slabs::Fine, is_fine, "{line}");
    }
    let refusal = parse("--slabs auto").unwrap_err();
    assert!(refusal.message.contains("[possible values: fine, memcached]"), "{refusal}");
}

#[test]
fn what_cannot_be_is_refused_with_memcacheds_code() {
    for (line, code, said) in [
        ("-c 0", 1, "Maximum connections must be greater than 0"),
        ("-c -1", 1, "Maximum connections must be greater than 0"),
        ("-t 0", 1, "Number of threads must be greater than 0"),
        ("-R 0", 1, "greater than 0"),
        ("-f 1", 1, "Factor must be greater than 1"),
        ("-n 0", 1, "Chunk size"),
        ("-m 0", 1, "memory limit"),
        ("-p 65536", 64, "Invalid port number"),
        ("-B http", 64, "Invalid value for binding protocol"),
        ("-I 1000", 64, "less than 1024"),
        ("-I 256m", 64, "higher than 1/2 of memory max"),
        ("-m 1", 64, "-m 1m needs -I 512k or less"),
        ("-m 4096 -I 1025m", 64, "higher than a gigabyte"),
        ("-I x", 1, "-I x: "),
        ("-l h:x", 1, "Invalid port number"),
        ("-l [::1", 1, "Invalid IPV6 address"),
        ("-l notls:h", 64, "only when SSL is enabled: add -Z"),
        ("-l proto[proxy]:h", 1, "not built with proxy"),
        ("-l proto[binary]:h", 1, "ascii only"),
        ("-l tag[longer-than-8]:h", 1, "between 1 and 8"),
        ("-a 9 -s /tmp/s", 1, "octal"),
        ("-S -B auto", 64, "ASCII protocol while using SASL"),
        ("-S -B ascii", 64, "ASCII protocol while using SASL"),
        ("-Y f -B binary", 64, "BINARY protocol while using ascii"),
        ("-Y f -B auto", 64, "BINARY protocol while using ascii"),
        ("-Y f -U 11211", 64, "UDP"),
        ("-S -U 11211", 64, "UDP"),
        ("-N 2", 64, "absent in Guira"),
        ("-o nonsense", 1, "nonsense"),
        ("-Z -p 0", 64, "cannot enable SSL without a TCP port"),
        ("-o ssl_kernel_tls", 64, "rustls"),
        ("-o ssl_min_version=1", 64, "TLS 1.0 and 1.1"),
        ("-o ssl_verify_mode=4", 1, "Invalid ssl_verify_mode"),
        ("-o ssl_keyformat=3", 1, "1 (PEM) or 2 (DER)"),
        ("-o ssl_ciphers=RC4-SHA", 64, "rustls has no RC4-SHA"),
        ("-o ssl_key", 1, "Missing ssl_key argument"),
        ("-o proxy_config=/tmp/x", 64, "guira route is a proxy"),
        ("-o ext_path=/f:5t", 64, "5120 GB are too much for pages of 64 MB: set ext_page_size=84"),
        ("-o ext_path=/f:900t", 64, "921600 GB are more than storage can have, 65534 GB"),
        ("-o hashpower=11", 1, "between 12 and 32"),
        ("-o hashpower", 1, "Missing hashpower argument"),
        ("-o slab_automove=3", 1, "between 0 and 2"),
        ("-o tail_repair_time=9", 1, "at least 10"),
        ("-o udp_budget=2g", 1, "between 0 and 1g, such as 64, which is 64k, or 1m"),
        ("-o hash_algorithm=md5", 1, "one of jenkins, murmur3, xxh3"),
        (
            "-o ssl_chain_cert=/nowhere",
            64,
            "ssl_chain_cert without -Z: clients would be served in plain text",
        ),
        ("-o ssl_session_cache", 64, "without -Z"),
        ("-m 4q", 1, "a size such as 512m or 4g"),
        ("-m 1023k", 1, "at least 1m"),
        ("-m -5", 1, "at least 1m"),
        ("-m 99999999999g", 1, "a size such as"),
        ("-n 4q", 1, "Chunk size"),
        ("--http 99999", 1, "a port is a number from 1 to 65535"),
        ("--http :65536", 1, "a port is a number from 1 to 65535"),
        ("--http localhost:65536", 1, "Invalid port number"),
        ("-o hot_lru_pct=50,warm_lru_pct=50", 64, "more than 80%"),
        ("-o no_lru_maintainer,temporary_ttl=5", 64, "requires lru_maintainer"),
        ("-o slab_chunk_max=3", 64, "evenly"),
        ("-I 1024 -o slab_chunk_max=2", 64, "cannot be larger than -I"),
        ("-o slab_sizes=64-32", 64, "rising"),
    ] {
        let refusal = parse(line).expect_err(line);
        assert_eq!(refusal.code, code, "{line}: {refusal}");
        assert!(refusal.message.contains(said), "{line}: {refusal}");
    }
}

#[test]
fn storage_that_cannot_be_is_refused_with_what_to_give() {
    for (line, code, said) in [
        ("-o ext_path=/tmp/x", 1, "ext_path=/tmp/x: no size; give FILE:SIZE"),
        ("-o ext_path=/tmp/x:0m", 1, "the size is 0"),
        ("-o ext_path=/tmp/x:64", 1, "one of the units m, g, t, p"),
        ("-o ext_path=:64m", 1, "no file"),
        ("-o ext_path=/tmp/x:64m:hot", 1, "the bucket must be one of"),
        ("-o ext_path=/tmp/x:64m -U 11211", 64, "clients of UDP can't wait for storage"),
    ] {
        let refusal = parse(line).expect_err(line);
        assert_eq!(refusal.code, code, "{line}: {refusal}");
        assert!(refusal.message.contains(said), "{line}: {refusal}");
    }
}

#[test]
fn item_size_takes_suffixes_and_small_ones_need_no_chunk_size() {
    assert_eq!(accepted("-I 2097152").item_bytes_max, 2 << 20);
    assert_eq!(accepted("-I 512k -o slab_chunk_max=16").item_bytes_max, 512 << 10);
    assert_eq!(accepted("-m 256 -I 32m").item_bytes_max, 32 << 20);
    let small = accepted("-I 1024");
    assert_eq!((small.item_bytes_max, small.extended.slab_chunk_bytes_max), (1024, 1024));
}

#[test]
fn sub_options_come_comma_joined_and_repeated() {
    let extended = accepted(
        "-o no_maxconns_fast,idle_timeout=3 -o relaxed_privileges -o track_sizes,hashpower=20 \
         -o modern,slab_automove_window=3,lru_crawler_sleep=5,hash_algorithm=xxh3,no_hashexpand",
    )
    .extended;
    assert!(!extended.maxconns_fast && extended.debug_commands && extended.track_sizes);
    assert_eq!((extended.idle_timeout_s, extended.hashpower), (3, 20));
    assert_eq!((extended.slab_automove_window, extended.lru_crawler_sleep_us), (3, 5));
    assert_eq!(extended.hash_algorithm, "xxh3");
    let old = accepted("-o no_modern").extended;
    assert!(!old.maxconns_fast && !old.lru_crawler && !old.lru_maintainer && !old.slab_reassign);
    assert_eq!((old.slab_chunk_bytes_max, old.hash_algorithm), (1 << 20, "jenkins"));
    assert_eq!(accepted("-o slab_chunk_max=16,no_modern").extended.slab_chunk_bytes_max, 16 << 10);
}

#[test]
fn sizes_take_units_wherever_there_are_sizes() {
    assert_eq!(accepted("-m 4g").memory_bytes, 4 << 30);
    assert_eq!(accepted("-m 1.5G -I 2m").memory_bytes, 1536 << 20);
    assert_eq!(accepted("-m 4096").memory_bytes, 4 << 30);
    assert_eq!(accepted("-m 65536k -n 1k").chunk_bytes_min, 1024);
    assert_eq!(accepted("-m 4g -I 1g").item_bytes_max, 1 << 30);
    let extended = accepted(
        "-o udp_budget=1m,lease_stale_size=2m,watcher_logbuf_size=1MiB,slab_chunk_max=256k \
         -o read_buf_mem_limit=1g,worker_logbuf_size=64",
    )
    .extended;
    assert_eq!((extended.udp_budget_bytes, extended.watcher_logbuf_bytes), (1 << 20, 1 << 20));
    assert_eq!(
        (extended.leases.stale_bytes_max, extended.slab_chunk_bytes_max),
        (2 << 20, 256 << 10)
    );
    assert_eq!(
        (extended.read_buf_mem_limit_bytes, extended.worker_logbuf_bytes),
        (1 << 30, 64 << 10)
    );
}

#[test]
fn metrics_are_served_at_a_port_or_an_address() {
    let http = |text: &str| accepted(&format!("--http {text}")).http.unwrap();
    let at = |host, port| ListenAddress { host, port, tls: None };
    assert_eq!(http("9150"), at(Host::Loopback, 9150));
    assert_eq!(http(":65535"), at(Host::Loopback, 65535));
    assert_eq!(http("*:9150"), at(Host::All, 9150));
    assert_eq!(http("10.0.0.1"), at(Host::Named("10.0.0.1".to_owned()), 9150));
}

#[test]
fn the_help_names_what_there_is_and_no_part_that_there_is_not() {
    let mut command = Flags::augment_args(Command::new("memcached"));
    let help = format!("{}{}", command.render_help(), command.render_long_help()).to_lowercase();
    assert!(help.contains("unix-socket"));
    // memcached's test suite takes these words as a sign that the part exists.
    for absent in ["proxy_config", "no_drop_privileges"] {
        assert!(!help.contains(absent), "the help says {absent}");
    }
}
