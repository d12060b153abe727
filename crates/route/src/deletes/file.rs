//! The spool's files: their names and contents, which process may send them, and when they are removed.
//!
//! ```text
//! <dir>/YYYYMMDDTHH-<hour>/YYYYMMDDTHHMMSS-<second>-<service>-<router>-t<id>-<number>
//! <file>.replayed     the deletes that servers have got: see the marks
//! <file>.unreadable   a file with lines that are no deletes, after its deletes are sent: for an operator to look at
//! ```
//! # Invariants
//! 1. Files with other names are never touched.
//! 2. A file is removed only if each of its lines was read and each of its deletes was sent. A file with other lines is
//!    renamed and kept.
//! 3. A process holds a lock on a file while it writes to it or sends from it, so no other process does either
//!    meanwhile. mcrouter takes no lock. So a file of another process is removed only when no router writes to it any
//!    more. If Guira named the file, its lock shows that; otherwise its age does.
//!
//! # Costs
//! Files are read line by line, so memory doesn't grow with them. All functions block.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::{IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

use super::marks::{self, Delete, Marks};

/// A line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Delete(Delete),
    /// The last line, cut short by a crash or still being written. No client was told that its delete is done.
    CutShort,
    /// Anything else.
    Unreadable,
}

/// Reads a file line by line.
#[derive(Debug)]
pub(super) struct Lines {
    file: BufReader<File>,
    at: u64,
    line: Vec<u8>,
}

impl Lines {
    /// Opens a file at `at`, which must be the beginning of a line.
    pub(super) fn open(file: &Path, at: u64) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(READ_BYTES, File::open(file)?);
        file.seek(SeekFrom::Start(at))?;
        Ok(Self { file, at, line: Vec::new() })
    }

    /// Reads a line. `None`: the file has no more lines now.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        self.line.clear();
        let mut read = (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
        let is_too_long = read as u64 == LINE_BYTES_MAX && !self.line.ends_with(b"\n");
        if is_too_long {
            read += self.file.skip_until(b'\n')?;
        }
        self.at += read as u64;
        if read == 0 {
            return Ok(None);
        }
        if is_too_long {
            return Ok(Some(Line::Unreadable));
        }
        Ok(Some(match parse(&self.line) {
            Some((host_port, key)) if self.line.ends_with(b"\n") => {
                Line::Delete(Delete { host_port, key, end: self.at })
            }
            _ if !self.line.ends_with(b"\n") && self.line.starts_with(BEGINNING) => Line::CutShort,
            _ => Line::Unreadable,
        }))
    }
}

/// Parses a line of either version: returns the server and the key.
fn parse(line: &[u8]) -> Option<(String, Bytes)> {
    type Of<T> = (String, IgnoredAny, IgnoredAny, T);
    if let Ok((version, _, _, body)) = serde_json::from_slice::<Of<(String, u64, Raw)>>(line) {
        let (host, port, Raw(command)) = body;
        let key = command.strip_prefix(b"delete ")?.strip_suffix(b"\r\n")?;
        let key = Bytes::copy_from_slice(key);
        return (version == "AS1.0").then(|| (host_port(&host, port), key));
    }
    let (version, _, _, Second { h, k }) = serde_json::from_slice::<Of<Second>>(line).ok()?;
    let (host, port) = h.strip_prefix('[')?.rsplit_once("]:")?;
    let place = host_port(host, port.parse().ok()?);
    (version == "AS2.0").then(|| (place, k.0.into()))
}

/// The fields of a delete in a line of the second version.
#[derive(Deserialize)]
struct Second {
    /// Host and port.
    h: String,
    /// The key.
    k: Raw,
}

/// A string of any bytes: routers write keys unchanged, even if they are not UTF-8.
struct Raw(Vec<u8>);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Bytewise;
        impl Visitor<'_> for Bytewise {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Raw, E> {
                Ok(Raw(bytes.to_vec()))
            }
        }
        from.deserialize_bytes(Bytewise)
    }
}

fn host_port(host: &str, port: u64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The deletes that wait in a file.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// By server: the number of deletes, and the end of the last one.
    pub(crate) waiting: BTreeMap<String, (usize, u64)>,
    /// The number of lines that are no deletes.
    pub(crate) unreadable: usize,
}

