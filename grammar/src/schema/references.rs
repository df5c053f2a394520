//! References: where they lead, and under which names what they lead to is defined.

use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};

/// Deepest place of an anchor.
const DEPTH: usize = 64;

/// What references lead to.
pub(super) struct References {
    /// Places by the names that schemas give themselves.
    anchors: HashMap<String, String>,
    /// Names of definitions by place, and by whether others say of the same object which properties it has.
    names: HashMap<(String, bool), String>,
    /// Definitions that are not made yet.
    open: VecDeque<(String, String, bool)>,
}

impl References {
    /// The references within a whole schema.
    pub fn of(whole: &Value) -> References {
        let mut references = References { anchors: HashMap::new(), names: HashMap::new(), open: VecDeque::new() };
        references.find_anchors(whole, "", DEPTH);
        references
    }

    fn find_anchors(&mut self, value: &Value, at: &str, depth: usize) {
        if depth == 0 {
            return;
        }
        match value {
            Value::Object(map) => {
                for key in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = map.get(key).and_then(Value::as_str) {
                        self.anchors.entry(format!("#{name}")).or_insert_with(|| at.to_string());
                    }
                }
                for key in ["$id", "id"] {
                    if let Some(name) = map.get(key).and_then(Value::as_str) {
                        let name = name.trim_end_matches('#');
                        self.anchors.entry(name.to_string()).or_insert_with(|| at.to_string());
                    }
                }
                for (key, inner) in map {
                    self.find_anchors(inner, &format!("{at}/{}", super::escape_pointer(key)), depth - 1);
                }
            }
            Value::Array(items) => {
                for (i, inner) in items.iter().enumerate() {
                    self.find_anchors(inner, &format!("{at}/{i}"), depth - 1);
                }
            }
            _ => {}
        }
    }

    /// The place that a reference names; none if there is no such.
    pub fn find(&self, whole: &Value, name: &str) -> Option<String> {
        let there = |at: String| whole.pointer(&at).is_some_and(|v| v.is_object() || v.is_boolean()).then_some(at);
        if let Some(at) = self.anchors.get(name) {
            return Some(at.clone());
        }
        let (base, part) = name.split_once('#').unwrap_or((name, ""));
        let base = match base {
            "" => "",
            base => self.anchors.get(base)?,
        };
        let part = percent_decode(part)?;
        match part.is_empty() || part.starts_with('/') {
            true => there(format!("{base}{part}")),
            false => self.anchors.get(&format!("#{part}")).cloned(),
        }
    }

    /// Whether what is at a place refers to that place, or to what does.
    pub fn recurs(&self, whole: &Value, at: &str) -> bool {
        let (mut open, mut seen) = (vec![at.to_string()], HashSet::new());
        while let Some(next) = open.pop() {
            let mut names = Vec::new();
            whole.pointer(&next).into_iter().for_each(|value| collect_reference_names(value, &mut names, DEPTH));
            for target in names.into_iter().filter_map(|name| self.find(whole, name)) {
                // A place within which this one stands holds it, too.
                if target == at || at.starts_with(&format!("{target}/")) {
                    return true;
                }
                if seen.insert(target.clone()) {
                    open.push(target);
                }
            }
        }
        false
    }

    /// The name of the definition of a place.
    pub fn name(&mut self, at: &str, open: bool) -> String {
        let count = self.names.len();
        let key = (at.to_string(), open);
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let name = format!("d{count}");
        self.names.insert(key, name.clone());
        self.open.push_back((name.clone(), at.to_string(), open));
        name
    }

    /// The next definition that is to be made: its name, its place, and whether others say of the object which properties it has.
    pub fn next(&mut self) -> Option<(String, String, bool)> {
        self.open.pop_front()
    }
}

/// What the references within a value name.
fn collect_reference_names<'v>(value: &'v Value, names: &mut Vec<&'v str>, depth: usize) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(map) => {
            names.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|inner| collect_reference_names(inner, names, depth - 1));
        }
        Value::Array(all) => all.iter().for_each(|inner| collect_reference_names(inner, names, depth - 1)),
        _ => {}
    }
}

/// A fragment of a URI without its `%` signs.
fn percent_decode(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let hex = |b: Option<u8>| b.and_then(|b| (b as char).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(hex(rest.next())? * 16 + hex(rest.next())?).ok()?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
