//! The example of a region that isn't the master keeps its promises, with real databases and a real, late replica.
//! Without markers a writer's own write vanishes; with markers it doesn't.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::pair::{Pair, Replicating, region};
use guira_tests::shop::Shop;

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

#[expect(clippy::disallowed_methods, reason = "a time to end at")]
fn now() -> Instant {
    Instant::now()
}
