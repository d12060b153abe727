//! Bytes to be sent: short parts are collected in one buffer, long values are sent from where they are.
//!
//! # Invariants
//! 1. `large` is sorted by position. Each value is sent after the part of `bytes` before its position.
//! 2. `left` counts everything that was appended and not yet advanced over.
//!
//! # Costs
//! A short request is copied once, and again if the peer takes it in small parts. A value of at least
//! [`LARGE_BYTES_MIN`] bytes is not copied.

use std::io::IoSlice;

use bytes::Bytes;

/// The size in bytes from which values are sent from where they are.
pub(crate) const LARGE_BYTES_MIN: usize = 16 << 10;

/// See the module's head.
#[derive(Debug, Default)]
pub struct Output {
    /// Everything except long values. Callers append short parts here.
    pub bytes: Vec<u8>,
    /// How much of `bytes` was sent.
    start: usize,
    /// For each long value its position in `bytes`, and the part of it that is left.
    large: Vec<(usize, Bytes)>,
    /// How many values of `large` were sent.
    large_done: usize,
    large_bytes: usize,
}

impl Output {
    /// The number of bytes that were appended and not yet advanced over.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.start + self.large_bytes
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// Appends a value. A long one is not copied.
    pub fn append_value(&mut self, value: &Bytes) {
        if value.len() < LARGE_BYTES_MIN {
            self.bytes.extend_from_slice(value);
        } else {
            self.large.push((self.bytes.len(), value.clone()));
            self.large_bytes += value.len();
        }
    }

    /// Returns all that is left, if it is one slice.
    #[must_use]
    pub fn single(&self) -> Option<&[u8]> {
        (self.large_bytes == 0).then(|| &self.bytes[self.start..])
    }

    /// Fills `slices` with the first parts, with at most `most` bytes of long values. Returns the number of slices
    /// used.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> usize {
        let (mut at, mut used, mut room) = (self.start, 0, most);
        let mut values = self.large[self.large_done..].iter();
        while used + 1 < slices.len() && room > 0 {
            let Some((position, value)) = values.next() else {
                break;
            };
            slices[used] = IoSlice::new(&self.bytes[at..*position]);
            slices[used + 1] = IoSlice::new(&value[..value.len().min(room)]);
            (at, used, room) = (*position, used + 2, room.saturating_sub(value.len()));
        }
        if room == 0 {
            return used;
        }
        if used < slices.len() && values.next().is_none() {
            slices[used] = IoSlice::new(&self.bytes[at..]);
            used += 1;
        }
        used
    }

    /// Returns a copy of all that is left.
    #[must_use]
    pub fn copy(&self) -> Bytes {
        let mut slices = vec![IoSlice::new(b""); 2 * self.large.len() + 1];
        let used = self.slices(&mut slices, usize::MAX);
        slices[..used].iter().flat_map(|slice| &slice[..]).copied().collect()
    }

    /// Removes the first `n` bytes, because they were sent.
    pub fn advance(&mut self, n: usize) {
        self.pass(n);
        if self.is_empty() {
            self.clear();
        } else if self.start > KEPT_BYTES_MAX.max(self.bytes.len() / 2)
            || self.large_done > LARGE_KEPT_MAX
        {
            self.forget_sent();
        }
    }

    fn pass(&mut self, mut n: usize) {
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
    }

    /// Moves what is left to the front of the buffers.
    #[cold]
    fn forget_sent(&mut self) {
        self.bytes.drain(..self.start);
        self.large.drain(..self.large_done);
        self.large.iter_mut().for_each(|(position, _)| *position -= self.start);
        (self.start, self.large_done) = (0, 0);
    }

    /// Removes everything, and keeps no more memory than a turn usually needs.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.large.clear();
        (self.start, self.large_done, self.large_bytes) = (0, 0, 0);
    }
}

const KEPT_BYTES_MAX: usize = 64 << 10;
/// The number of sent values after which their entries are removed.
const LARGE_KEPT_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES_MAX, LARGE_BYTES_MIN, LARGE_KEPT_MAX, Output};
    use bytes::Bytes;
    use std::io::IoSlice;

    /// Sends `step` bytes, or all that is left.
    fn send(output: &mut Output, step: usize, sent: &mut Vec<u8>) {
        let mut slices = [IoSlice::new(b""); 4];
        let used = output.slices(&mut slices, step);
        let before = sent.len();
        for slice in &slices[..used] {
            let room = step - (sent.len() - before);
            sent.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        output.advance(sent.len() - before);
    }

    #[test]
    fn what_went_out_takes_no_memory_though_something_is_always_left() {
        let long = Bytes::from(vec![b'x'; LARGE_BYTES_MIN]);
        let (mut output, mut expected, mut sent) = (Output::default(), Vec::new(), Vec::new());
        for n in 0..5000u32 {
            let short = n.to_le_bytes().repeat(100);
            output.bytes.extend_from_slice(&short);
            expected.extend_from_slice(&short);
            if n % 100 == 0 {
                output.append_value(&long);
                expected.extend_from_slice(&long);
            }
            while output.left() > 500 {
                send(&mut output, 300, &mut sent);
            }
        }
        sent.extend_from_slice(&output.copy());
        assert!(sent == expected);
        assert!(output.bytes.capacity() <= 4 * KEPT_BYTES_MAX, "{}", output.bytes.capacity());
        assert!(output.large.capacity() <= 2 * LARGE_KEPT_MAX, "{}", output.large.capacity());
    }

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
                send(&mut output, step, &mut sent);
            }
            assert_eq!(sent, expected, "{step} bytes a write");
        }
    }
}
