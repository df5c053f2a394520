//! Byte strings by their prefixes: which tokens start at a place of a text.

use super::index::NONE;

#[derive(Clone, Copy, Debug)]
struct TrieNode {
    /// Children are neighbours, in order of their labels.
    first: u32,
    count: u32,
    value: u32,
    label: u8,
}

/// A trie of byte strings with numbers.
#[derive(Debug, Default)]
pub struct Trie {
    nodes: Vec<TrieNode>,
    /// Children of the root by their label.
    root: Vec<u32>,
}

impl Trie {
    /// Builds it; empty strings are left out, and the last of equal ones counts.
    pub fn new(mut entries: Vec<(&[u8], u32)>) -> Trie {
        entries.retain(|(text, _)| !text.is_empty());
        entries.sort_by(|a, b| a.0.cmp(b.0));
        let node = |label| TrieNode { first: 0, count: 0, value: NONE, label };
        let (mut nodes, mut ranges) = (vec![node(0)], vec![(0, entries.len(), 0)]);
        let mut at = 0;
        while at < nodes.len() {
            let (mut from, to, depth) = ranges[at];
            while from < to && entries[from].0.len() == depth {
                nodes[at].value = entries[from].1;
                from += 1;
            }
            nodes[at].first = nodes.len() as u32;
            while from < to {
                let label = entries[from].0[depth];
                let end = from + entries[from..to].partition_point(|(text, _)| text[depth] == label);
                nodes.push(node(label));
                ranges.push((from, end, depth + 1));
                nodes[at].count += 1;
                from = end;
            }
            at += 1;
        }
        let mut root = vec![0; 256];
        for child in nodes[0].first..nodes[0].first + nodes[0].count {
            root[usize::from(nodes[child as usize].label)] = child;
        }
        Trie { nodes, root }
    }

    /// Calls `each` with length and number of every string that `text` starts with, shortest first.
    pub fn prefixes(&self, text: &[u8], mut each: impl FnMut(usize, u32)) {
        let Some(&first) = text.first() else { return };
        let Some(mut at) = self.root.get(usize::from(first)).map(|&at| at as usize) else { return };
        let mut len = 1;
        while at != 0 {
            let node = self.nodes[at];
            if node.value != NONE {
                each(len, node.value);
            }
            let Some(&byte) = text.get(len) else { return };
            let children = &self.nodes[node.first as usize..(node.first + node.count) as usize];
            match children.binary_search_by_key(&byte, |child| child.label) {
                Ok(found) => at = node.first as usize + found,
                Err(_) => return,
            }
            len += 1;
        }
    }

    /// The longest string that `text` starts with.
    pub fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        let mut found = None;
        self.prefixes(text, |len, value| found = Some((len, value)));
        found
    }
}
