//! Which sequences begin with which ids: a tree over blocks of ids, exact to the id within a block.
//!
//! Sequences of different owners do not see each other.

use pumex_engine::session::KV_BLOCK;
use pumex_serve::engine::Holder;
use std::collections::HashMap;

/// A block of ids after those of its parents.
#[derive(Debug, Default)]
struct PrefixNode {
    children: HashMap<Box<[u32]>, usize>,
    /// Sequences that go on from here, or end here.
    seqs: Vec<u32>,
}

/// Whose a sequence is: what others hold, or what was computed with adapters at other scales, is none of theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrefixOwner {
    /// The user, or nobody where beginnings are shared.
    user: String,
    /// Bits of the adapters' scales; none where all are 0.
    scales: Vec<u32>,
}

impl PrefixOwner {
    /// A user whose sequences are computed with adapters at such scales.
    pub fn new(user: &str, scales: &[f32]) -> PrefixOwner {
        let some = scales.iter().any(|scale| *scale != 0.0);
        let scales = scales.iter().filter(|_| some).map(|scale| scale.to_bits()).collect();
        PrefixOwner { user: user.into(), scales }
    }

    /// Whether both have the same key.
    pub fn has_key_of(&self, other: &PrefixOwner) -> bool {
        Holder::key_of(&self.user) == Holder::key_of(&other.user)
    }

    /// Whether adapters count alike.
    pub fn is_scaled_as(&self, other: &PrefixOwner) -> bool {
        self.scales == other.scales
    }

    /// The adapters' scales; none where all are 0.
    pub fn scales(&self) -> Vec<f32> {
        self.scales.iter().map(|bits| f32::from_bits(*bits)).collect()
    }
}

/// What a sequence holds.
#[derive(Debug)]
struct PrefixText {
    owner: PrefixOwner,
    ids: Vec<u32>,
    /// Ids, the first ones, that steady requests may go on from.
    steady: usize,
    /// When it was last of use.
    used: u64,
}

/// The tree.
#[derive(Debug, Default)]
pub struct Prefixes {
    nodes: Vec<PrefixNode>,
    free: Vec<usize>,
    roots: HashMap<PrefixOwner, usize>,
    texts: HashMap<u32, PrefixText>,
    clock: u64,
}

/// Ids of a block that is whole.
const BLOCK: usize = KV_BLOCK;

