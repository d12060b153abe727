//! The views of the clusters in routes. All threads share one watch per cluster, which exists as long as a tree has a
//! route to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use guira_chain::Chart;
use guira_cluster::{Fault, Register, Sight, watch_anyway};
use parking_lot::Mutex;
use tokio::sync::watch::{Receiver, channel};

use crate::server::ClusterSpec;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct ClusterWatches(Mutex<BTreeMap<String, Weak<ClusterWatch>>>);

/// The view of one cluster, and whether it is the newest.
#[derive(Debug)]
pub(crate) struct ClusterWatch {
    sights: Receiver<Sight>,
    /// The chart of the newest view that was asked for.
    chart: Mutex<Option<Arc<Chart>>>,
    /// What the log has about nodes that give no holds, by their addresses: threads have one line for all of them.
    told: Mutex<BTreeMap<String, String>>,
}

impl ClusterWatches {
    /// Returns the watch of a cluster, and starts it if there is none.
    pub(crate) fn of(&self, wanted: &ClusterSpec) -> Arc<ClusterWatch> {
        let mut known = self.0.lock();
        if let Some(watch) = known.get(&wanted.place).and_then(Weak::upgrade) {
            return watch;
        }
        let register = register(wanted);
        let sights = register.and_then(|it| watch_anyway(it.into()).map_err(|it| it.to_string()));
        let watch = Arc::new(match sights {
            Ok(sights) => ClusterWatch::by(sights),
            Err(words) => ClusterWatch::blind(&words),
        });
        known.retain(|_, watch| watch.strong_count() > 0);
        known.insert(wanted.place.clone(), Arc::downgrade(&watch));
        watch
    }

    /// All watched clusters, each with its place.
    pub(crate) fn all(&self) -> Vec<(String, Arc<ClusterWatch>)> {
        let known = self.0.lock();
        known.iter().filter_map(|(place, it)| Some((place.clone(), it.upgrade()?))).collect()
    }
}

impl ClusterWatch {
    /// Creates a watch that never has a view, for this reason.
    pub(super) fn blind(lack: &str) -> Self {
        Self::fixed(Sight { view: None, lack: Some(lack.to_owned()) })
    }

    /// Reads the view once. May wait for etcd.
    pub(super) fn look(wanted: &ClusterSpec) -> Self {
        let seen =
            register(wanted).and_then(|it| it.view().map_err(|fault: Fault| fault.to_string()));
        Self::fixed(match seen {
            Ok(seen) => Sight { view: Some(seen.view), lack: None },
            Err(words) => Sight { view: None, lack: Some(words) },
        })
    }

    /// Creates a watch whose state never changes.
    pub(super) fn fixed(sight: Sight) -> Self {
        let (_, sights) = channel(sight);
        Self::by(sights)
    }

    fn by(sights: Receiver<Sight>) -> Self {
        Self { sights, chart: Mutex::default(), told: Mutex::default() }
    }

    /// Takes note of why the node at an address gives no holds, or that it does. Returns whether that is news.
    pub(super) fn is_news(&self, address: &str, why: Option<&str>) -> bool {
        let mut told = self.told.lock();
        match why {
            None => told.remove(address).is_some(),
            Some(why) => {
                let before = told.insert(address.to_owned(), why.to_owned());
                before.as_deref() != Some(why)
            }
        }
    }

    pub(super) fn sights(&self) -> Receiver<Sight> {
        self.sights.clone()
    }

    /// The newest view, as a chart that all threads share. `None`: there is no view. For a moment, the chart may be
    /// older than the channel's view.
    pub(super) fn chart(&self) -> Option<Arc<Chart>> {
        let view = self.sights.borrow().view.clone()?;
        let mut chart = self.chart.lock();
        match &*chart {
            Some(known) if Arc::ptr_eq(&known.view, &view) => {}
            _ => *chart = Some(Arc::new(Chart::of(view))),
        }
        chart.clone()
    }

    /// Why the view may not be the newest; `None` if it is.
    pub(super) fn lack(&self) -> Option<String> {
        self.sights.borrow().lack.clone()
    }

    /// Whether the view is up to date, and changes will be seen.
    pub(crate) fn is_followed(&self) -> bool {
        let sight = self.sights.borrow();
        sight.view.is_some() && sight.lack.is_none()
    }

    /// The epoch of the view; 0 if there is none.
    pub(crate) fn epoch(&self) -> u64 {
        self.sights.borrow().view.as_ref().map_or(0, |view| view.epoch)
    }
}

/// Returns the cluster's register, without connecting to it.
pub(crate) fn register(wanted: &ClusterSpec) -> Result<Register, String> {
    let access = wanted.etcd.clone().access(wanted.place.starts_with("etcds:"))?;
    Register::open(&wanted.place, access).map_err(|fault| fault.to_string())
}
