//! The deletes that each server is owed, and their payment.
//!
//! There is one [`Account`] per `host:port`. It outlives clients, connections and configurations: a server that leaves
//! the configuration and returns still gets what it is owed.
//!
//! # Invariants
//! 1. Each delete that was reported done to a client is in its server's account, until the server has got or refused
//!    it.
//! 2. An account has at most one payer in a process.
//! 3. [`Paying::finish`] and the entry of a delete exclude each other. The payer sends a delete before it clears the
//!    server's mark. Otherwise the leaf that logged the delete finds the mark cleared, and gets the delete sent.
//!
//! # Costs
//! None if no delete fails. Requests to marked servers read one atomic.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use guira_client::Connection;
use parking_lot::Mutex;

use super::account::Account;
use super::counted;
use super::file::{Held, Tidied, is_old, tidy};
use super::pay::{self, Wait};
use super::spool::Spool;
use crate::server::Server;

/// All accounts, and the spool that stores what is owed.
#[derive(Debug)]
pub(crate) struct Debts {
    accounts: Mutex<HashMap<String, Arc<Account>>>,
    /// `None`: deletes that fail are not logged.
    spool: Option<Spool>,
    held: Arc<Held>,
}

impl Debts {
    /// Creates the accounts, with the deletes in files of processes that have ended.
    pub(crate) fn new(spool: Option<Spool>, held: Arc<Held>) -> Self {
        let debts = Self { accounts: Mutex::default(), spool, held };
        let left = debts.spool.as_ref().map(Spool::left).unwrap_or_default();
        for (file, survey) in left {
            if survey.waiting.is_empty() && is_old(&file) {
                debts.tidy(&file);
            }
            for (name, (count, end)) in survey.waiting {
                debts.account(&name).enter(&file, count as u64, end);
            }
        }
        debts
    }

    /// The servers that are owed deletes, each with the number.
    pub(crate) fn owed(&self) -> Vec<(String, u64)> {
        let accounts = self.accounts.lock();
        let owed = accounts.iter().filter(|(_, account)| !account.is_paid());
        owed.map(|(name, account)| (name.clone(), account.waiting())).collect()
    }

    /// The number of waiting deletes.
    pub(crate) fn waiting(&self) -> u64 {
        self.accounts.lock().values().map(|account| account.waiting()).sum()
    }

    /// The number of failed deletes that could not be logged.
    pub(crate) fn unwritten(&self) -> u64 {
        self.spool.as_ref().map_or(0, Spool::unwritten)
    }

    /// Returns a server's account, by `host:port`.
    pub(crate) fn account(&self, name: &str) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get(name) {
            return Arc::clone(account);
        }
        accounts.retain(|_, account| Arc::strong_count(account) > 1 || account.is_owed());
        let account = Arc::new(Account::new(name));
        accounts.insert(name.to_owned(), Arc::clone(&account));
        account
    }

    /// Logs a delete and enters it into the account. `false`: it can't be logged, and isn't owed.
    pub(crate) async fn owe(
        &self,
        account: &Arc<Account>,
        server: &Server,
        key: &[u8],
        pool: &str,
    ) -> bool {
        let Some(spool) = &self.spool else { return false };
        spool.write_down(account, server, key, pool).await
    }

    /// Waits until all deletes are logged, or have failed to be.
    pub(crate) fn end(&self) {
        if let Some(spool) = &self.spool {
            spool.end();
        }
    }

    /// Removes a file whose deletes are all sent, or sets it aside.
    fn tidy(&self, file: &Path) {
        // If another process holds the file, it does this work.
        let Ok(Some(_held)) = self.held.hold(file) else { return };
        let tidied = tidy(file);
        if matches!(tidied, Tidied::Kept) {
            return;
        }
        if let Some(spool) = &self.spool {
            spool.forget(file);
        }
        if let Tidied::SetAside(lines, path) = tidied {
            let (file, path) = (file.display(), path.display());
            tracing::warn!(
                "{file}: {lines} lines are no deletes; all others are sent; kept as {path}"
            );
        }
    }
}

/// Sends what a server is owed. If it is dropped before [`finish`](Self::finish), the rest is owed again.
#[derive(Debug)]
pub(crate) struct Paying {
    account: Arc<Account>,
    /// By file: the position up to which its deletes are handled, and whether the server has got them all.
    sent: BTreeMap<PathBuf, (u64, bool)>,
    is_finished: bool,
}

impl Paying {
    /// Reserves sending for the caller. `None`: another task is sending.
    pub(crate) fn start(account: &Arc<Account>) -> Option<Self> {
        let account = Arc::clone(account);
        let paying = |account| Self { account, sent: BTreeMap::new(), is_finished: false };
        account.start_sending().then(|| paying(account))
    }

