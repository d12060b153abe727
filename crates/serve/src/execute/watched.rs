//! Events for watchers. They are computed only while there are watchers.

use super::Executor;
use super::StoreForm;
use crate::process::watch::{Event, Look, Stored as Told};
use guira_cache::{ItemRef, Key, Miss};
use guira_proto::{Command, KEY_BYTES_MAX, Verb, WatchKinds, binary};

/// The item before a storage command, taken before the command so that its event can be reported.
pub(super) struct Before(Option<Look>);

impl Executor<'_> {
    /// Reports the lookup that a request begins with, except for gets and storage commands, which report their own.
    #[inline]
    pub(crate) fn watch_request(&self, request: &Command<'_>, key: Option<&Key<'_>>) {
        if !self.turn.watched.meets(WatchKinds::FETCHERS) {
            return;
        }
        match (request, key) {
            (Command::Get(_) | Command::Store(_) | Command::MetaSet(_), _) => {}
            (_, Some(key)) => self.tell_look(key, self.look(key)),
            (
                Command::MetaGet(meta) | Command::MetaDelete(meta) | Command::MetaArithmetic(meta),
                None,
            ) => {
                let mut room = [0; KEY_BYTES_MAX];
                let key = self.binary_key(meta.key(), &mut room);
                self.tell_look(&key, self.look(&key));
            }
            _ => {}
        }
    }

    /// Like [`Executor::watch_request`], for a binary request.
    #[inline]
    pub(crate) fn watch_packet(&self, request: &binary::Packet<'_>, key: Option<&Key<'_>>) {
        if let (true, Some(key)) = (self.turn.watched.meets(WatchKinds::FETCHERS), key)
            && !matches!(request.command, binary::PacketBody::Store(_))
        {
            self.tell_look(key, self.look(key));
        }
    }

    /// Reports a get.
    #[inline]
    pub(super) fn watch_get(&self, key: &Key<'_>, found: Result<&ItemRef<'_>, Miss>) {
        if self.turn.watched.meets(WatchKinds::FETCHERS) {
            self.tell_look(key, Look::of(found));
        }
    }

    /// Like [`Executor::watch_get`], for a key that is below memory.
    pub(super) fn watch_look(&self, key: &Key<'_>, look: Look) {
        if self.turn.watched.meets(WatchKinds::FETCHERS) {
            self.tell_look(key, look);
        }
    }

    /// Looks at the item before a storage command, if lookups are watched.
    #[inline]
    pub(super) fn before_store(&self, key: &Key<'_>) -> Before {
        Before(self.turn.watched.meets(WatchKinds::FETCHERS).then(|| self.look(key)))
    }

    /// Reports the lookup that a storage command began with.
    #[inline]
    pub(super) fn watch_before(&self, key: &Key<'_>, before: &Before) {
        if let Some(look) = before.0 {
            self.tell_look(key, look);
        }
    }

    /// Reports a storage command's outcome; `status` is memcached's word for it, or empty if it has none.
    #[inline]
    pub(super) fn watch_store(
        &self,
        command: StoreForm<'_>,
        key: &Key<'_>,
        status: &'static str,
        class: usize,
    ) {
        if self.turn.watched.meets(WatchKinds::MUTATIONS) && !status.is_empty() {
            self.tell_store(command, key, status, if status == "stored" { class + 1 } else { 0 });
        }
    }

    /// Looks at the item that a delete is about to remove, if deletions are watched.
    #[inline]
    pub(super) fn doomed(&self, key: &Key<'_>) -> Option<Look> {
        self.turn.watched.meets(WatchKinds::DELETIONS).then(|| self.look(key))
    }

    /// Reports a delete that removed an item; `command` is `delete` or `md`.
    #[inline]
    pub(super) fn watch_delete(&self, key: &Key<'_>, doomed: Option<Look>, command: &'static str) {
        if let Some(Look::Found { class, size }) = doomed {
            self.tell(&Event::Delete { key: key.bytes(), command, class, size });
        }
    }

    #[cold]
    fn look(&self, key: &Key<'_>) -> Look {
        match self.handle().peek(key, self.now()) {
            Ok(item) => Look::of(Ok(&item)),
            Err(miss) => Look::of(Err(miss)),
        }
    }

    #[cold]
    fn tell_look(&self, key: &Key<'_>, look: Look) {
        self.tell(&Event::Get { key: key.bytes(), look, fd: self.fd });
    }

    #[cold]
    fn tell_store(
        &self,
        command: StoreForm<'_>,
        key: &Key<'_>,
        status: &'static str,
        class: usize,
    ) {
        let ttl = match self.how(command).exptime {
            0 => 0,
            at => at.saturating_sub(self.now()),
        };
        let name = match command.verb() {
            Verb::Set => "set",
            Verb::Add => "add",
            Verb::Replace => "replace",
            Verb::Append => "append",
            Verb::Prepend => "prepend",
            Verb::Cas => "cas",
            Verb::Lease => "lease-set",
        };
        self.tell(&Event::Store(Told {
            key: key.bytes(),
            status,
            command: name,
            ttl,
            class,
            fd: self.fd,
            size: command.value_bytes(),
        }));
    }

    fn tell(&self, event: &Event<'_>) {
        self.turn.process.watch.tell(event, &self.turn.process.mailboxes);
    }
}
