//! MiMo 2: sliding layers with sinks and a base of their own, scaled values, experts by sigmoid.

use crate::config::Reader;
use crate::decoder::{Attention, Family, LayerSpec, Mixer, MixerSpec, Rows, SlidingRope};
use crate::weights::Weights;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Builder, Gating, LayerState, MatPart, Plan, Val};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.must_slide_by_keys(&r, 0, false, SlidingRope::Unscaled(r.sliding_base(10000.0)?))?;
    let scale = r.factor("attention.value_scale", 1.0)?;
    f.mix(|layer| !layer.mix.is_empty(), ScaledValues(scale));
    f.experts_where_routed(gguf);
    f.route_by_keys(&r, Gating::Sigmoid)?;
    (f.moe.gating, f.moe.normalized) = (Gating::Sigmoid, true);
    f.plan(gguf)
}

/// Attention whose values are multiplied with this, which the product that follows does.
#[derive(Debug)]
struct ScaledValues(f32);

impl MixerSpec for ScaledValues {
    fn state(&self, f: &Family, l: &LayerSpec) -> LayerState {
        Attention.state(f, l)
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(Scaled { attention: Attention.declare(w, f, i), by: self.0 })
    }
}

struct Scaled {
    attention: Box<dyn Mixer>,
    by: f32,
}

impl Mixer for Scaled {
    fn run(&self, p: &mut Builder, f: &Family, rows: Rows<'_>) -> Val {
        self.attention.run(p, f, rows)
    }

    fn output(&self) -> MatPart {
        let output = self.attention.output();
        MatPart { scale: output.scale * self.by, ..output }
    }
}
