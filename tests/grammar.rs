//! Generation under grammars and schemas: the demo model on the host and on the device.

use crate::util;
use pumex::conversation::{generate_within, Request, Stats, StopReason};
use pumex::engine::{CacheType, Debug, Options};
use pumex::gguf::Gguf;
use pumex::grammar::{self, GrammarMask, GrammarSource};
use pumex::sample::{Allowed, SampleRequest, Sampler, SamplerOptions};
use pumex::step::{Row, RowOutput, Runner, Token};
use pumex::text::Tokenizer;
use pumex::{Error, Result};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Ids and stop of a text that a source allows.
fn text(
    runner: &mut dyn Runner,
    tokenizer: &Tokenizer,
    source: &GrammarSource,
    chain: SamplerOptions,
) -> Result<(Vec<u32>, Stats)> {
    let vocabulary = grammar::vocabulary(tokenizer, &[])?;
    let mut constrained = GrammarMask::new(grammar::matcher(&vocabulary, source)?);
    let prompt = tokenizer.encode("Once upon a time", true, false)?;
    let stop = AtomicBool::new(false);
    let is_end = |id| tokenizer.is_end(id);
    let request = Request {
        prompt: &prompt,
        media: &pumex::step::Media::new(),
        start: 0,
        n_predict: 60,
        is_end: &is_end,
        stop: &stop,
        counters: false,
    };
    let mut ids = Vec::new();
    runner.forget(0, 0);
    let sampler = &mut Sampler::new(chain);
    let stats = generate_within(runner, &request, sampler, Some(&mut constrained), &mut |id| ids.push(id))?;
    Ok((ids, stats))
}

fn chains() -> [SamplerOptions; 2] {
    [0.0, 0.8].map(|temperature| SamplerOptions { temperature, seed: 7, ..SamplerOptions::default() })
}

/// Chains that take each way: on the device, from a shortlist, from all logits.
fn all_ways() -> Vec<SamplerOptions> {
    let usual = SamplerOptions { seed: 11, repeat_penalty: 1.2, ..SamplerOptions::default() };
    let dry = pumex::sample::DryOptions { multiplier: 0.8, ..Default::default() };
    let mut all = chains().to_vec();
    all.push(SamplerOptions { bias: vec![(300, 2.0), (301, -3.0)], banned: vec![12], ..usual.clone() });
    all.push(SamplerOptions { dry, xtc_probability: 0.5, ..usual.clone() });
    all.push(SamplerOptions { typical_p: 0.9, dynatemp_range: 0.3, ..usual.clone() });
    all.push(SamplerOptions { mirostat: 2, ..usual });
    all
}

const SCHEMA: &str = r#"{"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":99},
    "kind":{"enum":["cat","dog"]}},"required":["age","kind"],"additionalProperties":false}"#;

