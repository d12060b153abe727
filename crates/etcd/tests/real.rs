//! Tests of what the client believes of etcd, with a real one.

use guira_etcd::{
    Error, Etcd, EtcdAccess, EtcdCompare, EtcdEvent, EtcdKeys, EtcdOp, EtcdPlace, Files, KeyValue,
};
use guira_tests::etcd::Etcd as Server;
use guira_tests::server::{free_port, within};
use std::fs;
use std::time::Duration;

fn client(server: &Server) -> Etcd {
    // The first of the two endpoints doesn't exist.
    let place = format!("etcd:127.0.0.1:{},127.0.0.1:{}/k", free_port(), server.port());
    Etcd::new(&EtcdPlace::parse(&place).expect("a place"), EtcdAccess::default())
}

fn put(key: &str, value: &str, lease: Option<i64>) -> EtcdOp {
    EtcdOp::Put { key: key.into(), value: value.into(), lease }
}

fn pairs(etcd: &Etcd, keys: &EtcdKeys) -> Vec<(String, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let pairs = etcd.range(keys).expect("etcd answers").pairs;
    pairs.into_iter().map(|pair| (text(pair.key), text(pair.value))).collect()
}

#[test]
fn a_transaction_is_done_if_all_compares_hold_and_else_nothing() {
    let server = Server::start();
    let etcd = client(&server);
    let absent = EtcdCompare::CreateRevision { key: "a/1".into(), revision: 0 };
    let first =
        etcd.txn(std::slice::from_ref(&absent), &[put("a/1", "x", None)]).expect("it answers");
    assert!(first.is_done);
    let again = etcd.txn(&[absent], &[put("a/1", "y", None)]).expect("it answers");
    assert!(!again.is_done);
    let read = etcd.range(&EtcdKeys::one("a/1")).expect("it answers");
    let KeyValue { key, value, create_revision, mod_revision, lease } = &read.pairs[0];
    assert_eq!((&key[..], &value[..], *lease), (&b"a/1"[..], &b"x"[..], 0));
    assert_eq!((*create_revision, *mod_revision), (first.revision, first.revision));

    etcd.put(b"a/2", b"", None).expect("it answers");
    etcd.put(b"b", b"z", None).expect("it answers");
    let is = |revision| EtcdCompare::ModRevision { key: "a/1".into(), revision };
    let ops = [put("a/1", "w", None), EtcdOp::Delete { key: "b".into() }];
    assert!(!etcd.txn(&[is(first.revision + 1)], &ops).expect("it answers").is_done);
    let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(pairs(&etcd, &EtcdKeys::prefix("")).len(), 3, "nothing was done");
    assert!(etcd.txn(&[is(first.revision)], &ops).expect("it answers").is_done);
    assert_eq!(pairs(&etcd, &EtcdKeys::prefix("a/")), [own("a/1", "w"), own("a/2", "")]);
    assert_eq!(pairs(&etcd, &EtcdKeys::one("b")), []);
}

#[test]
fn what_a_lease_holds_goes_with_it() {
    let server = Server::start();
    let etcd = client(&server);
    let lease = etcd.grant(2).expect("it answers");
    assert!(lease.ttl_s >= 2, "{lease:?}");
    etcd.put(b"k", b"v", Some(lease.id)).expect("it answers");
    assert_eq!(etcd.range(&EtcdKeys::one("k")).expect("it answers").pairs[0].lease, lease.id);
    assert_eq!(etcd.keep_alive(lease.id).expect("it answers").map(|it| it.id), Some(lease.id));
    within(30, "it ends by itself", || pairs(&etcd, &EtcdKeys::one("k")).is_empty());
    assert_eq!(etcd.keep_alive(lease.id), Ok(None));
    assert!(etcd.put(b"k", b"v", Some(lease.id)).is_err_and(|error| error.is_not_found()));

    let lease = etcd.grant(3600).expect("it answers").id;
    etcd.put(b"k", b"v", Some(lease)).expect("it answers");
    assert_eq!([etcd.revoke(lease), etcd.revoke(lease)], [Ok(()), Ok(())]);
    assert_eq!(pairs(&etcd, &EtcdKeys::one("k")), []);
}

