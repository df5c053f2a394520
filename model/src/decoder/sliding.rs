//! Layers that slide: what they see, and how they rotate.

use super::{Family, Table};
use crate::config::{Reader, Scaling};
use pumex_gguf::Result;
use pumex_plan::Mask;

/// How layers that slide rotate. Families differ in this where a file says a base for them, or scales its frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlidingRope {
    /// By the table of all others.
    Same,
    /// By this base, their frequencies scaled as those of the others.
    Scaled(f32),
    /// By this base, their frequencies as they are; YaRN's part of the magnitude goes with it, the file's own factor stays.
    Unscaled(f32),
    /// By this base, without any scaling.
    Plain(f32),
}

impl SlidingRope {
    /// Its table, if it is not that of all others.
    fn table(self, others: Table) -> Option<Table> {
        let s = others.scaling;
        let of_yarn = s.yarn.map_or(1.0, |_| 1.0 - 0.1 * s.freq_scale.ln());
        let own = |base, scaling| Some(Table { base, scaling, ..others });
        match self {
            SlidingRope::Same => None,
            SlidingRope::Scaled(base) => own(base, s),
            SlidingRope::Unscaled(base) => own(base, Scaling { magnitude: s.magnitude / of_yarn, ..Scaling::NONE }),
            SlidingRope::Plain(base) => own(base, Scaling::NONE),
        }
    }
}

impl Family {
    /// Lets the layers of `sliding` see what `mask` says, and rotate as `rope` does.
    pub fn slide(&mut self, sliding: &[bool], mask: Mask, rope: SlidingRope) {
        let table = rope.table(self.rotation.tables[0]).map(|table| {
            self.rotation.tables.push(table);
            self.rotation.tables.len() - 1
        });
        for (layer, _) in self.layers.iter_mut().zip(sliding).filter(|(_, sliding)| **sliding) {
            layer.mask = mask;
            layer.rope = layer.rope.map(|own| table.unwrap_or(own));
        }
    }

    /// Lets layers slide as keys say, all but one in `period`, if there is a window; none in `period` asks for a flag of each layer.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn slide_by_keys(
        &mut self,
        r: &Reader<'_>,
        period: usize,
        dense_first: bool,
        rope: SlidingRope,
    ) -> Result<Vec<bool>> {
        if self.c.window == 0 {
            return Ok(vec![false; self.c.n_layer]);
        }
        let sliding = r.sliding(self.c.n_layer, period, dense_first)?;
        self.slide(&sliding, Mask::Window(self.c.window), rope);
        Ok(sliding)
    }

    /// Lets layers slide as keys say, where a file must have a window.
    ///
    /// # Errors
    /// `missing_key` without one.
    pub fn must_slide_by_keys(
        &mut self,
        r: &Reader<'_>,
        period: usize,
        dense_first: bool,
        rope: SlidingRope,
    ) -> Result<Vec<bool>> {
        self.c.window = r.int("attention.sliding_window", None, 1, u64::from(u32::MAX))?;
        self.slide_by_keys(r, period, dense_first, rope)
    }

    /// Lets layers that do not slide rotate nothing.
    pub fn rope_in(&mut self, sliding: &[bool]) {
        for (layer, _) in self.layers.iter_mut().zip(sliding).filter(|(_, sliding)| !**sliding) {
            layer.rope = None;
        }
    }

    /// The table of sliding layers rotates `dims` columns, without the file's factors.
    pub fn sliding_table(&mut self, dims: usize) {
        if let Some(table) = self.rotation.tables.last_mut().filter(|_| self.layers.iter().any(|l| l.rope == Some(1))) {
            (table.dims, table.factors) = (dims, false);
        }
    }

    /// Lets layers of `sliding` see half a window to either side, and rotate by a base of their own.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn slide_around(&mut self, r: &Reader<'_>, sliding: &[bool]) -> Result<()> {
        let base = r.sliding_base(10000.0)?;
        self.slide(sliding, Mask::Near(self.c.window / 2), SlidingRope::Unscaled(base));
        Ok(())
    }
}
