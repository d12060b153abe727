//! `guira invalidate` and databases over TLS: certificates of an authority made here, a wrong name, a wrong authority, a server that has
//! none.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;

use guira_tests::keys::is_there;
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql::{self, MySql};
use guira_tests::postgres::Postgres;
use guira_tests::shop::{Database, Shop};
use guira_tests::tls::Authority;

/// Files of an authority, and of a server's certificate for `localhost`.
struct Files {
    ca: PathBuf,
    other: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

/// Writes them into the database's folder, readable by its user.
fn files<D: Database>(shop: &Shop<D>) -> Files {
    let dir = shop.database.dir();
    let authority = Authority::new("shop");
    let (ca, other) = (dir.join("ca.pem"), dir.join("other.pem"));
    fs::write(&ca, &authority.pem).expect("a test can have it");
    fs::write(&other, Authority::new("other").pem).expect("a test can have it");
    let [certificate, key] = authority.identity("database").write(dir);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a test can have it");
    let owner = fs::metadata(dir).expect("a test can have it");
    for path in [&ca, &certificate, &key] {
        chown(path, Some(owner.uid()), Some(owner.gid())).expect("root may give a file away");
    }
    Files { ca, other, certificate, key }
}

const RULES: &str = r#"{"table": "SCHEMA.users", "keys": ["user:{id}"]}"#;
const SCHEMA: &str = "CREATE TABLE users (id INT PRIMARY KEY)";

/// A shop whose source is at `host`, which is its present one; the database is still without the authority's certificate.
fn shop<D: Database>(
    schema: &str,
    host: impl Fn(&D) -> String,
    port: impl Fn(&D) -> u16,
) -> Shop<D> {
    let rules = RULES.replace("SCHEMA", schema);
    let shop = Shop::<D>::new(1, SCHEMA, &rules, true, "");
    let (host, port) = (host(&shop.database), port(&shop.database));
    shop.reconfigure(&format!("\"{host}\""), &format!("\"localhost:{port}\""));
    shop.reconfigure("\"user\":", "\"tls\": {\"ca\": \"CA\"}, \"user\":");
    shop
}

/// The database has its certificate now, and takes its user encrypted only.
fn goes_encrypted_and_only_to_whom_it_should<D: Database>(
    shop: &Shop<D>,
    port: u16,
    files: &Files,
    table: &str,
) {
    let [ca, other] =
        [&files.ca, &files.other].map(|path| format!("\"ca\": \"{}\"", path.display()));
    let missing = shop.asks("check").1;
    assert!(missing.contains("TLS: CA: "), "{missing}");
    shop.reconfigure("\"ca\": \"CA\"", &other);
    shop.ends(3, "isn't shown to be 'localhost'");
    let said = shop.said();
    assert!(said.contains("UnknownIssuer") && said.contains("other.pem"), "{said}");
    shop.reconfigure(&other, &ca);
    let (is_good, told) = shop.asks("check");
    assert!(is_good, "{told}");
    let (here, there) = (format!("\"localhost:{port}\""), format!("\"127.0.0.1:{port}\""));
    shop.reconfigure(&here, &there);
    let (is_good, told) = shop.asks("check");
    assert!(!is_good && told.contains("isn't shown to be '127.0.0.1'"), "{told}");
    assert!(told.contains("certificate not valid for name"), "{told}");
    shop.reconfigure(&ca, &format!("{ca}, \"name\": \"localhost\""));
    let _daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    clients[0].set("user:1", b"v");
    sql.ask(&format!("INSERT INTO {table} VALUES (1)"));
    shop.catch_up(&mut sql);
    assert_eq!(is_there(&mut clients, "user:1"), [false], "{}", shop.said());
    // In clear the database would refuse the user: so what was read was encrypted.
    shop.reconfigure(&format!("\"tls\": {{{ca}, \"name\": \"localhost\"}}, "), "");
    let (is_good, told) = shop.asks("check");
    assert!(!is_good && !told.contains("TLS"), "{told}");
}

#[test]
fn mariadb_is_followed_over_tls_and_only_if_it_is_the_right_one() {
    let mut shop = shop::<MariaDb>("shop", |it| format!("127.0.0.1:{}", it.port), |it| it.port);
    let (port, files) = (shop.database.port, files(&shop));
    shop.reconfigure("\"ca\": \"CA\"", &format!("\"ca\": \"{}\"", files.ca.display()));
    shop.ends(3, "TLS: the server has none");
    shop.reconfigure(&files.ca.display().to_string(), "CA");
    let path = |name: &str, path: &PathBuf| format!("--{name}={}", path.display());
    let flags = [
        path("ssl-ca", &files.ca),
        path("ssl-cert", &files.certificate),
        path("ssl-key", &files.key),
    ];
    shop.database.restart_with(&flags);
    shop.sql().ask("ALTER USER guira@'127.0.0.1' REQUIRE SSL");
    goes_encrypted_and_only_to_whom_it_should(&shop, port, &files, "shop.users");
}

#[test]
fn mysql_is_followed_over_tls_and_gets_the_password_there() {
    if !mysql::is_there() {
        return;
    }
    let socket = |it: &MySql| it.dir.join("s").display().to_string();
    let shop = shop::<MySql>("shop", socket, |it| it.port);
    let (port, files) = (shop.database.port, files(&shop));
    let mut sql = shop.sql();
    sql.ask(&format!(
        "SET GLOBAL ssl_ca = '{}'; SET GLOBAL ssl_cert = '{}'; SET GLOBAL ssl_key = '{}'; ALTER INSTANCE RELOAD TLS",
        files.ca.display(),
        files.certificate.display(),
        files.key.display()
    ));
    sql.ask("ALTER USER guira@'%' REQUIRE SSL");
    goes_encrypted_and_only_to_whom_it_should(&shop, port, &files, "shop.users");
}

#[test]
fn postgresql_is_followed_over_tls_and_only_if_it_is_the_right_one() {
    let shop = shop::<Postgres>("public", |it| format!("127.0.0.1:{}", it.port), |it| it.port);
    let (port, files) = (shop.database.port, files(&shop));
    shop.reconfigure("\"ca\": \"CA\"", &format!("\"ca\": \"{}\"", files.ca.display()));
    shop.ends(3, "TLS: the server has none");
    shop.reconfigure(&files.ca.display().to_string(), "CA");
    let rights = shop.database.dir.join("data/pg_hba.conf");
    let text = fs::read_to_string(&rights).expect("a test can have it");
    fs::write(&rights, text.replace("host ", "hostssl ")).expect("a test can have it");
    let mut sql = shop.sql();
    sql.ask(&format!("ALTER SYSTEM SET ssl_cert_file = '{}'", files.certificate.display()));
    sql.ask(&format!("ALTER SYSTEM SET ssl_key_file = '{}'", files.key.display()));
    sql.ask("ALTER SYSTEM SET ssl = on");
    sql.ask("SELECT pg_reload_conf()");
    guira_tests::server::within(20, "it is encrypted", || sql.ask("SHOW ssl") == ["on"]);
    goes_encrypted_and_only_to_whom_it_should(&shop, port, &files, "users");
}
