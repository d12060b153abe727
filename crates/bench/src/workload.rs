//! The workload of a run: the mix of operations, the popularity of keys, the sizes, and the presets.
//!
//! The mixes are those of YCSB (Cooper et al. 2010, table 2) without E, which scans. In F, the write of a
//! read-modify-write follows its read without waiting for the reply.

use clap::ValueEnum;

use crate::rng::Rng;
use crate::zipf::Zipf;

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mix {
    /// 50 % reads, 50 % updates
    A,
    /// 95 % reads, 5 % updates
    B,
    /// reads only
    C,
    /// 95 % reads of the latest items, 5 % insertions
    D,
    /// 50 % reads, 50 % read-modify-write
    F,
    /// updates only
    Set,
}

/// One operation, as drawn from the mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Update,
    Insert,
    Modify,
}

impl Mix {
    pub(crate) fn draw(self, rng: &mut Rng) -> Operation {
        let percent = rng.below(100);
        match self {
            Self::C => Operation::Read,
            Self::Set => Operation::Update,
            Self::A if percent < 50 => Operation::Update,
            Self::B if percent < 5 => Operation::Update,
            Self::D if percent < 5 => Operation::Insert,
            Self::F if percent < 50 => Operation::Modify,
            Self::A | Self::B | Self::D | Self::F => Operation::Read,
        }
    }

    pub(crate) fn reads(self) -> bool {
        self != Self::Set
    }
}

/// How popular each key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Distribution {
    /// every key is equally popular
    Uniform,
    /// zipf; the first items loaded are the popular ones, which lie side by side in memory
    Zipf,
    /// zipf; the popular items are scattered over all items
    Scrambled,
    /// zipf; the newest items are the popular ones
    Latest,
}

/// Which wire protocol requests are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// get and set
    Text,
    /// mg and ms
    Meta,
}

/// A size, or a range of sizes from which each key or write draws one; in bytes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) least: usize,
    pub(crate) most: usize,
}

impl Sizes {
    pub(crate) const fn fixed(bytes: usize) -> Self {
        Self { least: bytes, most: bytes }
    }

    /// Returns the size that belongs to `draw`, always the same for the same draw.
    pub(crate) fn pick(self, draw: u64) -> usize {
        let span = (self.most - self.least + 1) as u64;
        // The remainder of an evenly distributed number. The span is far below 2^32, so the bias is small.
        self.least + usize::try_from(draw % span).expect("the span is a usize")
    }
}

impl std::str::FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| parse_bytes(text);
        let sizes = match text.split_once('-') {
            Some((least, most)) => Self { least: number(least)?, most: number(most)? },
            None => Self::fixed(number(text)?),
        };
        match sizes {
            Self { least, most } if least > most => Err("the range is empty".into()),
            Self { most, .. } if most > VALUE_BYTES_MAX => {
                Err(format!("values end at {VALUE_BYTES_MAX} bytes"))
            }
            sizes => Ok(sizes),
        }
    }
}

/// Parses a size as `guira serve` does: `100`, `64k`, `1m`, `1.5g`, where `k` is 1024.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, String> {
    let bytes = guira_front::size::parse(text);
    let bytes = bytes.ok().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| format!("`{text}` is not a size such as 100, 64k, 1m"))
}

/// Everything that determines the requests of a run, except the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) mix: Mix,
    pub(crate) distribution: Distribution,
    pub(crate) theta: f64,
    pub(crate) keys: u64,
    pub(crate) key_bytes: usize,
    pub(crate) value: Sizes,
    /// Keys per read.
    pub(crate) batch: usize,
    /// Requests of a connection that may be outstanding.
    pub(crate) pipeline: usize,
    pub(crate) protocol: Protocol,
    /// Whether sizes are drawn for each write instead of for each key. The lengths of reads then can't be
    /// foreseen, which is good for `--verify` and impossible with counting by bytes.
    pub(crate) sizes_by_write: bool,
}

/// The rows of docs/performance.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// get, 16 connections, 1 outstanding each
    Get1,
    /// get, 4 connections, 50 pipelined each
    Get50,
    /// get of 100 keys, 4 connections, 1 outstanding each; each key counts as an operation
    Multiget100,
    /// meta get, 4 connections, 50 pipelined each
    Mg50,
    /// set, 4 connections, 50 pipelined each
    Set50,
    /// 95 % get, 5 % set, scrambled zipf 0.99, 4 connections, 50 pipelined each
    Mixed,
    /// get of 10 kB, 16 connections, 1 outstanding each
    #[value(name = "get10k-1")]
    Get10k1,
    /// get of 10 kB, 4 connections, 10 pipelined each
    #[value(name = "get10k-10")]
    Get10k10,
}

