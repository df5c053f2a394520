//! Whether a device can run the megakernel for a model, in which shape, and how much memory it takes. Pure.

use super::attention::Attention;
use super::experts::Experts;
use super::{sent_bytes, Product, Shape, Target};
use crate::policy::{ActivationQuant, MegakernelTile};
use crate::{fusion, policy};
use pumex_plan::{Gate, Op, Plan, WeightInfo};
use pumex_quant::all;
use pumex_shaders::kernels::{MEGAKERNEL_FORMATS, MEGAKERNEL_MOE_FORMATS};
use pumex_vk::Caps;

/// What the user and the cache leave to it.
#[derive(Clone, Copy, Debug)]
pub struct MegakernelOptions {
    /// On, off, or by the policy.
    pub wanted: Option<bool>,
    /// Workgroups; by the policy where it is not told.
    pub groups: Option<u32>,
    /// Quantization of activations.
    pub activations: ActivationQuant,
    /// Keys and values are halves, which its attention reads.
    pub halves: bool,
}

/// The megakernel of a model on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Megakernel {
    /// Threads and workgroups.
    pub tile: MegakernelTile,
    /// Bytes of shared memory for the copies of a format's table, if one has any.
    table_room: usize,
    /// Bytes of messages of a step, but for parts of attention.
    pub room: usize,
    /// Bytes of all messages.
    pub message_bytes: usize,
    /// Attention is a stage, too, of caches and heads as they are.
    pub(super) attention: Option<Attention>,
    /// Inputs of products that norm them, and of others.
    pub(super) k: [usize; 2],
    /// Rows at a time of those others.
    rows: u32,
    lanes: u32,
    activations: ActivationQuant,
    pub(super) experts: Option<Experts>,
    /// A module that it has, for the trial.
    pub trial_module: &'static str,
}

/// The module among `pairs` with products of all these formats, of gate and up in one of the format `gated`.
pub(super) fn module(pairs: &'static [&'static str], stems: &[&str], gated: Option<&str>) -> Option<&'static str> {
    let has = |pair: &str, stem: &str| pair.split('+').any(|s| s == stem);
    let leads = |pair: &str| gated.is_none_or(|stem| pair.split('+').next() == Some(stem));
    pairs.iter().find(|pair| leads(pair) && stems.iter().all(|stem| has(pair, stem))).copied()
}

/// Formats of the modules of models with experts, or without.
fn pairs_of(experts: Option<Experts>) -> &'static [&'static str] {
    match experts {
        Some(_) => &MEGAKERNEL_MOE_FORMATS,
        None => &MEGAKERNEL_FORMATS,
    }
}

impl Megakernel {
    /// None where the policy has none for the device, or no product of `plan` fits it.
    pub fn of(plan: &Plan, caps: &Caps, choices: MegakernelOptions) -> Option<Megakernel> {
        let MegakernelOptions { activations, halves, .. } = choices;
        let tile = policy::megakernel_tile(caps, choices.wanted)?;
        let tile = MegakernelTile { groups: choices.groups.unwrap_or(tile.groups), ..tile };
        let normed = plan.ops.iter().filter_map(|op| match op {
            Op::RmsNorm { out, .. } => Some(plan.values[out.0].width),
            _ => None,
        });
        let k = normed.max()?;
        let attention = Attention::of(plan, tile, caps.subgroup_size).filter(|_| halves);
        let heads = attention.map_or(0, |a| a.bytes(tile, caps.subgroup_size));
        let experts = Experts::of(plan, k);
        let leads = |w: &WeightInfo| pairs_of(experts).iter().any(|pair| pair.split('+').next() == Some(w.format.stem));
        let table = plan.weights.iter().filter(|w| leads(w)).map(|w| policy::table_bytes(w.format)).max().unwrap_or(0);
        let holds = |w: &WeightInfo, k: usize| {
            policy::megakernel_span(
                caps,
                (w.format, table),
                k,
                activations,
                (policy::megakernel_messages(tile, k), heads),
            )
        };
        let experts = experts.filter(|e| {
            policy::megakernel_ranks(tile, e.top_k.n_expert, e.top_k.k)
                && plan.weights.iter().filter(|w| w.cols == e.ffn && w.format.block_len > 1).all(|w| holds(w, e.k()))
        });
        let pairs = pairs_of(experts);
        let fits = |w: &&WeightInfo| module(pairs, &[w.format.stem], None).is_some() && holds(w, w.cols);
        let fitting = || plan.weights.iter().filter(fits);
        if !fitting().any(|w| w.cols == k) {
            return None;
        }
        let other = |op: &Op| match op {
            Op::MatMul { parts, add: true, .. } => {
                let w = &plan.weights[parts[0].weight.0];
                (w.cols != k && fits(&w)).then_some(w)
            }
            _ => None,
        };
        let other = plan.ops.iter().find_map(other);
        let (k, m) = ([k, other.map_or(k, |o| o.cols)], other.map_or(0, |o| o.rows));
        let lanes = caps.subgroup_size;
        let rows = policy::megakernel_rows(tile, lanes, m);
        let room = message_room(plan, k[0], experts);
        let message_bytes = room + super::attention::parts_bytes(plan);
        let most = fitting().map(|w| w.cols).max().unwrap_or(0).max(experts.map_or(0, |e| e.k()));
        let copies_room =
            policy::megakernel_table_room(caps, most, activations, (policy::megakernel_messages(tile, most), heads));
        let table_room = if table > 0 { copies_room } else { 0 };
        let trial_module = fitting().find_map(|w| module(pairs, &[w.format.stem], None))?;
        Some(Megakernel {
            tile,
            table_room,
            room,
            message_bytes,
            attention,
            k,
            rows,
            lanes,
            activations,
            experts,
            trial_module,
        })
    }

