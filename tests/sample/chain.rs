//! Each step against a plain implementation of its formula, or against numbers that llama.cpp 0.5.0 gave.

use std::sync::Arc;

use pumex::sample::infill::{infill, TokenWords};
use pumex::sample::steps::{self, softmax, Candidate};
use pumex::sample::{
    choosers, dry, logprobs, shape, Allowed, Breakers, DryOptions, Rng, SampleRequest, Sampler, SamplerOptions,
    Shortlist, Step,
};

/// Logits of the vectors that llama.cpp computed.
const LOGITS: [f32; 8] = [1.0, 2.5, 0.3, 2.2, -1.0, 1.9, 0.0, -3.0];

fn list() -> Vec<Candidate> {
    let mut list = Vec::new();
    steps::collect(&LOGITS, &mut list);
    list
}

fn ids(list: &[Candidate]) -> Vec<u32> {
    list.iter().filter(|c| c.logit > f32::NEG_INFINITY).map(|c| c.id).collect()
}

fn ids_after_step(step: impl Fn(&mut Vec<Candidate>)) -> Vec<u32> {
    let mut list = list();
    step(&mut list);
    ids(&list)
}

#[test]
fn steps_keep_what_llama_cpp_keeps() {
    for (threshold, min_keep) in [(0.1, 0), (0.2, 0), (0.1, 6)] {
        assert_eq!(ids_after_step(|l| shape::xtc(l, 1.0, threshold, min_keep, 0.5)), [5, 0, 2, 6, 4, 7]);
    }
    assert_eq!(ids_after_step(|l| shape::xtc(l, 1.0, 0.1, 7, 0.5)).len(), 8, "fewer than min_keep would be left");
    assert_eq!(ids_after_step(|l| shape::xtc(l, 0.4, 0.1, 0, 0.5)).len(), 8, "not this time");
    assert_eq!(ids_after_step(|l| shape::typical(l, 0.5, 0)), [5, 3, 1]);
    assert_eq!(ids_after_step(|l| shape::typical(l, 0.5, 4)), [5, 3, 1, 0]);
    assert_eq!(ids_after_step(|l| shape::top_n_sigma(l, 1.0)), [0, 1, 3, 5]);
    assert_eq!(ids_after_step(|l| steps::min_p(l, 0.5, 5)), [1, 3, 5, 0, 2]);
    assert_eq!(ids_after_step(|l| steps::top_p(l, 0.5, 4)), [1, 3, 5, 0]);
}

#[test]
fn dynamic_temperature_is_llama_cpp_s() {
    for (t, range, exponent, best) in [(0.8, 0.5, 1.0, 2.40025f32), (1.0, 0.7, 2.0, 2.33673)] {
        let mut list = list();
        shape::dynamic_temperature(&mut list, t, range, exponent);
        assert!((list[1].logit - best).abs() < 1e-4, "{} {best}", list[1].logit);
        assert!((list[7].logit / list[1].logit + 3.0 / 2.5).abs() < 1e-5);
    }
}

#[test]
fn dry_takes_off_what_llama_cpp_takes_off() {
    let texts: [&[u32]; 5] = [
        &[1, 2, 3, 3, 2, 3, 4, 1, 2, 3],
        &[1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4],
        &[1, 2, 6, 3, 1, 2, 6, 3, 1, 2],
        &[0; 6],
        &[5, 1, 2, 7, 3, 5, 1, 2, 7, 3, 5, 1, 2],
    ];
    let breakers: [&[u32]; 5] = [&[], &[6], &[1], &[2, 7], &[3]];
    for line in include_str!("../golden/dry.txt").lines() {
        let numbers: Vec<f64> = line.split(' ').map(|x| x.parse().unwrap()).collect();
        let mut known = Breakers::default();
        if let [head, tail @ ..] = breakers[numbers[1] as usize] {
            known.add(*head, tail.to_vec());
        }
        let options = DryOptions {
            multiplier: 0.8,
            base: 1.75,
            allowed_length: numbers[2] as u32,
            last_n: numbers[3] as u32,
            breakers: Arc::new(known),
        };
        let found = dry::penalties(texts[numbers[0] as usize], &options);
        assert_eq!(found.len(), (numbers.len() - 4) / 2, "{line}: {found:?}");
        for pair in numbers[4..].chunks(2) {
            assert!((f64::from(found[&(pair[0] as u32)]) - pair[1]).abs() < 1e-4, "{line}: {found:?}");
        }
    }
}