    /// Sends the deletes of one file after the other. `true`: the server answered some with an error, or closed the
    /// connection. Refused deletes, and files that can't be read, are kept.
    ///
    /// # Errors
    /// The server fails.
    pub(crate) async fn pay(
        &mut self,
        debts: &Debts,
        connection: &Connection,
    ) -> Result<bool, Wait> {
        let mut has_refused = false;
        while let Some((file, end)) = self.next_due() {
            let (mut upto, mut is_clean) = (end, true);
            match self.pay_file(debts, connection, &file).await {
                Ok(sent) => upto = upto.max(sent.upto),
                Err(wait) => {
                    let name = &self.account.name;
                    tracing::warn!("{name}: deletes of {} wait: {wait}", file.display());
                    match wait {
                        Wait::Server(..) => return Err(wait),
                        Wait::Refused { .. } => has_refused = true,
                        Wait::File(_) | Wait::Held => {}
                    }
                    is_clean = false;
                }
            }
            self.sent.insert(file, (upto, is_clean));
        }
        Ok(has_refused)
    }

    async fn pay_file(
        &self,
        debts: &Debts,
        connection: &Connection,
        file: &Path,
    ) -> Result<pay::Sent, Wait> {
        let name = &self.account.name;
        let (held, path) = (Arc::clone(&debts.held), file.to_owned());
        let _held = match pay::aside(move || held.hold(&path)).await {
            Ok(Some(held)) => held,
            Ok(None) => return Err(Wait::Held),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(pay::Sent::default());
            }
            Err(error) => return Err(error.into()),
        };
        let sent =
            pay::send(connection, name, file, None, |count| self.account.note_sent(count)).await;
        let (Ok(pay::Sent { count, .. }) | Err(Wait::Refused { sent: count, .. })) = &sent else {
            return sent;
        };
        if *count > 0 {
            tracing::info!("{name}: {} sent again", counted(*count, [""; 2]));
        }
        if let Ok(pay::Sent { unmarked: Some(error), .. }) = &sent {
            let file = file.display();
            tracing::warn!(
                "{name} has the deletes of {file}, which can't be marked: {error}; the next process sends them too"
            );
        }
        sent
    }

    /// Returns a file with deletes that aren't handled yet, and the end of its last one.
    fn next_due(&self) -> Option<(PathBuf, u64)> {
        let book = self.account.book.lock();
        let is_due =
            |file: &PathBuf, end: u64| self.sent.get(file).is_none_or(|(upto, _)| *upto < end);
        book.iter().find(|(file, end)| is_due(file, **end)).map(|(file, end)| (file.clone(), *end))
    }

    /// Ends the payment. If more deletes were logged meanwhile, the payment is returned and must go on. `unmark` is
    /// called before another delete can be entered.
    pub(crate) fn finish(mut self, unmark: impl FnOnce()) -> Result<Finished, Self> {
        let account = Arc::clone(&self.account);
        let mut book = account.book.lock();
        let is_dealt_with =
            |file: &PathBuf, end: u64| self.sent.get(file).is_some_and(|(upto, _)| *upto >= end);
        if !book.iter().all(|(file, end)| is_dealt_with(file, *end)) {
            drop(book);
            return Err(self);
        }
        unmark();
        let clean: Vec<_> = self
            .sent
            .iter()
            .filter(|(_, (_, is_clean))| *is_clean)
            .map(|(file, _)| file.clone())
            .collect();
        book.retain(|file, _| !clean.contains(file));
        account.close(&book);
        self.is_finished = true;
        Ok(Finished { files: clean })
    }
}

impl Drop for Paying {
    fn drop(&mut self) {
        // After `finish`, another payment may have begun.
        if !self.is_finished {
            self.account.close(&self.account.book.lock());
        }
    }
}

/// A payment that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The files whose deletes the server has got.
    files: Vec<PathBuf>,
}

