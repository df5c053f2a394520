//! A bounded cache that lets go of what was used longest ago.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Values by key, each with when it was last used. What somebody else still holds, a step in flight say, is never let go of.
#[derive(Debug)]
pub struct Recent<K, V> {
    values: HashMap<K, (Arc<V>, u64)>,
    most: usize,
    now: u64,
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// Room for `most` values, and for as many more as are held elsewhere.
    pub fn new(most: usize) -> Self {
        Recent { values: HashMap::new(), most, now: 0 }
    }

    /// The value of `key`, used now.
    pub fn get(&mut self, key: &K) -> Option<Arc<V>> {
        self.now += 1;
        let (value, used) = self.values.get_mut(key)?;
        *used = self.now;
        Some(value.clone())
    }

    /// Keeps a value, used now; lets go of others where there are too many.
    pub fn insert(&mut self, key: K, value: V) -> Arc<V> {
        self.now += 1;
        let value = Arc::new(value);
        self.values.insert(key, (value.clone(), self.now));
        while self.values.len() > self.most {
            let idle = self.values.iter().filter(|(_, (value, _))| Arc::strong_count(value) == 1);
            let Some(oldest) = idle.min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone()) else { break };
            self.values.remove(&oldest);
        }
        value
    }

    /// Lets go of the values of all other keys.
    pub fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.values.retain(|key, _| keep(key));
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.values.keys()
    }

    /// Values kept.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first_but_nothing_that_is_in_use() {
        let mut recent = Recent::new(2);
        let first = recent.insert(1, "a");
        recent.insert(2, "b");
        recent.insert(3, "c");
        assert!(recent.get(&2).is_none(), "1 is in use");
        assert_eq!(recent.get(&1).as_deref(), Some(&"a"));
        drop(first);
        assert_eq!(recent.get(&3).as_deref(), Some(&"c"));
        recent.insert(4, "d");
        assert!(recent.get(&1).is_none() && recent.get(&3).is_some() && recent.get(&4).is_some());
    }

    #[test]
    fn there_are_more_only_while_all_are_in_use() {
        let mut recent = Recent::new(1);
        let held: Vec<_> = (0..3).map(|i| recent.insert(i, ())).collect();
        assert_eq!(recent.len(), 3);
        drop(held);
        recent.insert(3, ());
        assert_eq!(recent.len(), 1);
        recent.retain(|_| false);
        assert!(recent.is_empty());
    }
}
