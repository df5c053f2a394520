//! Which thread of a subgroup holds which element of a cooperative matrix: asked of the device, since Vulkan leaves it open.

use crate::kernel::Kernels;
use pumex_gguf::Result;
use pumex_lower::policy::matrix as tiles;
use pumex_lower::policy::matrix::FEW_N;
use pumex_lower::policy::panels::{panels_fit, PANEL_N};
use pumex_lower::policy::MatrixLayout;
use pumex_shaders::block::Block;
use pumex_shaders::push;
use pumex_vk::{Class, Device};
use std::collections::HashSet;

/// The fragment layout of a device.
pub struct FragmentLayout {
    /// For each number of columns that activations may have, the place of each element: 8 times the thread, and its index there.
    pub maps: Vec<(u32, Vec<u32>)>,
    /// Whether fragments lie the way `gemm_few` expects.
    pub direct: bool,
    /// Sums as `attn_flash` expects.
    pub ordered: bool,
    /// Weights and activations as `gemm_panels` expects.
    pub panels: bool,
}

impl FragmentLayout {
    /// What lowering knows of it.
    pub fn layout(&self) -> MatrixLayout {
        MatrixLayout { direct: self.direct, ordered: self.ordered, panels: self.panels }
    }
}

/// Where a matrix keeps each of its `elements`, if every thread has its own (see `shaders/glsl/fragment_layout.comp`).
fn map(device: &Device, kernels: &Kernels, spec: &[(&str, u32)], elements: usize) -> Result<Option<Vec<u32>>> {
    let found = device.buffer("map", 4 * (elements as u64 + 1), Class::Readback)?;
    found.write(0, &vec![0xff; 4 * (elements + 1)]);
    let pipeline = kernels.get("fragment_layout", None, spec)?;
    let mut recorder = device.recorder()?;
    recorder.dispatch(&pipeline, &push::FragmentMap { map: found.address() }.bytes(), [1, 1, 1]);
    recorder.host_barrier();
    recorder.keep(&found);
    let recording = recorder.finish()?;
    device.wait(device.submit(&recording)?)?;
    let mut map = vec![0u32; elements + 1];
    found.read(0, bytemuck::cast_slice_mut(&mut map));
    let all = map.pop() == Some(elements as u32);
    let each = elements as u32 / 32;
    let places: HashSet<u32> = map.iter().copied().filter(|p| p / 8 < 32 && p % 8 < each).collect();
    Ok((all && places.len() == elements).then_some(map))
}

/// Asks the device; none if it has no cooperative matrices or threads share elements.
///
/// # Errors
/// A lost device, a module the driver refuses.
pub fn fragment_layout(device: &Device, kernels: &Kernels) -> Result<Option<FragmentLayout>> {
    let mut maps = Vec::new();
    for mat_n in device.caps().matrix_n.iter().copied() {
        let Some(map) = map(device, kernels, &[("USE", 0), ("MAT_N", mat_n)], 16 * mat_n as usize)? else {
            tracing::warn!("{}: threads share what matrices of {mat_n} columns hold; unused", device.caps().name);
            return Ok(None);
        };
        maps.push((mat_n, map));
    }
    if maps.is_empty() {
        return Ok(None);
    }
    let weights = map(device, kernels, &[("USE", 1), ("MAT_N", FEW_N)], 256)?;
    let few = maps.iter().find(|(mat_n, _)| *mat_n == FEW_N);
    let sums = match few {
        Some(_) => map(device, kernels, &[("USE", 2), ("MAT_N", FEW_N)], 16 * FEW_N as usize)?,
        None => None,
    };
    let ordered = sums.as_ref().is_some_and(|sums| tiles::ordered(sums));
    let wide = maps.iter().find(|(mat_n, _)| *mat_n == PANEL_N);
    let panels = weights.as_ref().zip(wide).is_some_and(|(weights, (_, wide))| panels_fit(weights, wide));
    let all = weights.zip(few).zip(sums);
    let direct = all.is_some_and(|((weights, (_, few)), sums)| tiles::direct(&weights, few, &sums));
    let direct = direct && tiles::may_be_direct(device.caps());
    Ok(Some(FragmentLayout { maps, direct, ordered, panels }))
}
