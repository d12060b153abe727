//! The attacks: who asks for what, how often, and whether they read the answers.

/// A crowd of clients that all do the same.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) clients: usize,
    /// The request of the client with this number.
    text: fn(usize) -> Vec<u8>,
    /// What must be there before.
    pub(crate) needs: Needs,
    pub(crate) then: Then,
    /// Whether a client waits for its answers before it goes on. Else it sends as much as is taken.
    pub(crate) waits: bool,
    pub(crate) reads: bool,
}

/// The values that an attack is about.
#[derive(Clone, Copy)]
pub(crate) enum Needs {
    Nothing,
    /// `big` of a million bytes.
    Big,
    /// `long` of 500,000 bytes.
    Long,
    /// `k` of five bytes, and the number `n`.
    Small,
}

/// What a client does when its request is sent and answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Repeats,
    Holds,
    /// As `Holds`, but sends four kilobytes each ten milliseconds.
    Trickles,
    Reconnects,
    Resets,
}

impl Attack {
    pub(crate) fn request(&self, client: usize) -> Vec<u8> {
        (self.text)(client)
    }
}

/// Clients that send a request, wait for the answers, and send it again.
const fn asking(
    name: &'static str,
    clients: usize,
    needs: Needs,
    text: fn(usize) -> Vec<u8>,
) -> Attack {
    Attack { name, clients, text, needs, then: Then::Repeats, waits: true, reads: true }
}

/// Clients that send what never ends.
const fn hanging(
    name: &'static str,
    clients: usize,
    then: Then,
    text: fn(usize) -> Vec<u8>,
) -> Attack {
    Attack { name, clients, text, needs: Needs::Nothing, then, waits: false, reads: true }
}

fn times(count: usize, text: &str) -> Vec<u8> {
    text.repeat(count).into_bytes()
}

fn begun_value(client: usize, announced: usize, sent: usize) -> Vec<u8> {
    [format!("set h{client} 0 0 {announced}\r\n").into_bytes(), vec![b'x'; sent]].concat()
}

fn sets(client: usize, count: usize, bytes: usize) -> Vec<u8> {
    let set = |n| [begun_value(client * count + n, bytes, bytes), b"\r\n".to_vec()].concat();
    (0..count).flat_map(set).collect()
}

fn get_of(from: usize, keys: usize) -> String {
    let keys: String = (from..from + keys).map(|n| format!(" nokey{n}")).collect();
    format!("get{keys}\r\n")
}

/// All of them; the order is that of the table.
pub(crate) const ATTACKS: &[Attack] = &[
    hanging("announced", 200, Then::Holds, |n| begun_value(n, 500_000, 0)),
    hanging("unfinished-values", 300, Then::Holds, |n| begun_value(n, 1_000_000, 999_999)),
    hanging("trickle", 900, Then::Trickles, |n| begun_value(n, 280_000, 279_000)),
    hanging("unfinished-lines", 100, Then::Holds, |_| {
        [b"get".to_vec(), times(1_300_000, " nokey")].concat()
    }),
    hanging("growing-lines", 100, Then::Trickles, |_| {
        [b"get".to_vec(), times(1_300_000, " nokey")].concat()
    }),
    Attack {
        waits: false,
        reads: false,
        ..asking("unread", 30, Needs::Big, |_| times(1000, "get big\r\n"))
    },
    Attack { waits: false, ..asking("stats", 50, Needs::Nothing, |_| times(100, "stats\r\n")) },
    Attack {
        then: Then::Reconnects,
        ..asking("connect", 200, Needs::Nothing, |_| times(1, "version\r\n"))
    },
    Attack {
        then: Then::Resets,
        waits: false,
        ..asking("reset", 200, Needs::Small, |_| times(100, "get k\r\n"))
    },
    Attack {
        then: Then::Reconnects,
        ..asking("newcomers-big", 200, Needs::Big, |_| times(1, "get big\r\n"))
    },
    asking("get-big", 30, Needs::Big, |_| times(20, "get big\r\n")),
    asking("multiget-big", 20, Needs::Big, |_| {
        [b"get".to_vec(), times(400, " big"), b"\r\n".to_vec()].concat()
    }),
    asking("one-key", 100, Needs::Small, |_| times(100, "get k\r\n")),
    asking("keys-8000", 20, Needs::Nothing, |n| get_of(n * 8000, 8000).into_bytes()),
    asking("bad-commands", 200, Needs::Nothing, |_| times(50, "bogus\r\n")),
    asking("sets", 200, Needs::Nothing, |n| sets(n, 20, 100)),
    asking("sets-7", 900, Needs::Nothing, |n| sets(n, 7, 100)),
    asking("sets-100k", 50, Needs::Nothing, |n| sets(n, 5, 100_000)),
    asking("multigets", 100, Needs::Nothing, |n| get_of(n * 100, 100).repeat(5).into_bytes()),
    asking("gets-20", 1000, Needs::Nothing, |n| get_of(n, 1).repeat(20).into_bytes()),
    asking("half-gets", 900, Needs::Nothing, |_| times(1, "y\r\nget nokey\r\nget noke")),
    asking("incr-20", 500, Needs::Small, |_| times(20, "incr n 1\r\n")),
    asking("deletes-200", 50, Needs::Nothing, |n| {
        format!("delete d{n}\r\n").repeat(200).into_bytes()
    }),
    asking("version-20", 900, Needs::Nothing, |_| times(20, "version\r\n")),
    asking("lease-gets", 200, Needs::Nothing, |n| {
        format!("lease-get l{n}\r\n").repeat(20).into_bytes()
    }),
    asking("appends", 50, Needs::Long, |_| times(20, "append long 0 0 1\r\nx\r\n")),
    asking("empty-appends", 4, Needs::Long, |_| times(200, "append long 0 0 0\r\n\r\n")),
];
