//! `guira plan regional`: which key families belong into a pool that all clusters of a region share (Scaling Memcache at
//! Facebook, §4.2 and table 1).
//!
//! A family in a regional pool is stored once, and no more in each cluster: that saves memory. Of its gets all but one in as many
//! as there are clusters then cross between clusters: that takes network. Families with the most bytes saved per byte of
//! traffic go first, as long as the network has room.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{LineStyle, Table};

use super::command::NoPlan;
use crate::families::Sampled;

/// Which key families all clusters of a region are to share.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RegionalArgs {
    /// A cluster, and its routers, which run with --sample-families; a router with a slash is a file that has its answer to get __mcrouter__.families(week)
    #[arg(value_name = "CLUSTER=ROUTER,ROUTER...", required_unless_present = "family")]
    routers: Vec<String>,

    /// A family by hand: its bytes in a cluster, its gets a second in the region, bytes of an item
    #[arg(long, value_name = "NAME:SET:GETS:ITEM")]
    family: Vec<String>,

    /// Clusters of the region, if that is more than those named, which stand for all [default: those named]
    #[arg(long, value_name = "N")]
    clusters: Option<u32>,

    /// Bytes a second that may cross between clusters for these families, such as 10G
    #[arg(long, value_name = "BYTES")]
    network: String,

    /// Which working set: day or week
    #[arg(long, value_name = "WINDOW", default_value = "week", value_parser = ["day", "week"])]
    window: String,
}

/// What is known of a family.
#[derive(Clone, Debug, PartialEq)]
struct Candidate {
    family: String,
    /// Bytes in all clusters together, and without those that several have.
    everywhere: f64,
    once: f64,
    /// In the region.
    gets_per_second: f64,
    item_bytes: f64,
    clients: Option<u64>,
}

impl Candidate {
    fn saved(&self) -> f64 {
        self.everywhere - self.once
    }

    /// Bytes a second between clusters.
    fn across(&self, clusters: f64) -> f64 {
        self.gets_per_second * self.item_bytes * (clusters - 1.0) / clusters
    }
}

/// The plan as text.
///
/// # Errors
/// [`NoPlan`] says which argument is wrong, or which router doesn't tell.
pub fn plan(args: &RegionalArgs) -> Result<String, NoPlan> {
    let network = bytes(&args.network).ok_or_else(|| {
        NoPlan(format!("--network {}: bytes a second, such as 10G", args.network))
    })?;
    let mut samples: BTreeMap<&str, Vec<Sampled>> = BTreeMap::new();
    for word in &args.routers {
        let (cluster, routers) = word.split_once('=').ok_or_else(|| {
            NoPlan(format!("{word}: a cluster and its routers, such as c1=r1:5000,r2:5000"))
        })?;
        for router in routers.split(',') {
            let told = ask(router, &args.window);
            let told = told.map_err(|words| NoPlan(format!("{router}: {words}")))?;
            samples.entry(cluster).or_default().push(told);
        }
    }
    let named = u32::try_from(samples.len()).unwrap_or(u32::MAX);
    let clusters = args.clusters.unwrap_or(named);
    if clusters < 2.max(named) {
        let words = "--clusters: how many the region has, at least two and all that are named";
        return Err(NoPlan(words.to_owned()));
    }
    let mut candidates = candidates(&samples, f64::from(clusters))?;
    for word in &args.family {
        candidates.push(by_hand(word, f64::from(clusters))?);
    }
    Ok(table(judge(candidates, f64::from(clusters), network), f64::from(clusters), network))
}

/// What the routers of the clusters know together.
fn candidates(
    samples: &BTreeMap<&str, Vec<Sampled>>,
    clusters: f64,
) -> Result<Vec<Candidate>, NoPlan> {
    let all: Vec<&Sampled> = samples.values().flatten().collect();
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let share = first.share;
    #[expect(clippy::float_cmp, reason = "as it was typed")]
    let differ = all.iter().any(|sampled| sampled.share != share);
    if differ {
        return Err(NoPlan("the routers' shares (--sample-families) differ".to_owned()));
    }
    // Where not all are named, each of those named stands for as many.
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let (named, ways) = (samples.len() as f64, clusters / samples.len() as f64);
    let mut everywhere: BTreeMap<String, f64> = BTreeMap::new();
    for routers in samples.values() {
        for (family, sums) in union(routers.iter()).families() {
            *everywhere.entry(family).or_default() += sums.bytes[1] * ways;
        }
    }
    let mut gets: BTreeMap<String, f64> = BTreeMap::new();
    for sampled in &all {
        for (family, sums) in sampled.families() {
            *gets.entry(family).or_default() += sums.gets_per_second * clusters / named;
        }
    }
    let once = union(all.into_iter()).families().into_iter();
    let candidates = once.map(|(family, sums)| Candidate {
        everywhere: everywhere.get(&family).copied().unwrap_or_default(),
        once: sums.bytes[1],
        gets_per_second: gets.get(&family).copied().unwrap_or_default(),
        item_bytes: sums.bytes[1] / sums.items,
        clients: Some(sums.clients),
        family,
    });
    Ok(candidates.collect())
}

