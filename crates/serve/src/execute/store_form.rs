//! A storage command in each of its forms, and what the forms have in common.

use super::record::Form;
use guira_cache::{Handle, Key};
use guira_proto::binary;
use guira_proto::{KEY_BYTES_MAX, Meta, StoreCommand, Verb, decode_base64};

/// A storage command, text, meta or binary.
#[derive(Clone, Copy)]
pub(crate) enum StoreForm<'b> {
    Text(&'b StoreCommand<'b>),
    Meta(&'b Meta<'b>),
    Binary(&'b binary::Packet<'b>, &'b binary::PacketStore<'b>),
}

impl<'b> StoreForm<'b> {
    /// The verb that conditions and counters go by: a binary request with a unique is a cas.
    pub(super) fn verb(self) -> Verb {
        match self {
            StoreForm::Text(store) => store.verb,
            StoreForm::Meta(meta) => meta.verb(),
            StoreForm::Binary(request, store) => match store.verb {
                verb @ (Verb::Append | Verb::Prepend) => verb,
                _ if request.cas != 0 => Verb::Cas,
                verb => verb,
            },
        }
    }

    pub(super) fn value_bytes(self) -> u32 {
        match self {
            StoreForm::Text(store) => store.value_bytes,
            StoreForm::Meta(meta) => meta.value_bytes(),
            StoreForm::Binary(_, store) => store.value_bytes,
        }
    }

    pub(super) fn client_flags(self) -> u32 {
        match self {
            StoreForm::Text(store) => store.flags,
            StoreForm::Meta(meta) => meta.client_flags(),
            StoreForm::Binary(_, store) => store.flags,
        }
    }

    /// The token of a lease-set.
    pub(super) fn lease_token(self) -> Option<u64> {
        match self {
            StoreForm::Text(StoreCommand { verb: Verb::Lease, cas, .. }) => Some(*cas),
            _ => None,
        }
    }

    /// The bytes that follow the value.
    pub(super) fn end(self) -> &'static [u8] {
        match self {
            StoreForm::Text(_) | StoreForm::Meta(_) => b"\r\n",
            StoreForm::Binary(..) => b"",
        }
    }

    /// Bytes after the command: the value and its end.
    pub(crate) fn body_bytes(self) -> u64 {
        u64::from(self.value_bytes()) + self.end().len() as u64
    }

    /// The hashed key, decoded into `room` if it was sent in base64.
    pub(super) fn key<'k>(self, handle: &Handle<'_>, room: &'k mut [u8; KEY_BYTES_MAX]) -> Key<'k>
    where
        'b: 'k,
    {
        handle.key(match self {
            StoreForm::Text(store) => store.key,
            StoreForm::Meta(meta) if meta.is_base64() => {
                decode_base64(meta.key(), room).expect("proto checked the key")
            }
            StoreForm::Meta(meta) => meta.key(),
            StoreForm::Binary(_, store) => store.key,
        })
    }

    pub(super) fn form(self) -> Form {
        match self {
            StoreForm::Text(_) => Form::Text,
            StoreForm::Meta(_) => Form::Meta,
            StoreForm::Binary(..) => Form::Binary,
        }
    }
}
