//! Shapes that were measured on the device itself (`pumex tune`): they come before the class's table.

use super::table::{Evidence, FewRow, GemvRow, Groups, Product, ALWAYS};
use super::FEW_ROWS;
use pumex_vk::{Caps, TunedProduct, TunedShape};

/// What rows are called that come from there.
const NAME: &str = "tuned";
/// The kernel of an expert's products, whose shape is not that of others.
pub(super) const EXPERTS: &str = "gemv_dot of experts";

/// Most rows of a GEMV.
const SOME: usize = 8;

/// The number of rows that products of `columns` are tuned with.
pub fn columns(columns: usize) -> usize {
    match columns {
        ..=1 => 1,
        2..=SOME => SOME,
        _ => FEW_ROWS,
    }
}

/// A product of a kernel.
pub fn key(kernel: &str, p: &Product<'_>) -> TunedProduct {
    TunedProduct {
        kernel: kernel.into(),
        format: p.format.stem.into(),
        outputs: p.outputs,
        inputs: p.inputs,
        columns: columns(p.columns),
        gated: p.gated,
        bits: p.activations.bits(),
    }
}

fn shape(caps: &Caps, kernel: &str, p: &Product<'_>) -> Option<TunedShape> {
    if caps.tuned.is_empty() {
        return None;
    }
    let key = key(kernel, p);
    let found = caps.tuned.iter().find(|tuned| tuned.product == key)?;
    Some(found.shape).filter(|shape| shape.is_legal())
}

/// The shape of a GEMV, if it was tuned.
pub(super) fn gemv(caps: &Caps, kernel: &str, p: &Product<'_>) -> Option<GemvRow> {
    let TunedShape { threads, rows, per_core } = shape(caps, kernel, p)?;
    let groups = per_core.map_or(Groups::All, Groups::PerCore);
    Some(GemvRow { name: NAME, when: ALWAYS, threads, rows, groups, evidence: Evidence::Tuned })
}

/// The shape of a `gemm_few`, likewise.
pub(super) fn few(caps: &Caps, kernel: &str, p: &Product<'_>) -> Option<FewRow> {
    let TunedShape { threads, rows, per_core } = shape(caps, kernel, p)?;
    let per_core = per_core.unwrap_or(u32::MAX);
    Some(FewRow { name: NAME, when: ALWAYS, threads, split: rows, per_core, evidence: Evidence::Tuned })
}

/// What is tried for a kernel on a device: a pipeline for each pair of the first two, which all numbers of workgroups share.
pub fn candidates(caps: &Caps, kernel: &str) -> Vec<TunedShape> {
    let (threads, rows, groups): (&[u32], &[u32], &[Option<u32>]) = match kernel {
        "gemm_few" => (&[256, 128], &[8, 4, 2], &[None, Some(4), Some(8)]),
        "gemv" => (&[32, 64, 128], &[4, 2, 1], &[None]),
        EXPERTS => (&[256, 512, 128, 1024], &[1], &[None]),
        _ => (&[256, 512, 1024, 128], &[1, 2, 4], &[Some(2), Some(1), Some(4), None]),
    };
    let fits = |threads: &u32| *threads <= caps.max_workgroup_invocations && *threads >= caps.subgroup_size;
    let pairs = threads.iter().filter(|t| fits(t)).flat_map(|t| rows.iter().map(move |r| (*t, *r)));
    pairs
        .flat_map(|(threads, rows)| {
            groups.iter().map(move |per_core| TunedShape { threads, rows, per_core: *per_core })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{devices, gemv_tile, ActivationQuant, GemmFusion, GEMV_MAX_COLS};
    use super::*;
    use pumex_quant::FormatId;
    use pumex_vk::Tuned;

    const SHORT: GemmFusion =
        GemmFusion { gated: false, add: false, norm: false, soa: false, activations: ActivationQuant::Q8 };

    #[test]
    fn a_shape_that_was_measured_counts_for_its_product_and_no_other() {
        let mut caps = devices::h200();
        let format = FormatId::Q4K.format();
        let p =
            Product { format, outputs: 4096, inputs: 4096, columns: 1, gated: false, activations: ActivationQuant::Q8 };
        let table = gemv_tile(&caps, format, 4096, 4096, 1, SHORT);
        let shape = TunedShape { threads: 128, rows: 4, per_core: Some(2) };
        caps.tuned.push(Tuned { product: key("gemv_dot", &p), shape });
        let tuned = gemv_tile(&caps, format, 4096, 4096, 1, SHORT);
        assert_eq!((tuned.size, tuned.rows, tuned.groups), (128, 4, 256));
        assert_ne!(tuned, table);
        let plain = devices::h200();
        for (m, k, n, fusion) in [
            (4097, 4096, 1, SHORT),
            (4096, 8192, 1, SHORT),
            (4096, 4096, 2, SHORT),
            (4096, 4096, 1, GemmFusion { gated: true, ..SHORT }),
            (4096, 4096, 1, GemmFusion { activations: ActivationQuant::Q16, ..SHORT }),
        ] {
            assert_eq!(gemv_tile(&caps, format, m, k, n, fusion), gemv_tile(&plain, format, m, k, n, fusion));
        }
        // What no kernel can have is as if it was not there.
        for wrong in [
            TunedShape { threads: 96, ..shape },
            TunedShape { threads: 2048, ..shape },
            TunedShape { rows: 0, ..shape },
            TunedShape { rows: 3, ..shape },
            TunedShape { per_core: Some(0), ..shape },
        ] {
            caps.tuned[0].shape = wrong;
            assert_eq!(gemv_tile(&caps, format, 4096, 4096, 1, SHORT), table, "{wrong:?}");
        }
    }

    #[test]
    fn what_is_tried_is_legal_on_every_device_and_nothing_comes_twice() {
        for name in devices::names() {
            let caps = devices::find(name).unwrap();
            for kernel in ["gemv", "gemv_dot", "gemm_few", EXPERTS] {
                let all = candidates(&caps, kernel);
                let distinct: std::collections::HashSet<_> = all.iter().collect();
                assert!(distinct.len() == all.len() && !all.is_empty(), "{name}: {kernel}");
                for shape in all {
                    assert!(shape.is_legal() && shape.threads <= caps.max_workgroup_invocations, "{name}: {shape:?}");
                }
            }
        }
        let classes: Vec<usize> = (1..=16).map(columns).collect();
        assert_eq!((classes[0], classes[1], classes[7], classes[8], classes[15]), (1, 8, 8, 16, 16));
        assert_eq!(SOME, GEMV_MAX_COLS);
    }
}
