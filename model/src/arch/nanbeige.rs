//! Nanbeige: the layers are gone through several times.

use crate::config::Reader;
use crate::decoder::{Decoder, Family, Forward, Stack};
use crate::weights::Weights;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Builder, Plan, Val};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let most = (1024 / f.c.n_layer).max(1) as u64;
    let times = r.int("num_loops", Some(1), 1, most)?;
    f.layers = vec![f.layers; times].concat();
    f.c.n_layer *= times;
    f.stack = Rc::new(Loops { times, normed: !r.flag("skip_loop_final_norm", false)? });
    f.plan(gguf)
}

/// The layers several times, with weights that are the same and states that are not.
#[derive(Clone, Copy, Debug)]
struct Loops {
    times: usize,
    /// Whether the last norm stands between the rounds too.
    normed: bool,
}

impl Stack for Loops {
    fn blocks(&self, f: &Family) -> usize {
        f.c.n_layer / self.times
    }

    fn declare(&self, _w: &mut Weights<'_>, _f: &Family) -> Box<dyn Forward> {
        Box::new(*self)
    }
}

impl Forward for Loops {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let (mut x, mut handed) = (x, None);
        for (i, block) in std::iter::repeat_n(&d.blocks, self.times).flatten().enumerate() {
            if self.normed && i > 0 && i % d.blocks.len() == 0 {
                x = d.head.normalize(p, f, x);
            }
            x = block.run(p, f, i, (x, &mut handed));
            x = block.after.run(p, f, i, None, x);
            f.end_layer(p, i, x);
        }
        x
    }
}
