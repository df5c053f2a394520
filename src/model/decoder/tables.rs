//! Frequencies of a family's rotations.

use super::{Family, Table};
use crate::model::config::inv_freq;
use crate::model::weights::Weights;

impl Family {
    /// The tables of frequencies, and those of long contexts where there are factors for them.
    pub(super) fn ropes(&self, w: &mut Weights<'_>) -> (Vec<Vec<f32>>, Option<Vec<Vec<f32>>>) {
        let dims = self.tables[0].dims;
        let names = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"];
        let [all, short, long] =
            names.map(|name| (dims > 0).then(|| w.opt_vector(name, dims / 2)).flatten().map(|f| w.values(f)));
        w.ignore("rope_f");
        let tables = |factors: Option<Vec<f32>>| -> Vec<Vec<f32>> {
            let table = |t: &Table| {
                let own = factors.as_deref().filter(|f| t.factors && f.len() == t.dims / 2);
                inv_freq(t.dims, t.base, t.scaling, own)
            };
            self.tables.iter().map(table).collect()
        };
        let long = long.filter(|_| all.is_none()).map(|long| tables(Some(long)));
        (tables(all.or(short)), long)
    }
}
