//! The Vulkan engine against the reference and itself, its counters, and the validation layer's silence.

use crate::reference::greedy;
use crate::util::{
    assert_silent, demo_path, device, exact, exhaustive, logits, nmse, options, reference, rows, sample, usual, vulkan,
    Arithmetic,
};
use pumex::conversation::{generate, Request};
use pumex::engine::{CacheType, Debug, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::policy::ActivationQuant;
use pumex::sample::{Allowed, SampleRequest, Sampler, SamplerOptions};
use pumex::step::{Counters, Output, Row, RowOutput, Runner, Squares, Ticket, Token, Want};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

fn lacks_matrices(runner: &VulkanRunner) -> bool {
    let lacks = runner.vk().caps().matrix_n.is_empty();
    if lacks {
        println!("skipped: {} has no cooperative matrices of 16 x 16 halves", runner.device());
    }
    lacks
}

/// Without cooperative matrices, and with them where the device has some: they round activations and weights to halves.
const BY_MATRICES: [(bool, f64); 2] = [(false, 1e-9), (true, 2e-6)];

#[test]
fn the_demo_model_agrees_with_the_reference_in_chunks_of_any_size() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let ids: Vec<u32> = (0..50).map(|i| (i * 97 + 5) % 4096).collect();
    let truth = logits(&mut reference(&gguf), &ids, 64);
    for (matrices, bound) in BY_MATRICES {
        let way = pumex::engine::Options { debug: Debug { matrices, ..exact() }, ..options(CacheType::F32) };
        let Some(mut runner) = vulkan(&gguf, way) else { return };
        if matrices && lacks_matrices(&runner) {
            return;
        }
        let whole = logits(&mut runner, &ids, 64);
        assert!(nmse(&whole, &truth) < bound, "{:e}", nmse(&whole, &truth));
        for &chunk in sample(&[1, 9, 3, 17, 2, 4, 5, 6, 7, 8, 13, 16, 33], 3) {
            let error = nmse(&logits(&mut runner, &ids, chunk), &whole);
            assert!(error < bound, "matrices {matrices}, chunks of {chunk}: {error:e}");
        }
        assert_silent(&runner);
    }
}

/// Rows that the product before a norm packs for those after it are those that a dispatch of its own packs; of formats whose
/// products read two layouts, too.
#[test]
fn rows_come_packed_to_a_norm_as_they_would_be_packed() {
    let tiny = pumex::synthetic::find("tiny").unwrap();
    let shape = pumex::synthetic::Shape { n_embd: 512, n_ff: 1024, n_vocab: 640, ..*tiny };
    for recipe in ["Q4_K_M", "Q8_0", "IQ4_XS"] {
        let gguf = shape.model(pumex::quantize::recipe::find(recipe).unwrap()).unwrap();
        let ids: Vec<u32> = (0..40).map(|i| (i * 37 + 5) % 640).collect();
        let run = |fuse| {
            let runner =
                vulkan(&gguf, pumex::engine::Options { debug: Debug { fuse, ..exact() }, ..options(CacheType::F32) });
            let mut runner = runner.filter(|runner| !lacks_matrices(runner))?;
            let all = [2, 5, 8, 9, 16].map(|chunk| {
                let before = runner.counters().dispatches;
                (logits(&mut runner, &ids, chunk), runner.counters().dispatches - before)
            });
            assert_silent(&runner);
            Some(all)
        };
        let (Some(fused), Some(unfused)) = (run(true), run(false)) else { return };
        for (fused, unfused) in fused.iter().zip(&unfused) {
            let error = nmse(&fused.0, &unfused.0);
            println!("{recipe}: NMSE {error:.2e}, {} and {} dispatches", fused.1, unfused.1);
            assert!(error < 1e-6, "{recipe}: NMSE {error:e}");
            assert!(fused.1 < unfused.1, "{recipe}: {} and {} dispatches", fused.1, unfused.1);
        }
    }
}

