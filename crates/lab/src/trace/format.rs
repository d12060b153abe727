//! Which format a trace is in, and how it is compressed: by the end of its name, or by its first line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use clap::ValueEnum;

use super::zstd::Frames;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// Runs of blocks, as published with ARC: four numbers per line: start, count, one that is ignored, number of the request
    Arc,
    /// One decimal key per line, as published with LIRS
    Lirs,
    /// number, key and bytes, separated by spaces, as published with AdaptSize
    Sized,
    /// Comma-separated values with a header, or Twitter's seven columns
    Csv,
    /// Big-endian keys of 32 bits
    Be32,
    /// Big-endian keys of 64 bits
    Be64,
    /// Records of 24 bytes, as libCacheSim writes them
    #[value(name = "oraclegeneral")]
    OracleGeneral,
}

impl TraceFormat {
    /// By the end of the name, compression aside; for names that say nothing, by the first line.
    ///
    /// # Errors
    /// `None` if neither tells.
    #[must_use]
    pub(crate) fn detect(path: &Path, start: &[u8]) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let name = COMPRESSIONS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        let by_name = [
            (".lis", Self::Arc),
            (".be32", Self::Be32),
            (".be64", Self::Be64),
            (".oraclegeneral", Self::OracleGeneral),
            (".oraclegeneral.bin", Self::OracleGeneral),
            (".csv", Self::Csv),
        ];
        let named = by_name.into_iter().find(|(end, _)| name.ends_with(end));
        named.map(|(_, format)| format).or_else(|| Self::of_line(start))
    }

    fn of_line(start: &[u8]) -> Option<Self> {
        let line = start.split(|&byte| byte == b'\n').next()?.trim_ascii();
        if line.contains(&b',') && line.is_ascii() {
            return Some(Self::Csv);
        }
        let fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let mut numbers = 0;
        for field in fields {
            if !field.iter().all(u8::is_ascii_digit) {
                return None;
            }
            numbers += 1;
        }
        match numbers {
            1 => Some(Self::Lirs),
            3 => Some(Self::Sized),
            4 => Some(Self::Arc),
            _ => None,
        }
    }
}

/// Opens a file, decompressing what ends in `.zst`, `.xz` or `.gz` as it is read.
///
/// # Errors
/// Those of opening the file. A file that isn't what its name says fails when it is read.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decompressed(path, file))))
}

fn decompressed(path: &Path, file: BufReader<File>) -> Box<dyn Read> {
    let extension = path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("zst") => Box::new(Frames::new(file)),
        Some("xz") => Box::new(lzma_rust2::XzReader::new(file, true)),
        Some("gz") => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        _ => Box::new(file),
    }
}

const COMPRESSIONS: [&str; 3] = [".zst", ".xz", ".gz"];

const BUFFER_BYTES: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_format_whatever_compresses_it() {
        for (name, format) in [
            ("a/OLTP.lis.zst", TraceFormat::Arc),
            ("w106.be32.xz", TraceFormat::Be32),
            ("x.BE64", TraceFormat::Be64),
            ("cluster052.oracleGeneral.bin.gz", TraceFormat::OracleGeneral),
            ("t.oracleGeneral.zst", TraceFormat::OracleGeneral),
            ("cluster010.csv", TraceFormat::Csv),
        ] {
            assert_eq!(TraceFormat::detect(Path::new(name), b""), Some(format), "{name}");
        }
    }

    #[test]
    fn the_first_line_tells_where_the_name_does_not() {
        for (line, format) in [
            ("17\r\n18\r\n", Some(TraceFormat::Lirs)),
            ("1 0 68\n", Some(TraceFormat::Sized)),
            ("1 1 0 0\n", Some(TraceFormat::Arc)),
            ("time,key,size\n", Some(TraceFormat::Csv)),
            ("what is this\n", None),
            ("", None),
        ] {
            assert_eq!(
                TraceFormat::detect(Path::new("t.txt.gz"), line.as_bytes()),
                format,
                "{line:?}"
            );
        }
    }
}
