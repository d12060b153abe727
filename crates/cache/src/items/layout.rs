//! Which fields an item has and where: the only module that knows the layout in item.rs.

use super::header::{Header, VALUE_EXTENDED};
use crate::memory::{Chunks, Class};

const CHAINED: u32 = 1;
const CAS: u32 = 2;
const KEY_BINARY: u32 = 4;
const UNFILLED: u32 = 8;

/// Words of a link before its value bytes.
pub(crate) const LINK_WORDS: usize = 2;

/// The rare properties of an item, which together cost it one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) chained: bool,
    pub(crate) cas: bool,
    pub(crate) key_binary: bool,
    /// The item has no value yet: it only records that a client is fetching it.
    pub(crate) unfilled: bool,
}

impl Extras {
    fn any(self) -> bool {
        self != Extras::default()
    }

    pub(crate) fn to_word(self) -> u32 {
        let on = |is: bool, bit: u32| if is { bit } else { 0 };
        on(self.chained, CHAINED)
            | on(self.cas, CAS)
            | on(self.key_binary, KEY_BINARY)
            | on(self.unfilled, UNFILLED)
    }

    fn from_word(word: u32) -> Extras {
        Extras {
            chained: word & CHAINED != 0,
            cas: word & CAS != 0,
            key_binary: word & KEY_BINARY != 0,
            unfilled: word & UNFILLED != 0,
        }
    }
}

/// The properties of an item other than key and value.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fields {
    pub(crate) client_flags: u32,
    /// Whether the item needs its life word even if it never expires.
    pub(crate) life: bool,
    pub(crate) cas: bool,
    pub(crate) key_binary: bool,
    pub(crate) unfilled: bool,
}

/// Lengths and offsets of an item's parts. Offsets are in words or bytes from the item's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    /// Value bytes in the head: all of them unless the item is chained.
    pub(crate) inline_bytes: usize,
    /// Links of a chained item.
    pub(crate) links: usize,
    pub(crate) client_flags: u32,
    pub(crate) has_life: bool,
    pub(crate) extras: Extras,
    fields: usize,
}

impl Shape {
    /// The shape of a new item, and the class of its head. `Err(())` if not even the head fits the largest chunk.
    pub(crate) fn plan(
        chunks: &Chunks,
        key_bytes: usize,
        value_bytes: usize,
        client_flags: u32,
        has_life: bool,
        extras: Extras,
    ) -> Result<(Shape, Class), ()> {
        let mut shape = Shape {
            key_bytes,
            value_bytes,
            inline_bytes: value_bytes,
            links: 0,
            client_flags,
            has_life,
            extras,
            fields: 0,
        };
        shape.fields = shape.count_fields();
        if let Some(class) = chunks.classes.fit(shape.charged(chunks)) {
            return Ok((shape, class));
        }
        // A chained item always has a life word, so that a touch never has to copy it.
        shape.has_life = true;
        shape.extras.chained = true;
        shape.fields = shape.count_fields();
        let link_bytes = link_value_bytes(chunks);
        shape.links = value_bytes / link_bytes;
        shape.inline_bytes = value_bytes % link_bytes;
        if chunks.classes.fit(shape.bytes_of_head()).is_none() {
            shape.links += 1;
            shape.inline_bytes = 0;
        }
        let class = chunks.classes.fit(shape.bytes_of_head()).ok_or(())?;
        Ok((shape, class))
    }

    /// The shape of a published item; `at` reads one of its words.
    #[inline(always)]
    pub(crate) fn read(header: Header, at: impl Fn(usize) -> u32) -> Shape {
        let mut fields = 1;
        let mut next = || {
            fields += 1;
            at(fields - 1)
        };
        let mut value_bytes = header.value_bytes();
        if value_bytes == VALUE_EXTENDED {
            value_bytes = next() as usize;
        }
        let extras =
            if header.has_extras() { Extras::from_word(next()) } else { Extras::default() };
        let client_flags = if header.has_client_flags() { next() } else { 0 };
        let has_life = header.has_life();
        fields += usize::from(has_life) + 2 * usize::from(extras.cas);
        let mut shape = Shape {
            key_bytes: header.key_bytes(),
            value_bytes,
            inline_bytes: value_bytes,
            links: 0,
            client_flags,
            has_life,
            extras,
            fields,
        };
        if extras.chained {
            shape.links = at(fields) as usize;
            shape.inline_bytes = at(fields + 1) as usize;
            shape.fields += 2;
        }
        shape
    }