/// The bound is that of the integer products' codes, which differ where a norm's scale comes before or after them.
#[test]
fn fused_ops_are_what_they_are_apart() {
    let fixtures = ["Q4_K_S", "qwen3moe", "IQ2_XXS"].map(|name| crate::util::fixture(name).with_extension("gguf"));
    for path in sample(&[&fixtures[..], &[demo_path()]].concat(), 2) {
        let gguf = Gguf::open(path).unwrap();
        let ids: Vec<u32> = (0..30).map(|i| (i * 7 + 5) % 120).collect();
        let run = |fuse| {
            let mut runner =
                vulkan(&gguf, pumex::engine::Options { debug: Debug { fuse, ..exact() }, ..options(CacheType::F32) })?;
            let all = logits(&mut runner, &ids, 1);
            let before = runner.counters().dispatches;
            let ids = greedy(&mut runner, &ids, 64);
            assert_silent(&runner);
            Some((all, ids, runner.counters().dispatches - before))
        };
        let (Some(fused), Some(unfused)) = (run(true), run(false)) else { return };
        let error = nmse(&fused.0, &unfused.0);
        println!("{}: NMSE {error:.2e}, {} and {} dispatches", path.display(), fused.2, unfused.2);
        assert!(error < 5e-9, "{}: NMSE {error:e}", path.display());
        assert_eq!(fused.1, unfused.1, "{}", path.display());
        assert!(fused.2 < unfused.2, "{}: {} dispatches fused, {} unfused", path.display(), fused.2, unfused.2);
    }
}

/// Takes single rows, for which only attention differs: what halves lose of queries and weights is multiplied, too. Left out, the
/// error would be near 1e-6; what there is comes of codes of the products that turn.
#[test]
fn attention_by_cooperative_matrices_loses_nothing() {
    let fixtures = crate::util::FIXTURES.into_iter().map(|name| crate::util::fixture(name).with_extension("gguf"));
    for path in fixtures.chain([demo_path()]) {
        let gguf = Gguf::open(&path).unwrap();
        let ids: Vec<u32> = (0..100).map(|i| (i * 7 + 5) % 120).collect();
        let run = |matrices, heads| {
            let way = pumex::engine::Options {
                debug: Debug { matrices, attn_heads: heads, ..exact() },
                ..options(CacheType::F16)
            };
            let mut runner = vulkan(&gguf, way).filter(|runner| !lacks_matrices(runner))?;
            let all = logits(&mut runner, &ids, 1);
            assert_silent(&runner);
            Some(all)
        };
        let Some(without) = run(false, None) else { return };
        for heads in [1, 8] {
            let error = nmse(&run(true, Some(heads)).unwrap(), &without);
            println!("{}, up to {heads} heads: NMSE {error:.2e}", path.display());
            assert!(error < 1e-8, "{}, up to {heads} heads: NMSE {error:e}", path.display());
        }
    }
}

/// Sums in another order may turn a code of a quantized cache, whose own error is about 1e-5.
#[test]
fn attention_is_the_same_by_any_number_of_heads_a_workgroup() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let ids: Vec<u32> = (0..70).map(|i| (i * 97 + 5) % 4096).collect();
    let caches = [(CacheType::F16, 1e-9), (CacheType::Q8_0, 5e-7), (CacheType::F32, 1e-9)];
    let ways: Vec<_> = [false, true].into_iter().flat_map(|m| caches.map(|(cache, bound)| (cache, bound, m))).collect();
    for &(cache, bound, matrices) in sample(&ways, 1) {
        let run = |heads| {
            let way = pumex::engine::Options {
                debug: Debug { attn_heads: Some(heads), matrices, ..exact() },
                ..options(cache)
            };
            let mut runner = vulkan(&gguf, way).filter(|runner| !matrices || !lacks_matrices(runner))?;
            let all = logits(&mut runner, &ids, 1);
            assert_silent(&runner);
            Some(all)
        };
        let (Some(one), Some(all)) = (run(1), run(8)) else { return };
        assert!(nmse(&one, &all) < bound, "{cache:?}, matrices {matrices}: {:e}", nmse(&one, &all));
    }
}

