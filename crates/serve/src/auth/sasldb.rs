//! The database of `saslpasswd2`, read only: a Berkeley DB hash file of users, realms and passwords.
//!
//! ```text
//! page 0        … magic:4 at 12 … page size:4 at 20
//! page          … entries:2 at 20 … type:1 at 25, offsets:2 each from 26 | free | items, last entry first
//! item          type:1 (1: here) bytes, up to the item before it in `offsets`; keys and values in turn
//! key           user NUL realm NUL "userPassword"           value: the password
//! ```
//! The pages are read one by one instead of by hash: all users are wanted. Overflow pages, which only
//! entries beyond a quarter of a page need, are left out.

/// A user's entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) user: Vec<u8>,
    pub(super) realm: Vec<u8>,
    pub(super) password: Vec<u8>,
}

/// The users in a file; `None`: it is no such file.
pub(super) fn records(file: &[u8]) -> Option<Vec<Record>> {
    let is_little = match file.get(12..16)? {
        [0x61, 0x15, 0x06, 0x00] => true,
        [0x00, 0x06, 0x15, 0x61] => false,
        _ => return None,
    };
    let bytes = Numbers { is_little };
    let page_bytes = bytes.at::<4>(file, 20)?;
    if !(512..=65_536).contains(&page_bytes) {
        return None;
    }
    let mut records = Vec::new();
    for page in file.chunks_exact(page_bytes).skip(1).filter(|page| HASH_PAGES.contains(&page[25]))
    {
        let items = bytes.items(page);
        for pair in items.chunks_exact(2) {
            if let [Some(key), Some(password)] = *pair {
                records.extend(record(key, password));
            }
        }
    }
    Some(records)
}

fn record(key: &[u8], password: &[u8]) -> Option<Record> {
    let mut parts = key.split(|&b| b == 0);
    let (user, realm, property) = (parts.next()?, parts.next()?, parts.next()?);
    (property == b"userPassword").then(|| Record {
        user: user.to_vec(),
        realm: realm.to_vec(),
        password: password.to_vec(),
    })
}

/// Numbers in the order of the machine that wrote them.
struct Numbers {
    is_little: bool,
}

impl Numbers {
    /// The number of `N` bytes at `at`.
    fn at<const N: usize>(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let digits = bytes.get(at..at + N)?;
        let fold = |n: usize, &digit: &u8| n << 8 | usize::from(digit);
        Some(if self.is_little {
            digits.iter().rev().fold(0, fold)
        } else {
            digits.iter().fold(0, fold)
        })
    }

    /// The items of a page; `None` for one that lies elsewhere, or whose place can't be.
    fn items<'p>(&self, page: &'p [u8]) -> Vec<Option<&'p [u8]>> {
        let count = self.at::<2>(page, 20).unwrap_or(0).min((page.len() - 26) / 2);
        let mut end = page.len();
        let offsets = (0..count).map(|n| self.at::<2>(page, 26 + 2 * n).unwrap_or(0));
        let item = |start: usize| {
            let item = page.get(start..std::mem::replace(&mut end, start))?;
            item.split_first().filter(|(kind, _)| **kind == ITEM_HERE).map(|(_, bytes)| bytes)
        };
        offsets.map(item).collect()
    }
}

/// The types of pages that hold entries: as they came, and sorted.
const HASH_PAGES: [u8; 2] = [2, 13];
/// The type of an item that lies in its page.
const ITEM_HERE: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one page of entries, as Berkeley DB lays it out.
    fn file(items: &[&[u8]], is_little: bool) -> Vec<u8> {
        let put = |page: &mut [u8], at: usize, bytes: usize, n: usize| {
            let digits = (n as u64).to_be_bytes();
            page[at..at + bytes].copy_from_slice(&digits[8 - bytes..]);
            if is_little {
                page[at..at + bytes].reverse();
            }
        };
        let mut head = vec![0; 512];
        put(&mut head, 12, 4, 0x0006_1561);
        put(&mut head, 20, 4, 512);
        let mut page = vec![0; 512];
        put(&mut page, 20, 2, items.len());
        page[25] = 13;
        let mut end = page.len();
        for (n, item) in items.iter().enumerate() {
            end -= item.len() + 1;
            page[end] = ITEM_HERE;
            page[end + 1..end + 1 + item.len()].copy_from_slice(item);
            put(&mut page, 26 + 2 * n, 2, end);
        }
        [head, page].concat()
    }

    #[test]
    fn users_of_either_byte_order_are_found_and_other_properties_are_not() {
        let items: [&[u8]; 4] =
            [b"ann\0here\0userPassword", b"secret", b"ann\0here\0cmusaslsecretOTP", b"x"];
        for is_little in [true, false] {
            let [user, realm, password] = [&b"ann"[..], b"here", b"secret"].map(<[u8]>::to_vec);
            assert_eq!(
                records(&file(&items, is_little)),
                Some(vec![Record { user, realm, password }])
            );
        }
    }

    #[test]
    fn a_file_cut_or_changed_anywhere_is_no_panic() {
        let whole = file(&[b"ann\0here\0userPassword", b"secret"], true);
        assert_eq!(records(b"user:password\n"), None);
        for cut in 0..whole.len() {
            records(&whole[..cut]);
            let mut changed = whole.clone();
            changed[cut] ^= 0xff;
            records(&changed);
        }
    }
}
