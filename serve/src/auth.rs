//! Keys: compared in constant time, and few wrong ones a minute from one address, which bar wrong ones alone.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// Addresses that are remembered; with more, the oldest failures are forgotten.
const ADDRESSES: usize = 4096;
const MINUTE: Duration = Duration::from_secs(60);

/// The keys of which a request must bring one.
pub(crate) struct Keys {
    /// SHA-256 of each: all of one length, so that comparing tells nothing of a key's.
    digests: Vec<[u8; 32]>,
    most: usize,
    failures: Mutex<HashMap<Option<IpAddr>, (usize, Instant)>>,
}

/// What a key is worth.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No key is needed.
    Open,
    /// Good: its number.
    Key(usize),
    /// Wrong or none.
    Wrong,
    /// Too many wrong ones came from there.
    Barred,
}

impl Keys {
    pub fn new(keys: &[String], most: usize) -> Keys {
        let digests = keys.iter().map(|k| Sha256::digest(k.as_bytes()).into()).collect();
        Keys { digests, most, failures: Mutex::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// A name for what is kept for a key, from which the key does not follow.
    pub fn folder(&self, number: usize) -> Option<String> {
        let digest = Sha256::digest([&b"folder of "[..], self.digests.get(number)?].concat());
        Some(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Judges the key that an address brings. Wrong keys are counted, missing ones are not: a page asks without one first.
    pub fn judge(&self, key: Option<&[u8]>, peer: Option<IpAddr>) -> Verdict {
        if self.digests.is_empty() {
            return Verdict::Open;
        }
        let Some(key) = key else { return Verdict::Wrong };
        // A right key is right from wherever it comes: others there, behind one proxy perhaps, may have wrong ones.
        if let Some(number) = self.find(key) {
            return Verdict::Key(number);
        }
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        failures.retain(|_, (_, since)| now - *since < MINUTE);
        if failures.len() >= ADDRESSES && !failures.contains_key(&peer) {
            let oldest = failures.iter().min_by_key(|(_, (_, since))| *since).map(|(peer, _)| *peer);
            oldest.map(|peer| failures.remove(&peer));
        }
        let (count, _) = failures.entry(peer).or_insert((0, now));
        *count += 1;
        match *count > self.most {
            true => Verdict::Barred,
            false => Verdict::Wrong,
        }
    }

    /// The number of a key. Takes as long for a wrong one as for a good one.
    fn find(&self, key: &[u8]) -> Option<usize> {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let (mut found, mut number) = (Choice::from(0), 0u64);
        for (i, own) in self.digests.iter().enumerate() {
            let same = own.ct_eq(&digest);
            number.conditional_assign(&(i as u64), same);
            found |= same;
        }
        bool::from(found).then_some(number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_good_and_wrong_ones_are_few_a_minute() {
        let keys = Keys::new(&["one".into(), "two".into()], 3);
        let (here, there) = (Some(IpAddr::from([127, 0, 0, 1])), Some(IpAddr::from([127, 0, 0, 2])));
        assert_eq!(keys.judge(Some(b"one"), here), Verdict::Key(0));
        assert_eq!(keys.judge(Some(b"two"), here), Verdict::Key(1));
        (0..9).for_each(|_| assert_eq!(keys.judge(None, here), Verdict::Wrong));
        (0..3).for_each(|_| assert_eq!(keys.judge(Some(b"onee"), here), Verdict::Wrong));
        assert_eq!(keys.judge(Some(b"onee"), here), Verdict::Barred);
        assert_eq!(keys.judge(Some(b"one"), here), Verdict::Key(0), "a right key, among wrong ones");
        assert_eq!(keys.judge(Some(b"onee"), there), Verdict::Wrong);
        assert_eq!(Keys::new(&[], 3).judge(Some(b"x"), here), Verdict::Open);
    }
}