impl Prefixes {
    fn node(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.nodes.push(PrefixNode::default());
            self.nodes.len() - 1
        })
    }

    /// The nodes of ids from the root on, as far as there are some.
    fn path(&self, owner: &PrefixOwner, ids: &[u32]) -> Vec<usize> {
        let mut path: Vec<usize> = self.roots.get(owner).copied().into_iter().collect();
        for block in ids.chunks_exact(BLOCK) {
            let next = path.last().and_then(|at| self.nodes[*at].children.get(block));
            match next {
                Some(next) => path.push(*next),
                None => break,
            }
        }
        path
    }

    /// A sequence holds these ids now, and nothing else.
    pub fn insert(&mut self, seq: u32, owner: &PrefixOwner, ids: Vec<u32>, steady: usize) {
        self.remove(seq);
        if ids.is_empty() {
            return;
        }
        let mut at = match self.roots.get(owner) {
            Some(root) => *root,
            None => {
                let root = self.node();
                self.roots.insert(owner.clone(), root);
                root
            }
        };
        self.nodes[at].seqs.push(seq);
        for block in ids.chunks_exact(BLOCK) {
            at = match self.nodes[at].children.get(block) {
                Some(next) => *next,
                None => {
                    let next = self.node();
                    self.nodes[at].children.insert(block.into(), next);
                    next
                }
            };
            self.nodes[at].seqs.push(seq);
        }
        self.clock += 1;
        self.texts.insert(seq, PrefixText { owner: owner.clone(), ids, steady, used: self.clock });
    }

    /// A sequence is not to be found any more.
    pub fn remove(&mut self, seq: u32) {
        let Some(text) = self.texts.remove(&seq) else { return };
        let path = self.path(&text.owner, &text.ids);
        path.iter().for_each(|at| self.nodes[*at].seqs.retain(|s| *s != seq));
        // From the end: what nobody goes through is gone.
        let first = path.iter().position(|at| self.nodes[*at].seqs.is_empty()).unwrap_or(path.len());
        for i in (first..path.len()).rev() {
            match i.checked_sub(1) {
                Some(parent) => {
                    self.nodes[path[parent]].children.remove(&text.ids[parent * BLOCK..i * BLOCK]);
                }
                None => {
                    self.roots.remove(&text.owner);
                }
            }
            self.free.push(path[i]);
        }
    }

    /// The sequence of an owner with the longest common beginning of those that `can` go on from there, the one last used of equals, and
    /// how many ids that is.
    pub fn best(&self, owner: &PrefixOwner, ids: &[u32], can: impl Fn(u32, usize) -> bool) -> Option<(u32, usize)> {
        let path = self.path(owner, ids);
        // Those of a deeper node have more in common than others.
        path.iter().enumerate().rev().find_map(|(depth, node)| {
            let whole = depth * BLOCK;
            let common = |seq: u32| {
                let text = self.texts.get(&seq)?;
                let more = text.ids[whole..].iter().zip(&ids[whole..]).take_while(|(a, b)| a == b).count();
                Some((whole + more, text.used, seq))
            };
            let seqs = self.nodes[*node].seqs.iter().filter_map(|seq| common(*seq));
            seqs.filter(|(n, _, seq)| *n > 0 && can(*seq, *n)).max().map(|(n, _, seq)| (seq, n))
        })
    }

    /// How many first ids a sequence has in common with others.
    pub fn common(&self, seq: u32, ids: &[u32]) -> usize {
        self.ids(seq).iter().zip(ids).take_while(|(a, b)| a == b).count()
    }

    /// Whose a sequence is.
    pub fn owner(&self, seq: u32) -> Option<&PrefixOwner> {
        self.texts.get(&seq).map(|text| &text.owner)
    }

    /// How many ids of a sequence steady requests may go on from.
    pub fn steady(&self, seq: u32) -> usize {
        self.texts.get(&seq).map_or(0, |text| text.steady)
    }

    /// The ids of a sequence.
    pub fn ids(&self, seq: u32) -> &[u32] {
        self.texts.get(&seq).map_or(&[], |text| &text.ids)
    }

    /// A sequence was of use.
    pub fn touch(&mut self, seq: u32) {
        self.clock += 1;
        self.texts.get_mut(&seq).into_iter().for_each(|text| text.used = self.clock);
    }

    /// The sequence that was of no use for longest, of those for which `may` holds.
    pub fn oldest(&self, may: impl Fn(u32) -> bool) -> Option<u32> {
        let texts = self.texts.iter().filter(|(seq, _)| may(**seq));
        texts.min_by_key(|(_, text)| text.used).map(|(seq, _)| *seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_common_beginning_is_found_to_the_id() {
        let ids = |seed: u32, n: usize| (0..n as u32).map(|i| i / seed % 3).collect::<Vec<u32>>();
        let mut state = 7u32;
        let mut random = |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % n
        };
        let owners = [("", 0.0), ("a", 0.0), ("a", 0.5)].map(|(user, scale)| PrefixOwner::new(user, &[scale]));
        let mut tree = Prefixes::default();
        let mut held: HashMap<u32, (PrefixOwner, Vec<u32>)> = HashMap::new();
        for round in 0..2000 {
            let owner = &owners[random(3) as usize];
            let text = ids(31 + random(40), random(200) as usize);
            let best = tree.best(owner, &text, |_, _| true);
            let count = |held: &[u32]| held.iter().zip(&text).take_while(|(a, b)| a == b).count();
            let most = held.values().filter(|(of, _)| of == owner).map(|(_, held)| count(held)).max().unwrap_or(0);
            assert_eq!(best.map_or(0, |b| b.1), most, "round {round}");
            if let Some((seq, n)) = best {
                assert_eq!((&held[&seq].0, count(&held[&seq].1), tree.common(seq, &text)), (owner, n, n));
            }
            // Of those that are not to be gone on from none is found.
            let even = tree.best(owner, &text, |seq, _| seq.is_multiple_of(2));
            let held_even = held.iter().filter(|(seq, (of, _))| seq.is_multiple_of(2) && of == owner);
            assert_eq!(even.map_or(0, |b| b.1), held_even.map(|(_, (_, held))| count(held)).max().unwrap_or(0));
            let seq = random(12);
            if random(4) == 0 {
                tree.remove(seq);
                held.remove(&seq);
            } else {
                tree.insert(seq, owner, text.clone(), 0);
                held.insert(seq, (owner.clone(), text));
            }
        }
        (0..12).for_each(|seq| tree.remove(seq));
        assert_eq!((tree.nodes.len() - tree.free.len(), tree.roots.len()), (0, 0), "nothing stays of what is gone");
    }

    #[test]
    fn the_oldest_is_what_was_of_no_use_for_longest() {
        let mut tree = Prefixes::default();
        (0..3).for_each(|seq| tree.insert(seq, &PrefixOwner::default(), vec![seq], 0));
        tree.touch(0);
        assert_eq!((tree.oldest(|_| true), tree.oldest(|seq| seq != 1)), (Some(1), Some(2)));
        assert_eq!(tree.oldest(|_| false), None);
    }
}
