//! The plan's weights as the kernels read them.

use pumex_cpu::{Cpu, DataShape, FileMatrix, Matrix, ScaledMatrix};
use pumex_gguf::error::try_filled_vec;
use pumex_gguf::{Error, Gguf, Result};
use pumex_plan::{General, MatPart, Op, Plan, Weight, WeightInfo};

/// By weight of the plan: what products read, and what is read as floats.
pub(super) struct Weights<'a> {
    matrices: Vec<Option<Matrix<'a>>>,
    vectors: Vec<Vec<f32>>,
}

/// What a weight is to the plan.
#[derive(Clone, Copy, Default)]
struct WeightRole {
    /// Matrices in it, if products read it.
    parts: usize,
    /// Whether it is read as floats.
    vector: bool,
}

fn roles(plan: &Plan) -> Vec<WeightRole> {
    let mut roles = vec![WeightRole::default(); plan.weights.len()];
    let mut matrix = |w: Weight, parts: usize| roles[w.0].parts = parts;
    let mut vectors: Vec<Weight> = Vec::new();
    for op in &plan.ops {
        match op {
            Op::MatMul { parts, .. } => parts.iter().for_each(|p| {
                matrix(p.weight, 1);
                vectors.extend(p.bias);
            }),
            Op::GatedMatMul { gate, up, .. } => [gate, up].into_iter().for_each(|p| {
                matrix(p.weight, 1);
                vectors.extend(p.bias);
            }),
            Op::GatedExperts { gate, up, biases, top_k, .. } => {
                [gate, up].into_iter().for_each(|w| matrix(*w, top_k.n_expert));
                vectors.extend(biases.iter().flatten());
            }
            Op::ExpertsAdd { down, bias, top_k, .. } => {
                matrix(*down, top_k.n_expert);
                vectors.extend(bias);
            }
            Op::RmsNorm { weight, .. } => vectors.push(*weight),
            Op::Route { scales, .. } => vectors.extend(scales.iter().flatten()),
            Op::RopeKv { rope, .. } => vectors.extend(rope.q_norm.iter().chain(&rope.k_norm)),
            Op::Attend { spec, .. } => vectors.extend(spec.sinks),
            Op::General(g) => {
                match g {
                    General::HeadMatMul(h) => matrix(h.weight, h.heads),
                    General::ExpertsMatMul(e) => matrix(e.weight, e.top_k.n_expert),
                    _ => {}
                }
                vectors.extend(g.vectors());
            }
            Op::Embed { .. } | Op::Sample { .. } => {}
        }
    }
    vectors.iter().for_each(|w| roles[w.0].vector = true);
    roles
}

/// Reads what lies before the bytes of a weight, and fails on a scale or value that is NaN or infinite.
fn inspect(gguf: &Gguf, w: &WeightInfo, from: usize, bytes: &[u8]) -> Result<()> {
    gguf.touch(&gguf.tensors()[w.tensor], from, bytes.len())?;
    let Some(bad) = w.format.first_non_finite(bytes) else { return Ok(()) };
    let block = from / w.format.block_bytes + bad;
    let what = format!("{}: expected finite weights, found NaN or infinity in block {block}", w.name);
    Err(Error::file(gguf.path(), "non_finite_weight", what))
}

/// All of a weight, decoded.
fn floats(gguf: &Gguf, w: &WeightInfo) -> Result<Vec<f32>> {
    let data = gguf.data(&gguf.tensors()[w.tensor]);
    let mut out =
        try_filled_vec(0.0, w.rows.saturating_mul(w.cols), &format!("{}: tensor {}", gguf.path().display(), w.name))?;
    let row = w.cols / w.format.block_len * w.format.block_bytes;
    for (i, out) in out.chunks_exact_mut(w.cols).enumerate() {
        let at = i % (data.len() / row).max(1) * row;
        w.format.decode_row(&data[at..][..row], out);
    }
    Ok(out)
}

impl<'a> Weights<'a> {
    /// Checks all of them, and packs those that products read.
    pub fn new(gguf: &'a Gguf, plan: &Plan, cpu: &Cpu, repack: bool) -> Result<Self> {
        let roles = roles(plan);
        let of_file = || plan.weights.iter().zip(&roles).filter(|(w, _)| !w.is_from_host());
        let sources: Vec<FileMatrix<'a, '_, Error>> = of_file()
            .map(|(w, role)| FileMatrix {
                format: w.format,
                shape: DataShape { parts: role.parts.max(1), rows: w.rows / role.parts.max(1), cols: w.cols },
                data: gguf.data(&gguf.tensors()[w.tensor]),
                // What no product reads is looked at all the same.
                repack: repack && role.parts > 0,
                inspect: Box::new(|from: usize, bytes: &[u8]| inspect(gguf, w, from, bytes)),
            })
            .collect();
        let full = |bytes: usize| {
            let path = gguf.path().display();
            Error::OutOfMemory(format!("{path}: weights: {bytes} bytes are not to be had (--no-repack takes fewer)"))
        };
        let mut loaded = Matrix::load((&cpu.pool, cpu.isa), &sources, &full)?.into_iter();
        let (mut matrices, mut vectors) = (Vec::new(), Vec::new());
        for (w, role) in plan.weights.iter().zip(&roles) {
            let matrix = if w.is_from_host() { None } else { loaded.next() };
            matrices.push(matrix.filter(|_| role.parts > 0));
            vectors.push(if role.vector && !w.is_from_host() { floats(gguf, w)? } else { Vec::new() });
        }
        Ok(Weights { matrices, vectors })
    }

    /// What products read.
    ///
    /// # Panics
    /// If no product of the plan does.
    pub fn matrix(&self, w: Weight) -> &Matrix<'a> {
        self.matrices[w.0].as_ref().unwrap_or_else(|| panic!("weight {} is a matrix of a product", w.0))
    }

    /// Bytes that a product with all of a weight reads, if one does.
    pub fn bytes(&self, w: Weight) -> Option<u64> {
        self.matrices[w.0].as_ref().map(|m| m.len_bytes() as u64)
    }

    /// All of a weight as floats.
    pub fn vector(&self, w: Weight) -> &[f32] {
        &self.vectors[w.0]
    }

    /// Matrices of experts with their biases.
    pub fn experts(&self, w: Weight, bias: Option<Weight>) -> ScaledMatrix<'_> {
        ScaledMatrix { matrix: self.matrix(w), scale: 1.0, bias: bias.map(|b| self.vector(b)) }
    }

    /// A matrix with its scale and bias.
    pub fn part(&self, p: &MatPart) -> ScaledMatrix<'_> {
        ScaledMatrix { matrix: self.matrix(p.weight), scale: p.scale, bias: p.bias.map(|b| self.vector(b)) }
    }
}