#[test]
fn breakers_are_found_inside_tokens_and_across_them() {
    let pieces = ["a", "\n", "b\n", "END", "xE", "ND", "N", "D"];
    let encode = |rest: &[u8]| match rest {
        b"ND" => vec![5],
        other => panic!("{other:?}"),
    };
    let found = Breakers::of_texts(&["\n", "END", ""], 8, |id| pieces[id as usize].into(), encode);
    let mut want = Breakers::default();
    [1, 2, 3].into_iter().for_each(|id| want.add(id, vec![]));
    want.add(4, vec![5]);
    assert_eq!(found, want);
}

#[test]
fn mirostat_keeps_as_many_as_llama_cpp_and_learns_from_the_surprise() {
    let kept = [[1, 1, 2, 2, 3], [1, 1, 2, 3, 3]];
    for (version, counts) in [(1, kept[0]), (2, kept[1])] {
        for (tau, count) in [0.5, 0.8, 1.0, 1.25, 1.5].into_iter().zip(counts) {
            let options = SamplerOptions { mirostat: version, mirostat_tau: tau, ..Default::default() };
            let (mut mirostat, mut list) = (choosers::Mirostat::new(&options), list());
            let id = mirostat.choose(&mut list, &options, 8, 0.0);
            assert_eq!((id, list.len()), (1, count), "mirostat {version}, tau {tau}");
            let surprise = -softmax(&list)[0].log2();
            let tau = f64::from(tau);
            assert!((mirostat.mu - (2.0 * tau - 0.1 * (surprise - tau))).abs() < 1e-6);
        }
    }
}

#[test]
fn adaptive_p_changes_logits_as_llama_cpp_and_comes_to_its_target() {
    for (target, want) in [(0.2, [3.88051f32, 3.04892, 3.15335]), (0.5, [-3.12712, 3.60297, -4.26832])] {
        let options = SamplerOptions { adaptive_target: target, ..Default::default() };
        let mut list = list();
        choosers::Adaptive::new(&options).choose(&mut list, &options, 0.5);
        for (candidate, want) in list.iter().zip(want) {
            assert!((candidate.logit - want).abs() < 1e-3, "{target}: {list:?}");
        }
    }
    let order = [Step::defaults(), vec![Step::AdaptiveP]].concat();
    for target in [0.1, 0.35] {
        let options = SamplerOptions {
            adaptive_target: target,
            temperature: 1.0,
            min_p: 0.0,
            top_p: 1.0,
            seed: 5,
            order: order.clone(),
            ..Default::default()
        };
        let (mut sampler, p) = (Sampler::new(options), softmax(&list()));
        let mut sum = 0.0;
        for _ in 0..2000 {
            let id = sampler.sample(&LOGITS).unwrap();
            sampler.accept(id);
            sum += p[id as usize];
        }
        assert!((sum / 2000.0 - f64::from(target)).abs() < 0.03, "{target}: {}", sum / 2000.0);
    }
}

#[test]
fn infill_ends_where_ends_are_likely_and_merges_beginnings() {
    let mut words = TokenWords::default();
    for (text, end) in [("", true), ("a", false), ("ab", false), ("b", false)] {
        words.push(text.as_bytes(), end);
    }
    words.end = Some(0);
    let of = |p: [f32; 4]| {
        let mut list = Vec::new();
        steps::collect(&p.map(f32::ln), &mut list);
        infill(&mut list, &words);
        ids(&list)
    };
    assert_eq!(of([0.3, 0.3, 0.3, 0.1]), [0], "ends alone");
    assert_eq!(of([0.01, 0.5, 0.3, 0.19]), [1, 0], "what begins another text has its probability");
}

