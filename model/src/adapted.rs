//! Tensors that are attached to a file, by name: low-rank changes of its matrices, and vectors that layers add.

use pumex_gguf::Gguf;
use pumex_plan::{Plan, Site, SitePair, WeightInfo};

/// Name of the vector that a layer adds to the residual stream.
pub fn control_name(layer: usize) -> String {
    format!("blk.{layer}.control_vector")
}

/// The plan with what is attached to `gguf`.
pub(super) fn with_attached(plan: Plan, gguf: &Gguf) -> Plan {
    if gguf.tensors().len() == gguf.own_tensors().len() {
        return plan;
    }
    let info = |name: &str| {
        let (tensor, t) = gguf.find_attached(name)?;
        let (cols, rows) = (t.dims.first().map_or(1, |d| *d as usize), t.dims.iter().skip(1).product::<u64>() as usize);
        Some(WeightInfo { name: name.to_string(), tensor, rows, cols, format: pumex_quant::find(t.type_id)? })
    };
    let pair = |plan: &Plan, site: &Site| {
        let [a, b, ranks] = site.names(plan);
        let ranks = gguf.find_attached(&ranks).map_or(&[][..], |(_, t)| gguf.data(t));
        let rank = |bytes: &[u8]| bytes.try_into().map_or(0, |bytes| f32::from_le_bytes(bytes) as usize);
        Some(SitePair { a: info(&a)?, b: info(&b)?, ranks: ranks.chunks_exact(4).map(rank).collect() })
    };
    plan.add_adapters(&pair, &|layer| info(&control_name(layer)))
}
