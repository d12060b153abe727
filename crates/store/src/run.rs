//! Temporary.
use crate::checksum::crc32c;
use crate::entry::{Entry, EntryKind};
use crate::error::StoreError;
use crate::file::{BLOCK_BYTES, Header};
use crate::hash::{Hasher, KeyHash};
use crate::options::Options;
use guira_disk::{Buffers, Disk, DiskFile, FileAccess};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct RunOptions {
    pub(crate) seq_max: u64,
}
impl RunOptions {
    pub(crate) fn young(_o: &Options, seq_max: u64, _n: u64) -> Self {
        Self { seq_max }
    }
    pub(crate) fn last(_o: &Options, seq_max: u64, _n: u64) -> Self {
        Self { seq_max }
    }
}
#[derive(Clone, Copy, Default)]
pub(crate) struct RunFacts {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) seq_max: u64,
}
pub(crate) struct RunWriter {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    unit: Vec<u8>,
    n: u32,
    first: KeyHash,
    at: u64,
    index: Vec<u8>,
    facts: RunFacts,
}
fn put(o: &mut Vec<u8>, e: &Entry<'_>) {
    o.extend_from_slice(&e.hash.0.to_le_bytes());
    o.extend_from_slice(&e.seq.to_le_bytes());
    o.push(e.kind.code());
    o.extend_from_slice(&(e.key.len() as u32).to_le_bytes());
    o.extend_from_slice(&(e.value.len() as u32).to_le_bytes());
    o.extend_from_slice(e.key);
    o.extend_from_slice(e.value);
}
fn u32_at(b: &[u8], at: usize) -> usize {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap()) as usize
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().unwrap())
}
fn entry_at(b: &[u8], at: usize) -> (Entry<'_>, usize) {
    let hash = KeyHash(u128::from_le_bytes(b[at..at + 16].try_into().unwrap()));
    let seq = u64_at(b, at + 16);
    let kind = EntryKind::from_code(b[at + 24]).unwrap();
    let (k, v) = (u32_at(b, at + 25), u32_at(b, at + 29));
    let key = &b[at + 33..at + 33 + k];
    let value = &b[at + 33 + k..at + 33 + k + v];
    (Entry { hash, seq, kind, key, value }, at + 33 + k + v)
}
impl RunWriter {
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        header: &Header,
        how: RunOptions,
    ) -> Result<Self, StoreError> {
        let file = disk.create(path, false).map_err(|e| StoreError::io("create", path, e))?;
        file.write_at(&header.encode(), 0).map_err(|e| StoreError::io("write", path, e))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            unit: vec![0; 16],
            n: 0,
            first: KeyHash(0),
            at: 1,
            index: Vec::new(),
            facts: RunFacts { seq_max: how.seq_max, ..Default::default() },
        })
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.at * 4096 + self.unit.len() as u64
    }
    fn flush(&mut self) -> Result<(), StoreError> {
        if self.n == 0 {
            return Ok(());
        }
        let used = self.unit.len();
        self.unit.resize(used.next_multiple_of(BLOCK_BYTES), 0);
        let blocks = self.unit.len() / BLOCK_BYTES;
        self.unit[4..8].copy_from_slice(&(blocks as u32).to_le_bytes());
        self.unit[8..12].copy_from_slice(&(used as u32).to_le_bytes());
        let crc = crc32c(&[&self.unit[4..]]);
        self.unit[..4].copy_from_slice(&crc.to_le_bytes());
        self.file
            .write_at(&self.unit, self.at * 4096)
            .map_err(|e| StoreError::io("write", &self.path, e))?;
        self.index.extend_from_slice(&self.first.0.to_le_bytes());
        self.index.extend_from_slice(&self.at.to_le_bytes());
        self.at += blocks as u64;
        self.unit.clear();
        self.unit.resize(16, 0);
        self.n = 0;
        Ok(())
    }
    pub(crate) fn push(&mut self, e: &Entry<'_>) -> Result<(), StoreError> {
        if self.n > 0 && self.unit.len() + 33 + e.key.len() + e.value.len() > BLOCK_BYTES {
            self.flush()?;
        }
        if self.n == 0 {
            self.first = e.hash;
        }
        put(&mut self.unit, e);
        self.n += 1;
        self.facts.entries += 1;
        Ok(())
    }
    pub(crate) fn finish(mut self) -> Result<RunFacts, StoreError> {
        self.flush()?;
        let mut tail = self.index.clone();
        tail.extend_from_slice(&(self.index.len() as u64).to_le_bytes());
        tail.extend_from_slice(&self.facts.entries.to_le_bytes());
        tail.extend_from_slice(&self.facts.seq_max.to_le_bytes());
        tail.extend_from_slice(&u64::from(crc32c(&[&tail])).to_le_bytes());
        self.file
            .write_at(&tail, self.at * 4096)
            .map_err(|e| StoreError::io("write", &self.path, e))?;
        self.file.sync_data().map_err(|e| StoreError::io("sync", &self.path, e))?;
        self.facts.bytes = self.at * 4096 + tail.len() as u64;
        Ok(self.facts)
    }
}
pub(crate) enum Look<'a> {
    Put { value: Cow<'a, [u8]>, seq: u64 },
    Deleted { seq: u64 },
    Absent,
    At(u64),
    Longer(usize),
    Corrupt,
}
pub(crate) struct Run(Arc<Inner>);
struct Inner {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    index: Vec<(KeyHash, u64)>,
    end: u64,
    facts: RunFacts,
}
impl Run {
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        header: &Header,
    ) -> Result<Self, StoreError> {
        let io = |e| StoreError::io("read", path, e);
        let file = disk.open(path, FileAccess { write: false, direct: true }).map_err(io)?;
        let len = file.len().map_err(io)?;
        let plain = disk.open(path, FileAccess::default()).map_err(io)?;
        let mut all = vec![0; len as usize];
        plain.read_at(&mut all, 0).map_err(io)?;
        let bad = || StoreError::corrupt(path, 0, "index");
        if all.len() < 4096 + 32 {
            return Err(bad());
        }
        let found = Header::decode(&all[..4096]).map_err(|_| bad())?;
        found.expect(header).map_err(|_| bad())?;
        let t = all.len() - 32;
        let n = u64_at(&all, t) as usize;
        let start = t.checked_sub(n).ok_or_else(bad)?;
        if u64::from(crc32c(&[&all[start..t + 24]])) != u64_at(&all, t + 24) {
            return Err(bad());
        }
        let index = all[start..t]
            .chunks(24)
            .map(|c| (KeyHash(u128::from_le_bytes(c[..16].try_into().unwrap())), u64_at(c, 16)))
            .collect();
        let facts =
            RunFacts { bytes: len, entries: u64_at(&all, t + 8), seq_max: u64_at(&all, t + 16) };
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            file,
            index,
            end: start as u64 / 4096,
            facts,
        })))
    }
    pub(crate) fn facts(&self) -> &RunFacts {
        &self.0.facts
    }
    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.0.file
    }
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.index.len() * 24
    }
    pub(crate) fn locate(&self, hash: KeyHash) -> Option<u64> {
        let i = self.0.index.partition_point(|it| it.0 < hash).saturating_sub(1);
        self.0.index.get(i).map(|it| it.1)
    }
    pub(crate) fn look<'a>(&self, block: u64, b: &'a [u8], hash: KeyHash, key: &[u8]) -> Look<'a> {
        let blocks = u32_at(b, 4);
        let Ok(i) = self.0.index.binary_search_by_key(&block, |it| it.1) else {
            return Look::Corrupt;
        };
        let end = self.0.index.get(i + 1).map_or(self.0.end, |it| it.1);
        if blocks as u64 != end - block {
            return Look::Corrupt;
        }
        if b.len() < blocks * 4096 {
            return Look::Longer(blocks);
        }
        let b = &b[..blocks * 4096];
        if crc32c(&[&b[4..]]) as usize != u32_at(b, 0) {
            return Look::Corrupt;
        }
        let (mut at, used) = (16, u32_at(b, 8));
        while at < used {
            let (e, next) = entry_at(b, at);
            if e.hash == hash && e.key == key {
                return match e.kind {
                    EntryKind::Put => Look::Put { value: Cow::Borrowed(e.value), seq: e.seq },
                    EntryKind::Delete => Look::Deleted { seq: e.seq },
                };
            }
            if (e.hash, e.key) > (hash, key) {
                return Look::Absent;
            }
            at = next;
        }
        match self.0.index.get(i + 1) {
            Some(n) if n.0 <= hash => Look::At(n.1),
            _ => Look::Absent,
        }
    }
    pub(crate) fn iter(&self, from: KeyHash, to: KeyHash) -> RunIter {
        let i = self.0.index.partition_point(|it| it.0 < from).saturating_sub(1);
        RunIter { run: self.0.clone(), i, unit: Vec::new(), at: 0, next: 0, from, to }
    }
    pub(crate) fn verify(&self, _h: &Hasher) -> Result<(), StoreError> {
        let mut it = self.iter(KeyHash(0), KeyHash::MAX);
        while it.advance()? {}
        Ok(())
    }
}
pub(crate) struct RunIter {
    run: Arc<Inner>,
    i: usize,
    unit: Vec<u8>,
    at: usize,
    next: usize,
    from: KeyHash,
    to: KeyHash,
}
impl RunIter {
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        (self.at > 0).then(|| entry_at(&self.unit, self.at).0)
    }
    pub(crate) fn advance(&mut self) -> Result<bool, StoreError> {
        loop {
            self.at = 0;
            if self.unit.is_empty() || self.next >= u32_at(&self.unit, 8) {
                let Some(&(_, block)) = self.run.index.get(self.i) else { return Ok(false) };
                self.i += 1;
                let end = self.run.index.get(self.i).map_or(self.run.end, |it| it.1);
                let n = (end - block) as usize * 4096;
                let mut b = Buffers::new(0).take(n);
                self.run
                    .file
                    .read_at(&mut b[..n], block * 4096)
                    .map_err(|e| StoreError::io("read", &self.run.path, e))?;
                if crc32c(&[&b[4..n]]) as usize != u32_at(&b, 0) {
                    return Err(StoreError::corrupt(&self.run.path, block * 4096, "crc"));
                }
                self.unit = b[..n].to_vec();
                self.next = 16;
            }
            let (e, next) = entry_at(&self.unit, self.next);
            let (h, at) = (e.hash, self.next);
            self.next = next;
            if h > self.to {
                return Ok(false);
            }
            if h >= self.from {
                self.at = at;
                return Ok(true);
            }
        }
    }
}
