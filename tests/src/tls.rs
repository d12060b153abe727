//! TLS from the client's side: certificates made for a test, and connections that check them.
//!
//! The client is rustls, as the server is; other implementations are in tests/clients and in memcached's
//! own suite.

use crate::client::PATIENCE;
use crate::server::eventually;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, thread};

/// Who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

/// A certificate and its key, in PEM.
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// If the machine has no random bytes.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("random bytes");
        let pem = params.self_signed(&key).expect("it can sign").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Its own certificate, as if it were a server's.
    #[must_use]
    pub fn as_identity(&self) -> Identity {
        Identity { certificate: self.pem.clone(), key: self.issuer.key().serialize_pem() }
    }

    /// A certificate for `localhost` in somebody's name.
    ///
    /// # Panics
    /// If the machine has no random bytes.
    #[must_use]
    pub fn identity(&self, name: &str) -> Identity {
        self.identity_until(name, None)
    }

    /// One for another host, by name or by address.
    ///
    /// # Panics
    /// If the machine has no random bytes.
    #[must_use]
    pub fn identity_for(&self, name: &str, host: &str) -> Identity {
        let key = KeyPair::generate().expect("random bytes");
        let certificate = params(name, &[host]).signed_by(&key, &self.issuer).expect("it can sign");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// One that ends, or ended, when a year begins.
    ///
    /// # Panics
    /// If the machine has no random bytes.
    #[must_use]
    pub fn identity_until(&self, name: &str, year: Option<i32>) -> Identity {
        let key = KeyPair::generate().expect("random bytes");
        let mut params = params(name, &["localhost"]);
        if let Some(year) = year {
            params.not_after = date_time_ymd(year, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).expect("it can sign");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Identity {
    /// Writes `chain.pem` and `key.pem`.
    ///
    /// # Panics
    /// If the directory can't be written.
    pub fn write(&self, dir: &Path) -> [PathBuf; 2] {
        let paths = ["chain.pem", "key.pem"].map(|name| dir.join(name));
        for (path, text) in paths.iter().zip([&self.certificate, &self.key]) {
            fs::write(path, text).expect("a file");
        }
        paths
    }
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// How a client behaves; a clone shares its sessions.
#[derive(Clone)]
pub struct Client(Arc<ClientConfig>);

impl Client {
    /// Trusts `authority`, shows `identity` if it is asked.
    ///
    /// # Panics
    /// If the certificates are none.
    #[must_use]
    pub fn new(authority: &Authority, identity: Option<&Identity>, speaks_tls13: bool) -> Self {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("PEM"))
            .expect("a root");
        let versions = if speaks_tls13 { &[&TLS13] } else { &[&TLS12] };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        Self(Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(vec![chain], key).expect("a pair")
            }
        }))
    }

    /// Connects to a port of this machine; the handshake begins with the first request.
    ///
    /// # Panics
    /// If nobody accepts there.
    #[must_use]
    pub fn connect(&self, port: u16) -> Connection {
        self.connect_in_pieces(port, usize::MAX)
    }

    /// The same, with all that is sent in pieces of at most `piece` bytes.
    ///
    /// # Panics
    /// If nobody accepts there.
    #[must_use]
    pub fn connect_in_pieces(&self, port: u16, piece: usize) -> Connection {
        let mut socket = None;
        // A server opens its ports one after the other.
        eventually("it accepts", || {
            socket = TcpStream::connect(("127.0.0.1", port)).ok();
            socket.is_some()
        });
        let socket = socket.expect("it accepts");
        socket.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
        socket.set_nodelay(true).expect("an option of sockets");
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(Arc::clone(&self.0), name).expect("a session");
        Connection(StreamOwned::new(session, Pieces { socket, most: piece }))
    }
}

/// A connection over TLS.
pub struct Connection(StreamOwned<ClientConnection, Pieces>);

impl Connection {
    /// Sends, then reads until what came ends in `end`.
    ///
    /// # Errors
    /// The handshake fails, or the connection ends before.
    pub fn try_ask(&mut self, bytes: &[u8], end: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(bytes)?;
        self.0.flush()?;
        let mut reply = Vec::new();
        let mut room = vec![0; 64 << 10];
        while !reply.ends_with(end) {
            match self.0.read(&mut room)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => reply.extend_from_slice(&room[..n]),
            }
        }
        Ok(reply)
    }

    /// The same, as text.
    ///
    /// # Panics
    /// If it fails.
    pub fn ask(&mut self, text: &str, end: &str) -> String {
        let reply = self.try_ask(text.as_bytes(), end.as_bytes());
        let reply = reply.unwrap_or_else(|error| panic!("{text:.60}: {error}"));
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// One number of `stats`.
    ///
    /// # Panics
    /// If it isn't there.
    pub fn stat(&mut self, name: &str) -> u64 {
        let stats = self.ask("stats\r\n", "END\r\n");
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    /// Sends the first word of the handshake, and waits for nothing.
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn begin(&mut self) {
        let StreamOwned { conn, sock } = &mut self.0;
        conn.write_tls(sock).expect("the server accepts");
    }

    /// Sends `bytes` and, in the same write, that nothing more will come; whether the server then ends the connection,
    /// whose socket stays open.
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn ends_after(&mut self, bytes: &[u8]) -> bool {
        let StreamOwned { conn, sock } = &mut self.0;
        conn.writer().write_all(bytes).expect("room for a few bytes");
        conn.send_close_notify();
        let mut records = Vec::new();
        while conn.wants_write() {
            conn.write_tls(&mut records).expect("memory");
        }
        sock.write_all(&records).expect("the server reads");
        let mut rest = Vec::new();
        sock.read_to_end(&mut rest).is_ok()
    }

    /// The certificate that the server showed.
    #[must_use]
    pub fn server_certificate(&self) -> Option<Vec<u8>> {
        self.0.conn.peer_certificates().map(|chain| chain[0].to_vec())
    }

    /// Whether the session is an earlier one's.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

/// A socket that takes few bytes at a time.
struct Pieces {
    socket: TcpStream,
    most: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.read(into)
    }
}

impl Write for Pieces {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        // Gives the server the chance to see each piece by itself.
        if self.most < from.len() {
            thread::yield_now();
        }
        self.socket.write(&from[..from.len().min(self.most)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
