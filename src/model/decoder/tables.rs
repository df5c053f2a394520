//! Frequencies of a family's rotations.

use super::{Family, Table};
use crate::model::config::{inv_freq, Reader};
use crate::model::weights::Weights;
use crate::Result;

/// Which of the four positions of a row of pictures rotates which pair: time, height, width, and one that is 0 for text.
#[derive(Clone, Copy, Debug)]
pub struct Sections {
    /// Pairs of each.
    pub pairs: [usize; 4],
    /// Whether the first three take turns, instead of one following the other.
    pub interleaved: bool,
}

impl Sections {
    /// Whether the fourth position rotates a pair, so that text does not.
    fn is_fourth(&self, pair: usize) -> bool {
        let at = pair % self.pairs.iter().sum::<usize>().max(1);
        match self.interleaved {
            true => at >= 3 * self.pairs[at % 3],
            false => at >= self.pairs[..3].iter().sum(),
        }
    }
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
        let (sum, most) = (pairs.iter().sum::<usize>(), self.tables[0].dims);
        if sum > most {
            return Err(r.bad(KEY, &format!("a sum of at most rope.dimension_count {most}"), sum));
        }
        // Other families go by them only if the first two are there.
        let given = if interleaved { sum > 0 } else { pairs[0] > 0 && pairs[1] > 0 };
        self.sections = given.then_some(Sections { pairs, interleaved });
        Ok(given)
    }

    /// The tables of frequencies, and those of long contexts where there are factors for them.
    pub(super) fn ropes(&self, w: &mut Weights<'_>) -> (Vec<Vec<f32>>, Option<Vec<Vec<f32>>>) {
        // Narrower rotations take the first of the factors.
        let dims = self.tables.iter().map(|t| t.dims).max().unwrap_or(0);
        let names = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"];
        let [all, short, long] =
            names.map(|name| (dims > 0).then(|| w.opt_vector(name, dims / 2)).flatten().map(|f| w.values(f)));
        w.ignore("rope_f");
        let tables = |factors: Option<Vec<f32>>| -> Vec<Vec<f32>> {
            let table = |t: &Table| {
                let own = factors.as_deref().filter(|_| t.factors).and_then(|f| f.get(..t.dims / 2));
                let mut table = inv_freq(t.dims, t.base, t.scaling, own);
                if let Some(sections) = &self.sections {
                    table.iter_mut().enumerate().filter(|(i, _)| sections.is_fourth(*i)).for_each(|(_, f)| *f = 0.0);
                }
                table
            };
            self.tables.iter().map(table).collect()
        };
        let long = long.filter(|_| all.is_none()).map(|long| tables(Some(long)));
        (tables(all.or(short)), long)
    }
}

#[cfg(test)]
mod tests {
    use super::Sections;

    fn fourth(pairs: [usize; 4], interleaved: bool) -> Vec<usize> {
        let sections = Sections { pairs, interleaved };
        (0..64).filter(|i| sections.is_fourth(*i)).collect()
    }

    #[test]
    fn pairs_in_no_section_of_three_are_the_fourths() {
        assert_eq!(fourth([24, 20, 20, 0], true), [61, 62]);
        assert_eq!(fourth([11, 11, 10, 0], true), [] as [usize; 0]);
        assert_eq!(fourth([16, 24, 24, 0], false), [] as [usize; 0]);
        assert_eq!(fourth([16, 24, 20, 4], false), [60, 61, 62, 63]);
        assert_eq!(fourth([4, 2, 1, 1], false), [7, 15, 23, 31, 39, 47, 55, 63]);
    }
}
