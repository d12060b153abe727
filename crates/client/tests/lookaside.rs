//! The example of a look-aside cache keeps its promises, with memcached and with Guira.

use std::sync::Arc;

use guira_tests::server::{Address, Program, Server};

#[path = "../examples/lookaside/users.rs"]
mod users;
use users::{Database, Users, client};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_miss_one_reads_the_database_and_a_rename_is_seen_at_once() {
    for program in [Program::Memcached, Program::Guira] {
        let server = Server::start(program, &[]);
        let address = match server.address() {
            Address::Unix(path) => format!("unix:{}", path.display()),
            Address::Tcp(port) => format!("127.0.0.1:{port}"),
        };
        let cache = client(&[address]).expect("an address");
        let users = Users { cache, database: Arc::new(Database::new().expect("SQLite works")) };
        assert_eq!(users.name(1).await.expect("the user is there"), "Ada");
        for (name, reads) in [("Grace", 2), ("Barbara", 3)] {
            users.rename(1, name).await.expect("both take it");
            let ask = || {
                let users = users.clone();
                tokio::spawn(async move { users.name(1).await.expect("the user is there") })
            };
            for reader in [(); 200].map(|()| ask()) {
                assert_eq!(reader.await.expect("no panic"), name);
            }
            assert_eq!(users.database.reads(), reads, "{program:?}");
        }
        drop(server);
        // Without a cache, the database answers.
        assert_eq!(users.name(1).await.expect("the user is there"), "Barbara");
        assert!(users.rename(1, "Ada").await.is_err(), "the copy may be there yet");
    }
}
