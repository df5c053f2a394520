//! The layers of one row as stages of one dispatch: products, attention, routers and experts. See `shaders/glsl/lib/chain.glsl`.

mod attention;
mod experts;
mod trial;

pub use trial::run_at_once;

use super::product::Product;
use super::{Push, Writer};
use crate::kernel::Kernels;
use crate::plan::{Op, Plan, Val};
use crate::policy::{self, Activations, ChainTile};
use crate::vk::{self, Buffer, Class, Device};
use crate::Result;
use attention::Attention;
use experts::Experts;
use pumex_quant::all;
use pumex_shaders::kernels::{CHAINED, CHAINED_EXPERTS};
use trial::wait_for_each_other;

/// Words of a stage, and some of them.
const STAGE_WORDS: usize = 40;
const M: usize = 21;
const HEADS: usize = 24;
const PARTS: usize = 25;
const FIRST: usize = 26;
const FLAGS: usize = 27;
const IN: usize = 28;
const OUT: usize = 30;
const OUT_NORM: usize = 32;
const IN_TAG: usize = 34;
const OUT_TAG: usize = 35;
const VALUES: usize = 36;
const VALUES_TAG: usize = 38;
/// Its flags, above those of the biases.
const GATED: u32 = 8;
const ADD: u32 = 16;
const NORM: u32 = 32;
const RECEIVE: u32 = 64;
const CODE: u32 = 128;
const SECOND_FORMAT: u32 = 256;
const SECOND_K: u32 = 512;
const SEND: u32 = 1024;
const ODD: u32 = 2048;
const TRIAL: u32 = 4096;
const ATTEND: u32 = 8192;
const SEND_VALUES: u32 = 16384;
const NEOX: u32 = 32768;
const ROUTER: u32 = 65536;
const OF_CHOSEN: u32 = 131_072;
const OVER_CHOSEN: u32 = 262_144;
const JOIN: u32 = 524_288;
/// Tags that a layer takes from one place where it may leave the chain to the next, at most.
const MOST_TAGS: u32 = 8;
/// Stages of an op: a matrix each.
const MOST_STAGES: usize = 3;
/// Tags of a step: those of what it sends are above where they start, by less than this.
pub const TAGS: u32 = 1 << 10;

/// Memory and shape of chains on a device that can run them.
pub struct Chain {
    tile: ChainTile,
    /// Bytes of shared memory for the copies of a format's table, if one has any.
    table_room: usize,
    /// Where a thread that gave up says so to the others.
    gave_up: Buffer,
    /// What each sender of a dispatch sends. Every write there has another tag than the one before.
    sent: Buffer,
    /// Bytes of it for what stages send, but for parts of attention.
    room: usize,
    /// Attention is a stage, too, of caches and heads as they are.
    attention: Option<Attention>,
    /// Where the parts of attention go that a stage joins.
    parts_at: u64,
    /// Inputs of products that norm them, and of others.
    k: [usize; 2],
    /// Rows at a time of those others.
    rows: u32,
    lanes: u32,
    activations: Activations,
    experts: Option<Experts>,
}

/// The module among `pairs` of chains with products of all these formats, of gate and up in one of the format `gated`.
fn module(pairs: &'static [&'static str], stems: &[&str], gated: Option<&str>) -> Option<&'static str> {
    let has = |pair: &str, stem: &str| pair.split('+').any(|s| s == stem);
    let leads = |pair: &str| gated.is_none_or(|stem| pair.split('+').next() == Some(stem));
    pairs.iter().find(|pair| leads(pair) && stems.iter().all(|stem| has(pair, stem))).copied()
}

