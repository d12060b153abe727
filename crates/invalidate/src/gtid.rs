//! MySQL's GTIDs, and sets of them: they show how far the log was read, and what it contains.
//!
//! ```text
//! 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7:audit:1-3   1 to 5 and 7 of a server, and 1 to 3 with the tag `audit`
//! ```
//! # Invariants
//! 1. The intervals of a source are sorted and never empty. At least one number is missing between two of them.
//!
//! # Costs
//! Adding the next number of a source, and looking a number up: a binary search. Memory: 16 bytes per interval.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The issuer of numbers: a server's UUID and, since MySQL 8.3, a tag, which is mostly empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GtidSource {
    pub(crate) uuid: [u8; 16],
    pub(crate) tag: String,
}

/// A set of transactions: for each source, intervals of numbers with inclusive ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GtidSet(BTreeMap<GtidSource, Vec<(u64, u64)>>);

impl GtidSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, source: &GtidSource, number: u64) {
        match self.0.get_mut(source) {
            Some(intervals) => join(intervals, (number, number)),
            None => drop(self.0.insert(source.clone(), vec![(number, number)])),
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (source, intervals) in &other.0 {
            let ours = self.0.entry(source.clone()).or_default();
            intervals.iter().for_each(|interval| join(ours, *interval));
        }
    }

    pub(crate) fn contains(&self, source: &GtidSource, number: u64) -> bool {
        self.0.get(source).is_some_and(|intervals| has(intervals, (number, number)))
    }

    /// Returns the intervals of `other` that this set doesn't contain completely.
    pub(crate) fn lacks(&self, other: &Self) -> Self {
        let mut lacking = Self::default();
        for (source, intervals) in &other.0 {
            let ours = self.0.get(source).map_or(&[][..], |ours| &ours[..]);
            let missing: Vec<_> = intervals.iter().filter(|it| !has(ours, **it)).copied().collect();
            if !missing.is_empty() {
                lacking.0.insert(source.clone(), missing);
            }
        }
        lacking
    }

    /// Returns the transactions of this set that `other` doesn't contain.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (source, intervals) in &self.0 {
            let theirs = other.0.get(source).map_or(&[][..], |theirs| &theirs[..]);
            let mut left = Vec::new();
            for (first, last) in intervals {
                let mut from = *first;
                let at = theirs.partition_point(|(_, end)| *end < from);
                for (begin, end) in theirs[at..].iter().take_while(|(begin, _)| begin <= last) {
                    left.extend((from < *begin).then(|| (from, begin - 1)));
                    from = end.saturating_add(1);
                }
                left.extend((from <= *last).then_some((from, *last)));
            }
            if !left.is_empty() {
                rest.0.insert(source.clone(), left);
            }
        }
        rest
    }

    /// Returns the transactions that both sets contain.
    pub(crate) fn common(&self, other: &Self) -> Self {
        self.without(&self.without(other))
    }

    /// Returns each source with its lowest number.
    pub(crate) fn lowest(&self) -> impl Iterator<Item = (&GtidSource, u64)> {
        self.0.iter().filter_map(|(source, intervals)| Some((source, intervals.first()?.0)))
    }

    /// Encodes the set for `COM_BINLOG_DUMP_GTID`. A set without tags has the form that all servers read.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let has_tags = self.0.keys().any(|source| !source.tag.is_empty());
        let count = self.0.len() as u64;
        let count = if has_tags { TAGGED << 56 | count << 8 | TAGGED } else { count };
        let mut bytes = count.to_le_bytes().to_vec();
        for (GtidSource { uuid, tag }, intervals) in &self.0 {
            bytes.extend_from_slice(uuid);
            if has_tags {
                // A length in MySQL's serialization format: below 128 it is one byte, shifted left by one bit.
                bytes.push(u8::try_from(tag.len() << 1).unwrap_or(0));
                bytes.extend_from_slice(tag.as_bytes());
            }
            bytes.extend_from_slice(&(intervals.len() as u64).to_le_bytes());
            for (first, last) in intervals {
                bytes.extend_from_slice(&first.to_le_bytes());
                bytes.extend_from_slice(&last.saturating_add(1).to_le_bytes());
            }
        }
        bytes
    }
}

/// Whether one of the intervals contains the whole interval.
fn has(intervals: &[(u64, u64)], (first, last): (u64, u64)) -> bool {
    let at = intervals.partition_point(|(_, end)| *end < first);
    intervals.get(at).is_some_and(|(begin, end)| *begin <= first && last <= *end)
}

