//! The dialect that a program speaks: mcrouter's or memcached's.
//!
//! The commands are the same. The dialects differ in the answer to an invalid line, in the handling of a value that is too
//! long, and in the answer to a meta command. The dialect is chosen by a type, so that neither pays for the other.

/// The dialect that a program speaks.
pub trait Manners: 'static {
    /// True: memcached's dialect; false: mcrouter's.
    const IS_SERVER: bool;
}

/// mcrouter's dialect: requests are passed on to a server, and an invalid line ends the connection.
#[derive(Clone, Copy, Debug)]
pub struct AsRouter;

/// memcached's dialect: requests are answered here.
///
/// - An invalid line is answered in memcached's words, and the body that it announces is discarded.
/// - A meta command always brings its flags. Its answer has the flags of its reply's [`meta`](guira_client::Reply::meta)
///   and no others. A `b` there means that the key goes back in base64. The outcome `Ok` of a get means a hit without a
///   value to show.
/// - A `flush_all` of a client that has gone is dropped: a service must bring to its end what it has begun of it.
/// - A text `delete` that wants no reply brings [`NOREPLY`] as its flags: the service need not look whether the key exists.
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
