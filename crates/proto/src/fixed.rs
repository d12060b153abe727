//! The lines that never vary: replies and errors, each with its `\r\n`.
//!
//! The wording is memcached 1.6.45's, because clients compare it.

macro_rules! lines {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &[u8] = concat!($text, "\r\n").as_bytes();)*
        /// Each line of this module by name, for tables and tests.
        pub const ALL: &[(&str, &[u8])] = &[$((stringify!($name), $name)),*];
    };
}

lines! {
    /// End of a get, of stats, of a dump.
    END = "END";
    /// A value was stored.
    STORED = "STORED";
    /// The condition of add, replace, append or prepend did not hold.
    NOT_STORED = "NOT_STORED";
    /// The token of a lease-set was void; its value is kept as a stale value.
    STALE_STORED = "STALE_STORED";
    /// Another client has stored the item since its cas was read.
    EXISTS = "EXISTS";
    /// The item doesn't exist.
    NOT_FOUND = "NOT_FOUND";
    /// An item was removed.
    DELETED = "DELETED";
    /// An item got a new exptime.
    TOUCHED = "TOUCHED";
    /// The command was executed.
    OK = "OK";
    /// `stats reset` is done.
    RESET = "RESET";
    /// `mn`.
    META_NOOP = "MN";
    /// A meta miss, without flags.
    META_MISS = "EN";

    /// The command or sub-command is unknown.
    ERROR = "ERROR";
    /// Too few words, a bad number, a key that is too long, or a line under four bytes.
    BAD_FORMAT = "CLIENT_ERROR bad command line format";
    /// A body that doesn't end in `\r\n`.
    BAD_DATA_CHUNK = "CLIENT_ERROR bad data chunk";
    /// A bad exptime of `gat`, `touch` or `flush_all`.
    INVALID_EXPTIME = "CLIENT_ERROR invalid exptime argument";
    /// A bad delta of `incr` or `decr`.
    INVALID_DELTA = "CLIENT_ERROR invalid numeric delta argument";
    /// `delete` with more than four words after it.
    DELETE_USAGE = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
    /// `delete` with a time over [`HOLD_OFF_MAX_S`](crate::HOLD_OFF_MAX_S).
    HOLD_OFF_TOO_LONG = "CLIENT_ERROR a delete holds off adds for 60 seconds at most";
    /// `incr` or `ma` on a value that isn't a number.
    NON_NUMERIC = "CLIENT_ERROR cannot increment or decrement non-numeric value";
    /// `stats cachedump` with too few words.
    BAD_COMMAND_LINE = "CLIENT_ERROR bad command line";
    /// `stats cachedump` of a class that can't exist.
    ILLEGAL_SLAB_ID = "CLIENT_ERROR Illegal slab id";
    /// `stats detail` with another word.
    STATS_DETAIL_USAGE = "CLIENT_ERROR usage: stats detail on|off|dump";
    /// Dumps are switched off.
    STATS_DETAIL_NOT_ALLOWED = "CLIENT_ERROR stats detail not allowed";
    /// Dumps are switched off.
    STATS_CACHEDUMP_NOT_ALLOWED = "CLIENT_ERROR stats cachedump not allowed";
    /// Flushing is switched off.
    FLUSH_NOT_ALLOWED = "CLIENT_ERROR flush_all not allowed";
    /// Watching is switched off.
    WATCH_NOT_ALLOWED = "CLIENT_ERROR watch commands not allowed";
    /// Dumps are switched off.
    METADUMP_NOT_ALLOWED = "ERROR metadump not allowed";
    /// Dumps are switched off.
    MGDUMP_NOT_ALLOWED = "ERROR key dump not allowed";
    /// A reply hasn't been sent yet.
    METADUMP_PIPELINED = "ERROR cannot pipeline other commands before metadump";
    /// A reply hasn't been sent yet.
    MGDUMP_PIPELINED = "ERROR cannot pipeline other commands before mgdump";
    /// A reply hasn't been sent yet.
    WATCH_PIPELINED = "ERROR cannot pipeline other commands before watch";
    /// The crawler is disabled.
    CRAWLER_DISABLED = "CLIENT_ERROR lru crawler disabled";
    /// The crawler is busy.
    CRAWLER_BUSY = "BUSY currently processing crawler request";
    /// `lru_crawler` for a class that can't exist.
    CRAWLER_BAD_CLASS = "BADCLASS invalid class id";
    /// The crawler has nothing to visit.
    CRAWLER_NOT_STARTED = "NOTSTARTED no items to crawl";
    /// The crawler doesn't support that: `lru_crawler crawl hash`.
    CRAWLER_UNKNOWN = "ERROR an unknown error happened";
    /// The crawler's thread runs already.
    CRAWLER_START_FAILED = "ERROR failed to start lru crawler thread";
    /// The crawler's thread has ended already.
    CRAWLER_STOP_FAILED = "ERROR failed to stop lru crawler thread";
    /// `lru_crawler sleep` over 1,000,000 µs.
    CRAWLER_SLEEP_TOO_LONG = "CLIENT_ERROR sleep must be one second or less";
    /// A page is being moved.
    SLABS_BUSY = "BUSY currently processing reassign request";
    /// `slabs reassign` for a class that can't exist.
    SLABS_BAD_CLASS = "BADCLASS invalid src or dst class id";
    /// The class has at most one page.
    SLABS_NO_SPARE = "NOSPARE source class has no spare pages";
    /// `slabs reassign` of a class to itself.
    SLABS_SAME = "SAME src and dst class are identical";
    /// Moving pages is switched off.
    SLABS_DISABLED = "CLIENT_ERROR slab reassignment disabled";
    /// `slabs automove window` outside 3 … 1,800.
    AUTOMOVE_WINDOW_RANGE = "CLIENT_ERROR automove window too low or too high";
    /// Shares of `lru tune` that are too large.
    LRU_PERCENT_TOO_HIGH = "ERROR hot and warm pcts must not exceed 80";
    /// Factors of `lru tune` that aren't positive.
    LRU_FACTOR_TOO_LOW = "ERROR hot/warm age factors must be greater than 0";
    /// `cache_memlimit` under 8.
    MEMLIMIT_TOO_SMALL = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m";
    /// A `cache_memlimit` that the memory can't follow.
    MEMLIMIT_OUT_OF_BOUNDS = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust";
    /// `cache_memlimit` over 1,000,000,000.
    MEMLIMIT_NOT_MEGABYTES = "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes";
    /// Twenty watchers exist already.
    WATCHER_TOO_MANY = "WATCHER_TOO_MANY log watcher limit reached";
    /// The watcher couldn't be added.
    WATCHER_FAILED = "WATCHER_FAILED failed to add log watcher";
    /// `shutdown` is switched off. The colon is memcached's.
    SHUTDOWN_NOT_ENABLED = "SERVER_ERROR: shutdown not enabled";
    /// `shutdown` with another word than `graceful`.
    SHUTDOWN_MODE = "CLIENT_ERROR invalid shutdown mode";

    /// A request before the login that isn't a login.
    UNAUTHENTICATED = "CLIENT_ERROR unauthenticated";
    /// A login over 16,384 bytes.
    AUTH_TOKEN_TOO_LONG = "CLIENT_ERROR auth token too long";
    /// A login that did not end in `\r\n`.
    AUTH_BAD_END = "CLIENT_ERROR bad command line termination";
    /// A login without a space between user and password.
    AUTH_BAD_TOKEN = "CLIENT_ERROR bad authentication token format";
    /// The user doesn't exist, or has another password.
    AUTH_FAILED = "CLIENT_ERROR authentication failure";

    /// A letter that isn't a flag of the meta commands.
    INVALID_FLAG = "CLIENT_ERROR invalid flag";
    /// A meta flag twice.
    DUPLICATE_FLAG = "CLIENT_ERROR duplicate flag";
    /// `ma` with any error in its flags.
    INVALID_OR_DUPLICATE_FLAG = "CLIENT_ERROR invalid or duplicate flag";
    /// A meta flag whose token isn't a number of the right kind.
    BAD_TOKEN = "CLIENT_ERROR bad token in command line format";
    /// A token of `J` that isn't a number, on a command other than `ma`.
    INVALID_INITIAL = "CLIENT_ERROR invalid numeric initial value";
    /// A token of `D` that isn't a number, on a command other than `ma`.
    INVALID_META_DELTA = "CLIENT_ERROR invalid numeric delta value";
    /// More than twenty words in a meta command.
    TOO_MANY_FLAGS = "CLIENT_ERROR options flags are too long";
    /// An opaque of more than 31 characters.
    OPAQUE_TOO_LONG = "CLIENT_ERROR opaque token too long";
    /// Flag `b` with a key that isn't base64.
    BAD_KEY_ENCODING = "CLIENT_ERROR error decoding key";
    /// `ms` with an invalid `M`.
    INVALID_SET_MODE = "CLIENT_ERROR invalid mode for ms M token";
    /// `ma` with an invalid `M`.
    INVALID_ARITHMETIC_MODE = "CLIENT_ERROR invalid mode for ma M token";

    /// An item over the size limit.
    TOO_LARGE = "SERVER_ERROR object too large for cache";
    /// Nothing could be evicted.
    OUT_OF_MEMORY_STORING = "SERVER_ERROR out of memory storing object";
    /// Memory ran out while a body was arriving.
    OUT_OF_MEMORY_READING_BODY = "SERVER_ERROR Out of memory during read";
    /// Memory for replies ran out.
    OUT_OF_MEMORY_WRITING = "SERVER_ERROR out of memory writing get response";
    /// Memory for stats ran out.
    OUT_OF_MEMORY_STATS = "SERVER_ERROR out of memory writing stats";
    /// Memory for a request ran out.
    OUT_OF_MEMORY_READING = "SERVER_ERROR out of memory reading request";
    /// No memory for `incr`, `decr` or `md x`.
    OUT_OF_MEMORY = "SERVER_ERROR out of memory";
    /// No memory for an item that `ma` would create.
    OUT_OF_MEMORY_NEW_ITEM = "SERVER_ERROR Out of memory allocating new item";
    /// A connection over the limit, which is closed after this line.
    TOO_MANY_CONNECTIONS = "ERROR Too many open connections";
}
