//! Names that no other answer has, and times.

use pumex_chat::DateTime;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A prefix with 24 letters and digits.
pub(crate) fn new(prefix: &str) -> String {
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The keys of a hash map's hasher are random.
    let random = RandomState::new();
    let mut bits = u128::from(random.hash_one((count, 0))) << 64 | u128::from(random.hash_one((count, 1)));
    let mut id = prefix.to_string();
    for _ in 0..24 {
        id.push(char::from(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[(bits % 62) as usize]));
        bits /= 62;
    }
    id
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// A moment as RFC 3339 writes it, in UTC.
pub(crate) fn date(seconds: u64) -> String {
    let d = DateTime::from_unix(i64::try_from(seconds).unwrap_or(0));
    format!("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", d.year, d.month, d.day, d.hour, d.minute, d.second)
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_differ_and_dates_are_rfc_3339() {
        let ids: std::collections::HashSet<String> = (0..1000).map(|_| super::new("x-")).collect();
        assert!(ids.len() == 1000 && ids.iter().all(|id| id.len() == 26 && id.starts_with("x-")));
        assert_eq!(super::date(1_709_210_096), "2024-02-29T12:34:56Z");
    }
}
