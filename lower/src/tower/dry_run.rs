//! What an encoder's graph would run and take on a device that need not be there.

use super::{lower, LoweredTower, Stored, TowerAddresses, TowerTarget, WeightAt};
use crate::dispatch::Dispatch;
use crate::dump::{describe, Explained, APART};
use crate::policy;
use pumex_gguf::Result;
use pumex_media::graph::Graph;
use pumex_vk::Caps;

/// Where things lie in a dry run, far apart; weights come behind.
const AT: TowerAddresses = TowerAddresses { arena: APART, constants: 2 * APART, tables: 3 * APART };
const FIRST_WEIGHT: u64 = 4;

fn lower_for(graph: &Graph, caps: &Caps, stored: &[Stored]) -> Result<LoweredTower> {
    let place = |(i, stored): (usize, &Stored)| WeightAt { at: (FIRST_WEIGHT + i as u64) * APART, stored: *stored };
    let weights: Vec<WeightAt> = stored.iter().enumerate().map(place).collect();
    let held = !caps.matrix_n.is_empty() && policy::matrix::may_be_direct(caps);
    lower(graph, &TowerTarget { caps, soa: !caps.unified, panels: held, fragments: held, weights: &weights, at: AT })
}

/// The dispatches of a graph whose weights are stored so, in its order; cooperative matrices are taken to be held as the kernels expect.
///
/// # Errors
/// An op of a kind or size that no kernel does.
pub fn explain(graph: &Graph, caps: &Caps, stored: &[Stored]) -> Result<Explained> {
    let lowered = lower_for(graph, caps, stored)?;
    let name_of = |address: u64| {
        let (buffer, offset) = (address / APART, address % APART);
        let named = match buffer {
            0 => return address.to_string(),
            1 => "arena".to_string(),
            2 => "constants".to_string(),
            3 => "tables".to_string(),
            n => graph.weights.get((n - FIRST_WEIGHT) as usize).map_or(format!("{address:#x}"), |w| w.name.clone()),
        };
        if offset == 0 {
            named
        } else {
            format!("{named}+{offset}")
        }
    };
    let text = |(d, barrier): (&Dispatch, &bool)| describe(d, *barrier, caps, &name_of, Vec::new());
    Ok(Explained {
        ops: graph.ops.iter().map(|op| graph.line(op)).collect(),
        dispatches: lowered.dispatches.iter().zip(&lowered.barriers).map(text).collect(),
    })
}

/// Bytes that a graph's values take while it runs, and those of its tables and of its result for the host.
///
/// # Errors
/// An op of a kind or size that no kernel does.
pub fn step_bytes(graph: &Graph, caps: &Caps, stored: &[Stored]) -> Result<[u64; 2]> {
    let lowered = lower_for(graph, caps, stored)?;
    let result = graph.out.map_or(0, |out| 4 * graph.buffers[graph.view(out).buffer] as u64);
    Ok([lowered.places.len_bytes, 4 * lowered.constants.len() as u64 + result])
}
