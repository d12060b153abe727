//! A sender's connection to one of its destination's routers, and to the next one after it broke.

use std::io;

use guira_client::Address;

use super::link::RouterLink;
use crate::config::DestinationConfig;
use crate::counts::CourierCounts;

/// See the module's head.
#[derive(Default)]
pub(super) struct Uplink {
    link: Option<RouterLink>,
    router: usize,
}

impl Uplink {
    /// The router that is connected, or will be next.
    fn router<'a>(&self, to: &'a DestinationConfig) -> &'a Address {
        &to.routers[self.router % to.routers.len()]
    }

    /// Returns the connection. Connects if there is none.
    pub(super) fn connect(
        &mut self,
        to: &DestinationConfig,
        counts: &CourierCounts,
    ) -> io::Result<&mut RouterLink> {
        let link = match self.link.take() {
            Some(link) => link,
            None => {
                let link = RouterLink::connect(self.router(to))?;
                counts.connects.add(1);
                counts.is_connected.set(1);
                link
            }
        };
        Ok(self.link.insert(link))
    }

    /// Returns the connection that is open.
    ///
    /// # Errors
    /// None is.
    pub(super) fn open(&mut self) -> io::Result<&mut RouterLink> {
        self.link.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Drops the connection, which broke with `error`, and selects the next router.
    pub(super) fn lose(
        &mut self,
        to: &DestinationConfig,
        counts: &CourierCounts,
        error: &io::Error,
    ) {
        tracing::warn!("destination {}: router {}: {error}", to.name, self.router(to));
        self.link = None;
        counts.is_connected.set(0);
        self.router += 1;
    }
}
