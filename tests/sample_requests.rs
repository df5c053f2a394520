//! The kernel that samples against the sampler's chain on the host: the same random numbers must give the same ids.

use std::sync::Arc;

use pumex::engine::request::{self, MAX_IDS, MAX_K};
use pumex::kernel::Kernels;
use pumex::policy;
use pumex::sample::steps::{self, Candidate};
use pumex::sample::{Allowed, Rng, SampleRequest, SamplerOptions, Shortlist, ShortlistRequest};
use pumex::step::{Row, RowOutput, Token};
use pumex::vk::{Buffer, Class, Device};

/// The device adds up in 32 bits: a draw or a limit this close to the edge of a candidate's share may go either way.
const EDGE: f64 = 1e-6;
/// Word where draws start in the steps made here.
const DRAWS_AT: usize = 8;

/// A device and a generator of logits.
struct Lab {
    device: Device,
    kernels: Kernels,
    rng: Rng,
}

/// A row to draw for: its logits, its draw, and where its token comes from.
struct Case {
    logits: Vec<f32>,
    draw: SampleRequest,
    row: Row,
}

/// The row, with a request.
fn asking(row: &Row, request: &SampleRequest) -> Row {
    Row { output: RowOutput::Sample(request.clone()), ..row.clone() }
}

impl Lab {
    fn open() -> Option<Lab> {
        let device = crate::util::device(false)?;
        Some(Lab { kernels: Kernels::new(&device), device, rng: Rng::new(11) })
    }

    fn buffer(&self, words: &[u32]) -> Buffer {
        let buffer = self.device.buffer("words", 4 * words.len().max(4) as u64, Class::Readback).unwrap();
        buffer.write(0, bytemuck::cast_slice(words));
        buffer
    }

    /// Ids of the cases' rows, and what `sampled` holds after them; the same with every tile.
    fn draw(&mut self, cases: &[Case], sampled: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let rows: Vec<Row> = cases.iter().map(|c| asking(&c.row, &c.draw)).collect();
        let logits: Vec<&[f32]> = cases.iter().map(|c| &c.logits[..]).collect();
        let (ids, kept, _) = self.run(&rows, &logits, sampled);
        (ids, kept)
    }

