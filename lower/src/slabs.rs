//! Matrices that no buffer of the device holds whole: they lie in slabs, runs of rows with a buffer each, and kernels look up in a
//! list of addresses where the slab of a row starts.

use pumex_plan::{General, Op, Plan, Weight, WeightInfo};
use pumex_vk::Caps;
use std::ops::Range;

/// Kernels take as many rows at once, at most, and these start at a multiple of it.
const LEAST_ROWS: u64 = 16;
/// Rows of a slab are a multiple of it where as many fit a buffer.
const WHOLE_ROWS: u64 = 256;
/// Kernels read weights 16 bytes at a time.
const ALIGNMENT: u64 = 16;
/// The constant that tells kernels the rows of a slab.
pub const ROWS: &str = "SLAB_ROWS";
/// An address.
const ENTRY_BYTES: u64 = 8;

/// Bytes of a row of `w` on the device, as a structure of arrays if it has any and they are wanted.
pub fn row_bytes(w: &WeightInfo, soa: bool) -> u64 {
    if soa && !w.format.fields.is_empty() {
        w.format.soa_bytes(w.cols) as u64
    } else {
        (w.cols / w.format.block_len * w.format.block_bytes) as u64
    }
}

/// Bytes of `rows` rows of `w` on the device.
pub fn device_bytes(w: &WeightInfo, rows: usize, soa: bool) -> u64 {
    (rows as u64 * row_bytes(w, soa)).next_multiple_of(ALIGNMENT)
}

/// Rows of each slab of `w`, the last one's aside, where buffers have `most` bytes; none if it is one, or if not even the least slab is.
pub fn slab_rows(w: &WeightInfo, most: u64, soa: bool) -> Option<usize> {
    let fit = most / row_bytes(w, soa).max(1);
    if w.is_from_host() || device_bytes(w, w.rows, soa) <= most || fit < LEAST_ROWS {
        return None;
    }
    let unit = if fit >= WHOLE_ROWS { WHOLE_ROWS } else { 1 << fit.ilog2() };
    usize::try_from(fit / unit * unit).ok()
}

/// The rows of each slab, or all of a matrix that is one.
pub fn slabs(w: &WeightInfo, most: u64, soa: bool) -> Vec<Range<usize>> {
    let each = slab_rows(w, most, soa).unwrap_or(w.rows).max(1);
    (0..w.rows).step_by(each).map(|from| from..w.rows.min(from + each)).collect()
}

/// Bytes of the list of addresses of so many slabs.
pub fn list_bytes(slabs: usize) -> u64 {
    ENTRY_BYTES * slabs as u64
}

/// Whether no buffer holds `w`, and kernels do not take it in slabs.
pub fn is_too_large(plan: &Plan, w: Weight, caps: &Caps, soa: bool) -> bool {
    let (info, most) = (&plan.weights[w.0], caps.largest_buffer());
    let slabs = || slab_rows(info, most, soa).is_some() && plan.ops.iter().all(|op| takes_slabs(op, w));
    device_bytes(info, info.rows, soa) > most && !slabs()
}

/// Whether all that an op reads of `w` may lie in slabs, as rows of matrices may.
fn takes_slabs(op: &Op, w: Weight) -> bool {
    let matrices = match op {
        Op::Embed { weight, .. } => vec![*weight],
        Op::MatMul { parts, .. } => parts.iter().map(|part| part.weight).collect(),
        Op::GatedMatMul { gate, up, .. } => vec![gate.weight, up.weight],
        Op::GatedExperts { gate, up, .. } => vec![*gate, *up],
        Op::ExpertsAdd { down, .. } => vec![*down],
        Op::General(General::ExpertsMatMul(e)) => vec![e.weight],
        Op::General(General::HeadMatMul(h)) => vec![h.weight],
        _ => vec![],
    };
    let named = |of: &[Weight]| of.iter().filter(|of| **of == w).count();
    named(&op.weights()) == named(&matrices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumex_quant::FormatId;

    fn matrix(rows: usize, cols: usize) -> WeightInfo {
        WeightInfo { name: "w".into(), tensor: 0, rows, cols, format: FormatId::Q8_0.format() }
    }

    #[test]
    fn matrices_that_a_buffer_holds_are_one_slab() {
        let w = matrix(1000, 64);
        assert_eq!(slab_rows(&w, 68_000, false), None);
        assert_eq!(slabs(&w, 68_000, false), vec![0..1000]);
    }

    #[test]
    fn slabs_are_of_many_rows_or_of_a_power_of_two_and_fit_a_buffer() {
        let w = matrix(1000, 64);
        for (most, rows) in [(67_999, 768), (68 * 300, 256), (68 * 255, 128), (68 * 16, 16)] {
            assert_eq!(slab_rows(&w, most, false), Some(rows), "{most}");
            let slabs = slabs(&w, most, false);
            assert_eq!(slabs.iter().map(Range::len).sum::<usize>(), 1000);
            assert!(slabs.iter().all(|s| device_bytes(&w, s.len(), false) <= most.next_multiple_of(ALIGNMENT)));
            assert!(slabs.windows(2).all(|two| two[0].end == two[1].start && two[0].len() == rows));
        }
        assert_eq!(slab_rows(&w, 68 * 15, false), None, "fewer rows than kernels take at once");
    }
}
