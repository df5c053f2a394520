//! Infill: chooses for a gap in a text, where ending in time matters and pieces that begin alike say the same.

use super::steps::{best_first, softmax, Candidate};

/// Candidates whose beginnings are compared with each other.
const COMPARED: usize = 512;
/// Text that is not at least as probable, beginnings counted together, is dropped.
const LEAST: f64 = 0.2;

/// What each id of a vocabulary writes, and which ids end a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenWords {
    text: Vec<u8>,
    /// Where each id's text ends, and whether it is an end.
    ids: Vec<(usize, bool)>,
    /// The end that is taken where no text is likely.
    pub end: Option<u32>,
}

impl TokenWords {
    /// Adds the next id.
    pub fn push(&mut self, text: &[u8], is_end: bool) {
        self.text.extend(text);
        self.ids.push((self.text.len(), is_end));
    }

    fn is_end(&self, id: u32) -> bool {
        self.ids.get(id as usize).is_some_and(|w| w.1)
    }

    fn text(&self, id: u32) -> &[u8] {
        let from = (id as usize).checked_sub(1).and_then(|i| self.ids.get(i)).map_or(0, |w| w.0);
        self.ids.get(id as usize).and_then(|w| self.text.get(from..w.0)).unwrap_or_default()
    }
}

/// Leaves ends alone where they are likely, and else text that is likely when beginnings count for what goes on with them.
pub fn infill(list: &mut Vec<Candidate>, words: &TokenWords) {
    list.sort_unstable_by(best_first);
    let mut p = softmax(list);
    let ends: f64 = list.iter().zip(&p).filter(|(c, _)| words.is_end(c.id)).map(|(_, p)| p).sum();
    let texts: f64 = p.iter().sum::<f64>() - ends;
    if 3.0 * ends * list.len() as f64 > texts {
        list.retain(|c| words.is_end(c.id));
        return;
    }
    merge(list, &mut p, words);
    let mut kept: Vec<(Candidate, f64)> = list.iter().copied().zip(p).collect();
    kept.retain(|(c, p)| *p >= LEAST || words.is_end(c.id));
    let likely = kept.iter().filter(|(c, _)| !words.is_end(c.id)).count();
    if likely == 0 {
        let end = words.end.or_else(|| kept.first().map(|(c, _)| c.id));
        let end = end.map(|id| Candidate { id, logit: 1.0 });
        list.truncate(1);
        list.iter_mut().zip(end).for_each(|(c, end)| *c = end);
        return;
    }
    let sum: f64 = kept.iter().map(|(_, p)| p).sum();
    let least = sum / (likely + 1) as f64;
    list.clear();
    list.extend(kept.into_iter().filter(|(c, p)| *p >= least || words.is_end(c.id)).map(|(c, _)| c));
}

/// Merges texts of which one begins with the other: the more probable one gets the probability of both.
fn merge(list: &mut [Candidate], p: &mut [f64], words: &TokenWords) {
    let n = list.len().min(COMPARED);
    for i in 0..n {
        for j in 0..n {
            if list[i].logit == f32::NEG_INFINITY {
                break;
            }
            let (short, long) = (words.text(list[i].id), words.text(list[j].id));
            if i == j || list[j].logit == f32::NEG_INFINITY || short.is_empty() || !long.starts_with(short) {
                continue;
            }
            let (to, from) = if p[j] > p[i] { (j, i) } else { (i, j) };
            p[to] += p[from];
            (p[from], list[from].logit) = (0.0, f32::NEG_INFINITY);
        }
    }
}
