//! Products by panels of activations, forced.

use crate::kernels::{Case, Lab, EPS, HALF_BOUND};
use crate::util::exhaustive;
use pumex::exec::fragment_layout;
use pumex::policy::{matrix, panels};
use pumex_quant::{Format, FormatId};
use pumex_shaders::block::Block;
use pumex_shaders::push;

/// Addresses of what a product reads and writes.
pub struct Tensors {
    /// The matrix, or gate and up.
    pub w: [u64; 2],
    pub bias: u64,
    /// Rows.
    pub x: u64,
    /// Weights of their norm.
    pub norm: u64,
    pub y: u64,
}

impl Lab {
    pub fn by_panels(&mut self, format: &Format, case: Case, of: Tensors) {
        let Case { m, k, n, .. } = case;
        let split = if m.is_multiple_of(4) { 2 } else { 1 }; // whatever pays
        let tile = panels::panel_tile(self.device.caps(), (m, k, n), case.gated);
        let tile = panels::PanelTile { split, ..tile };
        let rows = panels::packed_rows(n);
        let workgroups = n.div_ceil(tile.rows) * m.div_ceil(tile.outputs);
        let left = [
            self.buffer(&vec![0xff; workgroups * split as usize * tile.rows * 256]),
            self.buffer(&vec![0; 4 * workgroups]),
        ];
        let addresses = self.buffer(bytemuck::cast_slice(&left.each_ref().map(|buffer| buffer.address())));
        let all = rows.next_multiple_of(panels::PANEL_ROWS) * k.next_multiple_of(matrix::PACKED_LEN);
        let bytes = 2 * all + panels::READ_AHEAD;
        // What is read ahead meets no sum, whatever it is.
        let (codes, factors) = (self.buffer(&vec![0xff; bytes]), self.buffer(&vec![0xff; 4 * rows]));
        let (codes, factors) = (codes.address(), factors.address());
        let pack = push::PackPanels {
            x: of.x,
            norm: of.norm,
            codes,
            factors,
            n: n as u32,
            eps: EPS,
            ..push::PackPanels::default()
        };
        let spec = [("SIZE", 256), ("K", k as u32), ("NORM", u32::from(case.norm))];
        self.run_one("pack_panels", None, &spec, pack.bytes(), [rows as u32, 1, 1]);
        let product = push::Gemv {
            w0: of.w[0],
            w1: of.w[1],
            b0: of.bias,
            x: codes,
            y: of.y,
            tables: self.codebooks.address(),
            norm: factors,
            k: k as u32,
            m0: m as u32,
            m01: m as u32,
            m: m as u32,
            y_stride: m as u32,
            flags: u32::from(case.bias) | (n as u32) << 8,
            s0: 1.0,
            s1: 1.0,
            s2: 1.0,
            ..push::Gemv::default()
        };
        let mut spec = tile.spec(k, (case.gated, case.add, case.soa));
        spec.push(("WHOLE_ROWS", u32::from(m.is_multiple_of(4))));
        let grid = [n.div_ceil(tile.rows) as u32, m.div_ceil(tile.outputs) as u32, split];
        let product = push::GemmPanels { product, split: addresses.address() };
        self.run_one(panels::PANELS, Some(format.stem), &spec, product.bytes(), grid);
    }
}

/// Inputs are a multiple of a turn of the loop or not, outputs of what is stored at a time, rows few enough for each shape of workgroups.
#[test]
fn products_by_panels_are_right_for_every_format_and_edge_shape() {
    let Some(mut lab) = Lab::open() else { return };
    let held = fragment_layout(&lab.device, &lab.kernels).unwrap();
    if !held.is_some_and(|held| held.panels) {
        println!("skipped: threads of {} hold no matrices as gemm_panels expects", lab.device.caps().name);
        return;
    }
    let (caps, mut wrong) = (lab.device.caps().clone(), Vec::new());
    let shapes = [
        (2, 132, 33, false),
        (3, 37, 130, false),
        (9, 70, 530, true),
        (5, 260, 300, false),
        (1, 96, 64, true),
        (6, 68, 100, true),
        (3, 132, 20, false),
    ];
    for format in pumex_quant::all().filter(|format| matrix::takes(&caps, format, 64)) {
        for (blocks, m, n, gated) in shapes {
            if exhaustive() || [FormatId::Q4K, FormatId::Q6K].contains(&format.id) {
                let k = blocks * format.block_len.max(32);
                let case =
                    Case { m, k, n, gated, soa: n != 33, bias: m == 37, add: m > 130, norm: n > 130, ..Case::PLAIN };
                let error = lab.error(format, case, panels::PANELS);
                if error >= HALF_BOUND {
                    wrong.push(format!("{}, {case:?}: {error:e}", format.stem));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    crate::util::assert_silent_on(&lab.device);
}
