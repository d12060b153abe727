//! A copy of the newest view in the node's directory, for the day when etcd has lost it.
//!
//! # Invariants
//! 1. The file holds one whole view, or doesn't exist: it is replaced, never written in place.
//!
//! # Costs
//! A write for each view that comes, on a thread of its own. Views that come meanwhile are written once, as the last of them.
//!
//! # Weaknesses
//! The node follows a view without waiting for its copy. So after all processes are killed at once, the copies may lack the view
//! of that moment. The device isn't asked to keep the file: a loss of power may leave the former one.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use guira_cluster::{Sight, VIEW_COPY};
use tokio::sync::watch::Receiver;
use tokio::task::spawn_blocking;

/// Writes each view of the register into the directory, forever.
pub(super) async fn keep(mut sights: Receiver<Sight>, directory: PathBuf) {
    let mut is_failing = false;
    loop {
        let view = sights.borrow_and_update().view.clone();
        if let Some(view) = view {
            let to = directory.clone();
            let written = spawn_blocking(move || write(&to, &view.to_json())).await;
            match written.map_err(io::Error::other).flatten() {
                Ok(()) => is_failing = false,
                Err(_) if is_failing => {}
                Err(error) => {
                    is_failing = true;
                    let path = directory.join(VIEW_COPY);
                    tracing::warn!(
                        "the view can't be copied to {}: {error}; it is in etcd, and the next one is copied again",
                        path.display()
                    );
                }
            }
        }
        if sights.changed().await.is_err() {
            return;
        }
    }
}

/// Replaces the copy. Only its owner may read it: who knows the seed can choose keys that all lie in one slot.
fn write(directory: &Path, view: &str) -> io::Result<()> {
    let [path, draft] = [VIEW_COPY, DRAFT].map(|name| directory.join(name));
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(view.as_bytes())?;
    drop(file);
    fs::rename(draft, path)
}

const DRAFT: &str = "view.json.new";

#[cfg(test)]
mod tests {
    use super::*;
    use guira_chain::View;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::watch::channel;

    fn view(epoch: u64) -> Option<Arc<View>> {
        let mut view = guira_cluster::first_view("birds", 3, 2).unwrap();
        view.epoch = epoch;
        Some(view.into())
    }

    async fn is_copied(directory: &Path, epoch: u64) {
        let copy = || {
            let text = fs::read_to_string(directory.join(VIEW_COPY)).ok()?;
            Some(View::from_json(&text).expect("a whole view").epoch)
        };
        while copy() != Some(epoch) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn each_view_that_comes_is_in_the_directory_after_a_full_disk_too() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("not made yet");
        let (etcd, sights) = channel(Sight { view: view(7), lack: None });
        let keeping = tokio::spawn(keep(sights, directory.clone()));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!directory.exists() && !keeping.is_finished());
        fs::create_dir(&directory).unwrap();
        for epoch in [8, 9] {
            etcd.send_modify(|sight| sight.view = view(epoch));
            is_copied(&directory, epoch).await;
        }
        drop(etcd);
        keeping.await.expect("it ends with the watch");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no draft is left");
    }
}
