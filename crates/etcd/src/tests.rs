//! Tests with endpoints that lie, truncate, redirect or never end: each request gets an error, and takes no more memory
//! than the answer's bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::{Error, Etcd, EtcdAccess, EtcdCompare, EtcdEvent, EtcdKeys, EtcdOp, EtcdPlace};

/// An endpoint that reads each request, and then does `answers` with the connection.
fn liar(answers: impl Fn(&mut TcpStream, &str) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let path = question(&stream);
            answers(&mut stream, &path);
        }
    });
    port
}

/// Reads a request, and returns its path.
fn question(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream);
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    lines.read_line(&mut first).unwrap();
    while lines.read_line(&mut line).unwrap() > 2 {
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        line.clear();
    }
    lines.read_exact(&mut vec![0; length]).unwrap();
    first.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// An endpoint that gives this answer to every request.
fn says(answer: impl Into<Vec<u8>>) -> u16 {
    let answer = answer.into();
    liar(move |stream, _| {
        // The client may have gone.
        let _ = stream.write_all(&answer);
    })
}

/// It says that the connection ends, which it does: a client that kept it could ask again before it sees the end.
fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn etcd(ports: &[u16]) -> Etcd {
    let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let place = EtcdPlace::parse(&format!("etcd:{}/k", hosts.join(","))).unwrap();
    Etcd::new(&place, EtcdAccess::default()).with_limit(Duration::from_millis(500))
}

const HEADER: &str = r#""header":{"revision":"7"}"#;