#[test]
fn two_interleaved_sequences_equal_each_alone() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    for (matrices, bound) in BY_MATRICES.map(|(matrices, bound)| (matrices, 10.0 * bound)) {
        let way = pumex::engine::Options { debug: Debug { matrices, ..exact() }, ..options(CacheType::F16) };
        let Some(mut runner) = vulkan(&gguf, way) else { return };
        if matrices && lacks_matrices(&runner) {
            return;
        }
        let (a, b): (Vec<u32>, Vec<u32>) = ((10..50).collect(), (300..340).rev().collect());
        let (alone_a, alone_b) = (logits(&mut runner, &a, 64), logits(&mut runner, &b, 64));
        let vocab = runner.n_vocab();
        for seq in 0..2 {
            runner.forget(seq, 0);
        }
        for (at, len) in [(0, 20), (20, 1), (21, 2), (23, 17)] {
            let (ra, rb) = (rows(0, at, &a[at..at + len]), rows(1, at, &b[at..at + len]));
            let mixed: Vec<Row> = ra.into_iter().zip(rb).flat_map(|(a, b)| [a, b]).collect();
            let out = runner.run(&mixed, Want::Logits).unwrap().logits;
            for (i, pair) in out.chunks_exact(2 * vocab).enumerate() {
                let range = (at + i) * vocab..(at + i + 1) * vocab;
                assert!(nmse(&pair[..vocab], &alone_a[range.clone()]) < bound, "first sequence, position {}", at + i);
                assert!(nmse(&pair[vocab..], &alone_b[range]) < bound, "second sequence, position {}", at + i);
            }
        }
        assert_silent(&runner);
    }
}

#[test]
fn steady_decode_keeps_to_its_counters() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    greedy(&mut runner, &[0, 589, 346], 8); // records every shape
    let layers = runner.plan().layers.len() as u64;
    let row = |pos| Row { seq: 0, pos, token: Token::Sampled, output: RowOutput::Id, medium: None };
    let mut pending = runner.start(&[row(11)]).unwrap();
    for pos in 12..40 {
        let before = runner.counters();
        let next = runner.start(&[row(pos)]).unwrap();
        runner.finish(pending).unwrap();
        pending = next;
        let now = runner.counters();
        assert_eq!(now.submits - before.submits, 1);
        assert!(now.host_waits - before.host_waits <= 1);
        assert_eq!(now.device_waits, 0);
        assert_eq!(now.allocations, before.allocations);
        assert_eq!(now.recordings, before.recordings);
        // A layer: q, k, v (two if their types differ), attention, its output, gate and up, down. Beside the layers:
        // embedding, head, argmax; and the barriers at both ends.
        assert!(now.dispatches - before.dispatches <= 6 * layers + 3, "{}", now.dispatches - before.dispatches);
        assert!(now.barriers - before.barriers <= 5 * layers + 5, "{}", now.barriers - before.barriers);
        let told = if runner.has_megakernel() { 8 } else { 4 }; // an id, and whether a megakernel gave up
        assert_eq!(now.bytes_from_device - before.bytes_from_device, told);
    }
    runner.finish(pending).unwrap();
    assert_silent(&runner);
}

/// The dispatches of a layer of experts: q, k, v, attention, its output, the router and its choice, gate and up, down.
#[test]
fn a_layer_of_experts_is_six_dispatches_and_seven_if_q_k_and_v_differ_in_type() {
    for (recipe, per_layer) in [("Q8_0", 6..=6), ("Q4_K_M", 6..=7)] {
        let shape = pumex::synthetic::find("tiny-moe").unwrap();
        let gguf = shape.model(pumex::quantize::recipe::find(recipe).unwrap()).unwrap();
        let way =
            pumex::engine::Options { debug: Debug { megakernel: Some(false), ..exact() }, ..options(CacheType::F16) };
        let Some(mut runner) = vulkan(&gguf, way) else { return };
        let layers = runner.plan().layers.len() as u64;
        let mut step = |pos: usize| {
            let before = runner.counters();
            runner.run(&rows(0, pos, &[7]), Want::Ids).unwrap();
            let now = runner.counters();
            (now.dispatches - before.dispatches, now.barriers - before.barriers)
        };
        step(0);
        let (dispatches, barriers) = step(1);
        // Beside the layers: embedding, head, argmax; and the barriers at both ends.
        let range = per_layer.start() * layers + 3..=per_layer.end() * layers + 3;
        assert!(range.contains(&dispatches), "{recipe}: {dispatches} dispatches, expected {range:?}");
        assert!(barriers <= 6 * layers + 5, "{recipe}: {barriers} barriers");
        assert_silent(&runner);
    }
}

/// A runner that leaves sampling to the host.
struct HostSampled(VulkanRunner);

