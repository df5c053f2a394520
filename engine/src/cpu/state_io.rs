//! What the interpreters of the CPU write of a sequence, and how it lies.

use super::general::States;
use pumex_cpu::attention::{Cache, Elements};
use pumex_gguf::{Error, Result};
use pumex_plan::Plan;
use std::io::{Read, Write};

/// Floats that are read at a time.
const PIECE: usize = 64 << 10;

/// What the reference's bytes are.
pub fn reference_layout(plan: &Plan, elements: [Elements; 2]) -> String {
    let [k, v] = elements.map(Elements::name);
    format!("reference {k} {v} {:?}", plan.layers)
}

/// What the fast interpreter's bytes are.
pub fn fast_layout(plan: &Plan, caches: &[Option<Cache>]) -> String {
    let caches: Vec<String> =
        caches.iter().map(|cache| cache.as_ref().map(Cache::layout).unwrap_or_default()).collect();
    format!("CPU {caches:?} {:?}", plan.layers)
}

/// An error of writing, as the runner's.
pub fn write_error<T>(result: std::io::Result<T>) -> Result<T> {
    result.map_err(|e| Error::Request(format!("saving a sequence: {e}")))
}

/// An error of reading, as the runner's.
pub fn read<T>(result: std::io::Result<T>) -> Result<T> {
    result.map_err(|e| Error::Request(format!("restoring a sequence: {e}")))
}

/// Writes how many floats there are, and them.
pub fn save_floats(floats: &[f32], to: &mut dyn Write) -> Result<()> {
    write_error(to.write_all(&(floats.len() as u64).to_le_bytes()))?;
    write_error(to.write_all(bytemuck::cast_slice(floats)))
}

/// Reads what [`save_floats`] wrote, `most` floats at most.
pub fn restore_floats(floats: &mut Vec<f32>, most: usize, from: &mut dyn Read) -> Result<()> {
    let mut len = [0; 8];
    read(from.read_exact(&mut len))?;
    let len = usize::try_from(u64::from_le_bytes(len)).ok().filter(|len| *len <= most);
    let len =
        len.ok_or_else(|| Error::Request(format!("restoring a sequence: expected at most {most} floats, found more")))?;
    floats.clear();
    // Memory comes with what is there.
    while floats.len() < len {
        let at = floats.len();
        floats.resize((at + PIECE).min(len), 0.0);
        read(from.read_exact(bytemuck::cast_slice_mut(&mut floats[at..])))?;
    }
    Ok(())
}

/// Writes the recurrent states of all layers.
pub fn save_states(states: &mut States, layers: usize, seq: u32, to: &mut dyn Write) -> Result<()> {
    (0..layers).try_for_each(|layer| write_error(to.write_all(bytemuck::cast_slice(states.of(seq, layer)))))
}

/// Reads what [`save_states`] wrote.
pub fn restore_states(states: &mut States, layers: usize, seq: u32, from: &mut dyn Read) -> Result<()> {
    (0..layers).try_for_each(|layer| read(from.read_exact(bytemuck::cast_slice_mut(states.of(seq, layer)))))
}
