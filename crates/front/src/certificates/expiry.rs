//! The expiry of a program's own certificate: a metric, and one warning a day from [`CertificateEnd::SOON_DAYS`] days
//! before the end.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// The end of the certificate in use.
#[derive(Debug)]
pub struct CertificateEnd {
    /// The end in seconds since 1970; 0: there is no certificate that can be read.
    ends_s: AtomicI64,
    /// The day of the last warning, counted since 1970; [`NEVER`] before the first.
    told_day: AtomicI64,
}

impl Default for CertificateEnd {
    fn default() -> Self {
        Self { ends_s: AtomicI64::new(0), told_day: AtomicI64::new(NEVER) }
    }
}

impl CertificateEnd {
    /// Records a chain of certificates, in DER: the one that ends first counts.
    pub fn note<'d>(&self, chain: impl Iterator<Item = &'d [u8]>) {
        let ends = chain.filter_map(|der| {
            let (_, certificate) = X509Certificate::from_der(der).ok()?;
            Some(certificate.validity().not_after.timestamp())
        });
        self.ends_s.store(ends.min().unwrap_or(0), Relaxed);
        self.told_day.store(NEVER, Relaxed);
    }

    /// The end in seconds since 1970; 0: there is no certificate.
    #[must_use]
    pub fn ends_s(&self) -> i64 {
        self.ends_s.load(Relaxed)
    }

    /// Today's warning, unless it was returned already: the certificate ends within [`CertificateEnd::SOON_DAYS`] days, or
    /// has ended.
    pub fn warning(&self) -> Option<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        self.warning_at(i64::try_from(now.as_secs()).ok()?)
    }

    fn warning_at(&self, now_s: i64) -> Option<String> {
        let (ends_s, today) = (self.ends_s(), now_s.div_euclid(DAY_S));
        let days = (ends_s - now_s).div_euclid(DAY_S);
        if ends_s == 0 || days >= Self::SOON_DAYS || self.told_day.swap(today, Relaxed) == today {
            return None;
        }
        let when = match days {
            ..0 => "has ended: clients refuse it".to_owned(),
            0 => "ends within a day".to_owned(),
            days => format!("ends in {days} days"),
        };
        Some(format!("the certificate {when}. Replace its file and send SIGHUP"))
    }

    /// How many days before the end the warnings begin.
    pub(crate) const SOON_DAYS: i64 = 14;
}

const DAY_S: i64 = 24 * 60 * 60;
const NEVER: i64 = i64::MIN;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_ends_soon_or_has_ended_is_told_of_once_a_day() {
        let (expiry, noon) = (CertificateEnd::default(), 20_000 * DAY_S + DAY_S / 2);
        assert_eq!(expiry.warning_at(noon), None, "there is none");
        expiry.ends_s.store(noon + 15 * DAY_S, Relaxed);
        assert_eq!(expiry.warning_at(noon), None);
        let said = (1..18).filter_map(|day| {
            let words = expiry.warning_at(noon + day * DAY_S)?;
            assert_eq!(expiry.warning_at(noon + day * DAY_S + 60), None, "day {day}: said again");
            Some(words)
        });
        let said: Vec<_> = said.collect();
        assert_eq!(said.len(), 16, "{said:?}");
        assert!(said[0].starts_with("the certificate ends in 13 days."), "{said:?}");
        assert!(said[13].starts_with("the certificate ends within a day."), "{said:?}");
        assert!(said[15].starts_with("the certificate has ended: clients refuse it."), "{said:?}");
        expiry.note([&b"no certificate"[..]].into_iter());
        assert_eq!((expiry.ends_s(), expiry.warning_at(noon)), (0, None));
    }
}