impl Runner for HostSampled {
    fn n_vocab(&self) -> usize {
        self.0.n_vocab()
    }
    fn n_ctx(&self) -> usize {
        self.0.n_ctx()
    }
    fn max_rows(&self) -> usize {
        self.0.max_rows()
    }
    fn runs_ahead(&self) -> bool {
        self.0.runs_ahead()
    }
    fn start(&mut self, rows: &[Row]) -> pumex::Result<Ticket> {
        let samples = rows.iter().any(|row| matches!(row.output, RowOutput::Sample(_)));
        assert!(!samples, "a request for a runner that refuses them");
        self.0.start(rows)
    }
    fn finish_each(&mut self, ticket: Ticket) -> pumex::Result<Output> {
        self.0.finish(ticket)
    }
    fn forget(&mut self, seq: u32, from: u32) -> usize {
        self.0.forget(seq, from)
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
    fn device(&self) -> String {
        self.0.device()
    }
    fn collect_importance(&mut self) -> pumex::Result<()> {
        self.0.collect_importance()
    }
    fn importance(&mut self) -> pumex::Result<Vec<Squares>> {
        self.0.importance()
    }
}

/// Two replies of a conversation and the counters of each of their tokens.
fn replies(runner: &mut dyn Runner, options: &SamplerOptions, end: u32) -> (Vec<u32>, Vec<Counters>) {
    runner.forget(0, 0);
    let (mut sampler, stop) = (Sampler::new(options.clone()), AtomicBool::new(false));
    let (mut out, mut counters, mut start, mut pending) = (Vec::new(), Vec::new(), 0, None);
    for n_predict in [24, 12] {
        let prompt: Vec<u32> = pending.into_iter().chain([589, 346, 288]).collect();
        let is_end = |id| id == end;
        let request = Request {
            prompt: &prompt,
            media: &pumex::step::Media::new(),
            start,
            n_predict,
            is_end: &is_end,
            stop: &stop,
            counters: true,
        };
        let stats = generate(runner, &request, &mut sampler, &mut |id| out.push(id)).unwrap();
        (start, pending) = (stats.held, stats.pending);
        counters.extend_from_slice(stats.per_token.get(3..).unwrap_or(&[])); // the first ones record
    }
    (out, counters)
}

#[test]
fn the_same_seed_gives_the_same_text_on_the_device_as_on_the_host() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut device) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let Some(host) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let mut host = HostSampled(host);
    let plain = SamplerOptions::default();
    let window = SamplerOptions { repeat_penalty: 1.2, frequency_penalty: 0.1, repeat_last_n: 16, ..plain.clone() };
    let chains = [
        plain.clone(),
        window.clone(),
        SamplerOptions { top_k: 100, top_p: 1.0, min_p: 0.0, temperature: 1.3, ..window.clone() },
        SamplerOptions { temperature: 0.0, banned: vec![17, 276], ..window },
    ];
    for (seed, chain) in (1..).zip(sample(&[&chains[..], &chains[..1]].concat(), 3)) {
        let chain = SamplerOptions { seed, ..chain.clone() };
        // Its 13th id ends the text the second time, so that a step ran ahead in vain.
        let mut end = u32::MAX;
        for _ in 0..2 {
            let (truth, _) = replies(&mut host, &chain, end);
            let (found, counters) = replies(&mut device, &chain, end);
            assert_eq!(found, truth, "{chain:?}");
            for c in counters {
                assert!(c.bytes_from_device <= 16, "{c:?}");
                assert_eq!((c.recordings, c.allocations, c.device_waits), (0, 0, 0), "{c:?}");
                assert!(c.submits <= 1 && c.host_waits <= 1, "{c:?}");
            }
            end = truth.get(12).copied().unwrap_or(u32::MAX);
        }
    }
    assert_silent(&device);
}

