//! The example of a region that isn't the master keeps its promises, with real databases and a real, late replica.
//! Without markers a writer's own write vanishes; with markers it doesn't.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use guira_client::{Client, Markers};
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::pair::{Pair, Replicating, region};
use guira_tests::server::Address;
use guira_tests::shop::Shop;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

#[path = "../examples/regions/setting.rs"]
mod setting;
#[path = "../examples/regions/users.rs"]
mod users;
use setting::users;
use users::SCHEMA;

/// Returns the user's marker in the region's pool.
fn marker<D: Replicating>(shop: &Shop<Pair<D>>) -> Option<Vec<u8>> {
    shop.clusters[1].client().get("r:user:1")
}

fn catch_up<D: Replicating>(shop: &Shop<Pair<D>>) {
    shop.database.wait_for_replica();
    shop.catch_up(&mut shop.database.replica());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_seen_where_it_was_made_though_mariadbs_replica_lacks_it() {
    own_writes_are_seen::<MariaDb>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_seen_where_it_was_made_though_mysqls_replica_lacks_it() {
    if mysql::is_there() {
        own_writes_are_seen::<MySql>().await;
    }
}

async fn own_writes_are_seen<D: Replicating>() {
    let shop = region::<D>(SCHEMA, "");
    let _daemon = shop.daemon();
    let [without, with] = [false, true].map(|has| users(&shop, has).expect("they are there"));
    assert_eq!(without.name(1).await.expect("a name"), "Ada");
    shop.database.replica().ask(D::HOLD);
    without.rename(1, "Grace").await.expect("it is written");
    assert_eq!(without.name(1).await.expect("a name"), "Ada", "the write has vanished");
    shop.database.replica().ask(D::GO_ON);
    catch_up(&shop);
    assert_eq!(without.name(1).await.expect("a name"), "Grace");

    shop.database.replica().ask(D::HOLD);
    with.rename(1, "Barbara").await.expect("it is written");
    // Every reader sees the write, whatever the cache has.
    for reads in 1..=3 {
        assert_eq!(with.name(1).await.expect("a name"), "Barbara");
        assert_eq!(with.master.reads(), reads, "{}", shop.said());
        with.cache.delete(users::key(1)).await.expect("it is deleted");
    }
    assert_eq!(with.replica.reads(), 0);
    assert!(marker(&shop).is_some() && shop.metric("marks_total") == Some(0));
    shop.database.replica().ask(D::GO_ON);
    catch_up(&shop);
    assert_eq!(marker(&shop), None, "{}", shop.said());
    assert_eq!(with.name(1).await.expect("a name"), "Barbara");
    assert_eq!((with.master.reads(), with.replica.reads()), (3, 1), "reads are local again");
    let cleared = shop.metric_of("unmarks_total", &[("result", "cleared")]);
    assert_eq!((shop.metric("marks_total"), cleared), (Some(1), Some(1)), "{}", shop.said());
}

/// Three clients write a row whose replica is always late. With markers, no client reads a number older than its last
/// write; without them, some do.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_writer_of_several_reads_what_was_before_its_own_write() {
    let shop = region::<MariaDb>(SCHEMA, "");
    shop.database.replica().ask("STOP SLAVE; CHANGE MASTER TO master_delay = 1; START SLAVE");
    let _daemon = shop.daemon();
    for has_markers in [false, true] {
        let (written, stale) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let one_at_a_time = Arc::new(tokio::sync::Mutex::new(()));
        let writers = [(); 3].map(|()| {
            let users = users(&shop, has_markers).expect("they are there");
            let (written, stale) = (Arc::clone(&written), Arc::clone(&stale));
            let turn = Arc::clone(&one_at_a_time);
            tokio::spawn(async move {
                let until = now() + Duration::from_secs(6);
                while now() < until {
                    // Rows change in the order of the numbers. The marks of all writers are valid at once, and they
                    // read at the same time.
                    let number = {
                        let _turn = turn.lock().await;
                        let number = written.fetch_add(1, Ordering::Relaxed) + 1;
                        users.rename(1, &number.to_string()).await.expect("it is written");
                        number
                    };
                    for _ in 0..20 {
                        let name = users.name(1).await.expect("a name");
                        let read: u32 = name.parse().unwrap_or(0);
                        stale.fetch_add(u32::from(read < number), Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            })
        });
        for writer in writers {
            writer.await.expect("no panic");
        }
        let (written, stale) = (written.load(Ordering::Relaxed), stale.load(Ordering::Relaxed));
        assert_eq!(stale == 0, has_markers, "{stale} of {written} writes: {}", shop.said());
        catch_up(&shop);
        assert_eq!(marker(&shop), None, "{}", shop.said());
    }
}

/// A reader finds no marker, and is slow. Meanwhile the key is marked, written and deleted. The reader's lease is older
/// than that delete, so what it read at the replica isn't stored. If a reader looked for the marker first and took the
/// lease then, it would store the old name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_found_no_marker_before_a_write_stores_nothing_old() {
    let shop = region::<MariaDb>(SCHEMA, "");
    let _daemon = shop.daemon();
    let writer = users(&shop, true).expect("they are there");
    let mut slow = users(&shop, true).expect("they are there");
    let relay = Relay::to(&shop).await;
    let pool = Client::builder().server(&relay.address).and_then(|it| it.build()).expect("a pool");
    slow.markers = Some(Markers::new(pool, "eu", Duration::from_secs(60)).expect("a region"));

    shop.database.replica().ask(MariaDb::HOLD);
    relay.is_held.send_replace(true);
    let reader = tokio::spawn(async move { slow.name(1).await.expect("a name") });
    let mut answers = relay.answers.clone();
    answers.wait_for(|answers| *answers > 0).await.expect("the pool answers");
    writer.rename(1, "Grace").await.expect("it is written");
    relay.is_held.send_replace(false);
    assert_eq!(reader.await.expect("no panic"), "Ada", "it was read before the write");
    assert_eq!(writer.name(1).await.expect("a name"), "Grace");
}

/// A connection to the region's pool of markers whose answers can be held back.
struct Relay {
    address: String,
    is_held: watch::Sender<bool>,
    /// How many answers have come, held ones included.
    answers: watch::Receiver<u32>,
}

impl Relay {
    async fn to<D: Replicating>(shop: &Shop<Pair<D>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (is_held, held) = watch::channel(false);
        let (count, answers) = watch::channel(0);
        let pool = shop.clusters[1].server.address().clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (held, count) = (held.clone(), count.clone());
                match &pool {
                    Address::Tcp(port) => {
                        let server =
                            TcpStream::connect(("127.0.0.1", *port)).await.expect("a pool");
                        tokio::spawn(pass(client, server, held, count));
                    }
                    Address::Unix(path) => {
                        let server = UnixStream::connect(path).await.expect("a pool");
                        tokio::spawn(pass(client, server, held, count));
                    }
                }
            }
        });
        Self { address, is_held, answers }
    }
}

async fn pass(
    client: TcpStream,
    server: impl AsyncRead + AsyncWrite,
    mut held: watch::Receiver<bool>,
    count: watch::Sender<u32>,
) {
    let ((mut asked, mut told), (mut reading, mut writing)) =
        (client.into_split(), tokio::io::split(server));
    let answers = async {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = reading.read(&mut bytes).await {
            count.send_modify(|count| *count += 1);
            if held.wait_for(|is_held| !is_held).await.is_err()
                || told.write_all(&bytes[..n]).await.is_err()
            {
                return;
            }
        }
    };
    tokio::select! {
        () = answers => {}
        _ = tokio::io::copy(&mut asked, &mut writing) => {}
    }
}

#[expect(clippy::disallowed_methods, reason = "a time to end at")]
fn now() -> Instant {
    Instant::now()
}
