//! Limits of gates, by layer.

/// Limits of the gate and of what it is multiplied with, by layer; 0 for none.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Of each layer.
    pub by_layer: Vec<f32>,
    /// Whether the gate is limited before its activation, instead of after it.
    pub before: bool,
}

impl Limits {
    /// Of a layer: the limit, and whether it comes before the activation.
    pub(super) fn of(&self, i: usize) -> Option<(f32, bool)> {
        self.by_layer.get(i).filter(|limit| **limit > 1e-6).map(|limit| (*limit, self.before))
    }
}
