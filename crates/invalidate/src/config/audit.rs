//! Parses which deletes are checked later, and when.

use std::time::Duration;

use guira_config::{Json, Object, Result};
use guira_front::sample::KeySample;

use super::AuditConfig;
use super::fields::{DURATION, Fields, duration};

/// Parses `audit`, or returns its defaults.
pub(super) fn audit(json: Option<&Json>) -> Result<AuditConfig> {
    let empty = Json::from(Object::default());
    let fields = Fields::new("audit".to_owned(), json.unwrap_or(&empty), AUDIT, &[])?;
    let sample = match fields.get("sample") {
        None => SAMPLE,
        Some(json) => {
            let share = json.as_number().filter(|share| (0.0..=1.0).contains(share));
            share.ok_or_else(|| {
                fields.error("sample", "is a share of all keys from 0 to 1, as in 1e-6")
            })?
        }
    };
    let at = match fields.texts("at")? {
        None => AT.map(Duration::from_secs).to_vec(),
        Some(texts) => {
            let read = |text: &str| duration(text).ok_or_else(|| fields.error("at", DURATION));
            texts.into_iter().map(read).collect::<Result<_>>()?
        }
    };
    let is_rising = at.is_sorted_by(|one, next| one < next);
    let is_meant = |after: &Duration| (LEAST..=MOST).contains(after);
    if at.is_empty() || at.len() > AuditConfig::AT_MAX || !is_rising || !at.iter().all(is_meant) {
        let most = AuditConfig::AT_MAX;
        let words =
            format!("lists 1 to {most} times, each longer than the one before, from 100ms to 7d");
        return Err(fields.error("at", words));
    }
    Ok(AuditConfig { sample: KeySample::of_share(sample), at })
}

const AUDIT: &[&str] = &["sample", "at"];
/// The paper's share: one key in a million.
const SAMPLE: f64 = 1e-6;
const AT: [u64; 5] = [1, 10, 60, 600, 3600];
const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(7 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_in_a_million_is_looked_at_five_times_unless_told_otherwise() {
        let of = |text: &str| {
            let json = guira_config::parse(text).unwrap();
            audit(Some(&json)).map_err(|error| error.to_string())
        };
        let default = audit(None).unwrap();
        assert_eq!(default.sample, KeySample::of_share(1e-6));
        assert_eq!(default.at.iter().map(Duration::as_secs).collect::<Vec<_>>(), AT);
        assert_eq!(of(r#"{"sample": 1}"#).unwrap().sample, KeySample::of_share(1.0));
        assert!(of(r#"{"sample": 0}"#).unwrap().sample.is_empty());
        let labels = of(r#"{"at": ["200ms", "1s", "90s", "10m", "2h"]}"#).unwrap();
        assert_eq!(labels.labels().collect::<Vec<_>>(), ["200ms", "1s", "90s", "10m", "2h"]);
        for (text, words) in [
            (r#"{"sample": 1.5}"#, "is a share"),
            (r#"{"sample": -1}"#, "is a share"),
            (r#"{"at": []}"#, "lists 1 to 8"),
            (r#"{"at": ["1s", "1s"]}"#, "lists 1 to 8"),
            (r#"{"at": ["10ms"]}"#, "lists 1 to 8"),
            (r#"{"at": ["8d"]}"#, "lists 1 to 8"),
            (r#"{"at": ["soon"]}"#, "is a time"),
            (r#"{"at": ["1s","2s","3s","4s","5s","6s","7s","8s","9s"]}"#, "lists 1 to 8"),
            (r#"{"often": 1}"#, "unknown field"),
        ] {
            assert!(of(text).unwrap_err().contains(words), "{text}");
        }
    }
}