/// Adds an interval, and merges it with all intervals that it overlaps or touches.
fn join(intervals: &mut Vec<(u64, u64)>, (first, last): (u64, u64)) {
    let from = intervals.partition_point(|(_, end)| end.saturating_add(1) < first);
    let to = intervals.partition_point(|(begin, _)| *begin <= last.saturating_add(1));
    let touched = &intervals[from..to.max(from)];
    let begin = touched.first().map_or(first, |(begin, _)| first.min(*begin));
    let end = touched.last().map_or(last, |(_, end)| last.max(*end));
    intervals.splice(from..to.max(from), [(begin, end)]);
}

impl fmt::Display for GtidSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.uuid.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        match &*self.tag {
            "" => Ok(()),
            tag => write!(f, ":{tag}"),
        }
    }
}

impl FromStr for GtidSource {
    type Err = String;

    /// Parses `uuid` or `uuid:tag`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (uuid, tag) = text.split_once(':').unwrap_or((text, ""));
        if !tag.is_empty() && !is_tag(tag) {
            return Err(format!("'{tag}' is no tag of a GTID"));
        }
        Ok(Self { uuid: parse_uuid(uuid)?, tag: tag.to_owned() })
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (source, intervals) in &self.0 {
            write!(f, "{comma}{source}")?;
            comma = ",";
            for (first, last) in intervals {
                match first == last {
                    true => write!(f, ":{first}")?,
                    false => write!(f, ":{first}-{last}")?,
                }
            }
        }
        Ok(())
    }
}

impl FromStr for GtidSet {
    type Err = String;

    /// Parses a set as MySQL shows it. A `#` and what follows it, a thread in `gtid_owned`, are ignored.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut set = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let mut parts = word.split(':');
            let uuid = parse_uuid(parts.next().unwrap_or_default())?;
            let mut source = GtidSource { uuid, tag: String::new() };
            let mut count = 0;
            for part in parts.map(str::trim) {
                if is_tag(part) {
                    source.tag = part.to_ascii_lowercase();
                    continue;
                }
                let wrong = || format!("'{part}' is neither a number, an interval nor a tag");
                let numbers = part.split_once('#').map_or(part, |(numbers, _)| numbers);
                let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
                let first: u64 = first.trim().parse().map_err(|_| wrong())?;
                let last: u64 = last.trim().parse().map_err(|_| wrong())?;
                if first == 0 || last < first || last > NUMBER_MAX {
                    return Err(wrong());
                }
                join(set.0.entry(source.clone()).or_default(), (first, last));
                count += 1;
            }
            if count == 0 {
                return Err(format!("'{word}' names no transaction: write uuid:1-5"));
            }
        }
        Ok(set)
    }
}

/// Whether the text can be the tag of a source: letters, digits and `_`, and no digit first.
pub(crate) fn is_tag(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.len() <= TAG_MAX
}