impl Preset {
    /// The preset's workload and its number of connections.
    pub(crate) fn workload(self) -> (Workload, usize) {
        let base = Workload {
            mix: Mix::C,
            distribution: Distribution::Uniform,
            theta: 0.99,
            keys: 1_000_000,
            key_bytes: 16,
            value: Sizes::fixed(32),
            batch: 1,
            pipeline: 50,
            protocol: Protocol::Text,
            sizes_by_write: false,
        };
        let large = Workload { keys: 10_000, value: Sizes::fixed(10_000), ..base };
        match self {
            Self::Get1 => (Workload { pipeline: 1, ..base }, 16),
            Self::Get50 => (base, 4),
            Self::Multiget100 => (Workload { batch: 100, pipeline: 1, ..base }, 4),
            Self::Mg50 => (Workload { protocol: Protocol::Meta, ..base }, 4),
            Self::Set50 => (Workload { mix: Mix::Set, ..base }, 4),
            Self::Mixed => {
                (Workload { mix: Mix::B, distribution: Distribution::Scrambled, ..base }, 4)
            }
            Self::Get10k1 => (Workload { pipeline: 1, ..large }, 16),
            Self::Get10k10 => (Workload { pipeline: 10, ..large }, 4),
        }
    }

    /// The preset's name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Draws the item numbers for one connection.
#[derive(Clone, Debug)]
pub(crate) struct Picker {
    distribution: Distribution,
    zipf: Zipf,
    keys: u64,
}

impl Picker {
    pub(crate) fn new(workload: &Workload) -> Self {
        Self {
            distribution: workload.distribution,
            zipf: Zipf::new(workload.keys, workload.theta),
            keys: workload.keys,
        }
    }

    /// Draws an item, by its number or by its distance from the newest one.
    pub(crate) fn pick(&self, rng: &mut Rng) -> Pick {
        match self.distribution {
            Distribution::Uniform => Pick::Item(rng.below(self.keys)),
            Distribution::Zipf => Pick::Item(self.zipf.rank(rng)),
            Distribution::Scrambled => Pick::Item(scatter(self.zipf.rank(rng), self.keys)),
            Distribution::Latest => Pick::FromNewest(self.zipf.rank(rng)),
        }
    }
}

/// A drawn item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// The item with this number.
    Item(u64),
    /// The item with this many newer ones.
    FromNewest(u64),
}

/// A bijection of 0..n that separates neighbours: multiplication by a prime above any n.
fn scatter(rank: u64, n: u64) -> u64 {
    const PRIME: u128 = 11_400_714_785_074_694_791;
    let product = u128::from(rank) * PRIME % u128::from(n);
    u64::try_from(product).expect("a remainder of a u64")
}

/// The largest value in bytes: memcached's largest `-I`.
const VALUE_BYTES_MAX: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_is_a_bijection() {
        for n in [1, 2, 10, 1000, 65_536] {
            let mut all: Vec<u64> = (0..n).map(|rank| scatter(rank, n)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n));
        }
    }

    #[test]
    fn mixes_have_their_shares() {
        let mut rng = Rng::new(5);
        for (mix, reads) in
            [(Mix::A, 50), (Mix::B, 95), (Mix::C, 100), (Mix::D, 95), (Mix::F, 50), (Mix::Set, 0)]
        {
            let seen = (0..100_000).filter(|_| mix.draw(&mut rng) == Operation::Read).count();
            assert!(seen.abs_diff(reads * 1000) < 800, "{mix:?}: {seen} reads");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!("100-1k".parse(), Ok(Sizes { least: 100, most: 1024 }));
        assert_eq!("64k-1MiB".parse(), Ok(Sizes { least: 64 << 10, most: 1 << 20 }));
        assert!("2-1".parse::<Sizes>().is_err());
        assert!("2g".parse::<Sizes>().is_err());
    }

    #[test]
    fn a_range_of_sizes_is_reached_at_both_ends() {
        let sizes = Sizes { least: 3, most: 5 };
        let mut rng = Rng::new(1);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[sizes.pick(rng.number()) - 3] = true;
        }
        assert_eq!(seen, [true; 3]);
    }
}
