//! `guira invalidate` before a database that lies: about lengths, about numbers of columns, and that has no end. Each time it says what can't
//! be read and ends with its code, and its memory stays below 24 MiB: it has 16 before it reads anything.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use guira_tests::server::{free_port, guira, own_directory, peak_own_bytes_of};

/// A connection to the daemon.
struct Liar {
    socket: TcpStream,
    number: u8,
}

/// What it does once the daemon asks something.
type Lie = fn(&mut Liar, &Question) -> Option<()>;

/// What the daemon asks.
enum Question {
    /// It has connected.
    Hello,
    Statement(String),
    Log,
}

impl Liar {
    /// Plays until the daemon goes. `lie` answers what it wants to lie about, and leaves the rest.
    fn play(mut self, lie: Lie) -> Option<()> {
        if lie(&mut self, &Question::Hello).is_some() {
            return None;
        }
        let greeting: [&[u8]; 6] = [
            b"\x0a10.11.6-MariaDB\0\x07\0\0\0",
            &[7; 8],
            b"\0\0\x82\x2d\x02\0\x08\0\x15",
            &[0; 10],
            &[7; 12],
            b"\0mysql_native_password\0",
        ];
        self.say(&greeting.concat())?;
        self.hear()?;
        self.say(OK)?;
        loop {
            let question = self.hear()?;
            let question = match question.split_first()? {
                (3, text) => Question::Statement(String::from_utf8_lossy(text).into_owned()),
                _ => Question::Log,
            };
            if lie(&mut self, &question).is_some() {
                return None;
            }
            self.answer(&question)?;
        }
    }

    /// As MariaDB does.
    fn answer(&mut self, question: &Question) -> Option<()> {
        let Question::Statement(text) = question else { return None };
        let row: &[&str] = match &**text {
            "SELECT @@version" => &["10.11.6-MariaDB"],
            "SELECT @@global.read_only" => &["0"],
            "SELECT @@gtid_binlog_pos" => &["0-1-1"],
            // It has all that it ever said.
            "SELECT @@gtid_binlog_state" => &["0-1-999999"],
            "SHOW MASTER STATUS" => &["binlog.000001", "4"],
            "SELECT @@global.server_id" => &["1"],
            text if text.contains("binlog_row_image") => {
                &["1", "FULL", "FULL", "NONE", "1", "1", "ROW"]
            }
            _ => return self.say(OK),
        };
        self.say(&[u8::try_from(row.len()).ok()?])?;
        row.iter().try_for_each(|_| self.say(b"def"))?;
        self.say(END)?;
        let texts = row
            .iter()
            .map(|text| [&[u8::try_from(text.len()).unwrap_or(0)], text.as_bytes()].concat());
        self.say(&texts.collect::<Vec<_>>().concat())?;
        self.say(END)
    }

    fn hear(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 4];
        self.socket.read_exact(&mut head).ok()?;
        let mut payload = vec![0; usize::from(head[0]) | usize::from(head[1]) << 8];
        self.socket.read_exact(&mut payload).ok()?;
        self.number = head[3].wrapping_add(1);
        Some(payload)
    }

    /// A packet. `None`: the daemon has gone.
    fn say(&mut self, payload: &[u8]) -> Option<()> {
        let length = u32::try_from(payload.len()).ok()?.to_le_bytes();
        self.socket.write_all(&[length[0], length[1], length[2], self.number]).ok()?;
        self.number = self.number.wrapping_add(1);
        self.socket.write_all(payload).ok()
    }

    /// The same packet until the daemon has gone.
    fn say_for_ever(&mut self, payload: &[u8]) -> Option<()> {
        while self.say(payload).is_some() {}
        Some(())
    }

    fn event(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        self.say(&event(kind, 19 + body.len(), body))
    }

    /// An event of two packets, as long as it says.
    fn event_of_two(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        let mut first = event(kind, PART + 999, body);
        first.resize(PART, 0);
        self.say(&first)?;
        self.say(&[0; 1000])
    }

    /// An event of 256 MiB in packets of 16 MiB, as far as the daemon reads it.
    fn long_event(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        let mut first = event(kind, 1 << 28, body);
        first.resize(PART, 0);
        self.say(&first)?;
        self.say_for_ever(&vec![0; PART])
    }
}

fn event(kind: u8, size: usize, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes();
    [&[0][..], &[0; 4], &[kind], &[1, 0, 0, 0], &size, &[0; 6], body].concat()
}

fn gtid(sequence: u64, prepares: bool) -> Vec<u8> {
    let name = sequence.to_le_bytes();
    let head = [&sequence.to_le_bytes()[..], &[0, 0, 0, 0]].concat();
    match prepares {
        true => [&head[..], &[64, 1, 0, 0, 0, 8, 0], &name].concat(),
        false => [&head[..], &[0; 7]].concat(),
    }
}

