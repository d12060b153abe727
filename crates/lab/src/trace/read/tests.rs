//! Each format by a small sample, what is wrong in it by its place, and bytes that are of no format at all.

use super::*;
use crate::trace::request::TraceOp;
use clap::ValueEnum;
use guira_bench::Rng;

fn requests(
    format: TraceFormat,
    columns: Option<&str>,
    bytes: &[u8],
) -> Result<Vec<TraceRequest>, String> {
    let columns = columns.map(|text| text.parse().unwrap());
    let mut found = Vec::new();
    read(format, columns.as_ref(), &mut &*bytes, &mut |request| found.push(request))
        .map_err(|error| error.to_string())?;
    Ok(found)
}

fn keys(format: TraceFormat, bytes: &[u8]) -> Result<Vec<u64>, String> {
    Ok(requests(format, None, bytes)?.into_iter().map(|request| request.key).collect())
}

#[test]
fn a_run_of_blocks_is_a_request_for_each() {
    assert_eq!(keys(TraceFormat::Arc, b"7 3 0 0\n9 1 0 1\n").unwrap(), [7, 8, 9, 9]);
    assert!(keys(TraceFormat::Arc, b"7 0 0 0").unwrap().is_empty());
}

#[test]
fn stars_empty_lines_and_carriage_returns_are_no_keys() {
    assert_eq!(keys(TraceFormat::Lirs, b"5\r\n\r\n*\n6\n*\n").unwrap(), [5, 6]);
}

#[test]
fn sized_lines_have_a_size() {
    let found = requests(TraceFormat::Sized, None, b"1 0 68\n2 1 7454\n").unwrap();
    assert_eq!(found[1], TraceRequest { bytes: 7454, ..TraceRequest::get(1) });
}

#[test]
fn binary_keys_are_big_endian() {
    assert_eq!(
        keys(TraceFormat::Be32, &[0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff]).unwrap(),
        [258, 4294967295]
    );
    assert_eq!(keys(TraceFormat::Be64, &[0, 0, 0, 0, 0, 0, 1, 2]).unwrap(), [258]);
}

#[test]
fn an_oracle_general_record_is_24_little_endian_bytes() {
    let mut record = Vec::new();
    record.extend(12u32.to_le_bytes());
    record.extend(0x1122_3344_5566_7788u64.to_le_bytes());
    record.extend(4096u32.to_le_bytes());
    record.extend((-1i64).to_le_bytes());
    let found = requests(TraceFormat::OracleGeneral, None, &record).unwrap();
    let wanted =
        TraceRequest { bytes: 4096, time_s: 12, ..TraceRequest::get(0x1122_3344_5566_7788) };
    assert_eq!(found, [wanted]);
}

#[test]
fn columns_are_found_by_their_names() {
    let text =
        b"# op,Time,obj_id,size,note,TTL\nget,5.9,a,10,x,0\nset,6,b,11,y,60\ndelete,7,a,0,z,\n";
    let found = requests(TraceFormat::Csv, None, text).unwrap();
    let plain = |request: &TraceRequest| (request.op, request.time_s, request.bytes, request.ttl_s);
    let seen: Vec<_> = found.iter().map(plain).collect();
    assert_eq!(
        seen,
        [(TraceOp::Get, 5, 10, 0), (TraceOp::Set, 6, 11, 60), (TraceOp::Delete, 7, 0, 0)]
    );
    assert_eq!(found[0].key, found[2].key);
    assert_ne!(found[0].key, found[1].key);
}

#[test]
fn seven_columns_without_names_are_twitters() {
    let text =
        b"0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n1,yDqF:3q,12,27,5,incr,0\n1,x,1,2,5,set,86400\n";
    let found = requests(TraceFormat::Csv, None, text).unwrap();
    assert_eq!(found.len(), 2, "an incr neither stores nor reads an object");
    assert_eq!((found[0].bytes, found[0].op), (230, TraceOp::Get));
    assert_eq!((found[1].bytes, found[1].op, found[1].ttl_s), (3, TraceOp::Set, 86400));
}

#[test]
fn given_columns_need_no_header_and_skip_one() {
    for text in ["1,a,9\n2,b,9\n", "time,key,size\n1,a,9\n2,b,9\n"] {
        let found = requests(TraceFormat::Csv, Some("-,key,-"), text.as_bytes()).unwrap();
        assert_eq!((found.len(), found[0].bytes), (2, 0), "{text}");
    }
    assert!("time,size".parse::<Columns>().is_err());
    assert!("key,id".parse::<Columns>().is_err());
}

#[test]
fn an_error_tells_its_place() {
    for (format, text, error) in [
        (TraceFormat::Lirs, "1\nx\n", "line 2: the key is `x`, not a number"),
        (TraceFormat::Lirs, "-1\n", "line 1: the key is `-1`, not a number"),
        (TraceFormat::Arc, "1 2 0 0\n5\n", "line 2: ends before the number of blocks"),
        (TraceFormat::Arc, "1 99999999 0 0\n", "line 1: a run of 99999999 blocks; at most 1048576"),
        (
            TraceFormat::Arc,
            "18446744073709551615 2\n",
            "line 1: 2 blocks from 18446744073709551615",
        ),
        (TraceFormat::Sized, "1 2\n", "line 1: ends before the size"),
        (TraceFormat::Csv, "key,size\na,1\nb\n", "line 3: has 1 columns, not 2"),
        (TraceFormat::Csv, "key,size\n,1\n", "line 2: the key is empty"),
        (TraceFormat::Csv, "key,op\na,fly\n", "line 2: `fly` is no operation"),
        (TraceFormat::Csv, "a,b\n", "line 1: no column is named `key`"),
        (TraceFormat::Be32, "123456", "byte 4: a record of 4 bytes is cut after 2"),
        (TraceFormat::OracleGeneral, "123456", "byte 0: a record of 24 bytes is cut after 6"),
    ] {
        let found = requests(format, None, text.as_bytes()).unwrap_err();
        assert!(found.starts_with(error), "{found:?} does not begin with {error:?}");
    }
    let long = vec![b'1'; 1 << 20];
    let found = keys(TraceFormat::Lirs, &long).unwrap_err();
    assert!(found.starts_with("line 1: longer than 65536 bytes"), "{found}");
}

#[test]
fn no_bytes_make_a_reader_panic_or_invent_requests() {
    let mut rng = Rng::new(7);
    let alphabet = b"0123456789 ,\n\r*-.akeygtsl\xff\0";
    for round in 0..4000 {
        let len = rng.below(120);
        let text: Vec<u8> = (0..len)
            .map(|_| match round % 2 {
                0 => alphabet[usize::try_from(rng.below(alphabet.len() as u64)).unwrap()],
                _ => rng.number().to_le_bytes()[0],
            })
            .collect();
        for &format in TraceFormat::value_variants() {
            let mut found = 0;
            let _ = read(format, None, &mut &*text, &mut |_| found += 1);
            let is_plausible = match format {
                TraceFormat::Arc => true,
                TraceFormat::Be32 => found == text.len() / 4,
                TraceFormat::Be64 => found == text.len() / 8,
                TraceFormat::OracleGeneral => found == text.len() / 24,
                TraceFormat::Lirs | TraceFormat::Sized | TraceFormat::Csv => {
                    found <= text.len().div_ceil(2)
                }
            };
            assert!(is_plausible, "{format:?} found {found} requests in {text:?}");
        }
    }
}