    /// Whether a product of one row is a stage.
    pub(super) fn takes(&self, t: &Target<'_>, (plan, shape): (&Plan, Shape), p: &Product) -> bool {
        let info = &plan.weights[p.parts[0].weight.0];
        let of_k = self.k[0] == info.cols || (self.k[1] == info.cols && p.gate.is_none() && p.norm.is_none());
        let one = fusion::rows_of(plan, shape, p.x) == 1;
        let room = (policy::megakernel_messages(self.tile, info.cols), self.heads_bytes());
        let lead = p.gate.map(|_| info.format.stem);
        of_k && one
            && info.rows <= policy::MEGAKERNEL_MAX_ROWS
            && policy::megakernel_span(t.caps, (info.format, self.table_room), info.cols, self.activations, room)
            && p.gate.is_none_or(|by| by == Gate::SILU && self.experts.is_none())
            && self.module(&[info.format.stem], lead).is_some()
    }

    /// The module with products of all these formats.
    pub(super) fn module(&self, stems: &[&str], gated: Option<&str>) -> Option<&'static str> {
        module(pairs_of(self.experts), stems, gated)
    }

    /// Bytes of shared memory for attention.
    fn heads_bytes(&self) -> usize {
        self.attention.map_or(0, |a| a.bytes(self.tile, self.lanes))
    }

    /// Constants of the pipeline of a module.
    pub fn constants(&self, module: &str, soa: bool, parted: bool) -> Vec<(&'static str, u32)> {
        let mut spec = vec![("SIZE", self.tile.size), ("K", self.k[0] as u32), ("K_2", self.k[1] as u32)];
        spec.extend([("ROWS_2", self.rows), ("LANES", self.lanes), ("BITS", self.activations.bits())]);
        let k = self.k[0].max(self.k[1]).max(self.experts.map_or(0, |e| e.k()));
        let (head_dim, pair, heads) = self.attention.map_or((32, 1, 1), |a| (a.head_dim, a.pair, a.at_once));
        let messages = policy::megakernel_messages(self.tile, k).max(head_dim / policy::MESSAGE);
        if let Some(e) = &self.experts {
            let chosen = [("EXPERTS", e.top_k.n_expert as u32), ("USED", e.top_k.k as u32)];
            spec.extend([("K_3", e.k() as u32)].into_iter().chain(chosen));
        }
        spec.extend([("MESSAGES", messages as u32), ("HEAD_DIM", head_dim as u32)]);
        if parted {
            spec.extend([("PARTED", 1), ("HEADS_MOST", heads as u32), ("PAIR", pair as u32)]);
        }
        let lead = module.split('+').next();
        let format = all().find(|f| Some(f.stem) == lead);
        let copies = format.map_or(1, |f| policy::table_copies(f, self.table_room));
        spec.extend([("SOA", u32::from(soa)), ("COPIES", copies)]);
        spec
    }

    /// Row of the kernel table.
    pub fn kernel(&self) -> &'static str {
        match self.experts {
            Some(_) => "megakernel_moe",
            None => "megakernel",
        }
    }
}

/// Bytes of what stages send. Values take 8 bytes each with their epochs, messages less.
fn message_room(plan: &Plan, k: usize, experts: Option<Experts>) -> usize {
    let sends = |op: &Op| match op {
        Op::MatMul { out, .. } | Op::GatedMatMul { out, .. } | Op::Attend { out, .. } => plan.values[out.0].width,
        Op::GatedExperts { .. } => 2 * (k + experts.map_or(0, |e| e.k())), // and what the router takes
        _ => 0,
    };
    plan.ops.iter().map(sends).filter(|w| *w != plan.n_vocab).map(sent_bytes).sum()
}