    fn count_fields(&self) -> usize {
        1 + usize::from(self.value_bytes >= VALUE_EXTENDED)
            + usize::from(self.extras.any())
            + usize::from(self.client_flags != 0)
            + usize::from(self.has_life)
            + 2 * usize::from(self.extras.cas)
            + 2 * usize::from(self.extras.chained)
    }

    /// The header of the item, without an access.
    pub(crate) fn header(&self) -> Header {
        Header::new(self.key_bytes, self.value_bytes).with_fields(
            self.client_flags != 0,
            self.has_life,
            self.extras.any(),
        )
    }

    /// Whether there is any field between the header and the key.
    pub(crate) fn has_fields(&self) -> bool {
        self.fields > 1
    }

    /// The fixed fields in order, as (word, value), without life and cas.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (usize, u32)> + use<> {
        let length = (self.value_bytes >= VALUE_EXTENDED).then_some(count(self.value_bytes));
        let extras = self.extras.any().then(|| self.extras.to_word());
        let flags = (self.client_flags != 0).then_some(self.client_flags);
        let first = [length, extras, flags].into_iter().flatten().enumerate();
        let chain = self.extras.chained.then_some([count(self.links), count(self.inline_bytes)]);
        let chain_at = self.fields.saturating_sub(2);
        first
            .map(|(n, value)| (n + 1, value))
            .chain(chain.into_iter().flatten().enumerate().map(move |(n, v)| (chain_at + n, v)))
    }

    pub(crate) fn key_at(&self) -> usize {
        self.fields * 4
    }

    /// The first word of the list of links.
    pub(crate) fn links_at(&self) -> usize {
        self.fields + self.key_bytes.div_ceil(4)
    }

    /// The first byte of the value in the head.
    pub(crate) fn value_at(&self) -> usize {
        if self.extras.chained {
            (self.links_at() + self.links) * 4
        } else {
            self.fields * 4 + self.key_bytes
        }
    }

    pub(crate) fn cas_at(&self) -> Option<usize> {
        self.extras.cas.then(|| self.fields - 2 - 2 * usize::from(self.extras.chained))
    }

    pub(crate) fn life_at(&self) -> Option<usize> {
        let behind = 2 * usize::from(self.extras.cas) + 2 * usize::from(self.extras.chained);
        self.has_life.then(|| self.fields - 1 - behind)
    }

    /// Bytes that the item's first chunk must hold.
    pub(crate) fn bytes_of_head(&self) -> usize {
        self.value_at() + self.inline_bytes
    }

    /// Bytes that the item is charged: its own size, or the larger size that memcached's item would have.
    pub(crate) fn charged(&self, chunks: &Chunks) -> usize {
        if !chunks.classes.are_memcacheds() {
            return self.bytes();
        }
        let flags = if self.client_flags == 0 { 0 } else { 4 };
        MEMCACHED_BYTES + flags + self.key_bytes + self.value_bytes
    }

    /// Bytes of the whole item, without unused space in its chunks.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes_of_head() + (self.value_bytes - self.inline_bytes) + self.links * LINK_WORDS * 4
    }
}

/// What memcached stores besides key, value and flags: header, unique, the key's terminator, the value's line end.
const MEMCACHED_BYTES: usize = 48 + 8 + 1 + 2;

/// Value bytes that a link holds.
pub(crate) fn link_value_bytes(chunks: &Chunks) -> usize {
    chunks.classes.bytes(chunks.classes.largest()) - LINK_WORDS * 4
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("an item is below 4 GiB")
}
