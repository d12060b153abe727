//! A copy of the newest view in the node's directory, for the day when etcd has lost it.
//!
//! # Invariants
//! 1. The file holds one whole view, or doesn't exist: it is replaced, never written in place, and is on the device before that.
//! 2. A node that starts believes no older view than its copy, if that is of the same cluster.
//!
//! # Costs
//! A write and a sync for each view that the node follows, beside its other work. Of views that come meanwhile, the last one is
//! written.
//!
//! # Weaknesses
//! The node follows a view without waiting for its copy. So after all processes are killed at once, the copies may lack the view
//! of that moment.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use guira_chain::{Chart, View};
use guira_cluster::VIEW_COPY;
use tokio::sync::watch::Receiver;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Reads the copy; `None`: there is none that can be read.
pub(super) fn read(directory: &Path) -> Option<View> {
    let text = fs::read_to_string(directory.join(VIEW_COPY)).ok()?;
    View::from_json(&text).ok()
}

/// Writes each view that the node follows into the directory, until the node ends.
pub(super) async fn keep(mut followed: Receiver<Option<Arc<Chart>>>, directory: PathBuf) {
    let mut is_failing = false;
    loop {
        let chart = followed.borrow_and_update().clone();
        if let Some(chart) = chart {
            let to = directory.clone();
            let written = spawn_blocking(move || write(&to, &chart.view.to_json())).await;
            match written.map_err(io::Error::other).flatten() {
                Ok(()) => is_failing = false,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        let path = directory.join(VIEW_COPY);
                        tracing::warn!(
                            "the view can't be copied to {}: {error}; it is tried again each second",
                            path.display()
                        );
                    }
                    // Perhaps no other view comes for months.
                    if let Ok(Err(_)) = timeout(RETRY, followed.changed()).await {
                        return;
                    }
                    continue;
                }
            }
        }
        if followed.changed().await.is_err() {
            return;
        }
    }
}

/// Replaces the copy. Only its owner may read it: who knows the seed can choose keys that all lie in one slot.
fn write(directory: &Path, view: &str) -> io::Result<()> {
    let [path, draft] = [VIEW_COPY, DRAFT].map(|name| directory.join(name));
    // One may be left of a process that was killed. A file that is new is no link to somebody else's, and has this mode.
    fs::remove_file(&draft).ok();
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(view.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(draft, path)
}

const DRAFT: &str = "view.json.new";
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use tokio::sync::watch::channel;

    fn chart(epoch: u64) -> Option<Arc<Chart>> {
        let mut view = guira_cluster::first_view("birds", 3, 2).unwrap();
        view.epoch = epoch;
        Some(Arc::new(Chart::of(view.into())))
    }

    async fn is_copied(directory: &Path, epoch: u64) -> fs::Metadata {
        let copied = || read(directory).map(|view| view.epoch) == Some(epoch);
        while !copied() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::metadata(directory.join(VIEW_COPY)).unwrap()
    }

    #[tokio::test]
    async fn each_view_that_is_followed_is_in_the_directory_also_if_that_failed_at_first() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("not made yet");
        let (follow, followed) = channel(chart(7));
        let keeping = tokio::spawn(keep(followed, directory.clone()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(read(&directory).is_none() && !keeping.is_finished());
        fs::create_dir(&directory).unwrap();
        // No other view comes.
        let first = is_copied(&directory, 7).await;
        assert_eq!(first.mode() & 0o777, 0o600, "only its owner may read it");
        fs::write(directory.join(DRAFT), "what a killed process left").unwrap();
        follow.send_replace(chart(8));
        let second = is_copied(&directory, 8).await;
        assert_ne!(first.ino(), second.ino(), "it is another file, not the same one rewritten");
        drop(follow);
        keeping.await.expect("it ends with the node");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no draft is left");
        fs::write(directory.join(VIEW_COPY), "{").unwrap();
        assert!(read(&directory).is_none(), "half a view is none");
    }
}
