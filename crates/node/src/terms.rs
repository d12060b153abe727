//! The flags of a meta command with their tokens, parsed once.
//!
//! `guira-proto` has checked them. A token that is missing or invalid all the same counts as not sent.

use guira_chain::slot::WriteTag;
use guira_client::Request;
use guira_front::sessions::NOREPLY;
use guira_proto::MetaFlags;

/// See the module's head. A text command has no flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) is_meta: bool,
    pub(crate) compare: Option<u64>,
    pub(crate) unique: Option<u64>,
    pub(crate) initial: u64,
    pub(crate) ttl: Option<i64>,
    pub(crate) vivify: Option<i64>,
    pub(crate) recache: Option<i64>,
    /// Whether `T` stands before `R`, so that `R` is about the time that `T` sets.
    pub(crate) touches_first: bool,
    /// `I`.
    pub(crate) is_stale: bool,
    /// `x`.
    pub(crate) is_emptied: bool,
    pub(crate) has_binary_key: bool,
    /// Whether this is a text command that wants no reply.
    pub(crate) is_noreply: bool,
    /// `L`, of a router in front of a replicated store.
    pub(crate) tag: Option<WriteTag>,
}

impl Terms {
    pub(crate) fn of(request: &Request) -> Self {
        let Some(flags) = &request.meta else { return Self::default() };
        if flags[..] == *NOREPLY {
            return Self { is_noreply: true, ..Self::default() };
        }
        let mut terms = Self { is_meta: true, ..Self::default() };
        for flag in MetaFlags::new(flags) {
            let token = std::str::from_utf8(flag.token()).unwrap_or_default();
            match flag.letter() {
                b'C' => terms.compare = token.parse().ok(),
                b'E' => terms.unique = token.parse().ok(),
                b'J' => terms.initial = token.parse().unwrap_or_default(),
                b'T' => {
                    terms.ttl = token.parse().ok();
                    terms.touches_first = terms.recache.is_none();
                }
                b'N' => terms.vivify = token.parse().ok(),
                b'R' => terms.recache = token.parse().ok(),
                b'I' => terms.is_stale = true,
                b'x' => terms.is_emptied = true,
                b'b' => terms.has_binary_key = true,
                WriteTag::LETTER => terms.tag = WriteTag::parse(flag.token()),
                _ => {}
            }
        }
        terms
    }

    /// Whether a get may have to write.
    pub(crate) fn may_write(&self) -> bool {
        self.ttl.is_some() || self.vivify.is_some() || self.recache.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_client::Op;

    #[test]
    fn flags_are_read_with_their_tokens() {
        let mut request = Request::new(Op::Set, "k");
        assert_eq!(Terms::of(&request), Terms::default());
        request.meta = Some(b"T-1 C18446744073709551615 E7 N30 b q I v"[..].into());
        let terms = Terms::of(&request);
        let wanted = Terms {
            is_meta: true,
            compare: Some(u64::MAX),
            unique: Some(7),
            ttl: Some(-1),
            touches_first: true,
            vivify: Some(30),
            is_stale: true,
            has_binary_key: true,
            ..Terms::default()
        };
        assert_eq!(terms, wanted);
        assert!(terms.may_write());
        request.meta = Some(b"R30 T10"[..].into());
        assert!(!Terms::of(&request).touches_first);
        request.meta = Some(NOREPLY.into());
        let terms = Terms::of(&request);
        assert!(terms.is_noreply && !terms.is_meta);
    }
}
