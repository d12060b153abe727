//! What `guira invalidate check` asks of a destination's routers.

use std::io;

use guira_client::Address;

use super::link::{Parcel, RouterLink};
use crate::key::Key;
use crate::rule::How;

/// What a destination asks of its routers besides deletes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks {
    /// Flushes.
    pub(crate) is_flushed: bool,
    /// Flushes of one server at a time.
    pub(crate) is_spread: bool,
}

/// Checks that a router answers, knows the meta commands, deletes a key with the destination's prefix, and, if it
/// `is_flushed`, accepts flushes: for `guira invalidate check`.
///
/// # Errors
/// The router fails one of these checks.
pub(crate) fn check(router: &Address, prefix: &str, asks: Asks) -> io::Result<()> {
    let Asks { is_flushed, is_spread } = asks;
    let mut link = RouterLink::connect(router)?;
    let key = Key::new(CHECKED).map_err(|why| io::Error::other(why.to_string()))?;
    let parcels = [Parcel { key, how: How::Delete }];
    link.send(&parcels, prefix)?;
    if let Some(answer) = link.answer(&parcels)? {
        let key = CHECKED.escape_ascii();
        let route = match prefix {
            "" => String::new(),
            _ => format!(
                ". The router needs a route for this prefix: --route-prefix={prefix}, or \"aliases\": [\"{prefix}\"] at one of its \"routes\""
            ),
        };
        let words = format!("a delete of {prefix}{key} is answered '{answer}'{route}");
        return Err(io::Error::other(words));
    }
    if is_flushed && link.option("enable_flush_cmd")?.is_some_and(|it| it == "0") {
        let words = "it refuses flush_all, which on_gap, on_truncate or on_unknown needs: start it with --enable-flush-cmd";
        return Err(io::Error::other(words));
    }
    if is_flushed && is_spread && link.servers()?.is_none() {
        let words =
            "it doesn't tell its servers, which flush_over needs: it would flush all at once";
        return Err(io::Error::other(words));
    }
    Ok(())
}

/// A key that nothing is stored under.
const CHECKED: &[u8] = b"guira-invalidate-check";
