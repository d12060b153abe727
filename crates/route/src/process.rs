//! The state that all threads of the process share: options, log, client limits, servers, and counters of all threads.
//!
//! Serving a request touches only atomics here, and the permits of its thread if requests are limited. Locks are taken
//! for starting, reloading and showing statistics.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use guira_client::{ConnectionOptions, Credentials, Protocol, Taps};
use guira_front::sessions::{Clients, Lifecycle, Logins, User};
use guira_front::vitals::Vitals;
use guira_log::Log;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::configure::tls::{self, Tls};
use crate::configure::{Options, Standing};
use crate::counters::Counters;
use crate::deletes::debts::Debts;
use crate::families::Families;
use crate::servers::names::Names;
use crate::servers::{Permits, Servers, Speak};
use crate::settings;

/// The state that all threads share.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) options: Arc<Options>,
    pub(crate) log: Log,
    pub(crate) started: Instant,
    pub(crate) vitals: Vitals,
    /// One per proxy thread.
    pub(crate) counters: Vec<Arc<Counters>>,
    /// One per proxy thread, if requests under way are limited.
    pub(crate) routed: Vec<Permits>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) servers: Arc<Servers>,
    /// The configuration in use, and the result of the last change.
    pub(crate) standing: Arc<Mutex<Standing>>,
    /// The addresses of server names.
    pub(crate) names: Arc<Names>,
    /// Certificates and keys for clients and servers.
    pub(crate) tls: Arc<Tls>,
    pub(crate) lifecycle: Lifecycle,
    /// Where keys' families are sampled.
    pub(crate) families: Option<Families>,
}

impl Process {
    /// Creates the state. `taps` show the traffic with servers.
    ///
    /// # Errors
    /// A sentence about the certificate, key or login file that can't be used.
    pub(crate) fn new(
        mut options: Options,
        log: Log,
        debts: Debts,
        taps: Option<Taps>,
    ) -> Result<Self, String> {
        options.settings.log = settings::LogSink::new(|line| tracing::info!("{line}"));
        let logins = options.auth_file.clone().map(Logins::open).transpose();
        let logins = logins.map_err(|words| format!("--auth-file {words}"))?;
        let login = options.server_auth_file.as_deref().map(credentials).transpose();
        let login = login.map_err(|words| format!("--server-auth-file {words}"))?;
        let (tls, certificates) = Tls::open(options.tls.clone())?;
        let (names, tls) = (Arc::new(Names::new()), Arc::new(tls));
        let speak = speak(&options, (Arc::clone(&names), Arc::clone(&tls)), login, taps);
        let families = options.sampled_share.map(|share| Families::new(share, Instant::now()));
        let servers = Servers::new(options.servers, speak, debts, &options.counted_pools);
        Ok(Self {
            names,
            tls,
            clients: Arc::new(Clients::new(options.clients, logins, certificates)),
            counters: (0..options.proxies).map(|_| Arc::default()).collect(),
            routed: (0..options.proxies).filter_map(|_| Permits::new(options.routed)).collect(),
            servers: Arc::new(servers),
            options: Arc::new(options),
            log,
            started: Instant::now(),
            vitals: Vitals::open(),
            standing: Arc::default(),
            lifecycle: Lifecycle::default(),
            families,
        })
    }

    /// Reads certificates, keys and client logins again.
    pub(crate) fn refresh_credentials(&self) {
        tls::refresh(&self.tls, &self.clients);
        match self.clients.logins.as_ref().map(Logins::refresh) {
            None => {}
            Some(Ok(())) => tracing::info!("the clients' logins were read again"),
            Some(Err(words)) => tracing::warn!("{words}; the logins in use stay"),
        }
    }

    /// Logins with a wrong user or password.
    pub(crate) fn login_failures(&self) -> u64 {
        self.clients.logins.as_ref().map_or(0, Logins::failures)
    }

    /// Records that clients are no longer accepted.
    pub(crate) fn note_stopping(&self) {
        self.lifecycle.note_stopping();
        self.servers.is_ending.store(true, Relaxed);
    }
}

/// The login for servers that require one: the first line of the file.
fn credentials(path: &Path) -> Result<Credentials, String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    User::first(path).map(|user| Credentials::new(text(user.name), text(user.password)))
}

fn speak(
    options: &Options,
    (names, tls): (Arc<Names>, Arc<Tls>),
    login: Option<Credentials>,
    taps: Option<Taps>,
) -> Speak {
    let usual = ConnectionOptions::default();
    let of_all = ConnectionOptions {
        // No client may hold a longer value, so it isn't read.
        value_bytes_max: usual.value_bytes_max.min(options.clients.memory.longest_value()),
        trusts_order: options.trusts_order,
        login,
        taps,
        ..usual
    };
    Box::new(move |server| ConnectionOptions {
        protocol: if server.speaks_meta() { Protocol::Meta } else { Protocol::Text },
        tls: tls.upstream().filter(|_| server.is_secured()),
        whereabouts: names.whereabouts(server),
        ..of_all.clone()
    })
}

#[cfg(test)]
impl Process {
    /// Creates the state of a router with these flags, before it has threads.
    pub(crate) fn idle(flags: &[&str]) -> Arc<Self> {
        use crate::configure::flags::{Typed, augment};
        let line = [&["route", "--config", "{\"route\": \"NullRoute\"}"], flags].concat();
        let command = augment(clap::Command::new("route"));
        let matches = command.try_get_matches_from(line).expect("flags");
        let options = Options::new(&Typed::new(matches)).expect("options");
        let debts = Debts::new(None, Arc::default());
        Arc::new(Self::new(options, Log::silent(0), debts, None).expect("a process"))
    }
}
