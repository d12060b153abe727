//! Bytes on their way out: short ones in one stretch, long values as they are.
//!
//! # Invariants
//! 1. `large` is sorted by position; each value goes out when `bytes` up to its position have.
//! 2. `left` is what a caller can count on: all that was appended and not yet advanced over.
//!
//! # Costs
//! A short request is copied once. A value of [`LARGE_BYTES_MIN`] or more is not copied.

use std::io::IoSlice;

use bytes::Bytes;

/// Values from here on are sent from where they are. Bytes.
pub(crate) const LARGE_BYTES_MIN: usize = 16 << 10;

#[derive(Debug, Default)]
pub(crate) struct Output {
    /// All but the long values.
    pub(crate) bytes: Vec<u8>,
    /// Of `bytes`, what went out.
    start: usize,
    /// The position in `bytes` before which a value belongs, and what is left of it.
    large: Vec<(usize, Bytes)>,
    /// Of `large`, those that went out.
    large_done: usize,
    large_bytes: usize,
}

impl Output {
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.start + self.large_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    pub(crate) fn append_value(&mut self, value: &Bytes) {
        if value.len() < LARGE_BYTES_MIN {
            self.bytes.extend_from_slice(value);
        } else {
            self.large.push((self.bytes.len(), value.clone()));
            self.large_bytes += value.len();
        }
    }

    /// The whole rest if it is one stretch.
    pub(crate) fn single(&self) -> Option<&[u8]> {
        (self.large_bytes == 0).then(|| &self.bytes[self.start..])
    }

    /// The first stretches, as many as `slices` has room for; returns how many.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let (mut at, mut used) = (self.start, 0);
        let mut values = self.large[self.large_done..].iter();
        while used + 1 < slices.len() {
            let Some((position, value)) = values.next() else {
                break;
            };
            slices[used] = IoSlice::new(&self.bytes[at..*position]);
            slices[used + 1] = IoSlice::new(value);
            (at, used) = (*position, used + 2);
        }
        if used < slices.len() && values.next().is_none() {
            slices[used] = IoSlice::new(&self.bytes[at..]);
            used += 1;
        }
        used
    }

    /// A copy of all that is left.
    pub(crate) fn copy(&self) -> Bytes {
        let mut slices = vec![IoSlice::new(b""); 2 * self.large.len() + 1];
        let used = self.slices(&mut slices);
        slices[..used].iter().flat_map(|slice| &slice[..]).copied().collect()
    }

    /// Drops the first `n` bytes: they were sent.
    pub(crate) fn advance(&mut self, mut n: usize) {
        while let Some((position, value)) = self.large.get_mut(self.large_done) {
            let before = (*position - self.start).min(n);
            self.start += before;
            n -= before;
            if self.start < *position {
                return;
            }
            let sent = value.len().min(n);
            let _ = value.split_to(sent);
            self.large_bytes -= sent;
            n -= sent;
            if !value.is_empty() {
                return;
            }
            self.large_done += 1;
        }
        self.start += n;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Forgets all, and keeps no more memory than a turn usually needs.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.large.clear();
        (self.start, self.large_done, self.large_bytes) = (0, 0, 0);
    }
}

const KEPT_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::{LARGE_BYTES_MIN, Output};
    use bytes::Bytes;
    use std::io::IoSlice;

    #[test]
    fn long_values_go_out_in_their_place_however_the_socket_cuts() {
        let long = Bytes::from(vec![b'x'; LARGE_BYTES_MIN]);
        let mut expected = Vec::new();
        for part in [&b"one"[..], &long, b"two", &long, &long, b"", b"three"] {
            expected.extend_from_slice(part);
        }
        for step in [1, 2, 3, 7, 4096, LARGE_BYTES_MIN, 3 * LARGE_BYTES_MIN + 2, 1 << 20] {
            let mut output = Output::default();
            output.append_value(&Bytes::from_static(b"one"));
            output.append_value(&long);
            output.append_value(&Bytes::from_static(b"two"));
            output.append_value(&long);
            output.append_value(&long);
            output.append_value(&Bytes::from_static(b"three"));
            assert_eq!(output.left(), expected.len());
            assert_eq!(output.copy(), expected);
            let mut sent = Vec::new();
            while !output.is_empty() {
                let mut slices = [IoSlice::new(b""); 4];
                let used = output.slices(&mut slices);
                let before = sent.len();
                for slice in &slices[..used] {
                    let room = step - (sent.len() - before);
                    sent.extend_from_slice(&slice[..slice.len().min(room)]);
                }
                output.advance(sent.len() - before);
            }
            assert_eq!(sent, expected, "{step} bytes a write");
        }
    }
}
