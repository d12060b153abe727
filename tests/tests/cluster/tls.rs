//! TLS between the nodes of a cluster, from a router to them, and from all of them to etcd: real nodes, a real etcd, and
//! certificates made for the test.

use guira_tests::client::{Client, PATIENCE};
use guira_tests::replicas::{NAMES, Replicas, told};
use guira_tests::server::{Server, within};
use guira_tests::tls::Authority;
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// A router that asks the nodes as `fields` say.
fn router(cluster: &Replicas, fields: &str, flags: &[&str]) -> Server {
    let place = cluster.place();
    let config =
        format!("{{\"route\": {{\"type\": \"ClusterRoute\", \"etcd\": \"{place}\"{fields}}}}}");
    let etcd = cluster.etcd_flags();
    let etcd: Vec<&str> = etcd.iter().map(String::as_str).collect();
    Server::start_router(&[&["--config", &config, "--num-proxies", "2"], &etcd[..], flags].concat())
}

fn stores_and_finds(client: &mut Client, round: &str) {
    for n in 0..50 {
        let set = format!("set key-{n} 0 0 {}\r\n{round}", round.len());
        assert_eq!(told(client, &set), "STORED\r\n", "{n}");
    }
    for n in 0..50 {
        let found = format!("VALUE key-{n} 0 {}\r\n{round}\r\nEND\r\n", round.len());
        assert_eq!(told(client, &format!("get key-{n}")), found);
    }
}

