//! Items of earlier responses, which later requests may name by their ids alone.

use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Bytes of all items that are kept, and of what keeping one takes beside its text.
const BYTES: usize = 32 << 20;
const BESIDE: usize = 256;

/// Whose key, and the item's id.
type Name = (Option<usize>, String);

/// The items, of which the oldest go first.
#[derive(Debug, Default)]
pub(crate) struct ItemStore(Mutex<Items>);

#[derive(Debug, Default)]
struct Items {
    by_name: HashMap<Name, (Value, usize)>,
    order: VecDeque<Name>,
    bytes: usize,
}

impl ItemStore {
    /// Keeps the items of a response for the holder of the key.
    pub fn add(&self, key: Option<usize>, items: &Value) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for item in items.as_array().into_iter().flatten() {
            let Some(id) = item["id"].as_str() else { continue };
            let (name, bytes) = ((key, id.to_string()), item.to_string().len() + BESIDE);
            if bytes > BYTES || all.by_name.contains_key(&name) {
                continue;
            }
            while all.bytes + bytes > BYTES {
                let Some(oldest) = all.order.pop_front() else { break };
                let freed = all.by_name.remove(&oldest).map_or(0, |(_, bytes)| bytes);
                all.bytes -= freed;
            }
            all.bytes += bytes;
            all.order.push_back(name.clone());
            all.by_name.insert(name, (item.clone(), bytes));
        }
    }

    /// An item of that id of the same holder's.
    pub fn find(&self, key: Option<usize>, id: &str) -> Option<Value> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.by_name.get(&(key, id.to_string())).map(|(item, _)| item.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn items_are_their_holder_s_and_the_oldest_make_room() {
        let kept = ItemStore::default();
        kept.add(Some(1), &json!([{"id": "a", "type": "message"}, {"type": "message"}]));
        assert_eq!(kept.find(Some(1), "a").unwrap()["type"], "message");
        assert!(kept.find(Some(2), "a").is_none() && kept.find(None, "a").is_none());
        let large = "x".repeat(BYTES / 2 - 4 * BESIDE);
        for id in ["b", "c", "d"] {
            kept.add(None, &json!([{"id": id, "text": large}]));
        }
        let there = |id: &str| kept.find(None, id).is_some();
        assert!(!there("b") && there("c") && there("d") && kept.find(Some(1), "a").is_none());
        kept.add(None, &json!([{"id": "e", "text": "x".repeat(BYTES)}]));
        assert!(!there("e") && there("d"), "what never fits sends nothing away");
    }
}