#[test]
fn chains_that_change_with_every_step_need_no_new_recording() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let Some(mut truth) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let rows = |pos: u32| {
        [0, 1].map(|seq| Row { seq, pos, token: Token::Id(300 + seq * 7 + pos), output: RowOutput::Id, medium: None })
    };
    let mut recordings = 0;
    for pos in 0..12 {
        let draws: Vec<SampleRequest> = [0, 1]
            .map(|seq| SampleRequest {
                options: Arc::new(SamplerOptions {
                    temperature: [0.7, 0.0, 1.8][(pos + seq) as usize % 3],
                    top_k: 3 + 10 * pos as i32,
                    presence_penalty: 2.0 * seq as f32,
                    banned: vec![pos; seq as usize],
                    ..Default::default()
                }),
                recent: vec![5; pos as usize],
                unit: f64::from(pos) / 12.0,
                allowed: Allowed::All,
            })
            .to_vec();
        let logits = truth.run(&rows(pos), Want::Logits).unwrap().logits;
        let expected: Vec<u32> = logits
            .chunks_exact(truth.n_vocab())
            .zip(&draws)
            .map(|(row, draw)| draw.pick(row, None, &mut Vec::new()).unwrap())
            .collect();
        assert_eq!(runner.run(&rows(pos), Want::Drawn(&draws)).unwrap().ids, expected, "position {pos}");
        recordings = if pos < 2 { runner.counters().recordings } else { recordings };
    }
    assert_eq!(runner.counters().recordings, recordings);
    let draw = SampleRequest {
        options: Arc::new(SamplerOptions::default()),
        recent: vec![],
        unit: 0.0,
        allowed: Allowed::All,
    };
    let refused = |rows: &[Row], draws: &[SampleRequest], runner: &mut dyn Runner| {
        runner.run(rows, Want::Drawn(draws)).unwrap_err().to_string()
    };
    assert!(refused(&rows(12), std::slice::from_ref(&draw), &mut runner)
        .contains("expected one per output row, 2, found 1"));
    let two = [12, 13].map(|pos| Row { seq: 1, pos, token: Token::Sampled, output: RowOutput::Id, medium: None });
    assert!(refused(&two, &[draw.clone(), draw.clone()], &mut runner).contains("sequence 1"));
    assert_silent(&runner);
}

#[test]
fn weights_through_the_staging_ring_are_the_same_weights() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let ids: Vec<u32> = (5..25).collect();
    // Tests before this one have used the device, and both models are on it.
    let written = || device(false).map_or(0, |device| device.counters().bytes_to_device);
    let before = written();
    let Some(mut direct) = vulkan(&gguf, options(CacheType::F16)) else { return };
    let of_direct = written() - before;
    let debug = Debug { force_staging: true, ..exact() };
    let staged = vulkan(&gguf, pumex::engine::Options { debug, ..options(CacheType::F16) });
    let of_staged = written() - before - of_direct;
    let mut staged = staged.unwrap();
    assert_eq!(logits(&mut direct, &ids, 64), logits(&mut staged, &ids, 64));
    assert!(of_staged > gguf.file_bytes() / 2, "the ring carries the weights");
    let caps = direct.vk().caps();
    if caps.unified && caps.host_import_alignment.is_some() {
        assert!(of_direct < gguf.file_bytes() / 2, "the file's own pages are used where memory is unified");
    }
    assert_silent(&direct);
    assert_silent(&staged);
}

#[test]
fn every_cache_type_loses_no_more_than_its_bits() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let ids: Vec<u32> = (0..50).map(|i| (i * 97 + 5) % 4096).collect();
    let truth = logits(&mut reference(&gguf), &ids, 64);
    // Bounds are a few times what was found; K and V differ so that neither stands in for the other.
    use CacheType::{Bf16, Iq4Nl, F16, F32, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
    let cases = [
        (Bf16, Bf16, 3e-6),
        (Q8_0, Q8_0, 3e-5),
        (Q4_0, F16, 5e-3),
        (F16, Q4_1, 2e-3),
        (Q5_0, F32, 2e-3),
        (F32, Q5_1, 5e-4),
        (Iq4Nl, Q8_0, 5e-3),
        (Q4_1, Iq4Nl, 6e-3),
    ];
    // By matrices the rounding to halves comes on top, and may turn codes of the cache.
    let ways = [(Arithmetic::Exact, 1.0, 0.0), (Arithmetic::Halves, 3.0, 1e-5)];
    let all = ways.into_iter().flat_map(|way| cases.into_iter().enumerate().map(move |case| (way, case)));
    for ((arithmetic, factor, more), (i, (k, v, bound))) in all {
        let bound = factor * bound + more;
        let options =
            pumex::engine::Options { cache_type_k: Some(k), cache_type_v: Some(v), ..arithmetic.options(F16) };
        let Some(mut runner) = vulkan(&gguf, options) else { return };
        if arithmetic.lacking(runner.vk()) {
            return;
        }
        let chunks = if exhaustive() { &[64, 1][..] } else { &[64, 1][i % 2..][..1] };
        for &chunk in chunks {
            let error = nmse(&logits(&mut runner, &ids, chunk), &truth);
            println!("K {} V {} chunks of {chunk}: {error:.2e}", k.name(), v.name());
            assert!(error < bound, "K {} V {} chunks of {chunk}: {error:e}", k.name(), v.name());
        }
        assert_silent(&runner);
    }
}

