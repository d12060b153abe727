//! Two daemons of one [`Shop`], of which one is active: a second configuration with a state folder and a port of its own.

use std::path::PathBuf;
use std::process::Child;

use rustix::process::Signal;

use crate::etcd::Etcd;
use crate::server::{Running, free_port, send_signal, within};
use crate::shop::{Database, Shop, invalidate, scrape, told_by};

/// One of them. It ends with it.
pub struct Twin {
    config: PathBuf,
    said: PathBuf,
    http: u16,
    daemon: Option<Running>,
}

impl Twin {
    /// The configuration of a shop with a place in etcd and a lease, and with a name. It doesn't run yet.
    ///
    /// # Panics
    /// If a file can't be written.
    #[must_use]
    pub fn of<D: Database>(shop: &Shop<D>, etcd: &Etcd, lease: &str, name: &str) -> Self {
        let (dir, http) = (shop.database.dir(), free_port());
        let text = shop.config_text();
        let at = format!(
            "\"etcd\": {{\"at\": \"etcd:127.0.0.1:{}/shop\", \"lease\": \"{lease}\"}}",
            etcd.port()
        );
        let state = format!("{}/state", dir.display());
        let text = text.replace(&state, &format!("{state}-{name}"));
        let own =
            format!("\"name\": \"{name}\", {at}, \"http\": \"127.0.0.1:{http}\", \"sources\"");
        let begin = text.find("\"http\"").expect("it is there");
        let end = text.find("\"sources\"").expect("it is there");
        let text = format!("{}{own}{}", &text[..begin], &text[end + "\"sources\"".len()..]);
        let config = dir.join(format!("{name}.json"));
        std::fs::write(&config, text).expect("a test can have it");
        Self { config, said: dir.join(format!("{name}.said")), http, daemon: None }
    }

    /// Starts it.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn begin(&mut self) {
        let mut append = std::fs::OpenOptions::new();
        let log = append.create(true).append(true).open(&self.said).expect("a test can have it");
        let child: Child =
            invalidate("run", &self.config).stderr(log).spawn().expect("a test can have it");
        self.daemon = Some(Running(child));
    }

    /// Waits until it is active and reads.
    ///
    /// # Panics
    /// If that doesn't come.
    pub fn reads(&self) {
        within(60, &format!("it is active, and reads: {}", self.config.display()), || {
            self.metric("active") == Some(1) && self.metric("reading") == Some(1)
        });
    }

    /// Waits until it says something.
    ///
    /// # Panics
    /// If it doesn't.
    pub fn says(&self, words: &str) {
        within(60, words, || self.said().contains(words));
    }

    /// Waits until it says so, and is seen to wait.
    ///
    /// # Panics
    /// If it doesn't.
    pub fn waits(&self) {
        self.says("is active; this daemon takes over when its lease ends");
        within(30, "it is seen to wait", || self.metric("active") == Some(0));
        assert_eq!(self.metric("reading"), None, "{}", self.said());
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it doesn't run.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.daemon.as_ref().expect("it runs").0.id(), signal);
    }

    /// Waits until it has ended by itself: its exit code.
    ///
    /// # Panics
    /// If it doesn't.
    pub fn ended(&mut self) -> Option<i32> {
        let daemon = &mut self.daemon.as_mut().expect("it runs").0;
        let mut status = None;
        within(30, "it ends", || {
            status = daemon.try_wait().expect("a test can have it");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// A metric, see [`Shop::metric`].
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<u64> {
        scrape(self.http, name, &[])
    }

    /// What it wrote into its log.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Whether a command with its configuration succeeds, and what it says.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn asks(&self, name: &str, more: &[&str]) -> (bool, String) {
        let (code, text) = told_by(invalidate(name, &self.config).args(more));
        (code == Some(0), text)
    }

    /// How far a source's log is done with, as etcd has it.
    #[must_use]
    pub fn position(&self) -> Option<String> {
        let (_, text) = self.asks("positions", &[]);
        let line = text.lines().find(|line| line.ends_with(", in etcd"))?;
        Some(line.split('\'').nth(1)?.to_owned())
    }
}
