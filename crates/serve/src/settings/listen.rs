//! The addresses of `-l`: a list of hosts with or without ports, in memcached's notation.

use crate::options::Refusal;

/// One address to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    /// The host or the group of addresses.
    pub(crate) host: Host,
    /// The port; 0: any free one.
    pub(crate) port: u16,
    /// What TLS demands of clients; `None`: no TLS.
    pub(crate) tls: Option<ClientCerts>,
}

/// Whether clients must have a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCerts {
    /// As `ssl_verify_mode` says.
    AsSet,
    /// Not demanded: `btls:`.
    Never,
    /// Always demanded: `mtls:`.
    Always,
}

/// The host to bind to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// 127.0.0.1 and `::1`, the default.
    Loopback,
    /// Every address of the machine; v4 and v6 have a socket each.
    All,
    /// A name or number that has to be resolved.
    Named(String),
}

/// Splits `list` at commas and semicolons; entries without a port get `port`.
///
/// # Errors
/// A port or bracket is bad, a prefix for TLS is used without TLS, or one for a part that this build lacks (the proxy).
pub(super) fn parse(
    list: &str,
    port: u16,
    tls: Option<ClientCerts>,
) -> Result<Vec<ListenAddress>, Refusal> {
    list.split([',', ';'])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(|entry| parse_one(entry, port, tls))
        .collect()
}

fn parse_one(entry: &str, port: u16, tls: Option<ClientCerts>) -> Result<ListenAddress, Refusal> {
    let (entry, tls) = without_tls(entry, tls)?;
    let entry = without_protocol(entry)?;
    Ok(ListenAddress { tls, ..place(without_tag(entry)?, port, "-l")? })
}

/// Parses the address for metrics: a port alone means loopback, a host alone gets [`HTTP_PORT`].
///
/// # Errors
/// A bad port or bracket.
pub(super) fn parse_http(text: &str) -> Result<ListenAddress, Refusal> {
    let text = text.trim();
    let port = text.strip_prefix(':').unwrap_or(text);
    // A number is a port, and never the address that systems make of it: 99999 would be 0.1.134.159.
    if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) {
        let port = port.parse().map_err(|_| {
            Refusal::value(format!("--http {text}: a port is a number from 1 to 65535"))
        })?;
        return Ok(ListenAddress { host: Host::Loopback, port, tls: None });
    }
    place(text, HTTP_PORT, "--http")
}

fn place(entry: &str, port: u16, flag: &str) -> Result<ListenAddress, Refusal> {
    let (host, port_text) = split_host(entry, flag)?;
    let port = match port_text {
        None => port,
        Some(text) => match text.parse::<u16>() {
            Ok(number) => number,
            Err(_) => {
                return refuse(format!("{flag} {entry}: Invalid port number: \"{text}\""));
            }
        },
    };
    let host = if host == "*" { Host::All } else { Host::Named(host.to_owned()) };
    Ok(ListenAddress { host, port, tls: None })
}

/// Strips `notls:`, `btls:` or `mtls:`; without one of them, `tls` holds.
fn without_tls(
    entry: &str,
    tls: Option<ClientCerts>,
) -> Result<(&str, Option<ClientCerts>), Refusal> {
    let kinds =
        [("notls", None), ("btls", Some(ClientCerts::Never)), ("mtls", Some(ClientCerts::Always))];
    for (name, kind) in kinds {
        if let Some(rest) = entry.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')) {
            return match tls {
                Some(_) => Ok((rest, kind)),
                None => Err(Refusal::usage(format!(
                    "-l {name}:{rest}: '{name}' option is valid only when SSL is enabled: add -Z"
                ))),
            };
        }
    }
    Ok((entry, tls))
}

/// Strips `proto[ascii]:` or `proto[negotiating]:`, which name the default.
fn without_protocol(entry: &str) -> Result<&str, Refusal> {
    let Some(rest) = entry.strip_prefix("proto[") else { return Ok(entry) };
    let Some((name, rest)) = rest.split_once(']') else {
        return refuse(format!("Invalid protocol spec: \"{entry}\""));
    };
    match name {
        "ascii" | "negotiating" => Ok(rest.strip_prefix(':').unwrap_or(rest)),
        "proxy" => refuse(format!("Server not built with proxy: \"{entry}\"")),
        _ => refuse(format!(
            "proto[{name}]: this build listens for ascii only; write proto[ascii]: or leave it out"
        )),
    }
}

/// Strips `tag[name]:` or `tag_name_:`. Only the proxy uses tags.
fn without_tag(entry: &str) -> Result<&str, Refusal> {
    let (rest, close) = if let Some(rest) = entry.strip_prefix("tag[") {
        (rest, ']')
    } else if let Some(rest) = entry.strip_prefix("tag_") {
        (rest, '_')
    } else {
        return Ok(entry);
    };
    let Some((name, rest)) = rest.split_once(close) else {
        return refuse(format!("Invalid tag in socket config: \"{entry}\""));
    };
    if name.is_empty() || name.len() > 8 {
        return refuse(format!("Listener tags must be between 1 and 8 characters: \"{name}\""));
    }
    Ok(rest.strip_prefix(':').unwrap_or(rest))
}

/// Splits `[v6]`, `[v6]:port`, `host`, `host:port` or a bare v6 address into host and port.
fn split_host<'e>(entry: &'e str, flag: &str) -> Result<(&'e str, Option<&'e str>), Refusal> {
    if let Some(rest) = entry.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else {
            return refuse(format!("{flag}: Invalid IPV6 address: \"{entry}\""));
        };
        return Ok((host, rest.strip_prefix(':')));
    }
    match entry.split_once(':') {
        // More than one colon and no brackets: a v6 address without a port.
        Some((_, rest)) if rest.contains(':') => Ok((entry, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((entry, None)),
    }
}

fn refuse<T>(message: String) -> Result<T, Refusal> {
    Err(Refusal::value(message))
}

/// `memcached_exporter`'s port.
const HTTP_PORT: u16 = 9150;