/// A chain of random options, extreme ones among them.
fn wild(rng: &mut Rng) -> SamplerOptions {
    let values = [0.0, 0.5, 1.0, 1e-30, 1e30, -1.0, f32::MAX, 0.1, 2.0, f32::MIN_POSITIVE];
    let mut x = || values[rng.next_below(10) as usize];
    let mut o = SamplerOptions {
        temperature: x(),
        top_p: x(),
        min_p: x(),
        repeat_penalty: x(),
        frequency_penalty: x(),
        presence_penalty: x(),
        top_n_sigma: x(),
        typical_p: x(),
        xtc_probability: x(),
        xtc_threshold: x(),
        dynatemp_range: x(),
        dynatemp_exponent: x(),
        mirostat_tau: x(),
        mirostat_eta: x(),
        adaptive_target: x(),
        adaptive_decay: x(),
        dry: DryOptions { multiplier: x(), base: x(), ..Default::default() },
        ..Default::default()
    };
    o.dry.allowed_length = rng.next_below(3);
    o.top_k = rng.next_below(5) as i32 - 1;
    o.min_keep = [0, 1, 3, usize::MAX][rng.next_below(4) as usize];
    o.mirostat = [0, 0, 0, 1, 2][rng.next_below(5) as usize];
    o.bias = vec![(rng.next_below(9), 1e38), (rng.next_below(9), -3.0)];
    o.order = (0..rng.next_below(14)).map(|_| Step::ALL[rng.next_below(11) as usize].0).collect();
    o.seed = i64::from(rng.next_below(1000));
    o
}

#[test]
fn no_options_however_extreme_leave_nothing_to_draw_or_panic() {
    let mut rng = Rng::new(3);
    let rows: [&[f32]; 5] = [
        &LOGITS,
        &[0.0; 8],
        &[f32::NEG_INFINITY; 8],
        &[f32::INFINITY, 1.0, f32::INFINITY],
        &[f32::MAX, -f32::MAX, 0.0],
    ];
    for _ in 0..3000 {
        let options = wild(&mut rng);
        let draws = |row: &[f32]| {
            let mut sampler = Sampler::new(options.clone());
            let mut one = || {
                let id = sampler.sample(row).unwrap();
                sampler.accept(id);
                id
            };
            (0..12).map(|_| one()).collect::<Vec<u32>>()
        };
        for row in rows {
            let found = draws(row);
            assert!(found.iter().all(|id| (*id as usize) < row.len()), "{options:?}: {found:?}");
            assert_eq!(found, draws(row), "a seed repeats its draws");
        }
    }
}

#[test]
fn the_order_of_the_steps_matters_and_names_and_letters_say_it() {
    let draw = |order: Vec<Step>| {
        let options =
            SamplerOptions { top_p: 0.55, top_k: 0, min_p: 0.0, temperature: 4.0, order, ..Default::default() };
        let request = SampleRequest { options: Arc::new(options), recent: vec![], unit: 0.999, allowed: Allowed::All };
        request.pick(&LOGITS, None, &mut Vec::new()).unwrap()
    };
    assert_eq!(draw(Step::from_letters("pt").unwrap()), 3);
    assert_eq!(draw(Step::from_letters("tp").unwrap()), 0, "heat first: more candidates make up the share");
    assert_eq!(Step::from_letters("edskypmxt"), Ok(Step::defaults()));
    assert_eq!(Step::from_names("top-k; minp;typ;nucleus;temp"), Step::from_letters("kmypt"));
    assert!(Step::from_names("top_k;tpo_p").unwrap_err().contains("\"tpo_p\": expected one of penalties, dry"));
    assert!(Step::from_letters("kz").unwrap_err().contains("e penalties"));
    let off = SamplerOptions { top_k: 1, order: vec![], repeat_penalty: 2.0, temperature: 0.0, ..Default::default() };
    let off = off.disable_neutral_steps();
    assert!((off.top_k, off.temperature) == (0, 1.0) && !off.has_penalties() && !off.is_greedy());
}