impl Finished {
    /// Removes files whose deletes are all sent, to any server, unless a process may still write to them.
    pub(crate) async fn tidy(self, debts: &Arc<Debts>) {
        let debts = Arc::clone(debts);
        pay::aside(move || {
            let Some(spool) = &debts.spool else { return };
            let done = self.files.iter().filter(|file| !spool.may_grow(file));
            done.for_each(|file| debts.tidy(file));
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::thread;

    use guira_client::ConnectionOptions;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    fn debts() -> Debts {
        Debts::new(None, Arc::default())
    }

    /// Starts a server that answers each delete with `reply`, and connects to it.
    async fn server(reply: &'static str) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (lines, mut replies) = stream.into_split();
            let mut lines = BufReader::new(lines).lines();
            while let Ok(Some(_)) = lines.next_line().await {
                replies.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        Connection::new(address.parse().unwrap(), ConnectionOptions::default())
    }

    /// Writes a file with deletes for `h:1`. Returns the position where each one ends.
    fn file(name: &str, keys: usize) -> (PathBuf, Vec<u64>) {
        let path = std::env::temp_dir().join(format!("guira-debts-{name}-{}", std::process::id()));
        let line = |key| format!("[\"AS1.0\", 1.5, \"C\", [\"h\", 1, \"delete k{key}\\r\\n\"]]\n");
        let lines: Vec<_> = (0..keys).map(line).collect();
        fs::write(&path, lines.concat()).unwrap();
        let ends = lines.iter().scan(0, |end, line| {
            *end += line.len() as u64;
            Some(*end)
        });
        (path, ends.collect())
    }

    #[tokio::test]
    async fn one_pays_at_a_time_and_what_is_written_meanwhile_is_paid_too_before_the_mark_comes_off()
     {
        let (debts, (path, ends)) = (debts(), file("meanwhile", 1));
        let account = debts.account("h:1");
        assert!(account.is_paid());
        account.enter(&path, 1, ends[0]);
        assert!(account.is_owed());
        drop(Paying::start(&account).unwrap());
        assert!(account.is_owed(), "dropped, it is owed again");
        let connection = server("DELETED\r\n").await;
        let mut paying = Paying::start(&account).unwrap();
        assert!(Paying::start(&account).is_none() && account.is_sending());
        assert!(!paying.pay(&debts, &connection).await.unwrap());
        let (path, ends) = file("meanwhile", 2);
        account.enter(&path, 1, ends[1]);
        let mut paying = paying.finish(|| panic!("the mark comes off too early")).unwrap_err();
        assert!(account.is_sending());
        paying.pay(&debts, &connection).await.unwrap();
        let unmarked = AtomicUsize::new(0);
        let finished = paying.finish(|| unmarked.store(1, Relaxed)).unwrap();
        assert_eq!((unmarked.into_inner(), finished.files), (1, vec![path.clone()]));
        assert!(account.is_paid());
        account.enter(&path, 1, ends[1]);
        assert!(account.is_owed(), "a payment that has ended changes nothing any more");
        fs::remove_file(super::super::marks::path(&path)).unwrap();
        fs::remove_file(path).unwrap();
    }

    #[tokio::test]
    async fn a_refused_delete_is_owed_still_and_holds_up_no_mark() {
        let (debts, (path, ends)) = (debts(), file("refused", 2));
        let account = debts.account("h:1");
        account.enter(&path, 1, ends[1]);
        let mut paying = Paying::start(&account).unwrap();
        let has_refused = paying.pay(&debts, &server("SERVER_ERROR no\r\n").await).await.unwrap();
        assert!(has_refused && paying.finish(|| ()).unwrap().files.is_empty());
        assert!(account.is_owed());
        let mut paying = Paying::start(&account).unwrap();
        assert!(!paying.pay(&debts, &server("DELETED\r\n").await).await.unwrap());
        assert_eq!(paying.finish(|| ()).unwrap().files.len(), 1);
        assert!(account.is_paid());
        fs::remove_file(super::super::marks::path(&path)).unwrap();
        fs::remove_file(path).unwrap();
    }

    /// A thread that enters a delete may find the mark set. Then the payer must see the delete before it finishes.
    #[test]
    fn no_delete_falls_between_the_payer_and_whoever_wrote_it_down() {
        let debts = debts();
        for round in 0..2000 {
            let account = debts.account(&format!("h:{round}"));
            let (is_marked, file) = (AtomicBool::new(true), PathBuf::from("spool"));
            account.enter(&file, 1, 1);
            let mut paying = Paying::start(&account).unwrap();
            paying.sent.insert(file.clone(), (1, true));
            let (finished, was_marked) = thread::scope(|scope| {
                let payer =
                    scope.spawn(|| paying.finish(|| is_marked.store(false, Relaxed)).is_ok());
                let writer = scope.spawn(|| {
                    account.enter(&file, 1, 2);
                    is_marked.load(Relaxed)
                });
                (payer.join().unwrap(), writer.join().unwrap())
            });
            assert!(!(finished && was_marked), "nobody sends the second");
            assert!(account.is_owed());
        }
    }

    #[test]
    fn an_account_is_kept_while_someone_knows_it_or_something_is_owed() {
        let debts = debts();
        debts.account("owed:1").enter(Path::new("spool"), 1, 1);
        let known = debts.account("known:1");
        drop(debts.account("paid:1"));
        assert!(
            debts.account("owed:1").is_owed() && Arc::ptr_eq(&known, &debts.account("known:1"))
        );
        drop(debts.account("another:1"));
        assert!(!debts.accounts.lock().contains_key("paid:1"));
        assert!(debts.accounts.lock().contains_key("owed:1"));
    }
}
