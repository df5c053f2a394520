//! HRM's two stacks of layers, which are gone through in turn, each with what the other gave added to its own.

use crate::decoder::{Decoder, Family, Forward, LayerNorm, Stack};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Join, Val, Weight};

/// How often stacks are gone through: the low one `low` times, then the high one, all of it `high` times.
#[derive(Clone, Copy, Debug)]
pub struct Cycles {
    /// Layers of a stack.
    pub layers: usize,
    /// Times that the high stack is gone through.
    pub high: usize,
    /// Times that the low one is, before each of them.
    pub low: usize,
}

impl Cycles {
    /// How many times layers are gone through, each time with a state of its own.
    pub fn steps(&self) -> usize {
        self.layers * self.high * (self.low + 1)
    }

    /// Whether a round is one of the high stack.
    fn is_high(&self, round: usize) -> bool {
        (round + 1).is_multiple_of(self.low + 1)
    }

    /// The layer in the file that step `i` is of.
    pub fn block(&self, i: usize) -> usize {
        let high = self.is_high(i / self.layers);
        i % self.layers + if high { self.layers } else { 0 }
    }
}

impl Stack for Cycles {
    /// Those of the low stack, then those of the high one.
    fn blocks(&self, _f: &Family) -> usize {
        2 * self.layers
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family) -> Box<dyn Forward> {
        Box::new(Stacks { cycles: *self, start: w.vector("hrm.z_l_init", f.c.n_embd) })
    }
}

/// Weights beside those of the layers.
struct Stacks {
    cycles: Cycles,
    /// `[dim]`: what the low stack starts with.
    start: Weight,
}

impl Forward for Stacks {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let (mut high, mut low, mut x) = (x, None, x);
        for i in 0..self.cycles.steps() {
            if i % self.cycles.layers == 0 {
                if i > 0 {
                    let given = f.normalize(p, Some(LayerNorm::BARE), x);
                    match self.cycles.is_high(i / self.cycles.layers - 1) {
                        true => high = given,
                        false => low = Some(given),
                    }
                }
                let low = low.map_or(Arg::Weight(self.start), |low| Arg::Cols(p.all(low)));
                x = p.parts("x", f.c.n_embd);
                let (from, to) = (Arg::Cols(p.all(high)), p.all(x));
                p.map_into(to, (1, to.stride), (Act::Same, from, 1.0), (Join::Add, low));
            }
            x = d.blocks[self.cycles.block(i)].run(p, f, i, (x, &mut None));
        }
        x
    }
}
