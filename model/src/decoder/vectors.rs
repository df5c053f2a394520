//! Rows that are vectors, as families take them: in place of the embedding, and in parts that later layers add.

use crate::config::Reader;
use pumex_gguf::Result;
use pumex_plan::{Builder, General, GroupSight, TakeVectors, Val};

/// What a family makes of vectors.
#[derive(Clone, Debug)]
pub struct Vectors {
    /// Whether rows may be vectors.
    pub allowed: bool,
    /// Whether they are scaled as embedded rows are.
    pub scaled: bool,
    /// Parts of a vector behind the first, of as many columns each.
    pub more: usize,
    /// By layer, the part that is added to the residual stream behind it.
    pub after: Vec<Option<usize>>,
    /// What those see of each other that see each other.
    pub sight: GroupSight,
}

impl Default for Vectors {
    fn default() -> Vectors {
        Vectors { allowed: true, scaled: true, more: 0, after: Vec::new(), sight: GroupSight::All }
    }
}

impl Vectors {
    /// Reads how many of the first layers have a part of their own behind them (deepstack).
    ///
    /// # Errors
    /// More than there are layers.
    pub fn read_deepstack(&mut self, r: &Reader<'_>, n_layer: usize) -> Result<()> {
        self.more = r.int("n_deepstack_layers", Some(0), 0, n_layer as u64)?;
        self.after = (1..=self.more).map(Some).collect();
        Ok(())
    }

    /// Reads a list of the part that comes before each layer, negative for none. Vectors in parts are not scaled.
    ///
    /// # Errors
    /// A part beyond those that are named.
    pub fn read_mapping(&mut self, r: &Reader<'_>, n_layer: usize) -> Result<()> {
        const KEY: &str = "deepstack_mapping";
        if !r.has(KEY) {
            return Ok(());
        }
        let parts: Vec<Option<usize>> =
            r.signed(KEY, n_layer)?.into_iter().map(|part| usize::try_from(part).ok()).collect();
        let named: std::collections::BTreeSet<usize> = parts.iter().flatten().copied().collect();
        self.more = named.len();
        if let Some(part) = named.last().filter(|part| **part > self.more) {
            return Err(r.bad(KEY, &format!("parts up to {}", self.more), part));
        }
        // The first layer's is the residual stream itself.
        self.after = parts.into_iter().skip(1).collect();
        self.scaled &= self.more == 0;
        Ok(())
    }

    /// Numbers of a vector where a row of the residual stream has `dim`; 0 where rows may be none.
    pub fn width(&self, dim: usize) -> usize {
        if self.allowed {
            dim * (1 + self.more)
        } else {
            0
        }
    }

    /// Takes the first part in place of embedded rows, before these are scaled or after it.
    pub fn take(&self, p: &mut Builder, out: Val, before: bool) {
        if self.allowed && self.scaled == before {
            p.general(General::TakeVectors(TakeVectors { part: 0, add: false, out }));
        }
    }

    /// Adds what comes behind layer `i`.
    pub fn after(&self, p: &mut Builder, i: usize, out: Val) {
        if let Some(part) = self.after.get(i).copied().flatten().filter(|_| self.allowed) {
            p.general(General::TakeVectors(TakeVectors { part, add: true, out }));
        }
    }
}