#[test]
fn biases_come_first_and_ban() {
    let greedy = |bias| Sampler::new(SamplerOptions { temperature: 0.0, bias, ..Default::default() }).sample(&LOGITS);
    assert_eq!(greedy(vec![]), Some(1));
    assert_eq!(greedy(vec![(7, 6.0)]), Some(7));
    assert_eq!(greedy(vec![(1, f32::NEG_INFINITY), (3, -1.0), (99, 5.0)]), Some(5));
}

#[test]
fn draws_of_a_whole_chain_follow_its_distribution() {
    let options = SamplerOptions {
        seed: 11,
        typical_p: 0.9,
        xtc_probability: 0.5,
        xtc_threshold: 0.25,
        min_p: 0.02,
        temperature: 1.2,
        ..Default::default()
    };
    // Half of the time XTC leaves out the likely ones but one: two distributions, half each.
    let kept = |chance: f64| {
        let mut list = list();
        shape::typical(&mut list, 0.9, 0);
        steps::top_p(&mut list, 0.95, 0);
        steps::min_p(&mut list, 0.02, 0);
        shape::xtc(&mut list, 0.5, 0.25, 0, chance);
        steps::temperature(&mut list, 1.2);
        let p = softmax(&list);
        let at = |id: u32| list.iter().position(|c| c.id == id).map_or(0.0, |i| p[i]);
        (0..8).map(at).collect::<Vec<f64>>()
    };
    let expected: Vec<f64> = kept(0.0).iter().zip(kept(1.0)).map(|(a, b)| 20_000.0 * (a + b) / 2.0).collect();
    let (mut sampler, mut counts) = (Sampler::new(options), [0u32; 8]);
    (0..20_000).for_each(|_| counts[sampler.sample(&LOGITS).unwrap() as usize] += 1);
    let off = |(n, e): (&u32, &f64)| if *e > 0.0 { (f64::from(*n) - e).powi(2) / e } else { f64::from(*n) * 1e9 };
    let square: f64 = counts.iter().zip(&expected).map(off).sum();
    assert!(square < 24.3, "{square}: {counts:?}, expected {expected:?}"); // one in a thousand, of 7 degrees
}

#[test]
fn log_probabilities_are_those_of_the_raw_logits() {
    let options = SamplerOptions { logprobs: Some(3), temperature: 0.0, bias: vec![(7, 90.0)], ..Default::default() };
    let mut sampler = Sampler::new(options);
    assert!(sampler.options().needs_sampler().is_some() && !sampler.options().is_argmax());
    let id = sampler.sample(&LOGITS).unwrap();
    assert!(sampler.take_logprobs().is_empty(), "not accepted yet");
    let _ = sampler.sample(&LOGITS);
    sampler.accept(id);
    let found = sampler.take_logprobs();
    let total = LOGITS.iter().map(|x| f64::from(*x).exp()).sum::<f64>().ln();
    let of = |id: u32| f64::from(LOGITS[id as usize]) - total;
    assert_eq!(found.len(), 1);
    assert!(found[0].id == 7 && (found[0].logprob - of(7)).abs() < 1e-12);
    assert_eq!(found[0].top.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 3, 5]);
    assert!(found[0].top.iter().all(|(id, p)| (p - of(*id)).abs() < 1e-12));
    assert!(sampler.take_logprobs().is_empty());
    assert_eq!(logprobs(&LOGITS, 8, 0), None);
}

