//! Reads and writes numbers and byte strings.

use super::fault::BadFrame;

/// The unread rest of a frame's body. Each method takes bytes from its front; `what` names the part in errors.
pub(super) struct Body<'a>(pub(super) &'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], BadFrame> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(BadFrame::Cut(what))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], BadFrame> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(BadFrame::Cut(what))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, BadFrame> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, BadFrame> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, BadFrame> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, BadFrame> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Takes a length or a count.
    fn length(&mut self, what: &'static str) -> Result<usize, BadFrame> {
        usize::try_from(self.u32(what)?).map_err(|_| BadFrame::Cut(what))
    }

    /// Takes the number of parts that follow, each of at least `least` bytes. Fails if the body has no room for so
    /// many.
    pub(super) fn count(&mut self, least: usize, what: &'static str) -> Result<usize, BadFrame> {
        let count = self.length(what)?;
        if count > self.0.len() / least { Err(BadFrame::Cut(what)) } else { Ok(count) }
    }

    pub(super) fn key(&mut self) -> Result<Vec<u8>, BadFrame> {
        let length = usize::from(self.u16("key")?);
        // The store has no such key, and a node whose store fails leaves its chains.
        if length == 0 {
            return Err(BadFrame::Empty("key"));
        }
        Ok(self.take(length, "key")?.to_vec())
    }

    pub(super) fn value(&mut self) -> Result<Vec<u8>, BadFrame> {
        let length = self.length("value")?;
        Ok(self.take(length, "value")?.to_vec())
    }

    pub(super) fn name(&mut self, what: &'static str) -> Result<String, BadFrame> {
        let length = usize::from(self.u8(what)?);
        let bytes = self.take(length, what)?;
        str::from_utf8(bytes).map(str::to_owned).map_err(|_| BadFrame::NoText(what))
    }

    pub(super) fn end(self) -> Result<(), BadFrame> {
        if self.0.is_empty() { Ok(()) } else { Err(BadFrame::Rest(self.0.len())) }
    }
}

pub(super) fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn put_count(
    out: &mut Vec<u8>,
    count: usize,
    what: &'static str,
) -> Result<(), BadFrame> {
    let most = usize::try_from(u32::MAX).unwrap_or(usize::MAX);
    let number = u32::try_from(count).map_err(|_| BadFrame::TooLong(what, count, most))?;
    put_u32(out, number);
    Ok(())
}

pub(super) fn put_key(out: &mut Vec<u8>, key: &[u8]) -> Result<(), BadFrame> {
    let most = usize::from(u16::MAX);
    let length = u16::try_from(key.len()).map_err(|_| BadFrame::TooLong("key", key.len(), most))?;
    put_u16(out, length);
    out.extend_from_slice(key);
    Ok(())
}

pub(super) fn put_value(out: &mut Vec<u8>, value: &[u8]) -> Result<(), BadFrame> {
    put_count(out, value.len(), "value")?;
    out.extend_from_slice(value);
    Ok(())
}

pub(super) fn put_name(out: &mut Vec<u8>, name: &str, what: &'static str) -> Result<(), BadFrame> {
    let most = usize::from(u8::MAX);
    let length = u8::try_from(name.len()).map_err(|_| BadFrame::TooLong(what, name.len(), most))?;
    out.push(length);
    out.extend_from_slice(name.as_bytes());
    Ok(())
}
