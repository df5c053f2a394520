//! Memory that dispatches share: the split-reduction workspace, packed activations.

use super::fragment::FragmentLayout;
use pumex_gguf::Result;
use pumex_lower::policy::matrix::FEW;
use pumex_lower::policy::PackedRowsRequest;
use pumex_lower::sizes::{Packed, SplitReduction};
use pumex_lower::{PackedAt, Packing, RowPacking};
use pumex_shaders::constants::GATED_FACTOR;
use pumex_vk as vk;
use pumex_vk::{Buffer, Class, Device};

/// Where workgroups of one dispatch leave what the last of them joins; the counters are zero between dispatches.
pub struct SplitReductionMemory {
    /// What each found.
    pub partials: Buffer,
    /// How many have arrived.
    pub arrivals: Buffer,
}

impl SplitReductionMemory {
    /// # Errors
    /// Memory that ran out, a lost device.
    pub fn new(device: &Device, sizes: SplitReduction) -> Result<SplitReductionMemory> {
        let partials = device.buffer("partials", sizes.partials, Class::Scratch)?;
        let arrivals = device.buffer("arrivals", sizes.arrivals, Class::Scratch)?;
        vk::send(device, &arrivals, &vec![0; sizes.arrivals as usize])?;
        Ok(SplitReductionMemory { partials, arrivals })
    }
}

/// ActivationQuant as halves for cooperative matrices, and what comes with them.
pub struct PackedMemory {
    codes: Buffer,
    factors: Buffer,
    /// For each number of columns that activations may have: which thread holds which element.
    maps: Vec<(u32, Buffer)>,
    epilogue_factors: Buffer,
    squares: Buffer,
    powers: Buffer,
    decoded: Option<Buffer>,
    moe: Option<[Buffer; 4]>,
    packing: Option<Packing>,
    rows: Option<RowPacking>,
}

impl PackedMemory {
    /// Takes what `sizes` says; none if no product would use it.
    ///
    /// # Errors
    /// Memory that ran out.
    pub fn new(
        device: &Device,
        sizes: &Packed,
        held: Option<FragmentLayout>,
        asked: PackedRowsRequest,
    ) -> Result<Option<PackedMemory>> {
        let rows = sizes.rows(device.caps(), asked);
        if sizes.k == 0 || (held.is_none() && rows.is_none()) {
            return Ok(None);
        }
        let scratch = |name: &str, bytes: u64| device.buffer(name, bytes, Class::Scratch);
        let packing = held.as_ref().map(|held| sizes.packing(held.layout()));
        let mut maps = Vec::new();
        for (mat_n, map) in held.into_iter().flat_map(|held| held.maps) {
            let buffer = scratch("map", 4 * map.len() as u64)?;
            vk::send(device, &buffer, bytemuck::cast_slice(&map))?;
            maps.push((mat_n, buffer));
        }
        let passed = [[1f32; FEW], [GATED_FACTOR as f32; FEW]].concat();
        let epilogue_factors = scratch("packed.passed", 4 * passed.len() as u64)?;
        vk::send(device, &epilogue_factors, bytemuck::cast_slice(&passed))?;
        let moe = match sizes.moe {
            Some([tiles, codes, factors, products]) => Some([
                scratch("moe.tiles", tiles)?,
                scratch("moe.packed", codes)?,
                scratch("moe.factors", factors)?,
                scratch("moe.products", products)?,
            ]),
            None => None,
        };
        Ok(Some(PackedMemory {
            codes: scratch("packed", sizes.codes)?,
            factors: scratch("packed.factors", sizes.factors)?,
            maps,
            epilogue_factors,
            squares: scratch("packed.squares", sizes.squares)?,
            powers: scratch("packed.powers", sizes.powers)?,
            decoded: if sizes.decoded > 0 { Some(scratch("decoded", sizes.decoded)?) } else { None },
            moe,
            packing,
            rows,
        }))
    }

    /// What lowering asks of it.
    pub fn packing(&self) -> Option<Packing> {
        self.packing
    }

    /// What lowering asks of the workspace for packed rows of products without matrices.
    pub fn rows(&self) -> Option<RowPacking> {
        self.rows
    }

    /// Where all of it lies.
    pub fn addresses(&self) -> PackedAt {
        PackedAt {
            codes: self.codes.address(),
            factors: self.factors.address(),
            maps: self.maps.iter().map(|(mat_n, map)| (*mat_n, map.address())).collect(),
            epilogue_factors: self.epilogue_factors.address(),
            squares: self.squares.address(),
            powers: self.powers.address(),
            decoded: self.decoded.as_ref().map_or(0, Buffer::address),
            moe: self.moe.as_ref().map_or([0; 4], |moe| moe.each_ref().map(Buffer::address)),
        }
    }

    /// All buffers.
    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        let buffers = [&self.codes, &self.factors, &self.epilogue_factors, &self.squares, &self.powers];
        let buffers = buffers.into_iter().chain(&self.decoded);
        buffers.chain(self.maps.iter().map(|(_, map)| map)).chain(self.moe.iter().flatten())
    }
}