#[test]
fn a_schema_gives_its_json_and_the_same_on_host_and_device() {
    let gguf = Gguf::open(&util::demo_path()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let source = GrammarSource::JsonSchema(SCHEMA.to_string());
    let mut reference = util::reference(&gguf);
    let mut device = util::vulkan(&gguf, util::options(CacheType::F32));
    for chain in chains() {
        let (ids, stats) = text(&mut reference, &tokenizer, &source, chain.clone()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&tokenizer.decode(&ids)).unwrap();
        assert!(json["age"].as_u64().is_some_and(|age| age <= 99), "{json}");
        assert!(["cat", "dog"].contains(&json["kind"].as_str().unwrap()), "{json}");
        assert_eq!(stats.stop, StopReason::End);
    }
    let Some(device) = &mut device else { return };
    for (i, chain) in all_ways().into_iter().enumerate() {
        let (truth, _) = text(&mut reference, &tokenizer, &source, chain.clone()).unwrap();
        let before = device.counters().bytes_from_device;
        let (ids, stats) = text(device, &tokenizer, &source, chain).unwrap();
        assert_eq!(ids, truth, "chain {i}");
        assert_eq!(device.sequence_len(0), stats.held, "what ran ahead in vain is forgotten");
        let read = (device.counters().bytes_from_device - before) / ids.len() as u64;
        let most = [64, 64, 64, 3000, 3000, 6000][i];
        assert!(read <= most, "chain {i}: {read} bytes of each token");
    }
    util::assert_silent(device);
}

/// The forward pass of a step that waits for its mask is done again, too, and is told only once.
#[test]
fn a_megakernel_that_gives_up_under_a_grammar_changes_no_id() {
    let gguf = Gguf::open(&util::demo_path()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let source = GrammarSource::JsonSchema(SCHEMA.to_string());
    let run = |fault_at| {
        let debug = Debug { megakernel: Some(true), fault_at, ..Debug::default() };
        let mut runner = util::vulkan(&gguf, Options { debug, ..util::options(CacheType::F16) })?;
        if !runner.has_megakernel() {
            println!("skipped: {} has no megakernel", runner.device());
            return None;
        }
        let found = text(&mut runner, &tokenizer, &source, chains()[1].clone()).unwrap().0;
        assert_eq!(runner.has_megakernel(), fault_at.is_none(), "it goes on without");
        util::assert_silent(&runner);
        Some(found)
    };
    let Some(truth) = run(None) else { return };
    for fault_at in [1, 2, 7] {
        assert_eq!(run(Some(fault_at)), Some(truth.clone()), "step {fault_at}");
    }
}

#[test]
fn a_step_is_told_once_which_ids_are_allowed_and_none_starts_before() {
    let gguf = Gguf::open(&util::demo_path()).unwrap();
    let Some(mut runner) = util::vulkan(&gguf, util::options(CacheType::F16)) else { return };
    let row = |seq, pos, token, allowed| {
        let options = Arc::new(SamplerOptions { temperature: 0.0, ..Default::default() });
        let request = SampleRequest { options, recent: vec![], unit: 0.0, allowed };
        Row { seq, pos, token, output: RowOutput::Sample(request), medium: None }
    };
    let only = |id: u32| {
        let mut bits = vec![0u32; id as usize / 32 + 1];
        bits[id as usize / 32] = 1 << (id % 32);
        Allowed::These(bits.into())
    };
    let refused = |result: Result<()>| result.unwrap_err().to_string();
    let first = runner.start(&[row(0, 0, Token::Id(1), Allowed::Later)]).unwrap();
    let early = runner.start(&[row(0, 1, Token::Sampled, Allowed::All)]).map(|_| ());
    assert!(refused(early).contains("expected the one before to be told"));
    assert!(refused(runner.allow(first, &[])).contains("1 output rows, found 0"));
    runner.allow(first, &[only(77)]).unwrap();
    assert!(refused(runner.allow(first, &[only(78)])).contains("yet to be told"));
    let second = runner.start(&[row(0, 1, Token::Sampled, only(500))]).unwrap();
    assert_eq!(runner.finish(first).unwrap().ids, [77]);
    assert_eq!(runner.finish(second).unwrap().ids, [500]);
    // Told nothing, it gives nothing, and its sequence has no sampled id.
    let third = runner.start(&[row(0, 2, Token::Sampled, Allowed::Later)]).unwrap();
    assert!(runner.finish(third).unwrap().ids.is_empty());
    let after = runner.start(&[row(0, 3, Token::Sampled, Allowed::All)]).map(|_| ());
    assert!(refused(after).contains("sampled"));
    runner
        .start(&[row(0, 3, Token::Id(4), only(9))])
        .and_then(|t| runner.finish(t))
        .map(|o| assert_eq!(o.ids, [9]))
        .unwrap();
    let mut reference = util::reference(&gguf);
    let later = reference.start(&[row(0, 0, Token::Id(1), Allowed::Later)]).map(|_| ());
    assert!(refused(later).contains("chooses at once"));
    util::assert_silent(&runner);
}

#[test]
fn a_grammar_gives_its_text_and_ends_where_it_may() {
    let gguf = Gguf::open(&util::demo_path()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let mut runner = util::reference(&gguf);
    for chain in chains() {
        let source = GrammarSource::Gbnf("root ::= \" yes\" | \" no\" \"!\"{2}".to_string());
        let (ids, stats) = text(&mut runner, &tokenizer, &source, chain).unwrap();
        let found = tokenizer.decode(&ids);
        assert!([" yes", " no!!", "yes", "no!!"].contains(&found.as_str()), "{found:?}");
        assert_eq!(stats.stop, StopReason::End);
    }
}

#[test]
fn a_source_that_allows_nothing_is_one_error() {
    let gguf = Gguf::open(&util::demo_path()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let mut runner = util::reference(&gguf);
    for source in [
        GrammarSource::Gbnf("root ::= \"a\" root".to_string()),
        GrammarSource::JsonSchema(r#"{"type":"integer","minimum":3,"maximum":2}"#.to_string()),
        GrammarSource::JsonSchema("false".to_string()),
    ] {
        let error = text(&mut runner, &tokenizer, &source, SamplerOptions::default()).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Request(what) if !what.contains('\n')), "{error}");
    }
}
