//! Scans by the kernels for them, where there is one.

use super::Fast;
use crate::cpu::general::{soft_decay, soft_rate};
use pumex_cpu::scan::{self, Columns, Fade};
use pumex_plan::{Cols, Scan, ScanKind};
use pumex_step::Row;

/// Whether a kernel does it.
pub(super) fn takes(s: &Scan) -> bool {
    let known = matches!(s.kind, ScanKind::Mamba | ScanKind::Delta | ScanKind::Gla);
    known && s.inputs().all(|input| input.val != s.out.val)
}

impl Fast<'_> {
    pub(super) fn scan(&mut self, s: &Scan, rows: &[Row]) {
        let mut result = self.room(s.out.val, rows.len());
        let Self { plan, states, values, weights, cpu, steps, scan_groups: groups, .. } = self;
        let columns =
            |c: Cols| Columns { rows: &values[c.val.0], width: plan.values[c.val.0].width, at: c.at, stride: c.stride };
        let [factors, soft, skip] = [s.factor, s.soft, s.skip].map(|w| w.map(|w| weights.vector(w)));
        let (softened, heads) = (soft.is_some(), s.heads);
        if let Some(soft) = soft {
            let number = |c: Option<Cols>, row: usize, head: usize| {
                c.map_or(0.0, |c| values[c.val.0][row * plan.values[c.val.0].width + c.at + head * c.stride])
            };
            let all = || (0..rows.len() * heads).map(|i| (i / heads, i % heads));
            let [rates, decays] = steps;
            rates.clear();
            rates.extend(all().map(|(row, head)| soft_rate(s.kind, number(s.rate, row, head), Some(soft[head]))));
            decays.clear();
            let factor = |head: usize| factors.map_or(1.0, |f| f[head]);
            let decay = |row, head| soft_decay(s.kind, number(s.decay, row, head), Some(soft[head]), factor(head));
            decays.extend(all().filter(|_| s.kind == ScanKind::Delta).map(|(row, head)| decay(row, head)));
        }
        let steps = |which: usize, c: Cols| match softened {
            true => Columns { rows: &steps[which], width: heads, at: 0, stride: 1 },
            false => columns(c),
        };
        let fade = match (s.kind, factors, s.decay) {
            (ScanKind::Mamba, Some(factors), _) => Fade::Rate(factors),
            (ScanKind::Delta, _, Some(decay)) => Fade::Exp(steps(1, decay)),
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
            rate: s.rate.filter(|_| s.kind != ScanKind::Gla).map(|rate| steps(0, rate)),
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
        if let Some(skip) = skip {
            let v = columns(s.v);
            for (row, out) in result.chunks_exact_mut(to.2).enumerate() {
                for (head, by) in skip.iter().enumerate().take(heads) {
                    let v = &v.rows[row * v.width + v.at + head * v.stride..][..s.v_dim];
                    let out = &mut out[to.0 + head * to.1..][..s.v_dim];
                    out.iter_mut().zip(v).for_each(|(o, v)| *o += by * v);
                }
            }
        }
        self.put(s.out.val, result);
    }
}
