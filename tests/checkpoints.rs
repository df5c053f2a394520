//! States to go back to: conversations with models that cannot go back by themselves answer as fresh ones do, and compute little anew.

use std::sync::atomic::AtomicBool;

use crate::seeded::Recipe;
use crate::util;
use pumex::conversation::{rows, Checkpoints};
use pumex::cpu::{Fast, FastSettings, Reference, RunnerSizes};
use pumex::dialogue::{Answer, AnswerOptions, Message, Speaker, Style, Talk};
use pumex::engine::{CacheType, Options};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::sample::{Sampler, SamplerOptions};
use pumex::step::{RowOutput, Runner, Want};
use pumex::text::Tokenizer;
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;

const TEMPLATE: &str = "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}\
                        {% if add_generation_prompt %}<|start|>assistant\n{% endif %}";
/// Recurrent states, windows, and both beside layers that keep all.
const MODELS: [&str; 5] = ["mamba", "rwkv7", "lfm2", "gemma3", "qwen3next"];

/// A seeded model with as many ids as the demo model's vocabulary has, whose tokenizer speaks for it.
pub fn model_of(name: &str, n_vocab: usize) -> Gguf {
    let mut recipe = Recipe::recipe_of(name);
    recipe.keys.insert("vocab_size".into(), n_vocab.into());
    for table in ["token_embd.weight", "output.weight"] {
        recipe.tensors.get_mut(table).into_iter().for_each(|dims| dims[1] = n_vocab as u64);
    }
    recipe.gguf("checkpoints.gguf")
}

/// Ids of the demo model's.
pub fn vocabulary() -> usize {
    Tokenizer::from_gguf(&Gguf::open(&util::demo_path()).unwrap()).unwrap().n_vocab()
}

fn reference(gguf: &Gguf, n_seqs: usize) -> Box<dyn Runner + '_> {
    Box::new(Reference::new(gguf, model::plan(gguf).unwrap(), 256, n_seqs, 16))
}

fn fast(gguf: &Gguf, n_seqs: usize) -> Box<dyn Runner + '_> {
    let f16 = Elements::Floats(Float::F16);
    let sizes = RunnerSizes { n_ctx: 256, n_seqs, max_rows: 16, cache_positions: None, k: f16, v: f16 };
    let settings = FastSettings { threads: Some(2), ..FastSettings::default() };
    Box::new(Fast::new(gguf, model::plan(gguf).unwrap(), sizes, &settings).unwrap())
}

struct Setting<'a> {
    speaker: Speaker<'a>,
    style: Style,
    talk: Talk,
}

impl<'a> Setting<'a> {
    fn new(runner: Box<dyn Runner + 'a>, checkpoints: u32) -> Setting<'a> {
        let tokenizer = Tokenizer::from_gguf(&Gguf::open(&util::demo_path()).unwrap()).unwrap();
        let sampler = Sampler::new(SamplerOptions { temperature: 0.0, ..SamplerOptions::default() });
        let style = Style::of(TEMPLATE, ("", ""), &tokenizer).unwrap();
        let speaker = Speaker::new(runner, tokenizer, sampler).with_checkpoints(1..1 + checkpoints);
        Setting { speaker, style, talk: Talk::default() }
    }

    fn answer(&mut self) -> Answer {
        let stop = AtomicBool::new(false);
        let asked = AnswerOptions { predict: 6, budget: None, stops: &[], keep: None, ignore_ends: true, stop: &stop };
        let prompt = self.style.prompt(self.talk.messages()).unwrap();
        let ids = self.style.ids(&self.speaker.tokenizer, &prompt).unwrap();
        self.speaker.answer(&self.style, (&prompt, ids), (&asked, None), &mut |_| Ok(())).unwrap()
    }
}

/// Holds a conversation beside fresh ones; gives how many tokens each turn fed.
fn converse<'a>(name: &str, made: impl Fn(u32) -> Box<dyn Runner + 'a>) -> Vec<(usize, usize)> {
    let mut going = Setting::new(made(4), 3);
    going.talk.set_system("You speak of kings and of their people, and of what came to pass in the days of old.");
    let mut fed = Vec::new();
    let mut turn = |going: &mut Setting<'_>, what: &str| {
        let answer = going.answer();
        let mut fresh = Setting::new(made(1), 0);
        fresh.talk = going.talk.clone();
        let truth = fresh.answer();
        assert_eq!(answer.message, truth.message, "{name}: {what}");
        assert_eq!(truth.fed, (truth.fed.1, answer.fed.1), "{name}: {what}");
        fed.push(answer.fed);
        answer.message
    };
    let ask = |going: &mut Setting<'_>, text: &str| going.talk.push(Message::new("user", text));
    ask(&mut going, "Who came to the land of the south, and what did he say to the people there?");
    let first = turn(&mut going, "first");
    // As a template does that leaves reasoning out of what was said before.
    going.talk.push(Message::new("assistant", format!("{} indeed", first.content)));
    ask(&mut going, "And then?");
    let second = turn(&mut going, "another answer is remembered");
    going.talk.push(second);
    assert!(going.talk.retry());
    let again = turn(&mut going, "answered anew");
    going.talk.push(again);
    going.talk.undo();
    ask(&mut going, "What else?");
    turn(&mut going, "another question");
    fed
}