#[test]
fn a_watch_tells_all_since_its_first_revision_and_says_if_it_cannot() {
    let mut server = Server::start();
    let etcd = client(&server);
    let first = etcd.range(&EtcdKeys::one("k")).expect("it answers").revision + 1;
    let limit = Duration::from_secs(60);
    let open = |keys: &EtcdKeys| etcd.watch(keys, first, limit).expect("it answers");
    let mut watch = open(&EtcdKeys::prefix("k/"));
    for (key, value) in [("k/1", "a"), ("other", "b"), ("k/2", "c")] {
        etcd.put(key.as_bytes(), value.as_bytes(), None).expect("it answers");
    }
    etcd.txn(&[], &[EtcdOp::Delete { key: "k/1".into() }]).expect("it answers");
    let told = |watch: &mut guira_etcd::Watch, count: usize| {
        let mut told = Vec::new();
        while told.len() < count {
            told.extend(watch.next_events().expect("it answers").expect("in time").events);
        }
        let brief = |event| match event {
            EtcdEvent::Put(KeyValue { value, .. }) => String::from_utf8_lossy(&value).into_owned(),
            EtcdEvent::Deleted { key, .. } => format!("-{}", String::from_utf8_lossy(&key)),
        };
        told.into_iter().map(brief).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut watch, 3), ["a", "c", "-k/1"]);
    assert_eq!(told(&mut open(&EtcdKeys::one("k/2")), 1), ["c"], "from the past");

    let mut short =
        etcd.watch(&EtcdKeys::one("x"), first, Duration::from_millis(300)).expect("it answers");
    assert_eq!(short.next_events(), Ok(None));
    let now = etcd.range(&EtcdKeys::one("k")).expect("it answers").revision;
    assert!(server.ctl(&["compaction", &now.to_string()]));
    let lost = open(&EtcdKeys::prefix("k/")).next_events();
    assert!(matches!(lost, Err(Error::Ended { .. })), "{lost:?}");
    server.end();
    assert!(matches!(watch.next_events(), Err(Error::Away { .. })));
    server.restart();
    within(30, "it is back", || etcd.range(&EtcdKeys::one("k")).is_ok());
}

#[test]
fn over_tls_with_a_login_a_token_is_renewed_when_etcd_forgot_it() {
    let mut server = Server::start_secured();
    server.want_logins("readwrite", "/guira/");
    let [authorities, chain, key] = server.pems.clone().expect("TLS").map(Into::into);
    let login = server.dir.join("login");
    let place = EtcdPlace::parse(&format!("etcds:localhost:{}/k", server.port())).expect("a place");
    let files = Files { authorities, identity: Some((chain, key)) };
    let etcd = Etcd::new(&place, EtcdAccess::new(Some(files), Some(login.clone())));
    let read = || etcd.range(&EtcdKeys::one("/guira/a")).map(|range| range.pairs.len());
    let said = |error: Option<Error>| error.map(|error| error.to_string()).unwrap_or_default();
    assert!(said(read().err()).contains("login: No such file"), "{:?}", read());
    fs::write(&login, "guira:wr0ng").expect("a file");
    let told = said(read().err());
    assert!(told.contains("authentication failed") && !told.contains("wr0ng"), "{told}");
    fs::write(&login, "guira:s3cret\n").expect("a file");
    assert_eq!(read(), Ok(0));
    etcd.put(b"/guira/a", b"v", None).expect("it may write");
    assert_eq!(read(), Ok(1));
    assert!(said(etcd.put(b"/other", b"v", None).err()).contains("permission denied"));
    // An etcd that starts knows no tokens from before.
    server.end();
    server.restart();
    within(30, "it is back", || read() == Ok(1));
    assert!(!format!("{etcd:?}").contains("s3cret"));
}