fn parse_uuid(text: &str) -> Result<[u8; 16], String> {
    let wrong = || format!("'{text}' is no uuid");
    let digits: String = text.trim().chars().filter(|character| *character != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let number = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
    Ok(number.to_be_bytes())
}

/// Marks the format of a set with tags.
const TAGGED: u64 = 1;
const TAG_MAX: usize = 32;
const NUMBER_MAX: u64 = i64::MAX as u64 - 1;

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(text: &str) -> GtidSet {
        text.parse().unwrap()
    }

    #[test]
    fn a_set_is_shown_as_it_was_read() {
        for (text, shown) in [
            (String::new(), String::new()),
            (format!("{A}:1-5:7"), format!("{A}:1-5:7")),
            (format!("{A}:7:1-5:6,\n{B}:3"), format!("{A}:1-7,{B}:3")),
            (format!("{}:2:Audit:1-3:9", A.to_uppercase()), format!("{A}:2,{A}:audit:1-3:9")),
            (format!("{A}:4#10:5#11"), format!("{A}:4-5")),
        ] {
            assert_eq!(set(&text).to_string(), shown);
            assert_eq!(set(&shown), set(&text));
        }
        for wrong in ["x:1", A, "1:1", &format!("{A}:0"), &format!("{A}:5-4"), &format!("{A}:a-b")]
        {
            assert!(wrong.parse::<GtidSet>().is_err(), "{wrong}");
        }
        assert!(format!("{A}:{}", u64::MAX).parse::<GtidSet>().is_err());
        let source: GtidSource = format!("{A}:audit").parse().unwrap();
        assert_eq!((&*source.tag, source.to_string()), ("audit", format!("{A}:audit")));
        assert!(format!("{A}:1").parse::<GtidSource>().is_err());
    }

    #[test]
    fn a_set_knows_what_it_has_and_what_another_lacks() {
        let ours = set(&format!("{A}:1-5:9,{B}:audit:2"));
        let a: GtidSource = A.parse().unwrap();
        let tagged: GtidSource = format!("{B}:audit").parse().unwrap();
        let has: Vec<u64> = (0..11).filter(|number| ours.contains(&a, *number)).collect();
        assert_eq!(has, [1, 2, 3, 4, 5, 9]);
        assert!(ours.contains(&tagged, 2) && !ours.contains(&B.parse().unwrap(), 2));
        let lacks = |other: &str| ours.lacks(&set(other)).to_string();
        assert_eq!(lacks(&format!("{A}:2-4,{B}:audit:2")), "");
        assert_eq!(lacks(&format!("{A}:2-4:5-6:9")), format!("{A}:2-6"));
        assert_eq!(lacks(&format!("{B}:2")), format!("{B}:2"));
    }

    #[test]
    fn a_set_goes_over_the_wire_as_mysql_lays_it_out() {
        let uuid = [0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1, 0x9e, 0x33, 0xc8, 0x0a];
        let uuid = [&uuid[..], &[0xa9, 0x42, 0x95, 0x62]].concat();
        let number = |number: u64| number.to_le_bytes();
        let plain =
            [&number(1)[..], &uuid, &number(2), &number(1), &number(6), &number(7), &number(8)];
        assert_eq!(set(&format!("{A}:1-5:7")).encode(), plain.concat());
        let head = number(1 << 56 | 1 << 8 | 1);
        let tagged = [&head[..], &uuid, b"\x0aaudit", &number(1), &number(2), &number(3)];
        assert_eq!(set(&format!("{A}:audit:2")).encode(), tagged.concat());
        assert_eq!(GtidSet::default().encode(), number(0));
    }

    proptest::proptest! {
        #[test]
        fn numbers_in_any_order_make_the_same_set(mut numbers in proptest::collection::vec(1..60_u64, 0..60)) {
            let source: GtidSource = A.parse().unwrap();
            let made = |numbers: &[u64]| {
                let mut set = GtidSet::default();
                numbers.iter().for_each(|number| set.add(&source, *number));
                set
            };
            let (one, two) = numbers.split_at(numbers.len() / 2);
            let mut whole = made(one);
            whole.add_all(&made(two));
            for number in 0..61 {
                proptest::prop_assert_eq!(whole.contains(&source, number), numbers.contains(&number));
            }
            for pair in whole.0.values().flat_map(|intervals| intervals.windows(2)) {
                proptest::prop_assert!(pair[0].1 + 1 < pair[1].0);
            }
            numbers.sort_unstable();
            proptest::prop_assert_eq!(made(&numbers), whole);
        }

        #[test]
        fn what_one_has_without_another_and_in_common_with_it_is_told_number_by_number(
            ours in proptest::collection::vec(1..40_u64, 0..30),
            theirs in proptest::collection::vec(1..40_u64, 0..30),
        ) {
            let source: GtidSource = A.parse().unwrap();
            let made = |numbers: &[u64]| {
                let mut set = GtidSet::default();
                numbers.iter().for_each(|number| set.add(&source, *number));
                set
            };
            let apart = |is_theirs: bool| -> Vec<u64> {
                ours.iter().copied().filter(|number| theirs.contains(number) == is_theirs).collect()
            };
            let (rest, common) = (apart(false), apart(true));
            let without = made(&ours).without(&made(&theirs));
            proptest::prop_assert_eq!(without.lowest().map(|(_, it)| it).next(), rest.iter().copied().min());
            proptest::prop_assert_eq!(made(&theirs).lacks(&made(&ours)).is_empty(), rest.is_empty());
            proptest::prop_assert_eq!(without, made(&rest));
            proptest::prop_assert_eq!(made(&ours).common(&made(&theirs)), made(&common));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-f:#, -]{0,80}") {
            let _ = (text.parse::<GtidSet>(), text.parse::<GtidSource>());
        }
    }
}
