//! Names and shapes of a model's tensors.

/// Names and dimensions, columns first.
#[derive(Debug, Default)]
pub struct Tensors {
    /// What was added.
    pub(super) found: Vec<(String, Vec<u32>)>,
    prefix: String,
}

impl Tensors {
    /// What follows is layer `i`'s.
    pub(super) fn layer(&mut self, i: u32) {
        self.prefix = format!("blk.{i}.");
    }

    /// What follows is the model's.
    pub(super) fn whole(&mut self) {
        self.prefix.clear();
    }

    /// A tensor, by its whole name within the layer.
    pub(super) fn add(&mut self, name: &str, dims: &[u32]) {
        self.found.push((format!("{}{name}", self.prefix), dims.to_vec()));
    }

    /// `NAME.weight`
    pub(super) fn weight(&mut self, name: &str, dims: &[u32]) {
        self.add(&format!("{name}.weight"), dims);
    }

    /// `NAME.weight [rows, cols]` and its bias.
    pub(super) fn with_bias(&mut self, name: &str, cols: u32, rows: u32) {
        self.weight(name, &[cols, rows]);
        self.add(&format!("{name}.bias"), &[rows]);
    }

    /// Gate, up and down, `ff` wide.
    pub(super) fn dense(&mut self, dim: u32, ff: u32, suffix: &str) {
        self.weight(&format!("ffn_gate{suffix}"), &[dim, ff]);
        self.weight(&format!("ffn_up{suffix}"), &[dim, ff]);
        self.weight(&format!("ffn_down{suffix}"), &[ff, dim]);
    }

    /// A router and its experts: how many, how many of them a row uses, how wide.
    pub(super) fn experts(&mut self, dim: u32, (count, _, ff): (u32, u32, u32)) {
        self.weight("ffn_gate_inp", &[dim, count]);
        self.weight("ffn_gate_exps", &[dim, ff, count]);
        self.weight("ffn_up_exps", &[dim, ff, count]);
        self.weight("ffn_down_exps", &[ff, dim, count]);
    }
}
