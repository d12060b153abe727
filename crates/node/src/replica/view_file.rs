//! A view in a file, which an operator or a program replaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use guira_chain::View;
use tokio::sync::mpsc::UnboundedSender;

use super::event::Event;

/// Reads the view.
///
/// # Errors
/// A sentence: the file can't be read, or holds no view.
pub(super) fn read(path: &Path) -> Result<View, String> {
    let told = |words: String| format!("--view {}: {words}", path.display());
    let text = fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
    View::from_json(&text).map_err(|why| told(why.to_string()))
}

/// Sends the view each time the file changes, forever. A file without a view is logged once.
pub(super) async fn watch(path: PathBuf, events: UnboundedSender<Event>) {
    let mut before = None;
    loop {
        let mark = mark(&path);
        if mark != before {
            before = mark;
            match read(&path) {
                Ok(view) => {
                    if events.send(Event::View(Box::new(view), "the file")).is_err() {
                        return;
                    }
                }
                Err(words) => tracing::warn!("{words}; the view in use stays"),
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A mark that changes with the file: its time of writing and its length.
fn mark(path: &Path) -> Option<(SystemTime, u64)> {
    let about = fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

const LOOK_EVERY: Duration = Duration::from_millis(100);
