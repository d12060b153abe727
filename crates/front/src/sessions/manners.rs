//! How a program speaks: as mcrouter does, or as memcached does.
//!
//! The commands are the same. What differs is the answer to a line that is no request, the way of a value that is too long,
//! and what a meta command is told. It is chosen by a type, so that neither pays for the other.

/// How a program speaks.
pub trait Manners: 'static {
    /// As memcached; else as mcrouter.
    const IS_SERVER: bool;
}

/// As mcrouter: requests become those of a server further on, and a line that can't be read ends the connection.
#[derive(Clone, Copy, Debug)]
pub struct AsRouter;

/// As memcached: requests are answered here.
///
/// - A line that is no request is answered in memcached's words, and the body that it announces is thrown away.
/// - A meta command always brings its flags, and is told what its reply says in
///   [`meta`](guira_client::Reply::meta) and nothing else. There `b` says that the key goes back in base64, and an outcome
///   of `Ok` that a get has a hit and no value to show.
/// - A `flush_all` of a client that has gone is dropped: a service must bring to its end what it has begun of it.
/// - A text `delete` that wants no reply brings [`NOREPLY`] as its flags: nobody has to look what was there.
#[derive(Clone, Copy, Debug)]
pub struct AsServer;

impl Manners for AsRouter {
    const IS_SERVER: bool = false;
}

impl Manners for AsServer {
    const IS_SERVER: bool = true;
}

/// See [`AsServer`].
pub const NOREPLY: &[u8] = b"noreply";
