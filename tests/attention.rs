//! Attention of every kind: which positions rows see, rules of the scores, heads of all widths, and states that layers keep in
//! stores of their own. Models are made here: two layers of attention between an embedding and a head.

use crate::util::{assert_silent, device, exhaustive, logits, nmse, options, rows, sample, usual, vulkan_plan};
use pumex::cpu::Reference;
use pumex::engine::{CacheType, VulkanRunner};
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::Gguf;
use pumex::plan::{
    AttentionSpec, Builder, KvSpec, LayerState, Mask, MatPart, Plan, Rope, RopeNorm, RopeStyle, Weight, WeightInfo,
};
use pumex::policy;
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex::vk::{Device, Disabled};

const DIM: usize = 64;
const VOCAB: usize = 96;

/// Numbers that look random, around 0.
fn noise(seed: usize, len: usize, size: f32) -> Vec<f32> {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(|_| size * next()).collect()
}

/// A model in f32 whose layers attend so, and keep what `states` says.
fn model(specs: &[AttentionSpec], states: &[LayerState]) -> (Gguf, Plan) {
    let mut tensors: Vec<(Entry, Vec<u8>)> = Vec::new();
    let mut infos: Vec<WeightInfo> = Vec::new();
    let mut weight = |name: String, rows: usize, cols: usize, size: f32| {
        let dims = if rows == 1 { vec![cols as u64] } else { vec![cols as u64, rows as u64] };
        let data: Vec<u8> = noise(tensors.len() + 1, rows * cols, size).iter().flat_map(|x| x.to_le_bytes()).collect();
        tensors.push((Entry { name: name.clone(), dims, type_id: 0, len_bytes: data.len() as u64 }, data));
        let format = pumex_quant::find(0).unwrap();
        infos.push(WeightInfo { name, tensor: infos.len(), rows, cols, format });
        Weight(infos.len() - 1)
    };
    let embd = weight("token_embd.weight".into(), VOCAB, DIM, 2.0);
    let head = weight("output.weight".into(), VOCAB, DIM, 0.5);
    let norm = weight("norm".into(), 1, DIM, 2.0);
    let layers: Vec<_> = specs
        .iter()
        .enumerate()
        .map(|(i, s)| {
            let of = [("q", s.heads * s.head_dim), ("k", s.kv_heads * s.head_dim), ("v", s.kv_heads * s.v_dim)];
            let parts = of.map(|(name, rows)| weight(format!("blk.{i}.{name}"), rows, DIM, 0.6));
            let out = weight(format!("blk.{i}.out"), DIM, s.heads * s.v_dim, 0.4);
            (parts, out, weight(format!("blk.{i}.sinks"), 1, s.heads.next_multiple_of(32), 4.0))
        })
        .collect();
    let entries: Vec<Entry> = tensors.iter().map(|(entry, _)| entry.clone()).collect();
    let mut bytes = header(std::iter::empty(), &entries, ALIGNMENT);
    for (_, data) in tensors {
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    let gguf = Gguf::from_static("attention.gguf", bytes.leak()).unwrap();
    let part = |weight| MatPart { weight, bias: None, scale: 1.0 };
    let mut b = Builder::new(infos);
    let x = b.embed(embd);
    for (s, (parts, out, sinks)) in specs.iter().zip(layers) {
        let spec = AttentionSpec { sinks: s.sinks.map(|_| sinks), ..*s };
        let h = b.rms_norm(x, norm, 1e-5);
        let qkv = b.matmul("qkv", h, parts.map(part).to_vec());
        let rope = Rope { style: RopeStyle::Neox, dims: s.head_dim.min(32), table: 0, norm_eps: 1e-5 };
        b.rope_kv(qkv, spec, RopeNorm { rope, q_norm: None, k_norm: None });
        let y = b.attend(qkv, spec, 1.0 / (s.head_dim as f32).sqrt());
        b.matmul_add(y, part(out), x);
    }
    let h = b.rms_norm_output(x, norm, 1e-5);
    let logits = b.matmul("logits", h, vec![part(head)]);
    let freqs = (0..16).map(|i| 0.3f32.powi(i)).collect();
    (gguf, b.finish("made", logits, states.to_vec(), vec![freqs], 256))
}

/// A layer's K and V, of all positions or of a window.
fn keeps(s: &AttentionSpec, window: Option<usize>) -> LayerState {
    LayerState::KeysValues(KvSpec { kv_heads: s.kv_heads, k_dim: s.head_dim, v_dim: s.v_dim, window })
}

/// Two layers that attend so, each with a K/V cache of its own.
fn two(first: AttentionSpec, second: AttentionSpec) -> (Gguf, Plan) {
    let specs = [AttentionSpec { layer: 0, ..first }, AttentionSpec { layer: 1, ..second }];
    let window = |s: &AttentionSpec| if let Mask::Window(n) = s.mask { Some(n) } else { None };
    model(&specs, &specs.map(|s| keeps(&s, window(&s))))
}

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 37 + 11) % VOCAB as u32).collect()
}

