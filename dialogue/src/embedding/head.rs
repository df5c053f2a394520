//! What files have behind pooling: dense products of embeddings, and the classifier of models that rank. Both work on a vector or
//! two for a text, so they run here, in f32.

use super::Pooling;
use pumex_gguf::{Error, Gguf, Result};

/// A matrix `[rows, cols]` with its bias.
struct Linear {
    cols: usize,
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
}

/// Products behind pooling.
pub struct ClassifierHead {
    /// Which rows of a text the classifier takes.
    pub(super) pooling: Pooling,
    /// Names of the scores; empty if the file has none.
    labels: Vec<String>,
    dense: Vec<Linear>,
    hidden: Option<Linear>,
    /// By GELU instead of tanh.
    gelu: bool,
    /// Factors and epsilon of a norm of what the activation gives.
    norm: Option<(Vec<f32>, f32)>,
    scores: Option<Linear>,
    /// Whether scores are made probabilities.
    softmax: bool,
}

/// A tensor's numbers, with its dimensions.
fn tensor(gguf: &Gguf, name: &str) -> Result<Option<(Vec<u64>, Vec<f32>)>> {
    let Some(tensor) = gguf.tensor(name) else { return Ok(None) };
    let (cols, all) = (tensor.dims.first().copied().unwrap_or(1).max(1), tensor.dims.iter().product::<u64>());
    let format = pumex_quant::find(tensor.type_id).filter(|f| cols.is_multiple_of(f.block_len as u64));
    let Some(format) = format else {
        let what = format!("{name}: expected a type that Pumex reads, found {}", pumex_gguf::type_name(tensor.type_id));
        return Err(Error::file(gguf.path(), "type_not_allowed_for_role", what));
    };
    let count = usize::try_from(all).unwrap_or(usize::MAX);
    let mut out = pumex_gguf::error::try_filled_vec(0.0, count, &format!("{}: tensor {name}", gguf.path().display()))?;
    let row_bytes = cols as usize / format.block_len * format.block_bytes;
    let rows = gguf.data(tensor).chunks_exact(row_bytes);
    rows.zip(out.chunks_exact_mut(cols as usize)).for_each(|(row, out)| format.decode_row(row, out));
    Ok(Some((tensor.dims.clone(), out)))
}

impl Linear {
    /// `NAME.weight` for vectors of `width`, with `NAME.bias`, if it is there.
    fn read(gguf: &Gguf, name: &str, width: usize) -> Result<Option<Linear>> {
        let Some((dims, weights)) = tensor(gguf, &format!("{name}.weight"))? else { return Ok(None) };
        let wrong = |what: String| Error::file(gguf.path(), "wrong_shape", format!("{name}{what}"));
        if dims[0] != width as u64 || dims.len() > 2 {
            return Err(wrong(format!(".weight: expected shape [{width}, n], found {dims:?}")));
        }
        let bias = tensor(gguf, &format!("{name}.bias"))?.map(|(_, bias)| bias);
        let linear = Linear { cols: width, weights, bias };
        match &linear.bias {
            Some(bias) if bias.len() != linear.rows() => {
                Err(wrong(format!(".bias: expected shape [{}], found [{}]", linear.rows(), bias.len())))
            }
            _ => Ok(Some(linear)),
        }
    }

    fn rows(&self) -> usize {
        self.weights.len() / self.cols.max(1)
    }

    fn times(&self, x: &[f32]) -> Vec<f32> {
        let row = |(i, w): (usize, &[f32])| {
            let sum: f64 = w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
            sum as f32 + self.bias.as_ref().map_or(0.0, |bias| bias[i])
        };
        self.weights.chunks_exact(self.cols).enumerate().map(row).collect()
    }
}

impl ClassifierHead {
    /// Reads what the file has for vectors of `width`. `ahead`: whether rows see those that come later, so that the first one
    /// knows all of its text.
    ///
    /// # Errors
    /// `wrong_shape` or `type_not_allowed_for_role`, naming the tensor.
    pub fn read(gguf: &Gguf, width: usize, ahead: bool) -> Result<ClassifierHead> {
        let (meta, arch) = (gguf.meta(), gguf.meta().arch()?);
        let (mut dense, mut at) = (Vec::new(), width);
        for name in ["dense_2", "dense_3"] {
            let Some(linear) = Linear::read(gguf, name, at)? else { continue };
            at = linear.rows();
            dense.push(linear);
        }
        let hidden = Linear::read(gguf, "cls", width)?;
        let scored = hidden.as_ref().map_or(width, Linear::rows);
        let eps = meta.opt_f32(&format!("{arch}.attention.layer_norm_epsilon"))?.unwrap_or(1e-5);
        let norm = tensor(gguf, "cls.norm.weight")?.map(|(_, factors)| factors);
        if let Some(found) = norm.as_ref().map(Vec::len).filter(|len| *len != scored) {
            let what = format!("cls.norm.weight: expected shape [{scored}], found [{found}]");
            return Err(Error::file(gguf.path(), "wrong_shape", what));
        }
        let mean = match meta.opt_u32(&format!("{arch}.classifier.pooling_type"))? {
            Some(kind) if kind != u32::MAX => kind == 1,
            _ => arch == "modern-bert",
        };
        let one = if ahead { Pooling::Cls } else { Pooling::Last };
        Ok(ClassifierHead {
            pooling: if mean { Pooling::Mean } else { one },
            labels: meta.opt_strings(&format!("{arch}.classifier.output_labels")).unwrap_or_default().map_or_else(
                Vec::new, // an empty array has any type
                |all| all.iter().map(|label| String::from_utf8_lossy(label).into_owned()).collect(),
            ),
            dense,
            hidden,
            gelu: arch == "modern-bert",
            norm: norm.map(|factors| (factors, eps)),
            scores: Linear::read(gguf, "cls.output", scored)?,
            softmax: ["qwen3", "qwen3vl"].contains(&arch),
        })
    }

    /// Whether the file has a classifier.
    pub fn ranks(&self) -> bool {
        self.hidden.is_some() || self.scores.is_some()
    }

    /// The name of a score: the file's, or its number.
    pub fn label(&self, i: usize) -> String {
        self.labels.get(i).filter(|l| !l.is_empty()).cloned().unwrap_or_else(|| i.to_string())
    }

    /// A pooled vector through the dense products, if there are some.
    pub(super) fn dense(&self, x: Vec<f32>) -> Vec<f32> {
        self.dense.iter().fold(x, |x, linear| linear.times(&x))
    }

    /// A pooled vector's scores.
    pub(super) fn scores(&self, mut x: Vec<f32>) -> Vec<f32> {
        if let Some(hidden) = &self.hidden {
            x = hidden.times(&x);
            x.iter_mut().for_each(|x| *x = if self.gelu { gelu(*x) } else { x.tanh() });
            if let Some((factors, eps)) = &self.norm {
                layer_norm(&mut x, factors, *eps);
            }
        }
        if let Some(scores) = &self.scores {
            x = scores.times(&x);
        }
        if self.softmax {
            let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = x.iter().map(|x| (x - most).exp()).sum();
            x.iter_mut().for_each(|x| *x = (*x - most).exp() / sum);
        }
        x
    }
}

fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + ((2.0 / std::f32::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

fn layer_norm(x: &mut [f32], factors: &[f32], eps: f32) {
    let n = x.len().max(1) as f32;
    let mean = x.iter().sum::<f32>() / n;
    let deviation = (x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n + eps).sqrt();
    x.iter_mut().zip(factors).for_each(|(x, f)| *x = (*x - mean) / deviation * f);
}
