//! What becomes of a gate and of what it gates.
//!
//! A gate is part of its products: any activation, with experts' biases. Scans take their steps as products leave them, norms may
//! be gated, and residual scales are factors of products.

use super::Act;
use std::fmt::{self, Display};

/// `act(gate) * (up + plus)`, with `up` limited first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// The activation of the gate; never [`Act::Xielu`], whose numbers the kernels do not take.
    pub act: Act,
    /// Most that the other may be either way of zero.
    pub limit: Option<f32>,
    /// Added to the other.
    pub plus: f32,
}

impl Gate {
    /// `silu(gate) * up`.
    pub const SILU: Gate = Gate { act: Act::Silu, limit: None, plus: 0.0 };

    /// `act(gate) * up`, if one op does it; gpt-oss limits up as it does the gate, and adds 1.
    pub fn of(act: Act) -> Option<Gate> {
        let (limit, plus) = match act {
            Act::SiluClamped(_, limit) => (Some(limit), 1.0),
            _ => (None, 0.0),
        };
        (!matches!(act, Act::Xielu(_))).then_some(Gate { act, limit, plus })
    }
}

impl Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.act {
            Act::Silu => write!(f, "silu")?,
            act => write!(f, "{act:?}")?,
        }
        if let Some(limit) = self.limit {
            write!(f, " of at most {limit:?}")?;
        }
        if self.plus != 0.0 {
            write!(f, " plus {}", self.plus)?;
        }
        write!(f, "-gated")
    }
}
