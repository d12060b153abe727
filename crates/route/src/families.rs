//! Working sets of key families, by a sample of keys (Scaling Memcache at Facebook, §3.2.2 and figure 5).
//!
//! ```text
//! a request for a sampled key ─▶ windows: this day, this week ─▶ /metrics, and get __mcrouter__.families(week)
//! ```
//! A key's hash says whether it is sampled, so that all routers sample the same keys: what they have can be put together. What
//! the sample has, divided by its share, estimates what all keys have.
//!
//! # Invariants
//! 1. A window that has passed is kept whole until the next one has.
//! 2. At most [`ITEMS_MAX`] items of a window are followed. Others are counted as left out.
//!
//! # Costs
//! A hash per key; a lock for a sampled one. Without a share: one branch.
//!
//! Bad at: items that nobody asks this router for. A miss has no size, and isn't an item.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use guira_front::sample::{KeySample, hash};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::key::without_prefix;

/// The sample of a process.
#[derive(Debug)]
pub(crate) struct Families {
    share: f64,
    keys: KeySample,
    sample: Mutex<Sample>,
}

#[derive(Debug)]
struct Sample {
    windows: [Window; 2],
    left_out: u64,
}

#[derive(Debug)]
struct Window {
    name: &'static str,
    length: Duration,
    began: Instant,
    items: HashMap<u64, SampledItem>,
    /// Of the window before this one.
    before: Option<HashMap<u64, SampledItem>>,
}

/// What a sampled key was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) is_get: bool,
    /// Of the value that was found or stored.
    pub(crate) value_bytes: Option<usize>,
    pub(crate) client: Option<IpAddr>,
}

/// An item that was found or stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampledItem {
    pub(crate) family: String,
    /// With its key.
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) sum: u64,
    /// How many sizes `sum` has.
    pub(crate) sizes: u64,
    pub(crate) gets: u64,
    /// Hashes of clients' addresses, [`CLIENTS_MAX`] at most.
    pub(crate) clients: BTreeSet<u32>,
}

/// A window's items, by the hashes of their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) share: f64,
    /// How long the window was.
    pub(crate) seconds: f64,
    pub(crate) items: BTreeMap<u64, SampledItem>,
}

/// What all keys of a family have, by the estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FamilySums {
    pub(crate) items: f64,
    /// With each item's least, mean and greatest size.
    pub(crate) bytes: [f64; 3],
    pub(crate) gets_per_second: f64,
    /// Of half of the items, no more clients than this asked for one.
    pub(crate) clients: u64,
}

impl Families {
    /// A sample of this share of all keys, above 0 and up to 1.
    pub(crate) fn new(share: f64, now: Instant) -> Self {
        let window = |(name, hours): (&'static str, u64)| Window {
            name,
            length: Duration::from_secs(hours * 3600),
            began: now,
            items: HashMap::new(),
            before: None,
        };
        let windows = [("day", 24), ("week", 7 * 24)].map(window);
        let keys = KeySample::of_share(share);
        Self { share, keys, sample: Mutex::new(Sample { windows, left_out: 0 }) }
    }

    /// Whether what is asked of a key is to be noted.
    #[inline]
    pub(crate) fn is_sampled(&self, key: &[u8]) -> bool {
        self.keys.has(without_prefix(key))
    }

    /// Notes what a sampled key was asked for.
    pub(crate) fn note(&self, of: &Use<'_>, now: Instant) {
        let mut sample = self.sample.lock();
        let Sample { windows, left_out } = &mut *sample;
        for window in windows {
            window.roll(now);
            *left_out += u64::from(!window.note(of));
        }
    }

    /// Uses of items that weren't followed because there were too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.sample.lock().left_out
    }

    /// What the last whole window of a name has, or the first one so far. `None`: there is no such window.
    pub(crate) fn sampled(&self, name: &str, now: Instant) -> Option<Sampled> {
        let mut sample = self.sample.lock();
        let window = sample.windows.iter_mut().find(|window| window.name == name)?;
        window.roll(now);
        let (items, seconds) = match &window.before {
            Some(before) => (before, window.length.as_secs_f64()),
            None => (&window.items, (now - window.began).as_secs_f64().max(1.0)),
        };
        let items = items.iter().map(|(hash, item)| (*hash, item.clone())).collect();
        Some(Sampled { share: self.share, seconds, items })
    }
}

impl Window {
    fn roll(&mut self, now: Instant) {
        while now.saturating_duration_since(self.began) >= self.length {
            self.before = Some(std::mem::take(&mut self.items));
            self.began += self.length;
        }
    }