/// Compares the device with the reference over a prompt in chunks.
fn agrees(name: &str, gguf: &Gguf, plan: &Plan, (cache, bound): (CacheType, f64), chunks: &[usize]) -> bool {
    let ids = ids(90);
    for &chunk in chunks {
        let truth = logits(&mut Reference::new(gguf, plan.clone(), 128, 1, 64), &ids, chunk);
        for way in [options(cache), usual(cache)] {
            let Some(mut runner) = vulkan_plan(gguf, plan.clone(), way) else { return false };
            let found = logits(&mut runner, &ids, chunk);
            let error = nmse(&found, &truth);
            assert!(error < bound, "{name}, {} caches, chunks of {chunk}: NMSE {error:e}", cache.name());
            assert_silent(&runner);
        }
    }
    true
}

#[test]
fn rows_see_what_masks_leave_and_scores_follow_their_rules() {
    let plain = AttentionSpec::causal(0, 6, 2, 64);
    let capped = AttentionSpec { soft_cap: Some(2.0), ..plain };
    let sinks = AttentionSpec { sinks: Some(Weight(0)), ..plain };
    let alibi = AttentionSpec { alibi: Some(8.0), ..plain };
    let window = |n| AttentionSpec { mask: Mask::Window(n), ..plain };
    let all = AttentionSpec { mask: Mask::Chunk(24), ..capped };
    let all = AttentionSpec { sinks: Some(Weight(0)), alibi: Some(4.0), ..all };
    let kinds = [
        ("windows", window(9), window(40)),
        ("soft cap, sinks", capped, sinks),
        ("ALiBi, chunks", alibi, AttentionSpec { mask: Mask::Chunk(20), ..plain }),
        ("window with sinks, all at once", AttentionSpec { sinks: Some(Weight(0)), ..window(33) }, all),
    ];
    for (name, first, second) in kinds {
        let (gguf, plan) = two(first, second);
        let chunks: &[usize] = if exhaustive() { &[1, 7, 40] } else { &[1, 40] };
        if !agrees(name, &gguf, &plan, (CacheType::F32, 1e-9), chunks) {
            return;
        }
        if exhaustive() && !agrees(name, &gguf, &plan, (CacheType::F16, 1e-5), &[3, 64]) {
            return;
        }
    }
}