#[test]
fn what_is_no_answer_to_the_question_is_an_error_of_each_call() {
    let lies = [
        ("nothing", String::new()),
        ("no HTTP", "SSH-2.0-OpenSSH_9.2\r\n".to_owned()),
        ("an empty body", ok("")),
        ("no JSON", ok("<html>")),
        ("another JSON", ok("[1, 2]")),
        ("no header", ok("{}")),
        ("a body cut short", "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{".to_owned() + HEADER),
        ("a revision that is none", ok(r#"{"header":{"revision":"-7"}}"#)),
        ("a revision too large", ok(r#"{"header":{"revision":"18446744073709551616"}}"#)),
        ("nesting without end", ok(&format!("{{{HEADER},\"kvs\":{}", "[".repeat(100_000)))),
        (
            "a redirection",
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
                .to_owned(),
        ),
        ("a failure", "HTTP/1.1 503 Busy\r\nContent-Length: 3\r\n\r\nno!".to_owned()),
    ];
    for (what, answer) in lies {
        let etcd = etcd(&[says(answer)]);
        let absent = EtcdCompare::CreateRevision { key: b"k".to_vec(), revision: 0 };
        let told = [
            etcd.range(&EtcdKeys::one("k")).map(drop),
            etcd.put(b"k", b"v", None),
            etcd.txn(&[absent], &[EtcdOp::Delete { key: b"k".to_vec() }]).map(drop),
            etcd.grant(3).map(drop),
            etcd.keep_alive(5).map(drop),
            etcd.revoke(5),
            etcd.watch(&EtcdKeys::one("k"), 1, LIMIT).and_then(|mut it| it.next_events()).map(drop),
        ];
        // A lease's answer has no use for the revision.
        let is_lenient = |at: usize| at == 3 || at == 4;
        for (at, told) in told.into_iter().enumerate() {
            match told {
                Ok(()) => assert!(is_lenient(at) && what.contains("revision"), "{what}: call {at}"),
                Err(error) => assert!(error.to_string().contains("127.0.0.1"), "{what}: {error}"),
            }
        }
    }
}

#[test]
fn keys_that_were_not_asked_for_are_not_believed() {
    // "ax" and "b".
    let kvs = |key: &str| format!(r#"{{"key":"{key}","value":"dg==","mod_revision":"3"}}"#);
    let range = |key: &str| etcd(&[says(ok(&format!("{{{HEADER},\"kvs\":[{}]}}", kvs(key))))]);
    assert_eq!(range("Yg==").range(&EtcdKeys::one("b")).unwrap().pairs[0].mod_revision, 3);
    let told = range("YXg=").range(&EtcdKeys::one("b")).unwrap_err().to_string();
    assert!(told.contains("\"ax\", which wasn't asked for"), "{told}");
    assert_eq!(range("YXg=").range(&EtcdKeys::prefix("a")).unwrap().pairs[0].key, b"ax");
    assert!(range("Yg==").range(&EtcdKeys::prefix("a")).is_err());

    let event =
        |key| ok(&format!("{{\"result\":{{{HEADER},\"events\":[{{\"kv\":{}}}]}}}}\n", kvs(key)));
    let watch = |port| etcd(&[port]).watch(&EtcdKeys::one("b"), 1, LIMIT).unwrap().next_events();
    let events = watch(says(event("Yg=="))).unwrap().unwrap().events;
    assert!(matches!(&events[..], [EtcdEvent::Put(pair)] if pair.value == b"v"), "{events:?}");
    assert!(matches!(watch(says(event("YXg="))), Err(Error::Unreadable { .. })));

    let renewed = etcd(&[says(ok(r#"{"result":{"ID":"6","TTL":"3"}}"#))]);
    assert_eq!(renewed.keep_alive(6).unwrap().map(|it| it.ttl_s), Some(3));
    assert!(renewed.keep_alive(5).is_err(), "another lease is renewed");
}

#[test]
fn an_answer_without_end_is_cut_by_its_size_or_by_time() {
    let endless = |head: &'static str, piece: Vec<u8>, rest: Duration| {
        liar(move |stream, _| {
            let _ = stream.write_all(head.as_bytes());
            while stream.write_all(&piece).is_ok() {
                thread::sleep(rest);
            }
        })
    };
    let none = Duration::ZERO;
    let head = "HTTP/1.1 200 OK\r\n\r\n";
    let fast = endless(head, vec![b' '; 1 << 20], none);
    let told = etcd(&[fast]).with_limit(Duration::from_secs(60)).range(&EtcdKeys::one("k"));
    assert!(told.unwrap_err().to_string().contains("longer than 8388608 bytes"));
    let of_watch = endless(head, vec![b' '; 1 << 20], none);
    let limit = Duration::from_secs(60);
    let told = etcd(&[of_watch]).watch(&EtcdKeys::one("k"), 1, limit).unwrap().next_events();
    assert!(matches!(told, Err(Error::Unreadable { .. })), "{told:?}");

    let slow = endless(head, b" ".to_vec(), Duration::from_millis(20));
    assert!(matches!(etcd(&[slow]).range(&EtcdKeys::one("k")), Err(Error::Away { .. })));
    let heads = endless("HTTP/1.1 200 OK\r\n", b"a: b\r\n".to_vec(), Duration::from_millis(1));
    assert!(etcd(&[heads]).range(&EtcdKeys::one("k")).is_err());
    let silent = liar(|_, _| thread::sleep(Duration::from_secs(3600)));
    assert!(matches!(etcd(&[silent]).range(&EtcdKeys::one("k")), Err(Error::Away { .. })));

    let stands = format!("{{\"result\":{{{HEADER},\"created\":true}}}}\n");
    let idle = endless(head, stands.into_bytes(), Duration::from_millis(20));
    let told = etcd(&[idle]).watch(&EtcdKeys::one("k"), 1, LIMIT).unwrap().next_events();
    assert_eq!(told, Ok(None), "the watch's time is over, and nothing happened");
}

#[test]
fn the_endpoint_that_answers_is_asked_and_asked_first_from_then_on() {
    let (count, asked) = std::sync::mpsc::channel();
    let bad = liar(move |_, path| count.send(path.to_owned()).unwrap());
    let good = says(ok(&format!("{{{HEADER}}}")));
    let etcd = etcd(&[bad, good]);
    for _ in 0..3 {
        assert_eq!(etcd.range(&EtcdKeys::one("k")).unwrap().revision, 7);
    }
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), ["/v3/kv/range"]);
}

#[test]
fn a_refusal_has_etcds_words_and_what_is_not_there_is_no_reason_to_ask_another() {
    let refusal = |status: &str, words: &str, code: u64| {
        let body = format!(r#"{{"error":"{words}","message":"{words}","code":{code}}}"#);
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}trailer", body.len() + 7)
    };
    let gone = refusal("404 Not Found", "etcdserver: requested lease not found", 5);
    let etcd_of = |answer: &str| etcd(&[says(answer), says(ok(&format!("{{{HEADER}}}")))]);
    let told = etcd_of(&gone).put(b"k", b"v", Some(9)).unwrap_err();
    assert!(
        told.is_not_found() && told.to_string().ends_with("requested lease not found"),
        "{told}"
    );
    assert_eq!(etcd_of(&gone).revoke(9), Ok(()));
    let away = refusal("503 Service Unavailable", "etcdserver: no leader", 14);
    assert_eq!(etcd_of(&away).put(b"k", b"v", None), Ok(()), "the next has a leader");
    let ended =
        ok(&format!("{{\"result\":{{{HEADER},\"canceled\":true,\"compact_revision\":\"5\"}}}}\n"));
    let told = etcd(&[says(ended)]).watch(&EtcdKeys::one("k"), 1, LIMIT).unwrap().next_events();
    assert!(
        matches!(&told, Err(Error::Ended { words, .. }) if words.contains("revision 5")),
        "{told:?}"
    );
}

#[test]
fn a_prefix_has_an_end() {
    let json = |prefix: &[u8]| EtcdKeys::prefix(prefix).to_json()["range_end"].clone();
    assert_eq!(json(b"/a/"), "L2Ew");
    assert_eq!(json(b"a\xff\xff"), "Yg==");
    assert_eq!(json(b"\xff"), "AA==", "no end");
    assert_eq!(EtcdKeys::prefix("").to_json()["key"], "AA==", "all keys");
}

const LIMIT: Duration = Duration::from_millis(500);