    /// False: there is no room.
    fn note(&mut self, of: &Use<'_>) -> bool {
        let key = without_prefix(of.key);
        let has_room = self.items.len() < ITEMS_MAX;
        let item = match (self.items.entry(hash(key)), of.value_bytes) {
            (std::collections::hash_map::Entry::Occupied(found), _) => found.into_mut(),
            (_, None) => return true,
            (_, Some(_)) if !has_room => return false,
            (std::collections::hash_map::Entry::Vacant(free), Some(_)) => {
                let family = family(key);
                free.insert(SampledItem { family, least: u64::MAX, ..SampledItem::default() })
            }
        };
        if let Some(bytes) = of.value_bytes {
            let bytes = (bytes + key.len()) as u64;
            item.least = item.least.min(bytes);
            item.most = item.most.max(bytes);
            item.sum += bytes;
            item.sizes += 1;
        }
        item.gets += u64::from(of.is_get);
        if let Some(client) = of.client
            && item.clients.len() < CLIENTS_MAX
        {
            let client = client.to_canonical().to_string();
            item.clients.insert(crc32fast::hash(client.as_bytes()));
        }
        true
    }
}

impl SampledItem {
    /// Its mean size.
    pub(crate) fn mean(&self) -> f64 {
        real(self.sum) / real(self.sizes.max(1))
    }

    /// Adds what another router has of the same key.
    pub(crate) fn add(&mut self, other: &Self) {
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.sum += other.sum;
        self.sizes += other.sizes;
        self.gets += other.gets;
        self.clients.extend(&other.clients);
    }
}

impl Sampled {
    /// What each family has.
    pub(crate) fn families(&self) -> BTreeMap<String, FamilySums> {
        let mut families: BTreeMap<String, (FamilySums, Vec<u64>)> = BTreeMap::new();
        for item in self.items.values() {
            let (sums, clients) = families.entry(item.family.clone()).or_default();
            sums.items += 1.0 / self.share;
            let sizes = [real(item.least), item.mean(), real(item.most)];
            for (sum, size) in sums.bytes.iter_mut().zip(sizes) {
                *sum += size / self.share;
            }
            sums.gets_per_second += real(item.gets) / self.share / self.seconds;
            clients.push(item.clients.len() as u64);
        }
        let sums = families.into_iter().map(|(family, (sums, mut clients))| {
            clients.sort_unstable();
            let median = clients.get((clients.len() - 1) / 2).copied().unwrap_or(0);
            (family, FamilySums { clients: median, ..sums })
        });
        sums.collect()
    }

    /// As lines: the share and the seconds, then an item each.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("share {} seconds {}\n", self.share, self.seconds);
        for (hash, item) in &self.items {
            let SampledItem { family, least, most, sum, sizes, gets, clients } = item;
            let clients: Vec<String> = clients.iter().map(|it| format!("{it:x}")).collect();
            let clients = clients.join(",");
            // Writing to a string doesn't fail.
            let _ =
                writeln!(text, "{hash:x} {least} {most} {sum} {sizes} {gets} {clients} {family}");
        }
        text
    }

    /// Reads what [`Self::to_text`] wrote. `None`: it isn't that.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut words = lines.next()?.split(' ');
        let mut number = |name| -> Option<f64> {
            let is_it = words.next()? == name;
            words.next()?.parse().ok().filter(|it: &f64| is_it && it.is_finite() && *it > 0.0)
        };
        let (share, seconds) = (number("share")?, number("seconds")?);
        let items = lines.map(item).collect::<Option<_>>()?;
        Some(Self { share, seconds, items })
    }
}

fn item(line: &str) -> Option<(u64, SampledItem)> {
    let mut words = line.splitn(8, ' ');
    let hash = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (least, most, sum) = (number()?, number()?, number()?);
    let (sizes, gets) = (number()?, number()?);
    let clients = words.next()?.split(',').filter(|word| !word.is_empty());
    let clients = clients.map(|word| u32::from_str_radix(word, 16).ok()).collect::<Option<_>>()?;
    let family = words.next()?.to_owned();
    Some((hash, SampledItem { family, least, most, sum, sizes, gets, clients }))
}

/// What comes before a key's first `:`, or before its first digit if it has none.
fn family(key: &[u8]) -> String {
    let end = memchr::memchr(b':', key).or_else(|| key.iter().position(u8::is_ascii_digit));
    let family = &key[..end.unwrap_or(key.len())];
    family[..family.len().min(FAMILY_BYTES)].escape_ascii().to_string()
}

#[expect(clippy::cast_precision_loss, reason = "estimates")]
fn real(number: u64) -> f64 {
    number as f64
}

/// At one key in a million: ten billion keys.
const ITEMS_MAX: usize = 10_000;
const CLIENTS_MAX: usize = 32;
const FAMILY_BYTES: usize = 64;

#[cfg(test)]
mod tests;