    /// Ids of the cases' rows, what `sampled` holds after them, and what is listed of the rows that ask for that.
    fn run(&mut self, rows: &[Row], logits: &[&[f32]], sampled: &[u32]) -> (Vec<u32>, Vec<u32>, Vec<Shortlist>) {
        let vocab = logits[0].len();
        let listed: Vec<&Row> = rows.iter().collect();
        let (beside, bytes) = request::sampling_inputs(&listed, vocab);
        let masks = self.buffer(&vec![0; bytes.masks as usize / 4]);
        for (row, beside) in rows.iter().zip(&beside) {
            let bits = request::mask(row.allowed_ids(), vocab);
            beside.mask.iter().for_each(|at| masks.write(*at, bytemuck::cast_slice(&bits)));
        }
        let all: Vec<f32> = logits.concat();
        let logits = self.buffer(bytemuck::cast_slice(&all));
        let mut results = Vec::new();
        for (threads, loads) in [policy::sample_tile(self.device.caps()), (128, 8), (256, 16)] {
            let lists = self.buffer(&vec![7; bytes.lists as usize / 4]);
            let beside_at = request::SamplingMemory { masks: masks.address(), lists: lists.address() };
            let mut step = vec![rows.len() as u32, rows.len() as u32, 0, 0, 0, 0, 0, 0];
            step.extend(request::pack(&listed, &beside, beside_at, vocab, DRAWS_AT).unwrap());
            let step = self.buffer(&step);
            let threads = threads.min(self.device.caps().max_workgroup_invocations);
            let parts = vocab.div_ceil((threads * loads) as usize);
            let (kept, ids) = (self.buffer(sampled), self.buffer(&vec![u32::MAX; rows.len()]));
            let found = self.buffer(&vec![9; 2 * rows.len() * parts * (MAX_K + 1)]);
            let arrivals = self.buffer(&vec![0; rows.len()]);
            let mut push: Vec<u8> = Vec::new();
            for buffer in [&logits, &step, &kept, &ids, &found, &arrivals] {
                push.extend(buffer.address().to_le_bytes());
            }
            [vocab, DRAWS_AT].iter().for_each(|w| push.extend((*w as u32).to_le_bytes()));
            let spec = [("SIZE", threads), ("LOADS", loads), ("K", MAX_K as u32)];
            let pipeline = self.kernels.get("sample", None, &spec).unwrap();
            let mut recorder = self.device.recorder().unwrap();
            recorder.dispatch(&pipeline, &push, [rows.len() as u32, parts as u32, 1]);
            recorder.host_barrier();
            let recording = recorder.finish().unwrap();
            self.device.wait(self.device.submit(&recording).unwrap()).unwrap();
            let read = |buffer: &Buffer, len: usize| {
                let mut words = vec![0u32; len];
                buffer.read(0, bytemuck::cast_slice_mut(&mut words));
                words
            };
            assert_eq!(read(&arrivals, rows.len()), vec![0; rows.len()], "the counters are zero between dispatches");
            let lists = beside.iter().filter_map(|b| b.list.as_ref()).map(|(at, wanted)| {
                let mut pairs = vec![[0u32; 2]; MAX_K + 1 + wanted.ids.len()];
                lists.read(*at, bytemuck::cast_slice_mut(&mut pairs));
                Shortlist::from_pairs(&pairs, MAX_K, wanted, vocab)
            });
            results.push((read(&ids, rows.len()), read(&kept, sampled.len()), lists.collect::<Vec<_>>()));
        }
        let same = |r: &(Vec<u32>, Vec<u32>, Vec<Shortlist>)| {
            let exact = |list: &Shortlist| (list.best.clone(), list.wanted.clone());
            let lists = r.2.iter().map(exact).eq(results[0].2.iter().map(exact));
            r.0 == results[0].0 && r.1 == results[0].1 && lists
        };
        assert!(results.iter().all(same), "ids depend on how a row is split: {results:?}");
        results.swap_remove(0)
    }

    /// Roughly normal, as logits are.
    fn logits(&mut self, vocab: usize) -> Vec<f32> {
        let rng = &mut self.rng;
        (0..vocab).map(|_| ((0..6).map(|_| rng.unit() - 0.5).sum::<f64>() * 4.0) as f32).collect()
    }

    fn case(&mut self, logits: Vec<f32>, options: &SamplerOptions) -> Case {
        let draw = SampleRequest {
            options: Arc::new(options.clone()),
            recent: vec![],
            unit: self.rng.unit(),
            allowed: Allowed::All,
        };
        Case { logits, draw, row: Row { seq: 0, pos: 0, token: Token::Id(0), output: RowOutput::Id, medium: None } }
    }
}

/// The host's id, and those of draws and limits a hair beside it.
fn truth(case: &Case, sampled: &[u32]) -> (u32, Vec<u32>) {
    let unread = (case.row.token == Token::Sampled).then(|| sampled[case.row.seq as usize]);
    let pick = |unit: f64, p: f64| {
        let mut draw = case.draw.clone();
        let top_p = draw.options.top_p;
        Arc::make_mut(&mut draw.options).top_p = if top_p < 1.0 { top_p + p as f32 } else { top_p };
        draw.unit = (draw.unit + unit).clamp(0.0, 1.0 - EDGE);
        draw.pick(&case.logits, unread, &mut Vec::new()).unwrap()
    };
    let hairs = [0.0, -EDGE, EDGE];
    (pick(0.0, 0.0), hairs.iter().flat_map(|u| hairs.iter().map(|p| pick(*u, *p))).collect())
}

/// Asserts that the device draws the host's ids; gives how many draws were too close to an edge to tell.
fn check(lab: &mut Lab, cases: &[Case], sampled: &[u32], what: &str) -> usize {
    let (ids, _) = lab.draw(cases, sampled);
    let mut edges = 0;
    for (i, (id, case)) in ids.iter().zip(cases).enumerate() {
        let (host, near) = truth(case, sampled);
        if near.iter().all(|n| *n == host) {
            assert_eq!(*id, host, "{what}, row {i}: {:?}", case.draw);
        } else {
            edges += 1;
            assert!(near.contains(id), "{what}, row {i}: {id}, expected one of {near:?}");
        }
    }
    edges
}

