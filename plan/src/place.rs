//! Value lifetimes → places in one scratch arena. Values whose lives do not overlap share bytes.

use super::{Access, Plan, Rows, Val};

/// Where each value lies.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Byte offset per value.
    pub offsets: Vec<u64>,
    /// Bytes of the arena.
    pub len_bytes: u64,
    /// Bytes per value, rounded up to the alignment.
    pub sizes: Vec<u64>,
}

/// Every value starts on a multiple of this, enough for 16-byte loads and any cache line.
const ALIGN: u64 = 256;

impl Placement {
    /// Places all values of `plan` for steps of up to `max_rows` rows, `max_outputs` of them wanted.
    ///
    /// First fit over the values in order of first use; each lives from its first to its last op.
    pub fn new(plan: &Plan, max_rows: usize, max_outputs: usize) -> Placement {
        let count = plan.values.len();
        let mut life = vec![(usize::MAX, 0usize); count];
        for (i, op) in plan.ops.iter().enumerate() {
            for access in op.reads().into_iter().chain(op.writes()) {
                if let Access::Value(v) = access {
                    life[v.0] = (life[v.0].0.min(i), life[v.0].1.max(i));
                }
            }
        }
        life[plan.logits.0].1 = plan.ops.len(); // the host may read them afterwards
        let lives: Vec<_> = life.iter().map(|(first, last)| (*first < usize::MAX).then_some((*first, *last))).collect();
        let bytes = plan.values.iter().map(|v| {
            let rows = match v.rows {
                Rows::Step => max_rows,
                Rows::Output => max_outputs,
            };
            (rows * v.width * 4) as u64
        });
        Placement::of(&lives, bytes)
    }

    /// Places values by the first and the last op of each, and its bytes. What no op uses takes nothing.
    pub fn of(lives: &[Option<(usize, usize)>], bytes: impl Iterator<Item = u64>) -> Placement {
        let of_used = |(life, bytes): (&Option<_>, u64)| life.map_or(0, |_| bytes.next_multiple_of(ALIGN));
        let sizes: Vec<u64> = lives.iter().zip(bytes).map(of_used).collect();
        let life: Vec<(usize, usize)> = lives.iter().map(|life| life.unwrap_or((usize::MAX, 0))).collect();
        let mut order: Vec<usize> = (0..life.len()).collect();
        order.sort_by_key(|&v| life[v].0);
        let (mut offsets, mut len_bytes) = (vec![0u64; life.len()], 0);
        let mut placed: Vec<usize> = Vec::new();
        for v in order {
            let mut busy: Vec<(u64, u64)> = placed
                .iter()
                .filter(|&&p| life[p].0 <= life[v].1 && life[v].0 <= life[p].1)
                .map(|&p| (offsets[p], offsets[p] + sizes[p]))
                .collect();
            busy.sort_unstable();
            let mut at = 0;
            for (start, end) in busy {
                if at + sizes[v] <= start {
                    break;
                }
                at = at.max(end);
            }
            offsets[v] = at;
            len_bytes = len_bytes.max(at + sizes[v]);
            placed.push(v);
        }
        Placement { offsets, len_bytes, sizes }
    }

    /// Whether two values share bytes.
    pub fn share_bytes(&self, a: Val, b: Val) -> bool {
        let range = |v: Val| (self.offsets[v.0], self.offsets[v.0] + self.sizes[v.0]);
        let ((a_start, a_end), (b_start, b_end)) = (range(a), range(b));
        a_start < b_end && b_start < a_end
    }

    /// Whether two things an op touches share bytes.
    pub fn overlap(&self, a: Access, b: Access) -> bool {
        match (a, b) {
            (Access::Value(a), Access::Value(b)) => self.share_bytes(a, b),
            (a, b) => a == b,
        }
    }

    /// For each op, whether a barrier must stand before it: it touches something written since the last barrier, or
    /// writes something read since. The first op needs none: a recording starts with one.
    pub fn barriers(&self, plan: &Plan) -> Vec<bool> {
        let (mut read, mut written): (Vec<Access>, Vec<Access>) = (Vec::new(), Vec::new());
        plan.ops
            .iter()
            .map(|op| {
                let (r, w) = (op.reads(), op.writes());
                let hits =
                    |set: &[Access], with: &[Access]| set.iter().any(|&a| with.iter().any(|&b| self.overlap(a, b)));
                let needed = hits(&written, &r) || hits(&written, &w) || hits(&read, &w);
                if needed {
                    read.clear();
                    written.clear();
                }
                read.extend(r);
                written.extend(w);
                needed
            })
            .collect()
    }
}