#[test]
fn a_context_that_does_not_fit_is_refused_with_the_numbers() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(device) = crate::util::device(false) else { return };
    let options = pumex::engine::Options { n_ctx: Some(u32::MAX), ..options(CacheType::F32) };
    let plan = pumex::model::plan(&gguf).unwrap();
    let error =
        pumex::engine::VulkanRunner::new(&gguf, plan, device, &options, &mut |_, _| ()).err().unwrap().to_string();
    assert!(error.contains("out of memory") && error.contains("free"), "{error}");
}

/// Sums and counts of experts included: the model of the repository has some.
#[test]
fn importance_on_the_device_is_the_references() {
    let gguf = Gguf::open(&crate::util::fixture("qwen3moe").with_extension("gguf")).unwrap();
    for (arithmetic, bound) in [(Arithmetic::Exact, 1e-6), (Arithmetic::Halves, 1e-5)] {
        let Some(runner) = vulkan(&gguf, arithmetic.options(CacheType::F32)) else { return };
        if !arithmetic.lacking(runner.vk()) {
            importance_within(&gguf, runner, bound);
        }
    }
}

fn importance_within(gguf: &Gguf, mut runner: VulkanRunner, bound: f64) {
    let mut truth = reference(gguf);
    let ids: Vec<u32> = (0..40).map(|i| (i * 37 + 3) % 128).collect();
    let mut collected: Vec<_> = [&mut runner as &mut dyn Runner, &mut truth]
        .into_iter()
        .map(|runner| {
            runner.collect_importance().unwrap();
            for (at, len) in [(0, 33), (33, 3), (36, 4)] {
                runner.run(&rows(0, at, &ids[at..at + len]), Want::Ids).unwrap();
            }
            runner.importance().unwrap()
        })
        .collect();
    let (truth, found) = (collected.pop().unwrap(), collected.pop().unwrap());
    assert_eq!(found.len(), truth.len());
    for (f, t) in found.iter().zip(&truth) {
        assert_eq!((&f.names, &f.counts), (&t.names, &t.counts));
        assert!(nmse(&f.sums, &t.sums) < bound, "{:?}: {:e}", t.names, nmse(&f.sums, &t.sums));
    }
    let experts = truth.iter().filter(|t| !t.counts.is_empty()).collect::<Vec<_>>();
    assert_eq!(experts.len(), 4, "gate and up together, down, in two layers");
    assert!(experts.iter().all(|t| t.counts.iter().sum::<f32>() == 80.0), "each of 40 rows reaches two");
    assert_silent(&runner);
}

/// Takes the path of the device's policy, without any option.
#[test]
fn the_demo_model_agrees_with_the_reference_by_default() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let ids: Vec<u32> = (0..50).map(|i| (i * 97 + 5) % 4096).collect();
    let truth = logits(&mut reference(&gguf), &ids, 64);
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F32)) else { return };
    let caps = runner.vk().caps().clone();
    let one = if pumex::policy::activations(&caps) == ActivationQuant::Q8 { 5e-4 } else { 5e-9 };
    let many = if caps.matrix_n.is_empty() { 1e-9 } else { 2e-6 };
    for (chunk, bound) in [(64, many), (1, one)] {
        let error = nmse(&logits(&mut runner, &ids, chunk), &truth);
        println!("chunks of {chunk}: NMSE {error:.2e}");
        assert!(error < bound, "chunks of {chunk}: NMSE {error:e}, bound {bound:e}");
    }
    assert_silent(&runner);
}