impl Chain {
    /// Of a cache of `halves` or of anything else. None where the policy has no chains for the device, no product of `plan`
    /// fits one, or workgroups do not run at once.
    ///
    /// # Errors
    /// Memory that ran out, a module the driver refuses, a lost device.
    pub fn new(
        device: &Device,
        kernels: &Kernels,
        plan: &Plan,
        (wanted, activations, halves): (Option<bool>, Activations, bool),
    ) -> Result<Option<Chain>> {
        let Some(tile) = policy::chain_tile(device.caps(), wanted) else { return Ok(None) };
        let caps = device.caps();
        let normed = plan.ops.iter().filter_map(|op| match op {
            Op::RmsNorm { out, .. } => Some(plan.values[out.0].width),
            _ => None,
        });
        let Some(k) = normed.max() else { return Ok(None) };
        let attention = Attention::of(plan, tile, caps.subgroup_size).filter(|_| halves);
        let heads = attention.map_or(0, |a| a.bytes(tile, caps.subgroup_size));
        let experts = Experts::of(plan, k);
        let leads = |w: &crate::plan::WeightInfo| {
            pairs_of(experts).iter().any(|pair| pair.split('+').next() == Some(w.format.stem))
        };
        let table = plan.weights.iter().filter(|w| leads(w)).map(|w| policy::table_bytes(w.format)).max().unwrap_or(0);
        let holds = |e: &Experts, w: &crate::plan::WeightInfo| {
            let packets = policy::chain_packets(tile, e.k());
            policy::chain_span(caps, (w.format, table), e.k(), activations, (packets, heads))
        };
        let experts = experts.filter(|e| {
            policy::chain_ranks(tile, e.chosen.experts, e.chosen.used)
                && plan.weights.iter().filter(|w| w.cols == e.ffn && w.format.block_len > 1).all(|w| holds(e, w))
        });
        let pairs = pairs_of(experts);
        let fits = |w: &&crate::plan::WeightInfo| {
            let packets = policy::chain_packets(tile, w.cols);
            module(pairs, &[w.format.stem], None).is_some()
                && policy::chain_span(caps, (w.format, table), w.cols, activations, (packets, heads))
        };
        let fitting = || plan.weights.iter().filter(fits);
        if !fitting().any(|w| w.cols == k) {
            return Ok(None);
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
        let rows = policy::chain_rows(tile, lanes, m);
        // Values take 8 bytes each with their tags, packets less.
        let sends = |op: &Op| match op {
            Op::MatMul { out, .. } | Op::GatedMatMul { out, .. } | Op::Attend { out, .. } => plan.values[out.0].width,
            Op::GatedExperts { .. } => 2 * (k[0] + experts.map_or(0, |e| e.k())), // and what the router takes
            _ => 0,
        };
        let room: usize = plan.ops.iter().map(sends).filter(|w| *w != plan.n_vocab).map(sent_bytes).sum();
        let (gave_up, sent) = (zeros(device, 4)?, zeros(device, (room + attention::parts_bytes(plan)) as u64)?);
        let parts_at = sent.address() + room as u64;
        let most = fitting().map(|w| w.cols).max().unwrap_or(0).max(experts.map_or(0, |e| e.k()));
        let copies_room = policy::chain_table_room(caps, most, activations, (policy::chain_packets(tile, most), heads));
        let table_room = if table > 0 { copies_room } else { 0 };
        let chain =
            Chain { table_room, tile, gave_up, sent, room, attention, parts_at, k, rows, lanes, activations, experts };
        let name = fitting().find_map(|w| module(pairs, &[w.format.stem], None)).unwrap_or_default();
        let spec = chain.spec(name, device.stages_weights(), false);
        let good = wait_for_each_other(device, kernels, (chain.kernel(), name, &spec), tile.groups)?;
        if !good {
            let name = &device.caps().name;
            tracing::warn!("device {name}: expected {} workgroups at once; products go one by one", tile.groups);
        }
        Ok(good.then_some(chain))
    }

    /// Bytes of shared memory for attention.
    fn heads_bytes(&self) -> usize {
        self.attention.map_or(0, |a| a.bytes(self.tile, self.lanes))
    }

    /// Constants of the pipeline of a module.
    fn spec(&self, module: &str, planes: bool, parted: bool) -> Vec<(&'static str, u32)> {
        let mut spec = vec![("SIZE", self.tile.size), ("K", self.k[0] as u32), ("K_2", self.k[1] as u32)];
        spec.extend([("ROWS_2", self.rows), ("LANES", self.lanes), ("BITS", self.activations.bits())]);
        let k = self.k[0].max(self.k[1]).max(self.experts.map_or(0, |e| e.k()));
        let (head_dim, pair, heads) = self.attention.map_or((32, 1, 1), |a| (a.head_dim, a.pair, a.at_once));
        let packets = policy::chain_packets(self.tile, k).max(head_dim / policy::PACKET);
        if let Some(e) = &self.experts {
            let chosen = [("EXPERTS", e.chosen.experts as u32), ("USED", e.chosen.used as u32)];
            spec.extend([("K_3", e.k() as u32)].into_iter().chain(chosen));
        }
        spec.extend([("PACKETS", packets as u32), ("HEAD_DIM", head_dim as u32)]);
        if parted {
            spec.extend([("PARTED", 1), ("HEADS_MOST", heads as u32), ("PAIR", pair as u32)]);
        }
        let lead = module.split('+').next();
        let format = all().find(|f| Some(f.stem) == lead);
        let copies = format.map_or(1, |f| policy::table_copies(f, self.table_room));
        spec.extend([("PLANES", u32::from(planes)), ("COPIES", copies)]);
        spec
    }

    /// Row of the kernel table.
    fn kernel(&self) -> &'static str {
        match self.experts {
            Some(_) => "chain_experts",
            None => "chain",
        }
    }

