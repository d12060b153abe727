//! Tests that the rows agree with the fields they set, and with each other.

use super::*;
use crate::options::{Shown, Takes, Unset};

/// Applies `option` to the defaults, as `-o` does.
fn with(option: &str) -> Extended {
    let mut extended = Extended::default();
    take(option, &mut extended).unwrap_or_else(|refusal| panic!("{option}: {refusal}"));
    // The marks that a value was given aren't compared, because they don't change its meaning.
    let Extended { stale_size_is_given, chunk_max_is_given, tls_given, storage_given, .. } =
        Extended::default();
    Extended { stale_size_is_given, chunk_max_is_given, tls_given, storage_given, ..extended }
}

#[test]
fn a_rows_default_is_its_fields() {
    let mut applied = 0;
    for suboption in all() {
        let option = match (&suboption.takes, &suboption.unset) {
            (Takes::Switch(_), Unset::Is("on")) => suboption.name.to_owned(),
            (Takes::Switch(_), Unset::Is("off")) => format!("no_{}", suboption.name),
            (Takes::Switch(_), Unset::Is(other)) => panic!("{}: {other}", suboption.name),
            (_, Unset::Is(default)) => format!("{}={default}", suboption.name),
            (_, Unset::Follows(_)) => continue,
        };
        assert_eq!(with(&option), Extended::default(), "-o {option}");
        applied += 1;
    }
    assert!(applied > 25, "only {applied} settings have a default");
}

#[test]
fn a_setting_that_works_changes_something_and_its_line_shows_it() {
    for suboption in WORKING.iter().flat_map(|group| group.suboptions) {
        let name = suboption.name;
        let option = match &suboption.takes {
            Takes::Switch(_) if matches!(suboption.unset, Unset::Is("on")) => format!("no_{name}"),
            Takes::Switch(_) | Takes::Nothing(_) => name.to_owned(),
            Takes::Number(_, limits, _) => format!("{name}={}", limits.start() + 1),
            Takes::Size(_, limits, _) => format!("{name}={}b", limits.start() + 1024),
            Takes::Fraction(..) => format!("{name}=0.5"),
            Takes::Choice(words, _) => format!("{name}={}", words.last().unwrap()),
            Takes::Text(..) => match name {
                "ssl_ciphers" => format!("{name}=ECDHE-RSA-AES128-GCM-SHA256"),
                "ssl_min_version" => format!("{name}=3"),
                "ext_path" => format!("{name}=f:1g"),
                "ssl_kernel_tls" => continue, // It is there to be refused.
                _ => format!("{name}=2"),
            },
        };
        let (before, after) = (Extended::default(), with(&option));
        assert_ne!(after, before, "-o {option} does nothing: move it to the inert ones");
        if let Shown::As(line, value) = suboption.shown {
            assert_ne!(value(&after), value(&before), "-o {option}: {line}");
        }
    }
}

#[test]
fn each_name_is_one_settings() {
    let mut names: Vec<String> = all().map(|suboption| suboption.name.to_owned()).collect();
    let switches = all().filter(|suboption| matches!(suboption.takes, Takes::Switch(_)));
    names.extend(switches.map(|suboption| format!("no_{}", suboption.name)));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
}

#[test]
fn each_setting_of_memcached_is_taken() {
    for option in MEMCACHEDS.split_whitespace() {
        let name = option.split('=').next().unwrap();
        let taken = take(option, &mut Extended::default());
        let is_refused_by_name =
            taken.as_ref().is_err_and(|refusal| refusal.message.contains("in this process"));
        assert!(
            taken.is_ok() || (is_refused_by_name && name == "ssl_kernel_tls"),
            "{option}: {taken:?}"
        );
    }
}

#[test]
fn the_help_has_each_setting_on_lines_that_fit() {
    let help = help();
    for suboption in all() {
        assert!(help.contains(&suboption.typed()), "{}", suboption.name);
    }
    let longest = help.lines().max_by_key(|line| line.len()).unwrap();
    assert!(longest.len() <= 100, "{longest}");
}

/// The settings of memcached 1.6.45, each with a valid value.
const MEMCACHEDS: &str = "\
    maxconns_fast hashpower=20 no_hashexpand slab_reassign slab_automove=1 slab_automove_ratio=0.8 \
    slab_automove_window=30 tail_repair_time=10 hash_algorithm=xxh3 lru_crawler lru_crawler_sleep=1 \
    lru_crawler_tocrawl=1 lru_maintainer hot_lru_pct=20 warm_lru_pct=20 hot_max_factor=0.2 warm_max_factor=2 \
    temporary_ttl=61 idle_timeout=0 watcher_logbuf_size=256 worker_logbuf_size=64 slab_sizes=64-128 \
    slab_chunk_max=512 track_sizes no_inline_ascii_resp modern no_modern no_chunked_items no_slab_reassign \
    no_slab_automove no_maxconns_fast inline_ascii_resp no_lru_crawler no_lru_maintainer no_drop_privileges \
    drop_privileges resp_obj_mem_limit=0 read_buf_mem_limit=0 ssl_chain_cert=f ssl_key=f ssl_verify_mode=1 \
    ssl_keyformat=1 ssl_ciphers=HIGH ssl_ca_cert=f ssl_wbuf_size=16 ssl_session_cache ssl_kernel_tls \
    ssl_min_version=2 relaxed_privileges sock_cookie_id=1 slab_automove_freeratio=0.01 ext_path=f:1g \
    ext_page_size=64 ext_wbuf_size=4 ext_threads=1 ext_io_depth=1 ext_item_size=512 ext_item_age=60 ext_low_ttl=0 \
    ext_recache_rate=2000 ext_compact_under=1 ext_drop_under=1 ext_max_sleep=1000000 ext_max_frag=0.8 ext_drop_unread";
