//! Which crate of the workspace may depend on which.

/// Crate, and the crates of the workspace that it may name.
///
/// Level 0 (`proto`, `index`, `policy`) names nobody: no I/O, no clock. `cache` knows no protocol.
pub const EDGES: [(&str, &[&str]); 26] = [
    ("guira-proto", &[]),
    ("guira-index", &[]),
    ("guira-policy", &[]),
    ("guira-filter", &[]),
    ("guira-chain", &[]),
    ("guira-config", &[]),
    ("guira-etcd", &["guira-tests"]),
    ("guira-front", &["guira-client", "guira-config", "guira-log", "guira-proto"]),
    ("guira-cluster", &["guira-chain", "guira-etcd", "guira-tests"]),
    ("guira-filter-rivals", &["guira-filter"]),
    ("guira-store-rivals", &["guira-node", "guira-store"]),
    ("guira-disk", &[]),
    ("guira-flash", &["guira-disk"]),
    ("guira-store", &["guira-disk", "guira-filter"]),
    (
        "guira-node",
        &[
            "guira-chain",
            "guira-client",
            "guira-cluster",
            "guira-disk",
            "guira-front",
            "guira-log",
            "guira-proto",
            "guira-store",
        ],
    ),
    ("guira-cache", &["guira-index", "guira-policy"]),
    ("guira-log", &[]),
    (
        "guira-serve",
        &["guira-cache", "guira-disk", "guira-flash", "guira-front", "guira-log", "guira-proto"],
    ),
    ("guira-client", &["guira-proto", "guira-tests"]),
    (
        "guira-route",
        &[
            "guira-chain",
            "guira-client",
            "guira-cluster",
            "guira-config",
            "guira-etcd",
            "guira-front",
            "guira-log",
            "guira-proto",
        ],
    ),
    (
        "guira-invalidate",
        &["guira-client", "guira-config", "guira-etcd", "guira-front", "guira-log", "guira-tests"],
    ),
    ("guira-bench", &["guira-front", "guira-proto"]),
    ("guira-ctl", &["guira-client", "guira-proto"]),
    (
        "guira-lab",
        &[
            "guira-bench",
            "guira-cache",
            "guira-chain",
            "guira-client",
            "guira-cluster",
            "guira-disk",
            "guira-filter",
            "guira-front",
            "guira-index",
            "guira-policy",
            "guira-route",
            "guira-store",
        ],
    ),
    (
        "guira",
        &[
            "guira-bench",
            "guira-cluster",
            "guira-ctl",
            "guira-invalidate",
            "guira-lab",
            "guira-node",
            "guira-route",
            "guira-serve",
        ],
    ),
    ("guira-tests", &[]),
];

/// Complains of dependencies between our crates that `EDGES` doesn't list.
#[must_use]
pub fn check_edges(path: &str, manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut section = "";
    let mut name = "";
    for line in manifest.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix('[') {
            section = rest.trim_end_matches(']');
            if let Some(target) = named_by_section(section) {
                found.extend(complaint(path, name, target));
            }
        } else if section == "package" && line.starts_with("name") {
            name = line.split('"').nth(1).unwrap_or_default();
            if EDGES.iter().all(|(known, _)| *known != name) {
                found.push(format!("{path}: {name} stands in no list of edges"));
            }
        } else if section.ends_with("dependencies") {
            let target = line.split(['.', '=', ' ']).next().unwrap_or_default();
            found.extend(complaint(path, name, target));
        }
    }
    found
}

/// `[dependencies.guira-x]` names its crate in the section.
fn named_by_section(section: &str) -> Option<&str> {
    section.rsplit_once("dependencies.").map(|(_, target)| target)
}

fn complaint(path: &str, name: &str, target: &str) -> Option<String> {
    let ours = target == "guira" || target.starts_with("guira-");
    let allowed = EDGES.iter().any(|(from, to)| *from == name && to.contains(&target));
    (ours && !allowed).then(|| format!("{path}: {name} may not depend on {target}"))
}
