//! `STAGES`: the list of the store's files and their stages. It is replaced as a whole, by a rename.
//!
//! # Layout
//! ```text
//! "SILTST1\n" | value bytes, 4 B | buckets, 4 B | next file number, 8 B | log, 8 B | sorted, 8 B: 0 is none
//! count, 8 B | hash stores, the youngest first, 8 B each | CRC-32C of all before
//! ```

use super::fixed::Place;
use crate::checksum::crc32c;
use crate::error::StoreError;
use crate::replaced;
use guira_disk::FileAccess;
use std::io::ErrorKind;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stages {
    pub(super) next: u64,
    pub(super) log: u64,
    pub(super) sorted: Option<u64>,
    /// The youngest first.
    pub(super) hashes: Vec<u64>,
}

impl Stages {
    /// Whether the file with this number belongs to the store.
    pub(super) fn have(&self, id: u64) -> bool {
        self.log == id || self.sorted == Some(id) || self.hashes.contains(&id)
    }

    /// Makes these the store's stages, durably.
    pub(super) fn write(&self, place: &Place, buckets: u32) -> Result<(), StoreError> {
        let [new, path] = [STAGES_NEW, STAGES].map(|it| place.dir.join(it));
        replaced::prepare(&*place.disk, &new, &self.encode(place, buckets))?;
        replaced::replace(&*place.disk, &new, &path)
    }

    /// Reads the store's stages. None if there is no store yet.
    pub(super) fn read(place: &Place, buckets: u32) -> Result<Option<Self>, StoreError> {
        let path = place.dir.join(STAGES);
        let file = match place.disk.open(&path, FileAccess::default()) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|e| StoreError::io("open", &path, e))?,
        };
        let failed = |e| StoreError::io("read", &path, e);
        let len = file.len().map_err(failed)?;
        if len > BYTES_MAX {
            return Err(StoreError::corrupt(&path, 0, "it is too long"));
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, 0).map_err(failed)?;
        let (stages, value_bytes, of_buckets) = Self::decode(&bytes)
            .ok_or_else(|| StoreError::corrupt(&path, 0, "it says what nothing writes"))?;
        if (value_bytes as usize, of_buckets) != (place.shape.value_bytes, buckets) {
            let what = "it was made for values or tables of another size";
            return Err(StoreError::Foreign { path, what });
        }
        Ok(Some(stages))
    }

    fn encode(&self, place: &Place, buckets: u32) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend((place.shape.value_bytes as u32).to_le_bytes());
        out.extend(buckets.to_le_bytes());
        let count = self.hashes.len() as u64;
        let numbers = [self.next, self.log, self.sorted.unwrap_or(0), count];
        for number in numbers.iter().chain(&self.hashes) {
            out.extend(number.to_le_bytes());
        }
        out.extend(crc32c(&[&out]).to_le_bytes());
        out
    }

    /// Decodes the stages, the bytes of a value, and the number of buckets.
    fn decode(bytes: &[u8]) -> Option<(Self, u32, u32)> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        let (magic, body) = body.split_first_chunk::<8>()?;
        let (sizes, body) = body.split_first_chunk::<8>()?;
        let (numbers, rest) = body.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|it| u64::from_le_bytes(*it)).collect();
        let [next, log, sorted, count, hashes @ ..] = &numbers[..] else { return None };
        let is_whole = u32::from_le_bytes(*crc) == crc32c(&[&bytes[..bytes.len() - 4]]);
        let stages = Self {
            next: *next,
            log: *log,
            sorted: Some(*sorted).filter(|it| *it != 0),
            hashes: hashes.to_vec(),
        };
        let is_right = magic == MAGIC && rest.is_empty() && *count == hashes.len() as u64;
        let size = |at: usize| Some(u32::from_le_bytes(*sizes[at..].first_chunk()?));
        (is_whole && is_right).then_some((stages, size(0)?, size(4)?))
    }
}

const STAGES: &str = "STAGES";
const STAGES_NEW: &str = "STAGES.new";
const MAGIC: &[u8; 8] = b"SILTST1\n";
/// Longer than any list of stages.
const BYTES_MAX: u64 = 1 << 20;