/// Reads a file to its end.
pub(crate) fn survey(file: &Path) -> io::Result<Survey> {
    let (marks, mut lines, mut survey) =
        (Marks::read(file)?, Lines::open(file, 0)?, Survey::default());
    while let Some(line) = lines.next()? {
        match line {
            Line::Delete(delete) if !marks.has(&delete) => {
                let (count, end) = survey.waiting.entry(delete.host_port).or_default();
                (*count, *end) = (*count + 1, delete.end);
            }
            Line::Unreadable => survey.unreadable += 1,
            Line::Delete(_) | Line::CutShort => {}
        }
    }
    Ok(survey)
}

/// The contents of a spool.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Its files, oldest first: their names begin with their dates.
    pub(crate) files: Vec<PathBuf>,
    /// Folders that can't be read.
    pub(crate) unread: Vec<(PathBuf, io::Error)>,
}

/// Lists a spool.
pub(crate) fn files(dir: &Path) -> io::Result<Listing> {
    let Listing { mut files, mut unread } = Listing::default();
    for folder in fs::read_dir(dir)? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() || !is_named_as(&folder.file_name(), &FOLDER) {
            continue;
        }
        match files_in(&folder.path()) {
            Ok(found) => files.extend(found),
            Err(error) => unread.push((folder.path(), error)),
        }
    }
    files.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    Ok(Listing { files, unread })
}

/// The bytes of all files in a spool's folders, including marks and files set aside. Unreadable entries count as 0.
pub(super) fn bytes_in(dir: &Path) -> u64 {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    entries(dir)
        .filter(|folder| is_named_as(&folder.file_name(), &FOLDER))
        .flat_map(|folder| entries(&folder.path()))
        .filter_map(|file| file.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        let name = file.file_name();
        let is_beside =
            [marks::SUFFIX, UNREADABLE].iter().any(|end| name.to_string_lossy().ends_with(end));
        if file.file_type()?.is_file() && !is_beside && is_named_as(&name, &FILE) {
            files.push(file.path());
        }
    }
    Ok(files)
}

/// Whether a name begins with a date, as `DDDDDDDDTDD`, then `-` and a Unix time. The name of a file must go on with
/// more.
fn is_named_as(name: &std::ffi::OsStr, (date_digits, has_more): &(usize, bool)) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((date, rest)) = name.to_str().and_then(|name| name.split_once('-')) else {
        return false;
    };
    let Some((day, time)) = date.split_once('T') else { return false };
    let (second, more) =
        rest.split_once('-').map_or((rest, None), |(second, more)| (second, Some(more)));
    is_digits(day)
        && is_digits(time)
        && day.len() + time.len() == *date_digits
        && is_digits(second)
        && if *has_more { more.is_some_and(|more| more.contains("-t")) } else { more.is_none() }
}

/// The result of [`tidy`].
#[derive(Debug)]
pub(crate) enum Tidied {
    /// The file has waiting deletes, or can't be read.
    Kept,
    Removed,
    /// It had so many lines that are no deletes, and now has this name.
    SetAside(usize, PathBuf),
}

/// Removes a file whose deletes are all sent, or renames it if it has other lines. The caller must hold the file.
pub(crate) fn tidy(file: &Path) -> Tidied {
    let Ok(survey) = survey(file) else { return Tidied::Kept };
    if !survey.waiting.is_empty() {
        return Tidied::Kept;
    }
    let mut aside = file.as_os_str().to_owned();
    aside.push(UNREADABLE);
    let aside = PathBuf::from(aside);
    let (done, tidied) = if survey.unreadable > 0 {
        (fs::rename(file, &aside), Tidied::SetAside(survey.unreadable, aside))
    } else {
        (fs::remove_file(file), Tidied::Removed)
    };
    if done.is_err() {
        return Tidied::Kept;
    }
    // Marks are useless without their file. The folder is removed if it is empty.
    let _ = fs::remove_file(marks::path(file));
    let _ = file.parent().map(fs::remove_dir);
    tidied
}

/// Whether no router writes to the file any more. A router changes to a new file after a quarter of an hour.
pub(crate) fn is_old(file: &Path) -> bool {
    let modified = fs::metadata(file).and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > WRITTEN_TO_FOR)
}