/// Waits until a node's log has these words.
fn says(cluster: &Replicas, name: &str, part: &str) {
    let what = format!("{name} says {part:?}");
    within(60, &what, || cluster.nodes[name].said().contains(part));
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn nodes_a_router_and_etcd_speak_tls_with_each_other() {
    let authority = Authority::new("the nodes' authority");
    let mut cluster = Replicas::start_secured(&authority, true);
    let directory = cluster.etcd.dir.join("router");
    fs::create_dir(&directory).expect("a directory");
    let [chain, key] = authority.identity("router").write(&directory).map(|it| text(&it));
    let trusted = text(&cluster.authorities());
    let own = ["--pem-cert-path", &chain, "--pem-key-path", &key];
    let flags = [&own[..], &["--pem-ca-path", &trusted]].concat();
    let secured = router(&cluster, ", \"use_ssl\": true", &flags);
    let mut client = secured.connect();
    stores_and_finds(&mut client, "one");
    cluster.kill("ibis");
    stores_and_finds(&mut client, "two");
    cluster.begin("ibis");
    cluster.until_whole();
    stores_and_finds(&mut client, "three");

    // A client that shows no certificate, or speaks no TLS, gets nothing.
    let nameless = router(&cluster, ", \"use_ssl\": true", &["--pem-ca-path", &trusted]);
    let plain = router(&cluster, "", &[]);
    // The router doesn't know who signed the nodes' certificates.
    let others = directory.join("others.pem");
    fs::write(&others, Authority::new("another").pem).expect("a file");
    let others = text(&others);
    let wary = router(&cluster, ", \"use_ssl\": true", &["--pem-ca-path", &others]);
    for (refused, why) in
        [(nameless, "CertificateRequired"), (plain, "it speaks TLS"), (wary, "UnknownIssuer")]
    {
        // Nothing was carried out: a change's outcome is known, too.
        for request in ["get key-1", "set key-1 0 0 1\r\nx"] {
            let said = refused.connect().ask(request);
            assert!(said.starts_with("SERVER_ERROR slot "), "{said}");
            assert!(NAMES.iter().all(|name| said.contains(&format!("{name}: "))), "{said}");
            assert!(said.contains(why), "{why}: {said}");
        }
        assert!(refused.said().contains(why), "{why}: {}", refused.said());
    }
}

#[test]
fn links_end_with_a_bad_handshake_follow_new_certificates_and_refuse_strangers() {
    let (old, new) = (Authority::new("the old one"), Authority::new("the new one"));
    let mut cluster = Replicas::start_secured(&old, false);
    a_handshake_that_does_not_end_holds_up_no_other_link_and_is_ended(&mut cluster);
    certificates_of_links_are_read_again_on_hangup(&mut cluster, (&old, &new));
    strangers_are_refused(&mut cluster, &new);
}

fn a_handshake_that_does_not_end_holds_up_no_other_link_and_is_ended(cluster: &mut Replicas) {
    cluster.kill("jay");
    let port = cluster.ports("heron")[1];
    let begin = |said: &[u8]| {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stranger.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
        stranger.write_all(said).expect("it listens");
        stranger
    };
    // One client sends nothing, the other the first bytes of a record.
    let mut strangers: Vec<TcpStream> =
        (0..100).map(|n| begin(&b"\x16\x03\x01\x02"[..n % 5])).collect();
    cluster.begin("jay");
    cluster.until_whole();
    strangers.extend((0..5).map(|n| begin(&b"\x16\x03\x01\x02"[..n])));
    for stranger in &mut strangers {
        let mut heard = Vec::new();
        stranger.read_to_end(&mut heard).ok();
        assert!(heard.is_empty() || heard[0] == 0x15, "an alert at most: {heard:?}");
    }
}

fn certificates_of_links_are_read_again_on_hangup(
    cluster: &mut Replicas,
    (old, new): (&Authority, &Authority),
) {
    cluster.set("heron", "k", "1");
    let hang_up = |cluster: &Replicas, count: usize, part: &str| {
        NAMES.iter().for_each(|name| cluster.nodes[name].signal(Signal::HUP));
        let has = |name: &&str| cluster.nodes[*name].said().matches(part).count() >= count;
        within(60, part, || NAMES.iter().all(has));
    };
    let read = "the certificates for other nodes were read again";
    fs::write(cluster.authorities(), "nobody").expect("a file");
    hang_up(cluster, 1, "the certificates for other nodes stay");
    cluster.trust(&[old, new]);
    hang_up(cluster, 1, read);
    NAMES.iter().for_each(|name| cluster.certify(name, new, "127.0.0.1", false));
    hang_up(cluster, 2, read);
    cluster.trust(&[new]);
    hang_up(cluster, 3, read);
    // Its links are new, and it knows nothing of the old authority.
    cluster.kill("jay");
    cluster.begin("jay");
    cluster.until_whole();
    assert_eq!(cluster.get("jay", "k").as_deref(), Some("1"));
}

/// A node without TLS, or with a certificate that doesn't fit, is refused, and the logs say why.
fn strangers_are_refused(cluster: &mut Replicas, authority: &Authority) {
    let other = Authority::new("another");
    let others_trust = cluster.etcd.dir.join("others.pem");
    fs::write(&others_trust, &other.pem).expect("a file");

    // It has no certificate.
    cluster.add("kite");
    says(cluster, "kite", "it speaks TLS, and this node doesn't");
    says(cluster, "heron", "a link from 127.0.0.1 isn't accepted: it speaks no TLS");
    says(cluster, "heron", "it ended the TLS handshake");
    says(cluster, "kite", "isn't accepted: it speaks TLS, and this node doesn't");
    is_left_out(cluster, "kite");

    // Another authority signed its certificate, and it trusts the nodes'.
    cluster.certify("lark", &other, "127.0.0.1", false);
    cluster.add("lark");
    let refused = "its certificate is refused: invalid peer certificate: UnknownIssuer";
    says(cluster, "heron", &format!("a link from 127.0.0.1 isn't accepted: {refused}"));
    says(cluster, "lark", "it refuses this node's certificate: received fatal alert: UnknownCA");
    is_left_out(cluster, "lark");

    // It trusts another authority.
    cluster.certify("merlin", authority, "127.0.0.1", false);
    let trusted = cluster.flags.get_mut("merlin").expect("flags").last_mut().expect("one");
    *trusted = text(&others_trust);
    cluster.add("merlin");
    says(cluster, "merlin", refused);
    is_left_out(cluster, "merlin");

    // Its certificate is for another host: whoever dials it sees that, and whom it dials.
    cluster.certify("owl", authority, "elsewhere.example", false);
    cluster.add("owl");
    says(cluster, "heron", "its certificate isn't for 127.0.0.1:");
    says(cluster, "heron", "its certificate is refused: invalid peer certificate: certificate not");
    is_left_out(cluster, "owl");

    // One whose certificate fits comes in.
    cluster.certify("swift", authority, "127.0.0.1", false);
    cluster.add("swift");
    within(60, "swift gets slots", || cluster.slots_of("swift") > 0);
}

/// The node got nothing, and the others serve. It ends.
fn is_left_out(cluster: &mut Replicas, name: &'static str) {
    assert_eq!(cluster.slots_of(name), 0, "{name}");
    let before = cluster.get("ibis", "k").expect("it is there");
    let next = format!("{before}1");
    cluster.set("jay", "k", &next);
    assert_eq!(cluster.get("heron", "k"), Some(next));
    cluster.kill(name);
}
