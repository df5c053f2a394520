//! Products by cooperative matrices: activations are packed once for each layout wanted, by a dispatch of their own, by the op
//! that makes them (`pack_epilogue`), or by the product before a norm (`NormEpilogue`, see `shaders/glsl/lib/pack_norm.glsl`).

use super::dispatch::{Access, Module, Place, Touched};
use super::product::{gate_constants, Product};
use super::{fusion, Lowering};
use crate::policy;
use crate::policy::matrix::{FEW, PACKED_LEN};
use crate::policy::{matrix as tiles, GemmFusion, ProductKernel, ProductTile, FEW_ROWS};
use pumex_plan::{MatPart, Norm, Op, Rows, Val};
use pumex_shaders::push;

/// Slots of activations for few rows: one for each layout, and that of activations which the op before packs.
const SLOTS: usize = 4;
const EPILOGUE_SLOT: usize = 3;
/// Addresses of a norm epilogue, of two words each.
const EPILOGUE_WORDS: usize = 12;

/// What packing knows of the ops before.
#[derive(Default)]
pub(super) struct State {
    /// The product that handed its rows to the next op, packed.
    epilogue: Option<NormEpilogue>,
    /// Which half of the powers the last norm's rows were over, once there was one.
    powers: usize,
    powers_known: bool,
}

/// How a product hands its rows to the op after it, packed and ready for the norm there.
#[derive(Clone, Copy)]
struct NormEpilogue {
    /// The op that gets them.
    reader: usize,
    /// Word of its addresses, among those of the recording.
    at: usize,
    /// Layouts in which rows are packed.
    layouts: [u32; 2],
}

/// Where an op packs what it makes for the one product that reads it.
#[derive(Clone, Copy)]
pub(super) struct PackEpilogue {
    pub layout: u32,
    /// Packed rows and their factors.
    pub codes: u64,
    pub factors: u64,
}