/// The items of several routers, each once.
fn union<'s>(samples: impl Iterator<Item = &'s Sampled>) -> Sampled {
    let mut all = Sampled::default();
    for sampled in samples {
        (all.share, all.seconds) = (sampled.share, sampled.seconds.max(all.seconds));
        for (hash, item) in &sampled.items {
            match all.items.entry(*hash) {
                std::collections::btree_map::Entry::Occupied(mut known) => {
                    known.get_mut().add(item);
                }
                std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(item.clone())),
            }
        }
    }
    all
}

fn by_hand(word: &str, clusters: f64) -> Result<Candidate, NoPlan> {
    let refused =
        || NoPlan(format!("--family {word}: NAME:SET:GETS:ITEM, such as a:5T:3.26M:10.7k"));
    let parts: Vec<&str> = word.split(':').collect();
    let [family, set, gets, item] = parts[..] else { return Err(refused()) };
    let number = |text| bytes(text).ok_or_else(refused);
    let once = number(set)?;
    Ok(Candidate {
        family: family.to_owned(),
        everywhere: once * clusters,
        once,
        gets_per_second: number(gets)?,
        item_bytes: number(item)?,
        clients: None,
    })
}

/// Which of them go into a regional pool, best first.
fn judge(mut candidates: Vec<Candidate>, clusters: f64, network: f64) -> Vec<(Candidate, bool)> {
    let worth = |it: &Candidate| it.saved() / it.across(clusters).max(1.0);
    candidates.sort_by(|one, other| worth(other).total_cmp(&worth(one)));
    let mut left = network;
    let judged = candidates.into_iter().map(|candidate| {
        let across = candidate.across(clusters);
        let is_regional = candidate.saved() > candidate.once * LEAST && across <= left;
        left -= if is_regional { across } else { 0.0 };
        (candidate, is_regional)
    });
    judged.collect()
}

fn table(judged: Vec<(Candidate, bool)>, clusters: f64, network: f64) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none())).set_header([
        "family", "one copy", "item", "gets/s", "clients", "saves", "crosses", "belongs",
    ]);
    let (mut saved, mut crossing) = (0.0, 0.0);
    for (candidate, is_regional) in judged {
        let across = candidate.across(clusters);
        if is_regional {
            saved += candidate.saved();
            crossing += across;
        }
        table.add_row([
            candidate.family.clone(),
            shown(candidate.once, "B"),
            shown(candidate.item_bytes, "B"),
            shown(candidate.gets_per_second, ""),
            candidate.clients.map_or_else(String::new, |clients| clients.to_string()),
            shown(candidate.saved(), "B"),
            shown(across, "B/s"),
            if is_regional { "in a regional pool" } else { "in each cluster" }.to_owned(),
        ]);
    }
    format!(
        "{table}\nRegional pools save {} of memory in {clusters} clusters, for {} of the {} that may cross between them.",
        shown(saved, "B"),
        shown(crossing, "B/s"),
        shown(network, "B/s")
    )
}

/// What a router, or a file, says of a window.
fn ask(router: &str, window: &str) -> Result<Sampled, String> {
    let text = match router.contains('/') {
        true => std::fs::read_to_string(router).map_err(|error| error.to_string())?,
        false => ask_router(router, window).map_err(|error| error.to_string())?,
    };
    let of_router = text.trim().to_owned();
    Sampled::of_text(&text).ok_or_else(|| match of_router.strip_prefix("ERROR: ") {
        Some(words) => words.to_owned(),
        None => "this is no sample of families".to_owned(),
    })
}

fn ask_router(router: &str, window: &str) -> std::io::Result<String> {
    let address = router.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| std::io::Error::other("no address has this name"))?;
    let mut socket = TcpStream::connect_timeout(&address, SILENCE)?;
    socket.set_read_timeout(Some(SILENCE))?;
    socket.write_all(format!("get __mcrouter__.families({window})\r\n").as_bytes())?;
    let mut input = BufReader::new(socket.take(ANSWER_MAX));
    let mut line = String::new();
    input.read_line(&mut line)?;
    let length = line.strip_prefix("VALUE ").and_then(|line| line.trim_end().rsplit(' ').next());
    let length = length.and_then(|text| text.parse::<u64>().ok());
    let Some(length) = length else {
        return Err(std::io::Error::other(format!("it answers '{}'", line.trim_end())));
    };
    let mut text = String::new();
    input.take(length).read_to_string(&mut text)?;
    Ok(text)
}

/// A number with a unit of thousands.
fn bytes(text: &str) -> Option<f64> {
    let unit = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let power = match unit.trim_end_matches(['b', 'B']) {
        "" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    let number = number.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0)?;
    Some(number * 1000_f64.powi(power))
}

