//! Keys: compared in constant time, and few wrong ones a minute from one address, which bar wrong ones alone.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// Addresses that are remembered; with more, the oldest failures are forgotten.
const ADDRESSES: usize = 4096;
const MINUTE: Duration = Duration::from_secs(60);

/// The keys of which a request must bring one.
pub(crate) struct ApiKeys {
    /// SHA-256 of each by number: all of one length, so that comparing tells nothing of a key's. None where one is good no more: what
    /// was kept for it is nobody else's.
    digests: RwLock<Vec<Option<[u8; 32]>>>,
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

impl ApiKeys {
    pub fn new(keys: &[String], most: usize) -> ApiKeys {
        let digests = RwLock::new(keys.iter().map(|k| Some(digest(k))).collect());
        ApiKeys { digests, most, failures: Mutex::default() }
    }

    fn digests(&self) -> RwLockReadGuard<'_, Vec<Option<[u8; 32]>>> {
        self.digests.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are good.
    pub fn len(&self) -> usize {
        self.digests().iter().flatten().count()
    }

    /// From now on these are good. Those that were stay who they are.
    pub fn replace(&self, keys: &[String]) {
        let wanted: Vec<[u8; 32]> = keys.iter().map(|key| digest(key)).collect();
        let mut digests = self.digests.write().unwrap_or_else(PoisonError::into_inner);
        digests.iter_mut().for_each(|known| *known = known.filter(|digest| wanted.contains(digest)));
        for digest in wanted {
            if !digests.contains(&Some(digest)) {
                digests.push(Some(digest));
            }
        }
    }

    /// A name for what is kept for a key, from which the key does not follow.
    pub fn folder(&self, number: usize) -> Option<String> {
        let digest = Sha256::digest([&b"folder of "[..], self.digests().get(number)?.as_ref()?].concat());
        Some(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Judges the key that an address brings. Wrong keys are counted, missing ones are not: a page asks without one first.
    pub fn judge(&self, key: Option<&[u8]>, peer: Option<IpAddr>) -> Verdict {
        if self.digests().is_empty() {
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
        for (i, own) in self.digests().iter().enumerate().filter_map(|(i, own)| Some((i, own.as_ref()?))) {
            let same = own.ct_eq(&digest);
            number.conditional_assign(&(i as u64), same);
            found |= same;
        }
        bool::from(found).then_some(number as usize)
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_good_and_wrong_ones_are_few_a_minute() {
        let keys = ApiKeys::new(&["one".into(), "two".into()], 3);
        let (here, there) = (Some(IpAddr::from([127, 0, 0, 1])), Some(IpAddr::from([127, 0, 0, 2])));
        assert_eq!(keys.judge(Some(b"one"), here), Verdict::Key(0));
        assert_eq!(keys.judge(Some(b"two"), here), Verdict::Key(1));
        (0..9).for_each(|_| assert_eq!(keys.judge(None, here), Verdict::Wrong));
        (0..3).for_each(|_| assert_eq!(keys.judge(Some(b"onee"), here), Verdict::Wrong));
        assert_eq!(keys.judge(Some(b"onee"), here), Verdict::Barred);
        assert_eq!(keys.judge(Some(b"one"), here), Verdict::Key(0), "a right key, among wrong ones");
        assert_eq!(keys.judge(Some(b"onee"), there), Verdict::Wrong);
        assert_eq!(ApiKeys::new(&[], 3).judge(Some(b"x"), here), Verdict::Open);
    }

    #[test]
    fn keys_that_stay_keep_their_numbers_and_those_that_go_leave_none_to_others() {
        let keys = ApiKeys::new(&["one".into(), "two".into()], 3);
        let folder = keys.folder(1);
        keys.replace(&["three".into(), "two".into()]);
        let number = |key: &str| match keys.judge(Some(key.as_bytes()), None) {
            Verdict::Key(number) => Some(number),
            _ => None,
        };
        assert_eq!(["one", "two", "three"].map(number), [None, Some(1), Some(2)]);
        assert_eq!((keys.len(), keys.folder(0), keys.folder(1)), (2, None, folder));
        keys.replace(&[]);
        assert_eq!(number("two"), None, "a server with keys never becomes open");
    }
}