#[test]
fn encoders_see_all_of_their_sequence() {
    let full = AttentionSpec { mask: Mask::Full, ..AttentionSpec::causal(0, 4, 4, 32) };
    let (gguf, plan) = two(full, full);
    // Two sequences in one step, of few rows and of many.
    for (a, b) in [(3, 5), (30, 20)] {
        let row = |seq, pos, id| Row { seq, pos, token: Token::Id(id), output: RowOutput::Logits, medium: None };
        let mixed: Vec<Row> = (0..a.max(b))
            .flat_map(|pos| [(0, a), (1, b)].into_iter().filter(move |(_, n)| pos < *n).map(move |(seq, _)| (seq, pos)))
            .map(|(seq, pos)| row(seq, pos, (pos * 7 + seq * 3) % VOCAB as u32))
            .collect();
        // The reference keeps each sequence's K and V as it comes to its rows, so that all must be there before.
        let alone = |seq: u32| {
            let mut reference = Reference::new(&gguf, plan.clone(), 128, 2, 64);
            let own: Vec<Row> = mixed.iter().filter(|r| r.seq == seq).cloned().collect();
            reference.run(&own, Want::Logits).unwrap().logits
        };
        let Some(mut runner) =
            vulkan_plan(&gguf, plan.clone(), pumex::engine::Options { n_seqs: 2, ..options(CacheType::F32) })
        else {
            return;
        };
        let found = runner.run(&mixed, Want::Logits).unwrap().logits;
        for seq in 0..2 {
            let own = mixed.iter().zip(found.chunks_exact(VOCAB)).filter(|(r, _)| r.seq == seq);
            let own: Vec<f32> = own.flat_map(|(_, l)| l.iter().copied()).collect();
            let error = nmse(&own, &alone(seq));
            assert!(error < 1e-9, "sequence {seq} of {a} and {b} rows: NMSE {error:e}");
        }
        assert_silent(&runner);
    }
}

#[test]
fn heads_of_all_widths_attend() {
    let of = |heads, kv_heads, head_dim, v_dim| AttentionSpec {
        v_dim,
        ..AttentionSpec::causal(0, heads, kv_heads, head_dim)
    };
    let mut kinds = vec![(of(4, 1, 576, 512), of(4, 2, 32, 64)), (of(3, 1, 192, 128), of(2, 2, 256, 256))];
    if exhaustive() {
        kinds.extend([(of(2, 1, 320, 320), of(8, 8, 40, 40)), (of(2, 2, 512, 512), of(16, 1, 96, 128))]);
    }
    for (i, (first, second)) in kinds.into_iter().enumerate() {
        let name = format!("heads of {} and {}, {} and {}", first.head_dim, first.v_dim, second.head_dim, second.v_dim);
        let (gguf, plan) = two(first, second);
        if !agrees(&name, &gguf, &plan, (CacheType::F32, 1e-9), &[1, 40]) {
            return;
        }
        let blocks = first.head_dim % 32 == 0 && second.head_dim % 32 == 0;
        for (cache, bound) in [(CacheType::F16, 1e-5), (CacheType::Q8_0, 1e-3)]
            .into_iter()
            .filter(|(c, _)| blocks || *c == CacheType::F16)
        {
            if exhaustive() && i == 0 && !agrees(&name, &gguf, &plan, (cache, bound), &[1, 40]) {
                return;
            }
        }
    }
}

/// Kernels of few rows and of many, best first: without those before it, each that takes such heads serves.
const FEW: [&str; 2] = ["attn_mat", "attn_split"];
const MANY: [&str; 4] = ["attn_flash", "attn_staged", "attn_matrix2", "attn_prefill"];