fn chain(top_k: i32, top_p: f32, min_p: f32, temperature: f32) -> SamplerOptions {
    SamplerOptions { top_k, top_p, min_p, temperature, ..Default::default() }
}

#[test]
fn the_device_draws_what_the_host_draws_for_every_size_and_chain() {
    let Some(mut lab) = Lab::open() else { return };
    let chains = [
        SamplerOptions::default(),
        chain(1, 1.0, 0.0, 0.7),
        chain(40, 1.0, 0.0, 1.3),
        chain(MAX_K as i32, 1.0, 0.0, 5.0),
        chain(MAX_K as i32, 0.9, 0.0, 1.0),
        chain(7, 0.5, 0.3, 0.33),
        chain(40, 0.0, 2.0, 1.0),
        chain(40, 1.0, 0.0, 0.0),
        chain(40, 0.8, 0.02, 1e-3),
    ];
    let (mut edges, mut all) = (0, 0);
    for (vocab, times) in [(1, 1), (7, 2), (100, 4), (1024, 2), (1025, 2), (32_003, 4), (151_936, 2), (262_144, 1)] {
        for options in &chains {
            let cases: Vec<Case> = (0..times)
                .map(|_| {
                    let logits = lab.logits(vocab);
                    lab.case(logits, options)
                })
                .collect();
            edges += check(&mut lab, &cases, &[0], &format!("{vocab} ids"));
            all += cases.len();
        }
    }
    assert!(edges * 50 < all, "{edges} of {all} draws cannot be told");
    crate::util::assert_silent_on(&lab.device);
}

#[test]
fn ties_gaps_and_crowds_are_chosen_as_on_the_host() {
    let Some(mut lab) = Lab::open() else { return };
    let vocab = 32_003;
    type Shape = fn(usize, f32) -> f32;
    let shapes: [(&str, Shape); 8] = [
        ("all equal", |_, _| 1.5),
        ("few values", |_, x| x.round()),
        ("few possible", |i, x| if i % 3001 == 5 { x } else { f32::NEG_INFINITY }),
        ("none possible", |_, _| f32::NEG_INFINITY),
        ("rising", |i, _| i as f32 * 1e-4),
        ("falling", |i, _| i as f32 * -1e-3),
        ("crowded in one thread's share", |i, x| if i % 256 == 3 { x.abs() + 9.0 } else { x }),
        ("zeros of both signs", |_, x| 0.0f32.copysign(x)),
    ];
    for (name, shape) in shapes {
        let logits: Vec<f32> = lab.logits(vocab).iter().enumerate().map(|(i, x)| shape(i, *x)).collect();
        let mut cases = Vec::new();
        for k in [1, 2, 40, MAX_K as i32] {
            for options in [chain(k, 1.0, 0.0, 1.0), chain(k, 0.95, 0.05, 0.8), chain(k, 1.0, 0.0, 0.0)] {
                cases.push(lab.case(logits.clone(), &options));
            }
        }
        check(&mut lab, &cases, &[0], name);
    }
}

/// Wherever the NaN stands, banned or not, and whatever its sign.
#[test]
fn of_logits_with_a_nan_no_id_is_drawn() {
    const ID_NAN: u32 = u32::MAX - 1; // of lib/step.glsl
    let Some(mut lab) = Lab::open() else { return };
    let vocab = 32_003;
    let banned = SamplerOptions { banned: vec![7, 31_000], repeat_penalty: 1.3, ..Default::default() };
    for (at, nan) in [(7, f32::NAN), (vocab - 1, -f32::NAN), (31_000, f32::NAN)] {
        for options in [chain(1, 1.0, 0.0, 0.0), chain(40, 0.95, 0.05, 0.8), banned.clone()] {
            let mut logits = lab.logits(vocab);
            logits[at] = nan;
            logits[12] = f32::INFINITY;
            let case = lab.case(logits.clone(), &options);
            assert_eq!(case.draw.pick(&logits, None, &mut Vec::new()), None);
            assert_eq!(lab.draw(&[case], &[5]), (vec![ID_NAN], vec![0]), "NaN at {at}: {options:?}");
        }
    }
}