/// `shop.users`, of an `id` and a LONGBLOB.
fn users() -> Vec<u8> {
    [
        &[7, 0, 0, 0, 0, 0, 1, 0][..],
        b"\x04shop\0\x05users\0",
        &[2, 3, 252, 1, 4, 0],
        &[4, 5],
        b"\x02id\x01b",
    ]
    .concat()
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const END: &[u8] = &[0xfe, 0, 0, 0, 0];
/// A packet that goes on in the next one.
const PART: usize = (1 << 24) - 1;
const ROWS: &[u8] = &[7, 0, 0, 0, 0, 0, 1, 0, 2, 3];

/// A daemon before a liar: its code, what it said, and its greatest resident memory in bytes.
fn ends(lie: Lie) -> (i32, String, u64) {
    let dir = own_directory();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || Liar { socket, number: 0 }.play(lie));
        }
    });
    let config = dir.join("invalidate.json");
    let text = format!(
        r#"{{"state": "{0}/state", "memory": "1MiB",
            "sources": {{"db": {{"kind": "mariadb", "hosts": ["127.0.0.1:{port}"], "server_id": 7, "user": "guira"}}}},
            "rules": [{{"table": "shop.users", "keys": ["user:{{id}}"]}}],
            "destinations": {{"c1": {{"routers": ["127.0.0.1:{1}"]}}}} }}"#,
        dir.display(),
        free_port()
    );
    std::fs::write(&config, text).expect("a test can have it");
    let said = dir.join("said");
    let mut daemon = Command::new(guira())
        .args(["invalidate", "run", "-c"])
        .arg(&config)
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&said).expect("a test can have it"))
        .spawn()
        .expect("the daemon starts");
    let (code, peak) = watched(&mut daemon);
    let said = std::fs::read_to_string(said).expect("a test can have it");
    std::fs::remove_dir_all(dir).ok();
    (code, said, peak)
}

/// The code a daemon ends with, and its greatest resident memory without the program itself.
fn watched(daemon: &mut Child) -> (i32, u64) {
    let mut peak = 0;
    for _ in 0..60_000 {
        peak = peak.max(peak_own_bytes_of(daemon.id()).unwrap_or(0));
        if let Some(status) = daemon.try_wait().expect("it is ours") {
            return (status.code().unwrap_or(-1), peak);
        }
        thread::sleep(std::time::Duration::from_millis(2));
    }
    daemon.kill().ok();
    panic!("the daemon goes on for ever");
}

/// Whether the question is what the daemon asks first of all in SQL.
fn is_first(question: &Question) -> Option<()> {
    matches!(question, Question::Statement(text) if text == "SELECT @@version").then_some(())
}

fn is_log(question: &Question) -> Option<()> {
    matches!(question, Question::Log).then_some(())
}

/// What it lies about, how, the code that the daemon ends with, and words of what it says.
type Case = (&'static str, Lie, i32, &'static str);

fn are_told(lies: &[Case]) {
    for (name, lie, code, words) in lies {
        let (ended, said, peak) = ends(*lie);
        assert!(said.contains(words), "{name}: {said}");
        assert_eq!(ended, *code, "{name}: {said}");
        // An answer, or an event that is kept, takes 2 MiB.
        assert!(peak <= 12 << 20, "{name}: it took {peak} bytes");
        println!("{name}: {} KiB", peak >> 10);
    }
}

#[test]
fn lies_in_answers_are_told_and_cost_no_memory() {
    are_told(&[
        (
            "a greeting without end",
            |liar, question| {
                matches!(question, Question::Hello).then_some(())?;
                liar.say_for_ever(&vec![10; PART])
            },
            4,
            "a packet of more than 2097152 bytes",
        ),
        (
            "4 billion columns",
            |liar, question| {
                is_first(question)?;
                liar.say(b"\xfe\0\0\0\0\x01\0\0\0")
            },
            4,
            "an answer of 4294967296 columns",
        ),
        (
            "rows without end",
            |liar, question| {
                is_first(question)?;
                [&[1][..], b"def", END].iter().try_for_each(|packet| liar.say(packet))?;
                liar.say_for_ever(b"\x01a")
            },
            4,
            "an answer of more than 2097152 bytes",
        ),
    ]);
}

#[test]
fn lies_in_the_log_are_told_and_cost_no_memory() {
    are_told(&[
        (
            "an event in packets without end",
            |liar, question| {
                is_log(question)?;
                liar.long_event(27, b"")
            },
            4,
            "an event that isn't as long as it says",
        ),
        (
            "an event that isn't as long as it says",
            |liar, question| {
                is_log(question)?;
                liar.say(&event(2, 4000, b"BEGIN"))
            },
            4,
            "an event that isn't as long as it says",
        ),
        (
            "a table of 4 billion columns",
            |liar, question| {
                is_log(question)?;
                liar.event(162, &gtid(2, false))?;
                liar.event(19, &[&users()[..21], b"\xfe\0\0\0\0\x01\0\0\0"].concat())
            },
            4,
            "a table of more columns than there can be",
        ),
        (
            "a value longer than its event",
            |liar, question| {
                is_log(question)?;
                liar.event(162, &gtid(2, false))?;
                liar.event(19, &users())?;
                liar.event(23, &[ROWS, &[0, 1, 0, 0, 0, 255, 255, 255, 255, 1]].concat())
            },
            4,
            "it ends too early",
        ),
        (
            "a value of 4 GiB in a long event",
            |liar, question| {
                is_log(question)?;
                liar.event(162, &gtid(2, false))?;
                liar.event(19, &users())?;
                liar.event_of_two(23, &[ROWS, &[0, 1, 0, 0, 0, 255, 255, 255, 255, 1]].concat())
            },
            4,
            "it ends too early",
        ),
    ]);
}

#[test]
fn lies_about_prepared_transactions_are_told_and_cost_no_memory() {
    are_told(&[
        (
            "what can't be read after a prepared transaction",
            |liar, question| {
                is_log(question)?;
                liar.event(162, &gtid(2, true))?;
                liar.event(38, &[0; 14])?;
                liar.say(&event(2, 4000, b"BEGIN"))
            },
            4,
            "an event that isn't as long as it says",
        ),
        (
            "prepared transactions without end",
            |liar, question| {
                is_log(question)?;
                for sequence in 2.. {
                    liar.event(162, &gtid(sequence, true))?;
                    liar.event(38, &[0; 14])?;
                }
                Some(())
            },
            3,
            "more prepared XA transactions than are kept",
        ),
    ]);
}