/// Whatever the chain, what a shortlist gives is what all logits give, with the same random numbers; where the list does not suffice,
/// nothing has been drawn.
#[test]
fn a_shortlist_gives_what_all_logits_give() {
    let mut rng = Rng::new(5);
    let (mut listed, mut short) = (0, 0);
    for round in 0..3000 {
        let vocab: u32 = [3, 100, 128, 129, 700, 3000][round % 6];
        let spread = [1.0, 8.0, 0.0, 30.0][round / 6 % 4];
        let logits: Vec<f32> = (0..vocab).map(|_| ((rng.unit() - 0.5) * spread * 8.0) as f32).collect();
        let pick = |n: u32, rng: &mut Rng| rng.next_below(n) as usize;
        let mut o = SamplerOptions { seed: round as i64, ..Default::default() };
        o.top_k = [1, 40, 100, 0, 0][pick(5, &mut rng)];
        (o.top_p, o.min_p) = [(0.95, 0.05), (1.0, 0.05), (0.5, 0.0), (0.99, 0.0), (1.0, 0.001)][pick(5, &mut rng)];
        o.min_keep = [0, 0, 3][pick(3, &mut rng)];
        o.temperature = [0.8, 0.0, 1.5, 0.8][pick(4, &mut rng)];
        o.repeat_penalty = [1.0, 1.5, 0.5][pick(3, &mut rng)];
        o.presence_penalty = [0.0, 3.0, -3.0][pick(3, &mut rng)];
        o.dry.multiplier = [0.0, 2.0][pick(2, &mut rng)];
        o.xtc_probability = [0.0, 0.7][pick(2, &mut rng)];
        o.typical_p = [1.0, 0.8][pick(2, &mut rng)];
        o.dynatemp_range = [0.0, 0.4][pick(2, &mut rng)];
        o.mirostat = [0, 0, 1, 2][pick(4, &mut rng)];
        o.mirostat_tau = [5.0, 2.0][pick(2, &mut rng)];
        o.logprobs = [None, Some(3)][pick(2, &mut rng)];
        o.bias = [vec![], vec![(1, 4.0), (2, -100.0), (0, 0.5)]][pick(2, &mut rng)].clone();
        o.banned = [vec![], vec![0, vocab - 1]][pick(2, &mut rng)].clone();
        let mut a = Sampler::new(o);
        (0..rng.next_below(90)).for_each(|_| a.accept(rng.next_below(vocab)));
        let mut b = a.clone();
        let bits = (0..vocab.div_ceil(32)).map(|_| rng.bits() as u32 | 1).collect::<Vec<_>>();
        let allowed = if round % 4 == 1 { Allowed::These(bits.into()) } else { Allowed::All };
        let Some(request) = a.shortlist(allowed.clone()) else { continue };
        let list = Shortlist::of(&logits, &request);
        let found = a.sample_listed(&list, &allowed);
        let truth = b.sample_of(&logits, allowed.clone());
        match found {
            Some(id) => assert_eq!(Some(id), truth, "round {round}: {:?}", b.options()),
            None => assert_eq!(a.sample_of(&logits, allowed), truth, "round {round}: random numbers are as before"),
        }
        if found.is_some() {
            listed += 1;
            let id = truth.unwrap();
            a.accept(id);
            b.accept(id);
            let (a, b) = (a.take_logprobs(), b.take_logprobs());
            assert_eq!(a.len(), b.len());
            for (a, b) in a.iter().zip(&b) {
                assert_eq!(
                    a.top.iter().map(|t| t.0).collect::<Vec<_>>(),
                    b.top.iter().map(|t| t.0).collect::<Vec<_>>()
                );
                assert!((a.logprob - b.logprob).abs() < 1e-9);
            }
        } else {
            short += 1;
        }
    }
    assert!(listed > 1500 && short > 100, "{listed} suffice, {short} do not");
}

#[test]
fn chains_that_look_at_the_whole_distribution_need_all_logits() {
    let listed = |change: &dyn Fn(&mut SamplerOptions)| {
        let mut o = SamplerOptions::default();
        change(&mut o);
        Sampler::new(o).shortlist(Allowed::All).is_some()
    };
    assert!(listed(&|_| ()) && listed(&|o| o.temperature = 0.0));
    assert!(listed(&|o| (o.dry.multiplier, o.xtc_probability) = (1.0, 0.5)));
    assert!(listed(&|o| o.top_k = 0) && listed(&|o| (o.top_k, o.top_p) = (0, 1.0)), "by probability");
    assert!(listed(&|o| o.mirostat = 2) && listed(&|o| o.mirostat = 1));
    assert!(!listed(&|o| o.top_k = 101));
    assert!(!listed(&|o| o.top_n_sigma = 1.0), "the deviation is that of all logits");
    assert!(!listed(&|o| (o.top_k, o.typical_p) = (0, 0.9)));
    assert!(listed(&|o| o.order = Step::from_letters("pk").unwrap()));
    assert!(!listed(&|o| o.order = Step::from_letters("tp").unwrap()));
}
