//! The file of runtime variables (`--runtime-vars-file`): a JSON object that may change while the router runs.
//!
//! Routes ask for a variable when they need it; a file that can't be read or isn't an object changes nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::files;
use super::shared::Shared;
use crate::config::json;
use crate::settings::RuntimeVariables;

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// Reads the file, if there is one. What stood there is the text for the next comparison.
pub(crate) fn read(path: &str, variables: &RuntimeVariables) -> Option<String> {
    let text = files::read(Path::new(path)).ok()?;
    let values = json::parse(&text).ok().filter(|values| values.as_object().is_some())?;
    variables.set(values);
    Some(text)
}

/// Looks after the file for ever.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let path = &shared.options.runtime_variables_path;
    let look = || files::read(Path::new(path)).ok();
    let mut known = look();
    loop {
        tokio::time::sleep(PERIOD).await;
        let now = look();
        if now.is_some() && now != known {
            let is_read = read(path, &shared.options.settings.runtime_variables).is_some();
            let outcome = if is_read { "read" } else { "not an object, and passed over" };
            tracing::info!("runtime variables {path}: {outcome}");
        }
        known = now;
    }
}