/// Whether Guira named the file, so that holding it excludes its writer. mcrouter's names end with a memory address,
/// which is never below 64 KiB.
pub(crate) fn is_locked_by_its_writer(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.rsplit_once("-0x").map(|(_, digits)| u64::from_str_radix(digits, 16));
    number.is_some_and(|number| number.is_ok_and(|number| number < ADDRESS_MIN))
}

/// The files that this process writes to or sends from.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<HashMap<PathBuf, Weak<File>>>);

impl Held {
    /// Holds a file until the last handle is dropped. `None`: another process holds it.
    pub(crate) fn hold(&self, path: &Path) -> io::Result<Option<Arc<File>>> {
        let known = self.0.lock().get(path).and_then(Weak::upgrade);
        if known.is_some() {
            return Ok(known);
        }
        // Open without holding the mutex: a file that hangs must not delay the others.
        let file = File::open(path)?;
        let mut held = self.0.lock();
        let known = held.get(path).and_then(Weak::upgrade);
        if known.is_some() {
            return Ok(known);
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            // The file system has no locks. Sending deletes twice does no harm.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        Ok(Some(Self::enter(&mut held, path, file)))
    }

    /// Holds a file that this process has just created. `None`: another process was faster, and may remove it.
    pub(super) fn hold_new(&self, path: &Path, file: File) -> Option<Arc<File>> {
        let mut held = self.0.lock();
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Ok(()) | Err(TryLockError::Error(_)) => Some(Self::enter(&mut held, path, file)),
        }
    }

    fn enter(held: &mut HashMap<PathBuf, Weak<File>>, path: &Path, file: File) -> Arc<File> {
        let file = Arc::new(file);
        held.retain(|_, file| file.strong_count() > 0);
        held.insert(path.to_owned(), Arc::downgrade(&file));
        file
    }
}