#[test]
fn penalties_and_bans_lower_what_they_lower_on_the_host() {
    let Some(mut lab) = Lab::open() else { return };
    for vocab in [100, 32_003] {
        for round in 0..12 {
            let mut options = chain(40, 0.95, 0.05, [0.8, 0.0][round % 2]);
            options.repeat_penalty = [1.0, 1.3, 0.7][round % 3];
            (options.frequency_penalty, options.presence_penalty) = [(0.1, 0.3), (-0.2, 0.0)][round / 2 % 2];
            options.repeat_last_n = [64, 1000][round % 2];
            options.banned = (0..round as u32).map(|i| i * 31 % 120).chain([vocab as u32 + 7]).collect();
            let mut cases = Vec::new();
            let mut sampled = Vec::new();
            for seq in 0..4 {
                let logits = lab.logits(vocab);
                // What is likely occurred recently, often: without penalties it would be drawn.
                let mut best: Vec<u32> = (0..vocab as u32).collect();
                best.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
                let mut case = lab.case(logits, &options);
                let recent = [50, 900][round % 2];
                case.draw.recent = (0..recent).map(|_| best[lab.rng.next_below(20) as usize]).collect();
                // The unread id: recent already, new, banned.
                sampled.push([case.draw.recent[3], best[25], options.banned[0], best[0]][seq as usize]);
                case.row = Row { seq, token: Token::Sampled, ..case.row };
                cases.push(case);
            }
            let what = format!("{vocab} ids, round {round}");
            check(&mut lab, &cases, &sampled, &what);
            let (ids, _) = lab.draw(&cases, &sampled);
            assert!(ids.iter().all(|id| !options.banned.contains(id)), "{what}: a banned id");
        }
    }
}

/// An id may have a bias, a ban and penalties at once; those raised come before the best, those lowered behind them.
#[test]
fn biases_come_before_bans_and_penalties_as_on_the_host() {
    let Some(mut lab) = Lab::open() else { return };
    for vocab in [100u32, 32_003] {
        for round in 0..8u32 {
            let mut options = chain(40, 0.95, 0.0, [0.8, 0.0][round as usize % 2]);
            options.repeat_penalty = [1.0, 1.3][round as usize / 2 % 2];
            options.bias = (0..20).map(|i| (i * 37 % 100, [3.0, -2.0, 0.5, 100.0][(i % 4) as usize])).collect();
            options.banned = (0..4).map(|i| (3 + i * 4) * 37 % 100).collect(); // some of the 100s
            let mut cases = Vec::new();
            for seq in 0..3 {
                let logits = lab.logits(vocab as usize);
                let mut case = lab.case(logits, &options);
                case.draw.recent = (0..30).map(|i| i * 11 % 100).collect();
                case.row = Row { seq, token: Token::Sampled, ..case.row };
                cases.push(case);
            }
            check(&mut lab, &cases, &[37, 5, 99], &format!("{vocab} ids, round {round}"));
        }
    }
}

/// A mask with the bits that `keep` says.
fn mask(vocab: usize, keep: impl Fn(usize) -> bool) -> Allowed {
    let mut bits = vec![0u32; vocab.div_ceil(32)];
    (0..vocab).filter(|i| keep(*i)).for_each(|i| bits[i / 32] |= 1 << (i % 32));
    Allowed::These(bits.into())
}