    /// Forgets all that was sent, so that tags may start again. For when no step is under way.
    ///
    /// # Errors
    /// A lost device.
    pub fn clear(&self, device: &Device) -> Result<()> {
        clear(device, &self.sent)
    }

    /// What recordings name.
    pub fn buffers(&self) -> [&Buffer; 2] {
        [&self.gave_up, &self.sent]
    }
}

/// Formats of the modules of models with experts, or without.
fn pairs_of(experts: Option<Experts>) -> &'static [&'static str] {
    match experts {
        Some(_) => &CHAINED_EXPERTS,
        None => &CHAINED,
    }
}

/// Bytes that a sender of so many values takes, at most.
fn sent_bytes(values: usize) -> usize {
    (8 * values).next_multiple_of(256)
}

fn zeros(device: &Device, len: u64) -> Result<Buffer> {
    let buffer = device.buffer("chain", len, Class::Scratch)?;
    clear(device, &buffer)?;
    Ok(buffer)
}

fn clear(device: &Device, buffer: &Buffer) -> Result<()> {
    let mut rec = device.recorder()?;
    rec.clear(buffer);
    rec.copy_barrier();
    let recording = rec.finish()?;
    device.wait(device.submit(&recording)?)
}

fn words_of(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

/// A stage's words, of which `push` has the first.
fn stage_of(push: &Push) -> [u32; STAGE_WORDS] {
    let mut stage = [0; STAGE_WORDS];
    for (word, bytes) in stage.iter_mut().zip(push.0.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    stage
}

/// Makes a stage send packets of its values times a norm's weights, if there are any.
fn send_packets(stage: &mut [u32; STAGE_WORDS], to: u64, weight: u64, tag: u32) {
    stage[FLAGS] |= SEND;
    stage[OUT..OUT + 2].copy_from_slice(&words_of(to));
    stage[OUT_NORM..OUT_NORM + 2].copy_from_slice(&words_of(weight));
    stage[OUT_TAG] = tag;
}

/// Makes a stage send its values.
fn send_values(stage: &mut [u32; STAGE_WORDS], to: u64, tag: u32) {
    stage[FLAGS] |= SEND_VALUES;
    stage[VALUES..VALUES + 2].copy_from_slice(&words_of(to));
    stage[VALUES_TAG] = tag;
}

/// The chain that a recording is adding stages to.
pub(super) struct Open {
    stages: Vec<[u32; STAGE_WORDS]>,
    stems: Vec<&'static str>,
    /// Of each stage.
    stem_of: Vec<&'static str>,
    /// Of those with gate and up in one.
    gated: Option<&'static str>,
    barrier: bool,
    /// Activations and norm that are coded.
    coded: Option<(u64, u64)>,
    /// Workgroup that comes after the last row.
    next: u32,
    /// Bytes that its stages send.
    sent: usize,
    /// The input of a router and of its experts, the norm's weights, and the packets of it with their tag.
    routed: Option<(Val, u64, u64, u32)>,
    /// Where the logits of a router are, with their tag, and what the weights of the experts add up to.
    logits: (u64, u32, f32),
    /// What the stages make, from which column on.
    made: Vec<(Val, usize)>,
    /// Stages before those that follow the last one that received.
    before: usize,
    /// The products, for when they are all there is.
    products: Vec<Product>,
}

impl Open {
    /// Without a stage; after what was recorded before, if there is a `barrier`.
    fn new(barrier: bool) -> Open {
        Open {
            stages: Vec::new(),
            stems: Vec::new(),
            stem_of: Vec::new(),
            gated: None,
            barrier,
            coded: None,
            next: 0,
            sent: 0,
            routed: None,
            logits: (0, 0, 0.0),
            made: Vec::new(),
            before: 0,
            products: Vec::new(),
        }
    }

    /// Adds a stage that received, and makes `out`.
    fn add(&mut self, stage: [u32; STAGE_WORDS], stem: &'static str, out: Val) {
        (self.next, self.before, self.coded) = (0, self.made.len(), None);
        self.stages.push(stage);
        self.stem_of.push(stem);
        self.made.push((out, 0));
        if !stem.is_empty() && !self.stems.contains(&stem) {
            self.stems.push(stem);
        }
    }

    /// Whether the last stage makes all of `value`, of `len` elements.
    fn made_last(&self, value: Val, len: usize) -> bool {
        let last = self.made.last().zip(self.stages.last());
        let made = last.is_some_and(|(made, s)| *made == (value, 0) && s[M] as usize == len);
        made && len.is_multiple_of(policy::PACKET)
    }

    /// Whether all stages since one received make all of `value`, of `len` elements, and nothing else.
    fn made_together(&self, value: Val, len: usize) -> bool {
        let last = self.made[self.before..].iter().zip(&self.stages[self.before..]);
        let sum: usize = last.clone().map(|(_, s)| s[M] as usize).sum();
        last.clone().all(|(made, s)| made.0 == value && s[FLAGS] & (ADD | GATED) == 0) && sum == len
    }
}

impl Writer<'_, '_> {
    /// Whether a product is a stage.
    pub(super) fn chains(&self, product: &Product) -> bool {
        let info = &self.b.plan.weights[product.parts[0].weight.0];
        let (format, gated, caps) = (info.format, product.gated, self.b.device.caps());
        let normed = self.norms.contains_key(&product.x);
        let of_k = |c: &Chain| c.k[0] == info.cols || (c.k[1] == info.cols && !gated && !normed);
        self.rows_of(product.x) == 1
            && self.shape.chained
            && self.b.chain.is_some_and(of_k)
            && info.rows <= policy::CHAIN_MAX_ROWS
            && self.b.chain.is_some_and(|c| {
                let packets = policy::chain_packets(c.tile, info.cols);
                policy::chain_span(
                    caps,
                    (format, c.table_room),
                    info.cols,
                    self.b.activations,
                    (packets, c.heads_bytes()),
                )
            })
            && self.b.chain.is_some_and(|c| {
                let lead = gated.then_some(format.stem);
                !(gated && c.experts.is_some()) && module(pairs_of(c.experts), &[format.stem], lead).is_some()
            })
    }

    /// Adds a product to the chain.
    pub(super) fn stage(&mut self, product: &Product) -> Result<()> {
        let Product { x, ref parts, gated, add, out, y_at } = *product;
        let info = &self.b.plan.weights[parts[0].weight.0];
        let stem = info.format.stem;
        let lead = |open: &Open| if gated { Some(stem) } else { open.gated };
        let pairs = pairs_of(self.b.chain.and_then(|c| c.experts));
        let fits = |open: &Open| module(pairs, &[open.stems.as_slice(), &[stem]].concat(), lead(open)).is_some();
        if self.open.as_ref().is_some_and(|open| !fits(open) || (gated && open.gated.is_some_and(|s| s != stem))) {
            self.end_chain()?;
        }
        let norm = self.norms.get(&x).copied();
        let input = norm.map_or(x, |n| n.x);
        let (m, biases, push) = self.product_push(parts, gated);
        let (x, weight) = (self.val(input), self.opt(norm.map(|n| n.weight)));
        // What workgroups wait for is what the last stage made; all else it can have only from an earlier dispatch.
        let coded = self.open.as_ref().is_some_and(|open| !self.due && open.coded == Some((x, weight)));
        let receives = !coded
            && self.can_send(info.cols)
            && self.open.as_ref().is_some_and(|open| open.made_last(input, info.cols));
        let written = |open: &Open, v: Val| open.made.iter().any(|made| made.0 == v);
        let parted = |open: &Open| !coded && !receives && (self.due || written(open, input));
        // What a stage adds to, its workgroups must have written themselves.
        let elsewhere = |(made, s): (&(Val, usize), &[u32; STAGE_WORDS])| {
            made.0 == out && (s[FIRST] != 0 || s[FLAGS] & (ADD | SEND) == 0)
        };
        let moved = |open: &Open| add && open.made.iter().zip(&open.stages).any(elsewhere);
        if self.open.as_ref().is_some_and(|open| parted(open) || moved(open)) {
            self.end_chain()?;
            self.due = true;
            return self.stage(product);
        }
        let due = std::mem::take(&mut self.due);
        let push = push.addr(x).addr(self.val(out) + 4 * y_at as u64).addr(weight);
        let rows = |most: usize| parts.iter().take(most).map(|p| self.b.plan.weights[p.weight.0].rows).sum();
        let push = push.word(info.cols).word(rows(1)).word(if gated { m } else { rows(2) }).word(m);
        let scale = |i: usize| parts.get(i).map_or(1.0, |p| p.scale);
        let push = push.float(norm.map_or(0.0, |n| n.eps)).float(scale(0)).float(scale(1)).float(scale(2));
        let groups = self.b.chain.map_or(1, |c| c.tile.groups);
        let open = self.open.get_or_insert_with(|| Open::new(due));
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let mut packets = 0;
        if let (true, Some(chain), Some(last)) = (receives, self.b.chain, open.stages.last_mut()) {
            self.tags += 1;
            packets = chain.sent.address() + open.sent as u64;
            send_packets(last, packets, weight, self.tags);
            open.sent += sent_bytes(info.cols);
            (open.next, open.before) = (0, open.made.len());
        }
        let k = self.b.chain.map_or(0, |c| c.k[0]);
        let odd = biases > 0 || parts.iter().any(|p| p.scale != 1.0);
        let flags =
            biases as u32 | flag(gated, GATED) | flag(add, ADD) | flag(norm.is_some(), NORM) | flag(receives, RECEIVE);
        let flags = flags | flag(!coded && !receives, CODE) | flag(info.cols != k, SECOND_K) | flag(odd, ODD);
        let push = push.word(open.next as usize).word(flags as usize);
        let mut stage = stage_of(&push);
        stage[IN..IN + 2].copy_from_slice(&words_of(packets));
        stage[IN_TAG] = self.tags;
        open.stages.push(stage);
        open.stem_of.push(stem);
        open.products.push(product.clone());
        open.made.push((out, y_at));
        open.gated = if gated { Some(stem) } else { open.gated };
        if !open.stems.contains(&stem) {
            open.stems.push(stem);
        }
        open.coded = Some((x, weight));
        open.next = (open.next + m.div_ceil(policy::PACKET) as u32) % groups;
        Ok(())
    }

    /// Whether there is room for what so many values take that a stage of the chain sends.
    fn can_send(&self, values: usize) -> bool {
        let room = self.b.chain.map_or(0, |c| c.room);
        self.tags + MOST_TAGS < TAGS && self.open.as_ref().is_some_and(|open| open.sent + sent_bytes(values) <= room)
    }

    /// Records the chain that is open, if one is.
    pub(super) fn end_chain(&mut self) -> Result<()> {
        let (Some(open), Some(chain)) = (self.open.take(), self.b.chain) else { return Ok(()) };
        let Some(name) = module(pairs_of(chain.experts), &open.stems, open.gated) else { return Ok(()) };
        // Without a wait there is nothing to gain.
        if open.stages.iter().all(|stage| stage[FLAGS] & (RECEIVE | JOIN) == 0) {
            let due = std::mem::replace(&mut self.due, open.barrier);
            open.products.iter().try_for_each(|product| self.gemv_alone(product))?;
            self.due = due;
            return Ok(());
        }
        if open.barrier {
            self.rec.barrier();
        }
        let spec = chain.spec(name, self.b.device.stages_weights(), self.shape.parts != 1);
        if let Some(listed) = &mut self.listed {
            listed.insert(self.kernels.key(chain.kernel(), Some(name), &spec)?);
            return Ok(());
        }
        let at = 4 * self.program.len() as u64;
        for (mut stage, stem) in open.stages.iter().copied().zip(&open.stem_of) {
            stage[FLAGS] |= if stem.is_empty() || name.starts_with(stem) { 0 } else { SECOND_FORMAT };
            self.program.extend(stage);
        }
        let program = self.program_buffer()?.address() + at;
        let push = Push::default().addr(program).addr(self.b.params.address()).addr(chain.gave_up.address());
        let push = push.addr(self.b.fault.address()).word(open.stages.len()).word(0).addr(self.b.codebooks.address());
        let pipeline = self.kernels.get(chain.kernel(), Some(name), &spec)?;
        self.rec.dispatch(&pipeline, &push.padded(48), [chain.tile.groups, 1, 1]);
        self.due = true; // its stages may have made what comes after reads
        Ok(())
    }

    /// Where the stages of all chains of the recording will be.
    fn program_buffer(&mut self) -> Result<Buffer> {
        if let Some(buffer) = &self.program_buffer {
            return Ok(buffer.clone());
        }
        let most = self.b.plan.ops.len() * MOST_STAGES * STAGE_WORDS;
        let buffer = self.b.device.buffer("program", 4 * most as u64, Class::Scratch)?;
        self.rec.keep(&buffer);
        Ok(self.program_buffer.insert(buffer).clone())
    }

    /// Sends the stages of all chains.
    pub(super) fn send_program(&self) -> Result<()> {
        let Some(buffer) = &self.program_buffer else { return Ok(()) };
        vk::send(self.b.device, buffer, bytemuck::cast_slice(&self.program))
    }
}

#[cfg(test)]
mod tests {
    /// The constants that the shader repeats.
    #[test]
    fn stages_agree_with_the_shader() {
        let glsl = include_str!("../../../shaders/glsl/lib/chain.glsl");
        let value = |name: &str| -> usize {
            let at = glsl.find(&format!(" {name} = ")).unwrap_or_else(|| panic!("no {name}"));
            glsl[at..].split(['=', ';', ',']).nth(1).unwrap().trim().parse().unwrap()
        };
        assert_eq!(value("STAGE_WORDS"), super::STAGE_WORDS);
        let words = [
            ("AT_M", super::M),
            ("AT_HEADS", super::HEADS),
            ("AT_PARTS", super::PARTS),
            ("AT_FIRST", super::FIRST),
            ("AT_FLAGS", super::FLAGS),
            ("AT_IN", super::IN),
            ("AT_OUT", super::OUT),
            ("AT_OUT_NORM", super::OUT_NORM),
            ("AT_IN_TAG", super::IN_TAG),
            ("AT_OUT_TAG", super::OUT_TAG),
            ("AT_VALUES", super::VALUES),
            ("AT_VALUES_TAG", super::VALUES_TAG),
        ];
        for (name, word) in words {
            assert_eq!(value(name), word, "{name}");
        }
        let flags = [
            ("GATED", super::GATED),
            ("ADD", super::ADD),
            ("NORM", super::NORM),
            ("RECEIVE", super::RECEIVE),
            ("CODE", super::CODE),
            ("SECOND_FORMAT", super::SECOND_FORMAT),
            ("SECOND_K", super::SECOND_K),
            ("SEND", super::SEND),
            ("ODD", super::ODD),
            ("TRIAL", super::TRIAL),
            ("ATTEND", super::ATTEND),
            ("SEND_VALUES", super::SEND_VALUES),
            ("NEOX", super::NEOX),
            ("ROUTER", super::ROUTER),
            ("OF_CHOSEN", super::OF_CHOSEN),
            ("OVER_CHOSEN", super::OVER_CHOSEN),
            ("JOIN", super::JOIN),
        ];
        for (name, flag) in flags {
            assert_eq!(value(name), flag as usize, "{name}");
        }
    }
}