#[test]
fn conversations_go_back_without_computing_all_anew() {
    let n_vocab = vocabulary();
    for name in MODELS {
        let gguf = model_of(name, n_vocab);
        assert!(!model::plan(&gguf).unwrap().keeps_all(), "{name}");
        type Make = for<'a> fn(&'a Gguf, usize) -> Box<dyn Runner + 'a>;
        for (kind, make) in [("reference", reference as Make), ("fast", fast as Make)] {
            let fed = converse(name, |n_seqs| make(&gguf, n_seqs as usize));
            println!("{name}, {kind}: fed {fed:?}");
            assert_eq!(fed[0].0, fed[0].1, "{name}, {kind}");
            // Behind the first question: its answer as it is remembered, the next question, what opens an answer.
            assert!(fed[1].0 < fed[1].1 - fed[0].1 + 12, "{name}, {kind}: {fed:?}");
            assert!(fed[2].0 < 12, "{name}, {kind}: only what opens an answer, {fed:?}");
            assert!(fed[3].0 < fed[3].1 - fed[0].1 + 12, "{name}, {kind}: {fed:?}");
        }
    }
}

#[test]
fn a_device_goes_back_likewise() {
    if !crate::util::has_device() {
        return;
    }
    let n_vocab = vocabulary();
    let gguf = model_of("lfm2", n_vocab);
    let made = |n_seqs: u32| {
        let options = Options { n_seqs: 1, checkpoints: n_seqs - 1, max_rows: 16, ..util::options(CacheType::F16) };
        Box::new(util::vulkan(&gguf, options).unwrap()) as Box<dyn Runner>
    };
    let fed = converse("lfm2", made);
    assert!(fed[2].0 < 12, "{fed:?}");
}

/// Ids of a text of its own.
fn text(seed: u32, len: u32) -> Vec<u32> {
    (0..len).map(|i| (seed * 31 + i * 7 + i * i) % 128).collect()
}

#[test]
fn checkpoints_are_bounded_and_the_one_used_longest_ago_goes() {
    let gguf = Recipe::recipe_of("mamba").gguf("checkpoints.gguf");
    let mut runner = Reference::new(&gguf, model::plan(&gguf).unwrap(), 256, 3, 64);
    let feed = |runner: &mut Reference<'_>, start: usize, ids: &[u32]| {
        runner.run(&rows(ids, start, |_| RowOutput::Logits), Want::Logits).unwrap().logits
    };
    let mut kept = Checkpoints::new(1..3);
    let whole = text(1, 60);
    let truth = feed(&mut runner, 0, &whole);
    runner.forget(0, 0);
    for cut in [10, 20, 30] {
        let from = runner.sequence_len(0);
        feed(&mut runner, from, &whole[from..cut]);
        kept.keep(&mut runner, 0, &whole[..cut]).unwrap();
        kept.keep(&mut runner, 0, &whole[..cut]).unwrap(); // known already
    }
    let lengths = |kept: &Checkpoints| kept.texts().map(<[u32]>::len).collect::<Vec<_>>();
    assert_eq!(lengths(&kept), [20, 30]);
    // The longest beginning, and not one that ends behind what is wanted.
    assert_eq!(kept.resume(&mut runner, 0, &whole[..30], &whole[..29]).unwrap(), 20);
    assert_eq!((runner.sequence_len(0), lengths(&kept)), (20, vec![30, 20]));
    let n_vocab = runner.n_vocab();
    assert_eq!(feed(&mut runner, 20, &whole[20..]), truth[20 * n_vocab..], "as if computed anew");
    // A sequence that needs no checkpoint stays as it is.
    assert_eq!(kept.resume(&mut runner, 0, &whole, &text(1, 60)).unwrap(), 60);
    let other = text(2, 40);
    assert_eq!(kept.resume(&mut runner, 0, &whole, &other).unwrap(), 0);
    kept.retain_beginnings(&mut runner, &whole[..25]);
    assert_eq!((lengths(&kept), runner.sequence_len(1) + runner.sequence_len(2)), (vec![20], 20));
    assert!(kept.let_oldest_go(&mut runner) && !kept.let_oldest_go(&mut runner));
    assert_eq!(runner.sequence_len(1) + runner.sequence_len(2), 0);
    let mut off = Checkpoints::default();
    feed(&mut runner, 0, &other);
    off.keep(&mut runner, 0, &other).unwrap();
    assert_eq!(off.texts().count(), 0);
}
