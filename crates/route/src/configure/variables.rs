//! The file of runtime variables (`--runtime-vars-file`): a JSON object that may change while the router runs.
//!
//! Routes read a variable when they need it. A file that can't be read, or isn't an object, changes nothing and is
//! logged. Variables with values that routes can't use are logged too. Those routes behave as if the variable didn't
//! exist.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::files;
use super::options::Options;
use crate::settings::RuntimeVariables;
use guira_config as json;

/// The contents of the file, or why it can't be read.
pub(crate) type Known = Result<String, String>;

/// Reads the file, if there is one. A missing file is logged only if a flag names it.
pub(crate) fn begin(options: &Options) -> Known {
    let path = &options.runtime_variables_path;
    let known = files::read(path);
    if options.wants_runtime_variables || path.exists() {
        adopt(path, &known, &options.settings.runtime_variables);
    }
    known
}

/// Reads the file at intervals, forever.
pub(crate) async fn watch(options: Arc<Options>, mut known: Known) {
    let path = &options.runtime_variables_path;
    loop {
        tokio::time::sleep(PERIOD).await;
        let now = files::read(path);
        if now != known {
            if adopt(path, &now, &options.settings.runtime_variables) {
                tracing::info!("runtime variables {}: read", path.display());
            }
            known = now;
        }
    }
}

/// Adopts the variables of a text, and logs what is wrong with it. Returns whether they were adopted.
fn adopt(path: &Path, text: &Known, variables: &RuntimeVariables) -> bool {
    let shown = path.display();
    let stay =
        if variables.is_set() { "those that were read before stay" } else { "there are none" };
    let text = match text {
        Ok(text) => text,
        Err(words) => {
            tracing::warn!("runtime variables: --runtime-vars-file {words}; {stay}");
            return false;
        }
    };
    let values = match json::parse(text) {
        Ok(values) if values.as_object().is_some() => values,
        Ok(values) => {
            let is = values.type_name();
            tracing::warn!(
                "runtime variables: --runtime-vars-file {shown}: it is of type {is}, not an object; {stay}"
            );
            return false;
        }
        Err(error) => {
            tracing::warn!("runtime variables: --runtime-vars-file {shown}: {error}; {stay}");
            return false;
        }
    };
    variables.set(values);
    for mistake in variables.mistakes() {
        tracing::warn!("runtime variables: --runtime-vars-file {shown}: {mistake}");
    }
    true
}

/// How often the file is read.
const PERIOD: Duration = Duration::from_secs(1);
