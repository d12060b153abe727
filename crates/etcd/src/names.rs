//! The addresses of endpoints' names.
//!
//! The library's own way starts a thread for each request, also if the name is an address or was just found.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Names {
    library: DefaultResolver,
    found: Mutex<HashMap<String, (Instant, Vec<SocketAddr>)>>,
}

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16());
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        if let (Ok(address), Some(port)) = (address, port) {
            return Ok(self.list(&[SocketAddr::new(address, port)]));
        }
        let name = uri.authority().map(ToString::to_string).unwrap_or_default();
        if let Some((at, addresses)) = self.found.lock().get(&name)
            && at.elapsed() < KEPT
        {
            return Ok(self.list(addresses));
        }
        let found = self.library.resolve(uri, config, timeout)?;
        self.found.lock().insert(name, (Instant::now(), found.to_vec()));
        Ok(found)
    }
}

impl Names {
    fn list(&self, addresses: &[SocketAddr]) -> ResolvedSocketAddrs {
        let mut list = self.empty();
        addresses.iter().for_each(|address| list.push(*address));
        list
    }
}

/// A name is looked up again after this time, or when a request has failed.
const KEPT: Duration = Duration::from_secs(10);