impl Lowering<'_> {
    /// Layouts of the activations that products by such a kernel want, each once: CHUNKS of `shaders/glsl/pack.comp`.
    fn layouts(&self, kernel: ProductKernel, parts: &[MatPart]) -> Vec<u32> {
        if kernel != ProductKernel::Few {
            return vec![0];
        }
        let mut layouts: Vec<u32> =
            parts.iter().map(|p| tiles::few_chunks(self.plan.weights[p.weight.0].format)).collect();
        layouts.sort_unstable();
        layouts.dedup();
        layouts
    }

    /// Where codes and factors of a layout are: the `slot`th of those that a few rows are packed in at a time.
    fn slot_at(&self, slot: usize) -> (u64, u64) {
        let (at, k) = (&self.t.at.packed, self.t.packing.map_or(0, |p| p.k));
        (at.codes + (2 * slot * FEW * k) as u64, at.factors + (4 * slot * FEW) as u64)
    }

    /// A slot of packed rows; of many rows there is only one.
    fn packed(&self, slot: usize, n: usize, k: usize) -> Access {
        let range = if n <= FEW { slot..slot + 1 } else { 0..SLOTS };
        Access { range, ..Access::all(Place::Packed, (2 * n * k) as u64) }
    }

    /// What a product reads in place of its input.
    pub(super) fn epilogue_slot(&self, v: Val) -> Access {
        self.packed(EPILOGUE_SLOT, self.rows_of(v), self.width(v))
    }

    /// Whether an op before those that read `v` can pack it: few rows, of whole units.
    fn packs_early(&self, v: Val) -> bool {
        let few = self.t.packing.is_some_and(|p| p.layout.direct) && (2..=FEW_ROWS).contains(&self.rows_of(v));
        few && self.t.fuse && !self.t.importance && self.width(v).is_multiple_of(PACKED_LEN)
    }

    /// Whether the op that makes `v` packs it for the one product that reads it, which comes next.
    pub(super) fn pack_epilogue(&self, v: Val) -> Option<PackEpilogue> {
        if !self.packs_early(v) {
            return None;
        }
        let (plan, n) = (self.plan, self.rows_of(v));
        let mut readers = plan.readers(v);
        let (Some((reader, Op::MatMul { norm: None, parts, .. })), None) = (readers.next(), readers.next()) else {
            return None;
        };
        let kernel = fusion::product_kernel(self.t, plan, parts, n);
        let &[layout] = self.layouts(kernel, parts).as_slice() else { return None };
        let kind = match plan.ops.get(reader.checked_sub(1)?)? {
            Op::Attend { out, .. } if *out == v => 0,
            Op::GatedMatMul { gate, up, out, .. }
                if *out == v && fusion::gated_kernel(self.t, plan, (gate, up), n).packs_for_matrices() =>
            {
                1
            }
            _ => return None,
        };
        let factors = self.t.at.packed.epilogue_factors + (4 * kind * FEW) as u64;
        kernel.packs_for_matrices().then(|| PackEpilogue { layout, codes: self.slot_at(EPILOGUE_SLOT).0, factors })
    }

    /// The op after the product `op`, which adds to the rows, if these can come to it packed; and in which layouts.
    fn takes_norm_epilogue(&self, op: usize) -> Option<(usize, Norm, [u32; 2])> {
        let ops = &self.plan.ops;
        let Op::MatMul { parts, add: true, out, .. } = ops.get(op)? else { return None };
        let n = self.rows_of(*out);
        let (read, norm, reader) = match ops.get(op + 1)? {
            Op::MatMul { x, norm: Some(norm), parts, .. } if x == out => {
                (parts.clone(), *norm, fusion::product_kernel(self.t, self.plan, parts, n))
            }
            Op::GatedMatMul { x, norm: Some(norm), gate, up, .. } if x == out => {
                (vec![*gate, *up], *norm, fusion::gated_kernel(self.t, self.plan, (gate, up), n))
            }
            _ => return None,
        };
        // Whoever else reads them normed would have to pack them again.
        let rewritten = |op: &&Op| op.has_write(pumex_plan::Access::Value(*out));
        let until = ops[op + 2..].iter().position(|op| rewritten(&op)).map_or(ops.len(), |i| op + 3 + i);
        let again = |op: &Op| match op {
            Op::MatMul { x, norm, .. } | Op::GatedMatMul { x, norm, .. } | Op::GatedExperts { x, norm, .. } => {
                x == out && norm.is_some()
            }
            Op::Route { router: Some(r), .. } => r.x == *out && r.norm.is_some(),
            _ => false,
        };
        let alone = !ops[op + 2..until].iter().any(again);
        let step = self.plan.values[out.0].rows == Rows::Step && parts.len() == 1;
        let kernels = [fusion::product_kernel(self.t, self.plan, parts, n), reader];
        if !alone || !step || !self.packs_early(*out) || !kernels.iter().all(|k| k.packs_for_matrices()) {
            return None;
        }
        let layouts = self.layouts(reader, &read);
        let two = [layouts[0], layouts.get(1).copied().unwrap_or(0)];
        (layouts.len() <= 2).then_some((op + 1, norm, two))
    }

    /// Makes the product that is being lowered hand its rows on, if it can.
    fn start_norm_epilogue(&mut self) -> Option<NormEpilogue> {
        let (reader, norm, layouts) = self.takes_norm_epilogue(self.at).filter(|_| self.packs.powers_known)?;
        let at = &self.t.at.packed;
        let powers = |half: usize| at.powers + (4 * FEW * half) as u64;
        let half = self.packs.powers;
        let addresses: [u64; EPILOGUE_WORDS / 2] = [
            self.weight(norm.weight),
            self.slot_at(0).0,
            self.slot_at(1).0,
            at.squares,
            powers(half),
            powers(1 - half),
        ];
        self.packs.powers = 1 - half;
        let epilogue = NormEpilogue { reader, at: self.words.len(), layouts };
        self.words.extend(addresses.iter().flat_map(|a| [*a as u32, (*a >> 32) as u32]));
        self.packs.epilogue = Some(epilogue);
        Some(epilogue)
    }

    /// The epilogue by which the rows of the op that is being lowered come packed.
    fn norm_prologue(&self) -> Option<NormEpilogue> {
        self.packs.epilogue.filter(|epilogue| epilogue.reader == self.at)
    }

    /// Packs `x` for these products by such a kernel, normed if they norm it, unless it comes packed.
    pub(super) fn pack(&mut self, kernel: ProductKernel, x: Val, norm: Option<Norm>, parts: &[MatPart]) {
        if (norm.is_none() && self.pack_epilogue(x).is_some()) || self.norm_prologue().is_some() {
            return;
        }
        let (k, n, caps) = (self.width(x), self.rows_of(x), self.t.caps);
        if kernel == ProductKernel::Panels {
            return self.pack_panels(x, norm);
        }
        let direct = kernel == ProductKernel::Few;
        let (mat_n, _) = tiles::columns(caps, direct, n);
        let map = self.map_of(mat_n).unwrap_or(0);
        self.packs.powers_known |= norm.is_some() && n <= FEW;
        for (slot, chunks) in self.layouts(kernel, parts).into_iter().enumerate() {
            let (codes, factors) = self.slot_at(slot);
            let half = if n <= FEW { self.packs.powers } else { 2 }; // of many rows nobody reads them
            let push = push::Pack {
                x: self.val(x),
                norm: self.opt(norm.map(|n| n.weight)),
                codes,
                factors,
                map,
                powers: self.t.at.packed.powers + (4 * FEW * half) as u64,
                n: n as u32,
                eps: norm.map_or(0.0, |n| n.eps),
                ..push::Pack::default()
            };
            let constants = vec![
                ("SIZE", tiles::pack_threads(caps)),
                ("K", k as u32),
                ("NORM", u32::from(norm.is_some())),
                ("CHUNKS", chunks),
                ("MAT_N", mat_n),
            ];
            let reads = [vec![self.value(x)], self.matrices(norm.map(|n| n.weight))].concat();
            let mut writes = vec![self.packed(slot, n, k)];
            // All layouts' dispatches write the same powers.
            writes.extend((slot == 0 && norm.is_some()).then(|| Access::all(Place::PackedSums, 4 * n as u64)));
            let grid = [tiles::packed_rows(caps, direct, n), 1, 1];
            self.emit(Module::of("pack"), constants, push, grid, Touched { reads, writes });
        }
    }

    /// Where a matrix of activations of so many columns keeps what.
    pub(super) fn map_of(&self, mat_n: u32) -> Option<u64> {
        self.t.at.packed.maps.iter().find(|(w, _)| *w == mat_n).map(|(_, map)| *map)
    }

    /// The product of what is packed for `all` with up to three matrices of one format, or with gate and up.
    pub(super) fn by_matrix(&mut self, all: &[MatPart], p: &Product) {
        let (n, gated) = (self.rows_of(p.x), p.gate.is_some());
        let m = self.product_push(p).m as usize;
        let query = self.product_query((all, gated), &p.parts[0], (m, n), self.extras(gated, p.add));
        let choice = policy::choose(self.t.caps, &query);
        match choice.tile {
            ProductTile::Panels(tile) => self.panel_product(p, tile),
            ProductTile::Matrix(tile) => self.matrix_product((all, choice.kernel), p, tile),
            _ => unreachable!("all matrices that read packed rows go by the kernel that they were packed for"),
        }
        if let Some(task) = self.tasks.last_mut() {
            task.keep_query(query);
        }
    }

    fn matrix_product(&mut self, (all, kernel): (&[MatPart], ProductKernel), p: &Product, tile: tiles::MatTile) {
        let info = &self.plan.weights[p.parts[0].weight.0];
        let (n, extras) = (self.rows_of(p.x), self.extras(p.gate.is_some(), p.add));
        let slot = self.layouts(kernel, all).iter().position(|l| *l == tiles::few_chunks(info.format)).unwrap_or(0);
        let from = self.pack_epilogue(p.x).filter(|_| p.norm.is_none());
        let (codes, factors) = from.map_or(self.slot_at(slot), |epilogue| (epilogue.codes, epilogue.factors));
        let epilogue = if p.gate.is_some() { self.pack_epilogue(p.out) } else { None };
        let prologue = self.norm_prologue();
        let norm_epilogue = if p.add && prologue.is_none() { self.start_norm_epilogue() } else { None }; // there is room for one epilogue
        let push = push::Gemv {
            x: codes,
            y: epilogue.map_or(self.val(p.out) + 4 * p.y_at as u64, |epilogue| epilogue.codes),
            tables: self.t.at.codebooks,
            norm: factors,
            eps: prologue.and(p.norm).map_or(0.0, |norm| norm.eps),
            ..self.product_push(p)
        };
        let push = push::Gemv { flags: push.flags | (n << 8) as u32, ..push };
        let m = push.m as usize;
        let mut constants = self.matrix_constants(&tile, info.cols, extras, epilogue, (norm_epilogue, prologue));
        constants.extend(gate_constants(p.gate));
        let Touched { mut reads, mut writes } = self.touched(p, m);
        reads.retain(|a| a.place != Place::Value(p.x));
        let source = if from.is_some() { EPILOGUE_SLOT } else { slot };
        reads.push(self.packed(source, n, self.width(p.x)));
        reads.extend(prologue.map(|_| Access::all(Place::PackedSums, 0)));
        if norm_epilogue.is_some() {
            let sent = Access { range: 0..EPILOGUE_SLOT, ..Access::all(Place::Packed, (2 * n * m) as u64) };
            writes.extend([sent, Access::all(Place::PackedSums, 0)]);
            reads.push(Access::all(Place::PackedSums, 0));
        }
        if epilogue.is_some() {
            writes = vec![self.epilogue_slot(p.out)];
        }
        let (module, grid) =
            (Module::with(tile.kernel, info.format.stem), [tile.groups as usize, n.div_ceil(tile.columns()), 1]);
        if tile.kernel == tiles::FEW_KERNEL {
            let at = prologue.or(norm_epilogue).map_or(0, |epilogue| self.t.at.words + 4 * epilogue.at as u64);
            self.emit(
                module,
                constants,
                push::GemmFew { product: push, norm_epilogue: at },
                grid,
                Touched { reads, writes },
            );
        } else {
            self.emit(module, constants, push, grid, Touched { reads, writes });
        }
    }

    fn matrix_constants(
        &self,
        tile: &tiles::MatTile,
        k: usize,
        extras: GemmFusion,
        epilogue: Option<PackEpilogue>,
        (norm_epilogue, prologue): (Option<NormEpilogue>, Option<NormEpilogue>),
    ) -> Vec<(&'static str, u32)> {
        let mut constants = tile.spec(k, extras);
        constants.extend(epilogue.map(|epilogue| ("PACK_EPILOGUE", epilogue.layout)));
        constants.extend(
            norm_epilogue.iter().flat_map(|epilogue| {
                [("NORM_EPILOGUE", epilogue.layouts[0]), ("NORM_EPILOGUE_2", epilogue.layouts[1])]
            }),
        );
        constants.extend(prologue.map(|_| ("NORM_PROLOGUE", 1)));
        constants
    }
}