/// The number of digits in a folder's date. The name ends after the time.
const FOLDER: (usize, bool) = (10, false);
/// The number of digits in a file's date. More follows after the time.
const FILE: (usize, bool) = (14, true);
/// The lowest address that Linux gives a program. A process writes fewer files than this.
const ADDRESS_MIN: u64 = 64 << 10;
/// The beginning of each line, in both versions.
const BEGINNING: &[u8] = b"[\"AS";
/// The suffix of a file that had other lines.
const UNREADABLE: &str = ".unreadable";
/// The longest line of a delete.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The size of the read buffer.
const READ_BYTES: usize = 64 << 10;
/// How long a file is written to.
pub(super) const FILE_SECONDS: u64 = 900;
/// The same, plus a margin.
const WRITTEN_TO_FOR: Duration = Duration::from_secs(FILE_SECONDS + 100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_either_version_are_read() {
        let first = br#"["AS1.0", 1289416829.836, "C", ["10.0.0.1", 11302, "delete foo\r\n"]]"#;
        let read = |host: &str, key: &'static [u8]| Some((host.to_owned(), Bytes::from(key)));
        assert_eq!(parse(first), read("10.0.0.1:11302", b"foo"));
        let second =
            br#"["AS2.0", 1289416829.836, "C", {"f":"flavor","h":"[::1]:5","p":"pool","k":"a b"}]"#;
        assert_eq!(parse(second), read("[::1]:5", b"a b"));
        let raw = b"[\"AS1.0\", 1.5, \"C\", [\"h\", 1, \"delete \xff\\\"\xc3\xa9\\u0001\\r\\n\"]]";
        assert_eq!(parse(raw), read("h:1", b"\xff\"\xc3\xa9\x01"));
        assert_eq!(parse(br#"["AS1.0", 1, "C", ["10.0.0.1", 11302, "del"#), None);
    }

    #[test]
    fn only_names_that_routers_give_are_the_spool_s() {
        let is_file = |name: &str| is_named_as(name.as_ref(), &FILE);
        assert!(is_file("20240101T101500-1704103500-libmcrouter-11211-t77-0x7f00"));
        assert!(is_file("20240101T101500-1704103500-a-b-c-t77-0x0"));
        for foreign in
            ["notes.txt", "20240101T101500", "20240101T1015-17-a-b-t7-0", "x-1-a-t7-0", "-"]
        {
            assert!(!is_file(foreign), "{foreign}");
        }
        let is_folder = |name: &str| is_named_as(name.as_ref(), &FOLDER);
        for (name, is_ours) in [
            ("x-t77-0x0", true),
            ("x-t77-0xffff", true),
            ("x-t77-0x7f00a0", false),
            ("x-t7", false),
        ] {
            assert_eq!(is_locked_by_its_writer(Path::new(name)), is_ours, "{name}");
        }
        assert!(is_folder("20240101T10-1704103200"));
        assert!(!is_folder("configs") && !is_folder("20240101T10-1704103200-old"));
    }

    #[test]
    fn a_line_of_any_length_takes_no_more_memory_than_a_line_may() {
        let path = std::env::temp_dir().join(format!("guira-long-line-{}", std::process::id()));
        let line = "[\"AS1.0\", 1.5, \"C\", [\"h\", 1, \"delete k\\r\\n\"]]\n";
        fs::write(&path, ["x".repeat(1 << 20).as_str(), "\n", line, "[\"AS1"].concat()).unwrap();
        let mut lines = Lines::open(&path, 0).unwrap();
        assert_eq!(lines.next().unwrap(), Some(Line::Unreadable));
        assert!(lines.line.capacity() < 4 * usize::try_from(LINE_BYTES_MAX).unwrap());
        assert!(matches!(lines.next().unwrap(), Some(Line::Delete(delete)) if delete.key == "k"));
        assert_eq!((lines.next().unwrap(), lines.next().unwrap()), (Some(Line::CutShort), None));
        fs::remove_file(path).unwrap();
    }

    /// Writes a file of deletes into a directory of its own.
    fn spool(name: &str, lines: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("guira-spool-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("spool"), lines).unwrap();
        dir.join("spool")
    }

    fn line(host: &str, key: &str) -> String {
        format!("[\"AS1.0\", 1.5, \"C\", [\"{host}\", 1, \"delete {key}\\r\\n\"]]\n")
    }

    #[test]
    fn what_is_marked_as_sent_does_not_wait_and_a_file_goes_when_all_is_sent() {
        let lines = line("h", "a") + &line("i", "b") + &line("h", "c") + "[\"AS1.0\"";
        let file = spool("marks", &lines);
        let waiting = || survey(&file).unwrap().waiting;
        assert_eq!((waiting()["h:1"].0, waiting()["i:1"].0), (2, 1));
        let note = |host: &str, end: usize| {
            let delete =
                Delete { host_port: format!("{host}:1"), key: Bytes::new(), end: end as u64 };
            Marks::read(&file).unwrap().note(&file, &[delete], &[]).unwrap();
        };
        let one = line("h", "a").len();
        note("h", one);
        assert_eq!(waiting()["h:1"], (1, 3 * one as u64));
        assert!(matches!(tidy(&file), Tidied::Kept));
        note("h", 3 * one);
        note("i", 2 * one);
        assert!(matches!(tidy(&file), Tidied::Removed));
        assert!(!file.exists() && !file.parent().unwrap().exists());
    }

    #[test]
    fn a_file_that_holds_something_else_is_renamed_and_never_removed() {
        for text in ["no deletes at all\n", "\0\0\0", "[\"AS1.0\", 1, \"C\", []]\n"] {
            let file = spool("foreign", text);
            let Tidied::SetAside(1, aside) = tidy(&file) else { panic!("{text:?}") };
            assert!(!file.exists());
            assert_eq!(fs::read_to_string(&aside).unwrap(), text);
            fs::remove_dir_all(aside.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn a_file_is_held_by_one_process_and_may_be_held_twice_by_that() {
        let path = spool("held", "");
        let other = File::open(&path).unwrap();
        other.try_lock().unwrap();
        let held = Held::default();
        assert!(
            held.hold(&path).unwrap().is_none(),
            "another descriptor has it, as in another process"
        );
        drop(other);
        let first = held.hold(&path).unwrap().unwrap();
        let second = held.hold(&path).unwrap().unwrap();
        drop(first);
        assert!(File::open(&path).unwrap().try_lock().is_err());
        drop(second);
        assert!(File::open(&path).unwrap().try_lock().is_ok());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
