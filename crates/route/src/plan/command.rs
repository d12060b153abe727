//! `guira plan`: the sizes that the theory asks for, as a table.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{LineStyle, Table};

use super::{ALPHA, bound_of_k, entries, entries_by_chance, k_of, unequal_factor};

/// How large the small cache in front of n servers must be.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Servers behind the cache
    #[arg(short = 'n', long, value_name = "N", required_unless_present = "capacities")]
    servers: Option<u32>,

    /// Capacity of each server in any unit, instead of --servers, if they differ
    #[arg(long, value_name = "C,C,...", value_delimiter = ',', conflicts_with = "servers")]
    capacities: Vec<f64>,

    /// Highest load of a server, as a multiple of the mean load
    #[arg(long, value_name = "LOAD", default_value_t = 1.2)]
    target: f64,

    /// Probability that some server's load exceeds the target
    #[arg(long, value_name = "P", default_value_t = 1e-6)]
    failure: f64,

    /// How unevenly the pool's hash spreads keys: the largest server's share divided by the mean share (about 1.16 for a ring with 256 points per server)
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    imbalance: f64,

    /// Memory of an entry, for the table's memory column: key, value and about 100 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    entry_bytes: u64,
}

/// The error if there is no plan.
#[derive(Debug, PartialEq, Eq)]
pub struct NoPlan(pub(super) String);

impl std::fmt::Display for NoPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoPlan {}

/// Returns the plan as text.
///
/// # Errors
/// [`NoPlan`] names the argument that makes it impossible, and a value that works.
pub fn plan(args: &Args) -> Result<String, NoPlan> {
    let servers = match args.servers {
        Some(n) => f64::from(n),
        None => args.capacities.len() as f64,
    };
    let refuse = |message: String| Err(NoPlan(message));
    if !(2.0..=1e6).contains(&servers) {
        return refuse(format!(
            "{servers} servers: give from 2 to a million, one needs no balance"
        ));
    }
    if args.capacities.iter().any(|c| !c.is_finite() || *c <= 0.0) {
        return refuse("--capacities: each must be above 0".into());
    }
    if !(args.imbalance >= 1.0 && args.imbalance.is_finite()) {
        return refuse("--imbalance: 1 is a ring that cuts evenly, others are above".into());
    }
    if !(args.failure > 0.0 && args.failure < 1.0) {
        return refuse("--failure: a probability above 0 and below 1, such as 1e-6".into());
    }
    let target = args.target / args.imbalance;
    if !(1.001..=1e3).contains(&target) {
        return refuse(format!(
            "--target {} with --imbalance {}: a cache evens out queries, not the ring; take a target above {:.3}, or more \
             points a server",
            args.target,
            args.imbalance,
            args.imbalance * 1.001
        ));
    }
    let weakest = args.capacities.iter().copied().fold(f64::INFINITY, f64::min);
    let shares = args.capacities.iter().map(|c| c / weakest).sum::<f64>();
    let factor = match args.capacities.len() {
        0 => 1.0,
        _ => unequal_factor(servers, shares / servers),
    };
    let k = k_of(target, ALPHA);
    let thesis = (entries(servers, k * factor)).ceil();
    // A strong server counts as several equal bins: if each of them meets the target, so does their sum.
    let bins = if args.capacities.is_empty() { servers } else { shares };
    let (by_chance, keys) = entries_by_chance(bins, target, args.failure);
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none())).set_header([
        "",
        "entries",
        "memory",
        "what it promises",
    ]);
    let memory = |entries: f64| format!("{:.1} MB", entries * args.entry_bytes as f64 / 1e6);
    table.add_row([
        "take".to_owned(),
        by_chance.to_string(),
        memory(by_chance as f64),
        format!(
            "whichever keys are popular, no server gets more than {} times the mean load, except with probability {:e}; \
             the worst case is {keys} keys of equal popularity",
            args.target, args.failure
        ),
    ]);
    table.add_row([
        "for comparison".to_owned(),
        format!("{thesis:.0}"),
        memory(thesis),
        format!(
            "c = {:.3}·n·ln n + 1 of Fan's thesis (eq. 2.13, alpha 2): the expected load of each server is at most {:.3} of the mean",
            k * factor,
            bound_of_k(k, ALPHA) * args.imbalance
        ),
    ]);
    Ok(table.to_string())
}

const EXAMPLES: &str = "\
Examples:
  guira plan --servers 85                    entries for a HotCacheRoute in front of 85 equal servers
  guira plan --servers 85 --imbalance 1.16   the same, if their pool hashes by a ring

The row \"take\" of the table has the number of entries to configure.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches};

    fn planned(words: &str) -> Result<String, NoPlan> {
        let command = Args::augment_args(Command::new("plan").no_binary_name(true));
        let matches = command.try_get_matches_from(words.split_whitespace());
        plan(&Args::from_arg_matches(&matches.unwrap()).unwrap())
    }

    #[test]
    fn a_plan_names_both_sizes() {
        let text = planned("--servers 85").unwrap();
        assert!(text.contains("3603") && text.contains("3148"), "{text}");
        let text = planned("-n 100 --target 1.5 --failure 1e-3").unwrap();
        assert!(text.contains(" 993 ") && text.contains("1230"), "{text}");
    }

    #[test]
    fn unequal_servers_are_planned_by_their_shares() {
        let even = planned("--capacities 3,3,3,3").unwrap();
        assert_eq!(even, planned("--servers 4").unwrap());
        let uneven = planned("--capacities 1,1,2,4").unwrap();
        assert_ne!(even, uneven);
    }

    #[test]
    fn what_no_cache_can_mend_is_refused_with_what_would_do() {
        let refused = planned("-n 10 --target 1.2 --imbalance 1.3").unwrap_err();
        assert!(refused.0.contains("points a server"), "{refused}");
        for words in ["-n 1", "-n 10 --failure 0", "-n 10 --imbalance 0.5", "--capacities 1,0"] {
            assert!(planned(words).is_err(), "{words}");
        }
    }
}
