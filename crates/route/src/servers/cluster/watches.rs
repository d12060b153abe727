//! The views of the clusters in routes. All threads share one watch per cluster, which exists as long as a tree has a
//! route to it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use guira_chain::Chart;
use guira_cluster::{Fault, Register, Sight, watch_anyway};
use parking_lot::Mutex;
use tokio::sync::watch::{Receiver, channel};

use crate::server::ClusterSpec;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct ClusterWatches {
    known: Mutex<BTreeMap<String, Weak<ClusterWatch>>>,
    /// Whether all clusters had a view at some time.
    had_views: AtomicBool,
}

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
        let mut known = self.known.lock();
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
        let known = self.known.lock();
        known.iter().filter_map(|(place, it)| Some((place.clone(), it.upgrade()?))).collect()
    }

    /// Why a router that has just started can't serve yet: it has no view of a cluster. Once all clusters have had one, the
    /// answer is `None` for good: no change of a configuration and no loss of etcd takes all routers out of service.
    pub(crate) fn lack_of_start(&self) -> Option<String> {
        if self.had_views.load(Relaxed) {
            return None;
        }
        let lack = self.all().into_iter().find_map(|(place, watch)| watch.no_view(&place));
        // Whoever finds a lack meanwhile doesn't take that back.
        if lack.is_none() {
            self.had_views.store(true, Relaxed);
        }
        lack
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

    /// Why there is no view; `None` if there is one.
    pub(super) fn no_view(&self, place: &str) -> Option<String> {
        let sight = self.sights.borrow();
        let lack = sight.lack.as_deref().unwrap_or("etcd hasn't answered yet");
        sight.view.is_none().then(|| format!("cluster {place}: no view yet: {lack}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use guira_chain::View;

    const VIEW: &str = r#"{"format": 1, "cluster": "birds", "epoch": 7, "seed": "c2VlZA==", "replicas": 1, "min_write": 1,
        "nodes": {"1": {"name": "a", "peers": "h:1", "clients": "h:11", "weight": 1, "run": "1f"}},
        "groups": [{"slots": "0-16383", "epoch": 7, "serving": [1]}]}"#;

    #[test]
    fn a_router_is_unready_until_each_cluster_had_a_view_and_never_again() {
        let watches = ClusterWatches::default();
        let (etcd, sights) = channel(Sight { view: None, lack: Some("refused".to_owned()) });
        let watch = Arc::new(ClusterWatch::by(sights));
        let know = |place: &str, watch| {
            watches.known.lock().insert(place.to_owned(), Arc::downgrade(watch));
        };
        know("etcd:h:1/birds", &watch);
        let told = "cluster etcd:h:1/birds: no view yet: refused";
        assert_eq!(watches.lack_of_start().as_deref(), Some(told));
        // One that comes before it in the map, and has a view.
        let view = View::from_json(VIEW).map(Arc::new).unwrap();
        let other = Arc::new(ClusterWatch::fixed(Sight { view: Some(view), lack: None }));
        know("etcd:h:0/birds", &other);
        assert_eq!(watches.lack_of_start().as_deref(), Some(told), "each of them is needed");
        let view = View::from_json(VIEW).map(Arc::new).unwrap();
        etcd.send_modify(|sight| sight.view = Some(view));
        assert_eq!(watches.lack_of_start(), None, "etcd may be away: the view is there");
        let blind = Arc::new(ClusterWatch::blind("a mistake in a new configuration"));
        know("etcd:h:2/gone", &blind);
        assert_eq!(watches.lack_of_start(), None);
    }
}
