//! The keys of a get of several keys, kept as the text of its line: a key becomes a slice of the line when it is needed.
//!
//! # Costs
//! Each use walks over the words. A list of them would take 2 MB for a get of 65,536 keys, for each client that sends one.

use bytes::{Buf, Bytes};
use guira_proto::Words;

/// The keys of a get; see the module's head. The iterator yields each key once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    text: Bytes,
    count: usize,
}

impl Keys {
    /// The keys are the words of `text`.
    pub(crate) fn new(text: Bytes) -> Self {
        let count = Words::new(&text).count();
        Self { text, count }
    }

    /// The keys that are left.
    pub(crate) fn words(&self) -> Words<'_> {
        Words::new(&self.text)
    }

    /// Skips the next `n` keys.
    pub(crate) fn pass(&mut self, n: usize) {
        let mut words = self.words();
        let passed = words.by_ref().take(n).count();
        let at = self.text.len() - words.rest().len();
        self.text.advance(at);
        self.count -= passed;
    }
}

impl Iterator for Keys {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut words = self.words();
        let key = self.text.slice_ref(words.next()?);
        let at = self.text.len() - words.rest().len();
        self.text.advance(at);
        self.count -= 1;
        Some(key)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Keys {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_and_passed_over_in_their_order() {
        let mut keys = Keys::new(Bytes::from_static(b" a  bc d e f "));
        assert_eq!((keys.len(), keys.next()), (5, Some(Bytes::from_static(b"a"))));
        let mut others = keys.clone();
        others.pass(2);
        assert_eq!((others.len(), others.words().next()), (2, Some(&b"e"[..])));
        others.pass(9);
        assert_eq!((others.len(), others.next()), (0, None));
        assert_eq!(keys.collect::<Vec<_>>().concat(), b"bcdef");
    }
}
