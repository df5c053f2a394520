//! Scans by the kernels for them, where there is one.

use super::Fast;
use crate::plan::{Cols, Scan, ScanKind};
use crate::step::Row;
use pumex_cpu::scan::{self, Columns, Fade};

/// Whether a kernel does it.
pub(super) fn takes(s: &Scan) -> bool {
    let known = matches!(s.kind, ScanKind::Mamba | ScanKind::Delta | ScanKind::Gla);
    known && s.inputs().all(|input| input.val != s.out.val)
}

impl Fast<'_> {
    pub(super) fn scan(&mut self, s: &Scan, rows: &[Row]) {
        let mut result = self.room(s.out.val, rows.len());
        let Self { plan, states, values, weights, cpu, scan_groups: groups, .. } = self;
        let columns =
            |c: Cols| Columns { rows: &values[c.val.0], width: plan.values[c.val.0].width, at: c.at, stride: c.stride };
        let factors = s.factor.map(|w| weights.vector(w));
        let fade = match (s.kind, factors, s.decay) {
            (ScanKind::Mamba, Some(factors), _) => Fade::Rate(factors),
            (ScanKind::Delta, _, Some(decay)) => Fade::Exp(columns(decay)),
            (ScanKind::Gla, _, Some(decay)) => Fade::By(columns(decay)),
            _ => Fade::None,
        };
        let by_column = match s.kind {
            ScanKind::Mamba => factors.is_some_and(|factors| factors.len() > s.heads),
            _ => s.decay_per_column,
        };
        groups.clear();
        groups.extend((0..s.heads).map(|head| s.group(head)));
        let of = scan::Scan {
            delta: s.kind == ScanKind::Delta,
            heads: s.heads,
            v_dim: s.v_dim,
            k_dim: s.k_dim,
            groups,
            q: columns(s.q),
            k: columns(s.k),
            v: columns(s.v),
            rate: s.rate.filter(|_| s.kind != ScanKind::Gla).map(columns),
            fade,
            by_column,
            scale: s.scale,
        };
        let to = (s.out.at, s.out.stride, plan.values[s.out.val.0].width);
        let mut from = 0;
        while from < rows.len() {
            let seq = rows[from].seq;
            let end = from + rows[from..].iter().take_while(|row| row.seq == seq).count();
            let state = &mut states.of(seq, s.layer)[s.at..][..s.heads * s.v_dim * s.k_dim];
            if rows[from].pos == 0 {
                state.fill(0.0);
            }
            cpu.scan(&of, from..end, state, to, &mut result);
            from = end;
        }
        self.put(s.out.val, result);
    }
}