fn shown(number: f64, unit: &str) -> String {
    let (mut number, mut power) = (number, 0);
    while number >= 1000.0 && power < 4 {
        (number, power) = (number / 1000.0, power + 1);
    }
    let letter = ["", "k", "M", "G", "T"][power];
    let digits = usize::from(number < 100.0) + usize::from(number < 10.0);
    let number = format!("{number:.digits$}");
    format!("{number} {letter}{unit}").trim_end().to_owned()
}

/// A part of one copy that is worth a move; less is an error of arithmetic.
const LEAST: f64 = 1e-6;
const SILENCE: Duration = Duration::from_secs(5);
const ANSWER_MAX: u64 = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  guira plan regional --network 10G c1=r1:5000,r2:5000 c2=r3:5000    by what the routers of two clusters have sampled
  guira plan regional --network 10G --clusters 8 c1=r1:5000,r2:5000  one cluster stands for eight
  guira plan regional --network 10G --clusters 8 --family a:5T:3.26M:10.7k --family b:5T:458k:4.34k

The column belongs says where each family's items are to be: in a pool that all clusters share, or in each cluster.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches};

    fn planned(words: &str) -> Result<String, NoPlan> {
        let command = RegionalArgs::augment_args(Command::new("regional").no_binary_name(true));
        let matches = command.try_get_matches_from(words.split_whitespace());
        plan(&RegionalArgs::from_arg_matches(&matches.unwrap()).unwrap())
    }

    fn verdict(text: &str, family: &str) -> &'static str {
        let line = text.lines().find(|line| line.trim_start().starts_with(family));
        match line.unwrap_or_else(|| panic!("{text}")) {
            line if line.contains("regional pool") => "regional",
            line if line.contains("each cluster") => "cluster",
            line => panic!("{line}"),
        }
    }

    /// Table 1: category A has 3.26 million gets a second of 10.7 kB and stays; B has 458,000 of 4.34 kB and was moved.
    /// It doesn't say how large the sets are, nor how many clusters there were.
    #[test]
    fn the_papers_two_categories_are_judged_as_in_its_table_1() {
        for clusters in [2, 4, 10, 30] {
            for (set_of_a, set_of_b) in [("5T", "5T"), ("10T", "5T"), ("1T", "5T")] {
                let text = planned(&format!(
                    "--network 10G --clusters {clusters} --family A:{set_of_a}:3.26M:10.7k --family B:{set_of_b}:458k:4.34k"
                ));
                let text = text.unwrap();
                assert_eq!((verdict(&text, "A"), verdict(&text, "B")), ("cluster", "regional"));
            }
        }
        let text =
            planned("--network 1G --clusters 4 --family A:5T:3.26M:10.7k --family B:5T:458k:4.34k");
        assert_eq!(verdict(&text.unwrap(), "B"), "cluster", "no room for either");
        let text = planned("--network 10G --clusters 4 --family B:5T:458k:4.34k").unwrap();
        assert!(text.contains("15.0 TB") && text.contains("1.49 GB/s"), "{text}");
    }

    #[test]
    fn what_several_clusters_have_is_saved_and_what_one_has_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, lines: &[&str]| {
            let path = folder.path().join(name);
            let text = format!("share 0.001 seconds 10\n{}\n", lines.join("\n"));
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let c1a = file("c1a", &["1 100 300 400 2 5 a same", "2 1000 1000 1000 1 10 a own"]);
        let c1b = file("c1b", &["1 200 200 200 1 5 b same"]);
        let c2 = file("c2", &["1 200 200 200 1 10 c same", "3 1000 1000 1000 1 10 c own"]);
        let text = planned(&format!("--network 1G one={c1a},{c1b} two={c2}")).unwrap();
        assert_eq!((verdict(&text, "same"), verdict(&text, "own")), ("regional", "cluster"));
        let line = text.lines().find(|line| line.contains("same")).unwrap();
        // 200 bytes of a thousandth, once and in two clusters; 20 gets in 10 seconds, half of them from elsewhere.
        for part in ["200 kB", "200 B", "2.00 k", "3", "200 kB/s"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let text = planned(&format!("--network 1G --clusters 4 one={c1a},{c1b}")).unwrap();
        let line = text.lines().find(|line| line.contains("same")).unwrap();
        assert!(line.contains("600 kB") && line.contains("4.00 k"), "{line}");
        for (words, told) in [
            (format!("--network 1G one={c1a}"), "at least two"),
            (format!("--network 1G one={c1a} two=127.0.0.1:1"), "127.0.0.1:1: "),
            (format!("--network much one={c1a}"), "such as 10G"),
            ("--network 1G --clusters 2 r1:5000".to_owned(), "c1=r1:5000"),
            ("--network 1G --clusters 2 --family a:1".to_owned(), "NAME:SET:GETS:ITEM"),
        ] {
            let refused = planned(&words).unwrap_err();
            assert!(refused.to_string().contains(told), "{refused}");
        }
    }
}
