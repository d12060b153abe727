//! RocksDB through its C interface: direct reads and a filter of 10 bits per key, and the same without a filter on the
//! last level.
//!
//! # Safety
//! The declarations below are those of `rocksdb/c.h` of 7.8. Objects that configure a store live as long as the process. The
//! store is only used through shared references, which RocksDB allows from any thread, and is closed once, by `drop`.

use super::{BUFFER_BYTES, CACHE_BYTES, Change, Figures, LONG_LOG_BYTES, Purpose, Rival};
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{null_mut, slice_from_raw_parts};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

type Handle = *mut c_void;

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_set_create_if_missing(options: Handle, on: c_uchar);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn rocksdb_options_set_max_background_jobs(options: Handle, count: c_int);
    fn rocksdb_options_set_use_direct_reads(options: Handle, on: c_uchar);
    fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(options: Handle, on: c_uchar);
    fn rocksdb_options_set_optimize_filters_for_hits(options: Handle, on: c_int);
    fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_set_block_cache(table: Handle, cache: Handle);
    fn rocksdb_block_based_options_set_filter_policy(table: Handle, policy: Handle);
    fn rocksdb_block_based_options_set_format_version(table: Handle, version: c_int);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> Handle;
    fn rocksdb_cache_create_lru(capacity: usize) -> Handle;
    fn rocksdb_open(options: Handle, name: *const c_char, error: *mut *mut c_char) -> Handle;
    fn rocksdb_close(db: Handle);
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_writeoptions_set_sync(options: Handle, on: c_uchar);
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_flush(db: Handle, options: Handle, error: *mut *mut c_char);
    fn rocksdb_put(
        db: Handle,
        options: Handle,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_writebatch_create() -> Handle;
    fn rocksdb_writebatch_destroy(batch: Handle);
    fn rocksdb_writebatch_put(
        batch: Handle,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    fn rocksdb_writebatch_delete(batch: Handle, key: *const c_char, key_len: usize);
    fn rocksdb_write(db: Handle, options: Handle, batch: Handle, error: *mut *mut c_char);
    fn rocksdb_get_pinned(
        db: Handle,
        options: Handle,
        key: *const c_char,
        key_len: usize,
        error: *mut *mut c_char,
    ) -> Handle;
    fn rocksdb_pinnableslice_value(slice: Handle, len: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(slice: Handle);
    fn rocksdb_property_int(db: Handle, name: *const c_char, out: *mut u64) -> c_int;
}

struct Rocks {
    db: Handle,
    /// For writes that are not synced, and for those that are.
    write: [Handle; 2],
    read: Handle,
    flush: Handle,
}

// SAFETY: a RocksDB store and its options may be used from any thread: see the module's head.
unsafe impl Send for Rocks {}
// SAFETY: as above.
unsafe impl Sync for Rocks {}

pub fn open(dir: &Path, purpose: Purpose) -> Arc<dyn Rival> {
    made(dir, purpose, false)
}

pub fn open_for_hits(dir: &Path, purpose: Purpose) -> Arc<dyn Rival> {
    made(dir, purpose, true)
}

fn made(dir: &Path, purpose: Purpose, is_for_hits: bool) -> Arc<dyn Rival> {
    let buffer = if purpose == Purpose::LongLog { LONG_LOG_BYTES } else { BUFFER_BYTES };
    let name = CString::new(dir.to_str().expect("a folder's name in UTF-8")).expect("no zero");
    // SAFETY: each handle comes from the create function of its kind, and `name` outlives the call.
    unsafe {
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_compression(options, 0);
        rocksdb_options_set_write_buffer_size(options, buffer);
        rocksdb_options_set_max_background_jobs(options, 2);
        rocksdb_options_set_use_direct_reads(options, 1);
        rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, 1);
        rocksdb_options_set_optimize_filters_for_hits(options, c_int::from(is_for_hits));
        let table = rocksdb_block_based_options_create();
        let cache = rocksdb_cache_create_lru(CACHE_BYTES);
        rocksdb_block_based_options_set_block_cache(table, cache);
        let filter = rocksdb_filterpolicy_create_bloom_full(10.0);
        rocksdb_block_based_options_set_filter_policy(table, filter);
        rocksdb_block_based_options_set_format_version(table, 5);
        rocksdb_options_set_block_based_table_factory(options, table);
        let mut error = null_mut();
        let db = rocksdb_open(options, name.as_ptr(), &raw mut error);
        check(error, "opens");
        let write = [rocksdb_writeoptions_create(), rocksdb_writeoptions_create()];
        rocksdb_writeoptions_set_sync(write[1], 1);
        let (read, flush) = (rocksdb_readoptions_create(), rocksdb_flushoptions_create());
        Arc::new(Rocks { db, write, read, flush })
    }
}

fn check(error: *mut c_char, what: &str) {
    if !error.is_null() {
        // SAFETY: RocksDB returns a C string or null.
        let told = unsafe { CStr::from_ptr(error) };
        panic!("RocksDB {what}: {}", told.to_string_lossy());
    }
}

impl Rocks {
    fn property(&self, name: &CStr) -> u64 {
        let mut out = 0;
        // SAFETY: the store is open, and `out` is a number that outlives the call.
        let missing = unsafe { rocksdb_property_int(self.db, name.as_ptr(), &raw mut out) };
        assert!(missing == 0, "RocksDB knows {name:?}");
        out
    }
}

impl Rival for Rocks {
    fn put(&self, key: &[u8], value: &[u8], is_synced: bool) {
        let (how, mut error) = (self.write[usize::from(is_synced)], null_mut());
        let (at, from) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: both slices outlive the call, which copies them.
        unsafe { rocksdb_put(self.db, how, at, key.len(), from, value.len(), &raw mut error) };
        check(error, "writes");
    }

    fn write(&self, changes: &[Change], is_synced: bool) {
        let (how, mut error) = (self.write[usize::from(is_synced)], null_mut());
        // SAFETY: the batch copies keys and values, is used by this thread alone, and is destroyed once.
        unsafe {
            let batch = rocksdb_writebatch_create();
            for (key, value) in changes {
                let at = key.as_ptr().cast();
                match value {
                    Some(value) => {
                        let from = value.as_ptr().cast();
                        rocksdb_writebatch_put(batch, at, key.len(), from, value.len());
                    }
                    None => rocksdb_writebatch_delete(batch, at, key.len()),
                }
            }
            rocksdb_write(self.db, how, batch, &raw mut error);
            rocksdb_writebatch_destroy(batch);
        }
        check(error, "writes");
    }

    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let (at, mut error) = (key.as_ptr().cast(), null_mut());
        // SAFETY: the key outlives the call. The slice's bytes are copied before it is destroyed.
        unsafe {
            let slice = rocksdb_get_pinned(self.db, self.read, at, key.len(), &raw mut error);
            check(error, "reads");
            if slice.is_null() {
                return false;
            }
            let mut len = 0;
            let bytes = rocksdb_pinnableslice_value(slice, &raw mut len);
            out.extend_from_slice(&*slice_from_raw_parts(bytes.cast::<u8>(), len));
            rocksdb_pinnableslice_destroy(slice);
        }
        true
    }

    fn settle(&self) {
        let mut error = null_mut();
        // SAFETY: the store is open.
        unsafe { rocksdb_flush(self.db, self.flush, &raw mut error) };
        check(error, "flushes");
        let busy = [
            c"rocksdb.num-running-compactions",
            c"rocksdb.compaction-pending",
            c"rocksdb.num-running-flushes",
            c"rocksdb.mem-table-flush-pending",
        ];
        let mut quiet = 0;
        while quiet < 4 {
            sleep(Duration::from_millis(250));
            let is_quiet = busy.iter().all(|name| self.property(name) == 0);
            quiet = if is_quiet { quiet + 1 } else { 0 };
        }
    }

    fn figures(&self) -> Figures {
        let index_bytes = self.property(c"rocksdb.estimate-table-readers-mem");
        Figures { index_bytes, ..Figures::default() }
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: nobody uses the store any more.
        unsafe { rocksdb_close(self.db) };
    }
}
