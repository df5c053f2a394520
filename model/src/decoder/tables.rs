//! Frequencies of a family's rotations.

use super::Family;
use crate::config::{inv_freq, Reader, Scaling};
use crate::weights::Weights;
use pumex_gguf::Result;
use pumex_plan::{RopeStyle, Sections};

/// A table of frequencies.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Rotated elements per head.
    pub dims: usize,
    /// Base of the series.
    pub base: f32,
    /// Scaling.
    pub scaling: Scaling,
    /// Whether the file's factors apply to it.
    pub factors: bool,
}

/// How queries and keys rotate.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Tables of frequencies, which layers name.
    pub tables: Vec<Table>,
    /// Pairing of rotated elements.
    pub style: RopeStyle,
    /// Where rows of pictures rotate by several positions: which pairs by which.
    pub sections: Option<Sections>,
}

impl Family {
    /// Reads the sections of a rotation by several positions; whether there are any.
    ///
    /// # Errors
    /// `bad_hparam` if they are more than a head has.
    pub fn read_sections(&mut self, r: &Reader<'_>, interleaved: bool) -> Result<bool> {
        const KEY: &str = "rope.dimension_sections";
        let read = r.by_layer(KEY, 4, Some(&[0; 4]), 1 << 16)?;
        let pairs = [read[0], read[1], read[2], read[3]];
        let (sum, most) = (pairs.iter().sum::<usize>(), self.rotation.tables[0].dims);
        if sum > most {
            return Err(r.bad(KEY, &format!("a sum of at most rope.dimension_count {most}"), sum));
        }
        // Other families go by them only if the first two are there.
        let given = if interleaved { sum > 0 } else { pairs[0] > 0 && pairs[1] > 0 };
        self.rotation.sections = given.then_some(Sections { pairs, interleaved });
        Ok(given)
    }

    /// The tables of frequencies, and those of long contexts where there are factors for them.
    pub(super) fn ropes(&self, w: &mut Weights<'_>) -> (Vec<Vec<f32>>, Option<Vec<Vec<f32>>>) {
        // Narrower rotations take the first of the factors.
        let dims = self.rotation.tables.iter().map(|t| t.dims).max().unwrap_or(0);
        let names = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"];
        let [all, short, long] =
            names.map(|name| (dims > 0).then(|| w.opt_vector(name, dims / 2)).flatten().map(|f| w.values(f)));
        w.ignore("rope_f");
        let tables = |factors: Option<Vec<f32>>| -> Vec<Vec<f32>> {
            let table = |t: &Table| {
                let own = factors.as_deref().filter(|_| t.factors).and_then(|f| f.get(..t.dims / 2));
                inv_freq(t.dims, t.base, t.scaling, own)
            };
            self.rotation.tables.iter().map(table).collect()
        };
        let long = long.filter(|_| all.is_none()).map(|long| tables(Some(long)));
        (tables(all.or(short)), long)
    }
}