#[test]
fn only_ids_that_are_allowed_are_drawn_and_each_row_has_a_mask_of_its_own() {
    let Some(mut lab) = Lab::open() else { return };
    for vocab in [1, 31, 33, 1000, 32_003, 151_936] {
        type Keep = fn(usize) -> bool;
        let keeps: [Keep; 6] = [|_| true, |i| i == 0, |i| i % 2 == 0, |i| i % 4096 == 7, |i| i < 40, |i| i % 33 == 32];
        for options in [chain(40, 0.95, 0.05, 0.8), chain(1, 1.0, 0.0, 0.0), chain(MAX_K as i32, 1.0, 0.0, 5.0)] {
            let (mut cases, mut allowed) = (Vec::new(), Vec::new());
            for keep in keeps.iter().filter(|keep| (0..vocab).any(*keep)) {
                let logits = lab.logits(vocab);
                let mut case = lab.case(logits, &options);
                case.draw.allowed = mask(vocab, keep);
                case.draw.recent = vec![0, 7];
                allowed.push(keep);
                cases.push(case);
            }
            let logits = lab.logits(vocab);
            cases.push(lab.case(logits, &options)); // one without
            check(&mut lab, &cases, &[0], &format!("{vocab} ids"));
            let (ids, _) = lab.draw(&cases, &[0]);
            for (id, keep) in ids.iter().zip(&allowed) {
                assert!(keep(*id as usize), "{vocab} ids: {id} is not allowed");
            }
        }
    }
    let mut case = lab.case(vec![1.0, 2.0, 3.0], &chain(40, 1.0, 0.0, 0.0));
    case.draw.allowed = Allowed::These(Arc::from([0b011u32]));
    assert_eq!(lab.draw(&[case], &[0]).0, [1], "the largest of those allowed");
    crate::util::assert_silent_on(&lab.device);
}

#[test]
fn a_shortlist_has_the_best_the_wanted_and_the_sum_of_all() {
    let Some(mut lab) = Lab::open() else { return };
    for vocab in [1, 100, 128, 129, 5000, 151_936] {
        let mut rows = Vec::new();
        let mut logits = Vec::new();
        for (i, allowed) in [Allowed::All, mask(vocab, |i| i % 3 == 0), mask(vocab, |i| i == 0)].into_iter().enumerate()
        {
            let ids = (0..vocab as u32).step_by(vocab / 7 + 1).collect();
            let request = ShortlistRequest { ids, allowed, temperature: [1.0, 0.6, 3.0][i] };
            let output = RowOutput::Shortlist(request);
            rows.push(Row { seq: i as u32, pos: 0, token: Token::Id(0), output, medium: None });
            let spread = [1.0, 20.0, 0.0][i];
            logits.push(lab.logits(vocab).iter().map(|x| x * spread - 50.0).collect::<Vec<f32>>());
        }
        let listed: Vec<&[f32]> = logits.iter().map(Vec::as_slice).collect();
        let (ids, _, lists) = lab.run(&rows, &listed, &[0; 3]);
        assert_eq!(lists.len(), 3);
        for (((row, logits), list), id) in rows.iter().zip(&logits).zip(&lists).zip(ids) {
            let RowOutput::Shortlist(request) = &row.output else { panic!() };
            let truth = Shortlist::of(logits, request);
            let possible = truth.best.iter().filter(|c| c.logit > f32::NEG_INFINITY).count();
            assert_eq!(list.best[..possible], truth.best[..possible], "{vocab} ids");
            assert!(list.best[possible..].iter().all(|c| c.logit == f32::NEG_INFINITY), "{vocab} ids");
            assert_eq!(list.wanted, truth.wanted, "{vocab} ids");
            assert!((list.ln_sum - truth.ln_sum).abs() < 1e-4, "{vocab} ids: {} {}", list.ln_sum, truth.ln_sum);
            assert_eq!(id, list.best[0].id);
        }
    }
    crate::util::assert_silent_on(&lab.device);
}

/// The only recent id, unread by the host, holds nearly all probability: whether it joins decides.
#[test]
fn an_id_that_the_host_has_not_read_is_recent_already() {
    let Some(mut lab) = Lab::open() else { return };
    let mut logits = vec![0.0; 3000];
    (logits[2999], logits[17]) = (20.0, 10.0);
    let options = SamplerOptions { temperature: 0.0, presence_penalty: 15.0, ..Default::default() };
    let mut case = lab.case(logits, &options);
    case.row.token = Token::Sampled;
    assert_eq!(lab.draw(std::slice::from_ref(&case), &[2999]), (vec![17], vec![17]));
    assert_eq!(lab.draw(std::slice::from_ref(&case), &[16]).0, [2999]);
    case.row.token = Token::Id(2999);
    assert_eq!(lab.draw(&[case], &[2999]).0, [2999], "an id the host knows is recent only if the host says so");
}

