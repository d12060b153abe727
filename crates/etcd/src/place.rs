//! A place in etcd, as a command line names it.

/// `etcd:HOST:PORT,HOST:PORT/PATH`; `etcds:` is TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdPlace {
    /// Whether etcd is spoken to over TLS.
    pub is_secured: bool,
    /// `HOST:PORT` of each endpoint, at least one.
    pub hosts: Vec<String>,
    /// The text behind the first slash; it isn't empty.
    pub path: String,
}

impl EtcdPlace {
    /// Reads a place; `None` if the text has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (is_secured, rest) = match text.strip_prefix("etcds:") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("etcd:")?),
        };
        let (hosts, path) = rest.split_once('/')?;
        let is_good = |host: &str| {
            let parts = host.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        let is_whole = hosts.split(',').all(is_good) && !path.is_empty();
        let hosts = hosts.split(',').map(str::to_owned).collect();
        is_whole.then(|| Self { is_secured, hosts, path: path.to_owned() })
    }

    /// Each endpoint's URL.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.is_secured { "https" } else { "http" };
        self.hosts.iter().map(|host| format!("{scheme}://{host}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stands_behind_the_first_slash() {
        for (scheme, url) in [("etcd", "http://10.0.0.1:2379"), ("etcds", "https://10.0.0.1:2379")]
        {
            let place = EtcdPlace::parse(&format!("{scheme}:10.0.0.1:2379//guira/route"));
            let place = place.map(|place| (place.urls(), place.path));
            assert_eq!(place, Some((vec![url.to_owned()], "/guira/route".to_owned())));
            let three = EtcdPlace::parse(&format!("{scheme}:a:1,b:2,c:3/k"));
            assert_eq!(three.map(|place| place.hosts.len()), Some(3));
        }
        for text in ["", "h", "h:1", "h:1/", "h/k", ":1/k", "h:x/k", "h:1,/k"] {
            assert_eq!(EtcdPlace::parse(&format!("etcd:{text}")), None, "{text}");
        }
        assert_eq!(EtcdPlace::parse("h:1/k"), None, "without a scheme");
    }
}
