//! What a node's flags say of its part in a cluster.

use std::net::IpAddr;
use std::path::PathBuf;

use guira_cluster::{EtcdArgs, NAME_FORM, host_name, is_name};
use guira_front::certificates::PeerTlsFiles;

use super::flags::StoreArgs;
use super::tls::peer_tls;

/// How a node takes part in a cluster.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaOptions {
    pub(crate) source: ViewSource,
    /// The address on which the node listens for others, if that isn't the one in the view.
    pub(crate) peers: Option<String>,
    /// The files for TLS with other nodes.
    pub(crate) tls: Option<PeerTlsFiles>,
}

/// Where a node gets its views from.
#[derive(Clone, Debug)]
pub(crate) enum ViewSource {
    /// A file, and the node's number in it.
    File { path: PathBuf, node: guira_chain::NodeId },
    /// etcd.
    Register(Joining),
}

/// What a node registers with.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub(crate) place: String,
    pub(crate) etcd: EtcdArgs,
    pub(crate) name: String,
    pub(crate) zone: String,
    pub(crate) weight: u32,
    /// Where clients reach it, if that is known.
    pub(crate) clients: String,
}

/// Gives the flags about a cluster their meaning. `None`: the store is alone.
pub(super) fn replica(
    args: &StoreArgs,
    value_max: usize,
) -> Result<Option<ReplicaOptions>, String> {
    let has_etcd = args.etcd != EtcdArgs::default();
    if let Some(peers) = args.peers.as_deref().filter(|it| args.cluster.is_some() && is_vague(it)) {
        return Err(format!(
            "--peers {peers}: name the address and the port that other nodes reach"
        ));
    }
    let name = args.name.clone().unwrap_or_else(default_name);
    if args.cluster.is_some() && !is_name(&name) {
        return Err(format!("--name {name:?}: {NAME_FORM}"));
    }
    if args.cluster.is_some() && name.bytes().all(|it| it.is_ascii_digit()) {
        return Err(format!(
            "--name {name}: commands would take it for a node's number: add a letter"
        ));
    }
    let clients = clients(args);
    if let Some(peers) = args.peers.as_ref().filter(|it| **it == clients) {
        return Err(format!(
            "--peers {peers}: clients have this port (-p): other nodes need another one"
        ));
    }
    let source = match (&args.cluster, &args.view, args.node) {
        (Some(place), _, _) => ViewSource::Register(Joining {
            place: place.clone(),
            etcd: args.etcd.clone(),
            name,
            zone: args.zone.clone().unwrap_or_default(),
            weight: args.weight.unwrap_or(1),
            clients,
        }),
        (None, ..) if has_etcd => return Err("--etcd-…: name the --cluster".to_owned()),
        (None, Some(path), Some(node)) => ViewSource::File { path: path.clone(), node },
        (None, ..) if args.peers.is_some() => {
            return Err("--peers: name the --cluster, or --view and --node".to_owned());
        }
        (None, ..) if args.peer_tls_cert.is_some() => {
            return Err("--peer-tls-cert: name the --cluster, or --view and --node".to_owned());
        }
        (None, ..) => return Ok(None),
    };
    if value_max > REPLICATED_BYTES_MAX {
        return Err("-I: values of a replicated store have 8m at most".to_owned());
    }
    Ok(Some(ReplicaOptions { source, peers: args.peers.clone(), tls: peer_tls(args) }))
}

/// The host's name, which is no number: a container's may be of digits only.
fn default_name() -> String {
    let name = host_name();
    if name.bytes().all(|it| it.is_ascii_digit()) { format!("n{name}") } else { name }
}

/// The address where clients reach the node, as far as its flags show it. Empty: none.
fn clients(args: &StoreArgs) -> String {
    let is_reached = args.unix_socket.is_none() && args.port != 0;
    let peers = args.peers.as_deref().filter(|_| is_reached);
    peers.map(|peers| clients_at(&args.listen, peers, args.port)).unwrap_or_default()
}

/// At the address that the node listens on, if that is one, else at the host that other nodes reach. A node that listens to
/// its own machine only, and is reached by others from elsewhere, has no address: another program may have it there.
fn clients_at(listen: &str, peers: &str, port: u16) -> String {
    let bare = |host: &str| host.trim().trim_matches(['[', ']']).to_owned();
    let peers = bare(peers.rsplit_once(':').map_or(peers, |(host, _)| host));
    let ip = |host: &String| host.parse::<IpAddr>().ok();
    let is_local =
        |host: &String| *host == "localhost" || ip(host).is_some_and(|it| it.is_loopback());
    let own: Vec<String> = listen.split(',').map(bare).filter(|it| !it.is_empty()).collect();
    let one = own.iter().filter(|it| ip(it).is_some_and(|it| !it.is_unspecified()));
    let mut one = one.filter(|it| is_local(&peers) || !is_local(it));
    let is_everywhere =
        own.is_empty() || own.iter().any(|it| ip(it).is_none_or(|it| it.is_unspecified()));
    match one.next().or(is_everywhere.then_some(&peers)) {
        Some(host) if host.contains(':') => format!("[{host}]:{port}"),
        Some(host) => format!("{host}:{port}"),
        None => String::new(),
    }
}

/// Whether an address means any host or any port, so that other nodes can't use it.
fn is_vague(address: &str) -> bool {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.is_ok_and(|ip| ip.is_unspecified()) || port.parse().is_ok_and(|port: u16| port == 0)
}

/// The longest value of a replicated store.
const REPLICATED_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_sent_where_the_node_listens() {
        for (listen, peers, wanted) in [
            ("127.0.0.1", "127.0.0.1:9", "127.0.0.1:11311"),
            ("127.0.0.1", "10.0.0.4:9", ""),
            ("0.0.0.0", "10.0.0.4:9", "10.0.0.4:11311"),
            ("", "store-4:9", "store-4:11311"),
            ("127.0.0.1,10.0.0.5", "10.0.0.4:9", "10.0.0.5:11311"),
            ("store-4", "10.0.0.4:9", "10.0.0.4:11311"),
            ("::", "[fd00::4]:9", "[fd00::4]:11311"),
            ("[fd00::5]", "[fd00::4]:9", "[fd00::5]:11311"),
        ] {
            assert_eq!(clients_at(listen, peers, 11311), wanted, "{listen} {peers}");
        }
    }
}