/// A device that is left that kernel and those after it; none if it has no such kernel or the kernel does not take the heads.
fn left(kernels: [&str; 2], specs: [&AttentionSpec; 2]) -> Option<Device> {
    let device = device(false)?;
    let mut caps = device.caps().clone();
    let takes = |kernel: &str, spec: &AttentionSpec| match kernel {
        "attn_mat" | "attn_flash" => !caps.matrix_n.is_empty() && policy::attn_mat_fits(spec),
        "attn_staged" => policy::staged_attention(&caps, spec).is_some(),
        "attn_matrix2" => policy::matrix2_attention(&caps, spec).is_some(),
        _ => true,
    };
    if !kernels.iter().all(|kernel| specs.iter().any(|spec| takes(kernel, spec))) {
        return None;
    }
    let better = |all: &[&'static str], kernel| all.iter().copied().take_while(|k| *k != kernel).collect::<Vec<_>>();
    let off = [better(&FEW, kernels[0]), better(&MANY, kernels[1])].concat();
    caps.disabled.extend(off.into_iter().map(|k| Disabled { kernel: k.into(), why: "another one is tested".into() }));
    Some(device.with_caps(caps))
}

/// Single rows, few and a prompt's, of latent attention's heads and of others from narrow to wide.
#[test]
fn every_kernel_that_takes_such_heads_attends_as_the_reference_does() {
    let of = |heads, kv_heads, head_dim, v_dim| AttentionSpec {
        v_dim,
        ..AttentionSpec::causal(0, heads, kv_heads, head_dim)
    };
    let kinds = [
        (of(16, 1, 576, 512), of(4, 2, 256, 256)),
        (of(8, 2, 128, 128), of(4, 4, 64, 64)),
        (of(5, 1, 40, 40), of(6, 3, 80, 80)),
        (of(4, 2, 192, 128), of(3, 1, 96, 96)),
        (of(2, 1, 112, 112), of(4, 1, 160, 160)),
        (of(20, 1, 320, 256), of(2, 2, 512, 512)),
        (of(128, 1, 576, 512), of(1, 1, 72, 72)),
    ];
    for (first, second) in sample(&kinds, 1) {
        let (gguf, plan) = two(*first, *second);
        let (widths, prompt) = ([first, second].map(|s| (s.head_dim, s.v_dim)), ids(90));
        for (few, many) in [(0, 0), (1, 1), (1, 2), (1, 3)] {
            let Some(device) = left([FEW[few], MANY[many]], [first, second]) else { continue };
            for (cache, bound) in [(CacheType::F32, 1e-9), (CacheType::F16, 2e-5)]
                .into_iter()
                .skip(usize::from(MANY[many] != "attn_prefill"))
            {
                let way = if MANY[many] == "attn_prefill" { options(cache) } else { usual(cache) };
                let mut runner = VulkanRunner::new(&gguf, plan.clone(), device.clone(), &way, &mut |_, _| ()).unwrap();
                for chunk in [1, 7, 45] {
                    let truth = logits(&mut Reference::new(&gguf, plan.clone(), 128, 1, 64), &prompt, chunk);
                    let error = nmse(&logits(&mut runner, &prompt, chunk), &truth);
                    let what = format!("{} and {}, heads of {widths:?}, {}", FEW[few], MANY[many], cache.name());
                    println!("{what}, chunks of {chunk}: NMSE {error:.2e}");
                    assert!(error < bound, "{what}, chunks of {chunk}: NMSE {error:e}");
                }
                assert_silent(&runner);
            }
        }
    }
}

/// A window's blocks are used again by positions far ahead, and forks share those that are left.
#[test]
fn a_window_lives_in_a_ring_of_blocks_that_forks_share() {
    let spec = AttentionSpec { mask: Mask::Window(40), ..AttentionSpec::causal(0, 2, 1, 32) };
    let full = AttentionSpec::causal(0, 2, 1, 32);
    let (gguf, plan) = two(spec, full);
    let mut reference = Reference::new(&gguf, plan.clone(), 256, 2, 16);
    let Some(mut runner) = vulkan_plan(
        &gguf,
        plan,
        pumex::engine::Options { n_ctx: Some(256), n_seqs: 2, max_rows: 16, ..options(CacheType::F32) },
    ) else {
        return;
    };
    let ids: Vec<u32> = ids(200);
    let run = |runner: &mut dyn Runner, seq, from: usize, to: usize| -> Vec<f32> {
        let chunks = ids[from..to].chunks(16).enumerate();
        chunks
            .flat_map(|(i, chunk)| runner.run(&rows(seq, from + 16 * i, chunk), Want::Logits).unwrap().logits)
            .collect()
    };
    let mut both = |what: &str, f: &mut dyn FnMut(&mut dyn Runner) -> Vec<f32>| {
        let (truth, found) = (f(&mut reference), f(&mut runner));
        let error = nmse(&found, &truth);
        assert!(error < 1e-9, "{what}: NMSE {error:e}");
    };
    both("200 positions, some blocks again", &mut |r| run(r, 0, 0, 190));
    both("a fork goes on", &mut |r| {
        r.fork(0, 1, 190).unwrap();
        run(r, 1, 190, 200)
    });
    both("and so does what it came from", &mut |r| run(r, 0, 190, 200));
    both("a few positions back", &mut |r| {
        r.forget(0, 185);
        run(r, 0, 185, 200)
    });
    assert_silent(&runner);
}