#[test]
fn rows_of_a_step_have_chains_of_their_own_and_the_last_of_a_sequence_stays() {
    let Some(mut lab) = Lab::open() else { return };
    let vocab = 5000;
    let mut cases = Vec::new();
    for (i, seq) in [2, 0, 2, 1, 2].into_iter().enumerate() {
        let logits = lab.logits(vocab);
        let mut options = chain([1, 40, 128, 5, 9][i], [1.0, 0.9, 0.5][i % 3], 0.0, [0.0, 1.0, 3.0][i % 3]);
        (options.repeat_penalty, options.banned) = (1.0 + i as f32 / 10.0, vec![i as u32; i]);
        let mut case = lab.case(logits, &options);
        case.draw.recent = vec![9; i];
        case.row.seq = seq;
        cases.push(case);
    }
    check(&mut lab, &cases, &[0; 4], "five rows");
    let (ids, sampled) = lab.draw(&cases, &[77; 4]);
    assert_eq!(sampled, [ids[1], ids[3], ids[4], 77]);
}

/// Pearson's statistic of counts against probabilities.
fn chi_square(counts: &[u32], probabilities: &[f64]) -> f64 {
    let n = f64::from(counts.iter().sum::<u32>());
    counts.iter().zip(probabilities).map(|(c, p)| (f64::from(*c) - n * p).powi(2) / (n * p)).sum()
}

#[test]
fn draws_of_the_device_follow_the_chain_s_distribution() {
    let Some(mut lab) = Lab::open() else { return };
    let logits: Vec<f32> = lab.logits(900);
    let options = chain(24, 0.97, 0.01, 0.7);
    let kept = |options: &SamplerOptions| -> (Vec<Candidate>, Vec<f64>) {
        let mut list = Vec::new();
        steps::collect(&logits, &mut list);
        steps::top_k(&mut list, options.top_k);
        steps::top_p(&mut list, options.top_p, 0);
        steps::min_p(&mut list, options.min_p, 0);
        steps::temperature(&mut list, options.temperature);
        let probabilities = steps::softmax(&list);
        (list, probabilities)
    };
    let (list, probabilities) = kept(&options);
    let mut counts = vec![0u32; list.len()];
    for _ in 0..40 {
        let cases: Vec<Case> = (0..256).map(|_| lab.case(logits.clone(), &options)).collect();
        for id in lab.draw(&cases, &[0]).0 {
            counts[list.iter().position(|c| c.id == id).unwrap()] += 1;
        }
    }
    // Of 22 or 23 degrees of freedom, one draw in a thousand is above 50.
    let found = chi_square(&counts, &probabilities);
    assert!((22..=24).contains(&list.len()) && found < 50.0, "{found} of {} candidates: {counts:?}", list.len());
    let (_, other) = kept(&SamplerOptions { temperature: 0.6, ..options });
    assert!(chi_square(&counts, &other) > 100.0, "another temperature would be told unfused");
}

#[test]
fn a_step_with_a_draw_that_is_refused_says_why() {
    let row = |token| Row { seq: 0, pos: 0, token, output: RowOutput::Id, medium: None };
    let draw = |options: SamplerOptions, recent| SampleRequest {
        options: Arc::new(options),
        recent,
        unit: 0.5,
        allowed: Allowed::All,
    };
    let fails = |draw| {
        let row = asking(&row(Token::Id(0)), &draw);
        let (beside, at) = request::sampling_inputs(&[&row], 4096);
        request::pack(&[&row], &beside, at, 4096, 0).unwrap_err().to_string()
    };
    assert!(fails(draw(chain(0, 1.0, 0.0, 1.0), vec![])).contains("top-k 0"));
    assert!(fails(draw(SamplerOptions::default(), vec![1; MAX_IDS + 1])).contains("too many recent ids"));
}
