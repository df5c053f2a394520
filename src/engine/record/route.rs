//! Which experts a row uses: after the router's product, or in one dispatch with it.

use super::{Push, Writer};
use crate::plan::{Access, Chosen, MatPart, Op, Val, Weight};
use crate::policy;
use crate::Result;

/// A router's product that the op reading its logits does itself.
#[derive(Clone, Copy)]
pub(super) struct Router {
    pub x: Val,
    pub part: MatPart,
}

/// The fields of [`Op::Route`].
pub(super) struct Choice<'a> {
    pub logits: Val,
    pub chosen: Chosen,
    pub scale: f32,
    pub scales: &'a [Option<Weight>; 3],
    pub out: Val,
}

impl Choice<'_> {
    /// Which scales there are, a bit for each.
    fn flags(&self) -> usize {
        self.scales.iter().enumerate().map(|(i, s)| usize::from(s.is_some()) << i).sum()
    }
}

impl Writer<'_, '_> {
    /// Whether the product's logits are only there to choose experts by, and notes it if so. Steps of many rows do the two
    /// apart: a product that reads the matrix once for all rows is worth a dispatch then.
    pub(super) fn folds_router(&mut self, x: Val, parts: &[MatPart], logits: Val) -> bool {
        let &[part] = parts else { return false };
        let few = self.shape.rows <= policy::GEMV_MAX_COLS && self.b.importance.is_none();
        let mut readers = self.b.plan.ops.iter().filter(|op| op.reads().contains(&Access::Value(logits))).peekable();
        let folds = few && readers.peek().is_some() && readers.all(|op| matches!(op, Op::Route { .. }));
        if folds {
            self.routers.insert(logits, Router { x, part });
        }
        folds
    }

    /// Experts by logits that are there.
    pub(super) fn route(&mut self, c: &Choice<'_>) -> Result<()> {
        let mut push = Push::default().addr(self.val(c.logits)).addr(self.val(c.out));
        push = c.scales.iter().fold(push, |push, s| push.addr(self.opt(*s))).addr(self.b.params.address());
        let threads = policy::route_threads(self.b.device.caps(), c.chosen.experts);
        let spec = [("SIZE", threads), ("EXPERTS", c.chosen.experts as u32), ("USED", c.chosen.used as u32)];
        self.dispatch("route", None, &spec, push.word(c.flags()).float(c.scale), [self.shape.rows, 1, 1])
    }

    /// Experts by the rows themselves.
    pub(super) fn router(&mut self, router: Router, c: &Choice<'_>) -> Result<()> {
        if self.router_stage(router, c)? {
            return Ok(());
        }
        let Router { x, part } = router;
        let (info, norm) = (&self.b.plan.weights[part.weight.0], self.norms.get(&x).copied());
        let push = Push::default().addr(self.weight(part.weight)).addr(self.opt(part.bias));
        let push = push.addr(self.val(norm.map_or(x, |n| n.x))).addr(self.opt(norm.map(|n| n.weight)));
        let push = push.addr(self.b.codebooks.address()).addr(self.val(c.logits));
        let push = push.addr(self.b.meeting.arrivals.address()).addr(self.val(c.out));
        let push = c.scales.iter().fold(push, |push, s| push.addr(self.opt(*s)));
        let push = push.word(info.cols).word(c.flags() | usize::from(part.bias.is_some()) << 3);
        let push = push.float(norm.map_or(0.0, |n| n.eps)).float(part.scale).float(c.scale);
        let (threads, rows) = policy::router_tile(self.b.device.caps(), c.chosen.experts, info.cols);
        let spec = [
            ("SIZE", threads),
            ("EXPERTS", c.chosen.experts as u32),
            ("USED", c.chosen.used as u32),
            ("ROWS", rows),
            ("NORM", u32::from(norm.is_some())),
            ("PLANES", self.planes()),
        ];
        let grid = [c.chosen.experts.div_ceil(rows as usize), self.shape.rows, 1];
        self.dispatch("router", Some(info.format.stem), &spec, push, grid)
    }
}
