//! Statistics as files, for monitors that read mcrouter's files.
//!
//! ```text
//! <stats-root>/libmcrouter.<service>.<router>.stats                 all statistics; names begin with the files' prefix
//!                                            .startup_options      each flag
//!                                            .config_sources_info  each file of the configuration, and its digest
//! ```

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::stats;
use super::view::View;

/// Writes the files at intervals, forever. If their directory doesn't exist, it returns at once.
pub(crate) async fn write_forever(view: Arc<View>) {
    let options = &view.process.options;
    let interval = options.stats_interval;
    if interval.is_zero() || !options.stats_root.is_dir() {
        return;
    }
    loop {
        tokio::time::sleep(interval).await;
        if let Err(error) = write(&view) {
            let root = options.stats_root.display();
            tracing::warn!("statistics can't be written to {root}: {error}");
        }
    }
}

fn write(view: &View) -> io::Result<()> {
    let options = &view.process.options;
    let settings = &options.settings;
    let prefix = format!("libmcrouter.{}.{}.", settings.service_name, settings.router_name);
    let put = |name: &str, value: &Value| {
        let path = options.stats_root.join(format!("{prefix}{name}"));
        replace(&path, &format!("{value:#}\n"))
    };
    let rows = stats::all(view).into_iter();
    let numbers: Map<_, _> =
        rows.map(|(name, value)| (format!("{prefix}{name}"), as_json(value))).collect();
    put("stats", &numbers.into())?;
    let flags: Map<_, _> = options
        .shown
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
        .collect();
    put("startup_options", &flags.into())?;
    let sources = view.process.standing.lock().loaded.as_ref().map(|loaded| loaded.sources());
    put("config_sources_info", &sources.unwrap_or_default())
}

/// A JSON number, if the text is one.
fn as_json(text: String) -> Value {
    let whole = text.parse::<i64>().map(Value::from);
    let number = whole.or_else(|_| text.parse::<f64>().map(Value::from));
    number.unwrap_or_else(|_| text.into())
}

/// Replaces a file atomically: a reader finds the old text or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)?;
    fs::rename(fresh, path)
}
