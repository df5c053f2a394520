//! Generation under grammars and schemas: the demo model on the host and on the device.

use crate::util;
use pumex::conversation::{generate_within, Request, Stats, StopReason};
use pumex::engine::CacheType;
use pumex::gguf::Gguf;
use pumex::grammar::{self, Constrained, Source};
use pumex::sample::{Sampler, SamplerOptions};
use pumex::step::Runner;
use pumex::text::Tokenizer;
use pumex::{Error, Result};
use std::sync::atomic::AtomicBool;

/// Ids and stop of a text that a source allows.
fn text(
    runner: &mut dyn Runner,
    tokenizer: &Tokenizer,
    source: &Source,
    chain: SamplerOptions,
) -> Result<(Vec<u32>, Stats)> {
    let vocabulary = grammar::vocabulary(tokenizer)?;
    let mut constrained = Constrained::new(grammar::matcher(&vocabulary, source)?);
    let prompt = tokenizer.encode("Once upon a time", true, false)?;
    let stop = AtomicBool::new(false);
    let is_end = |id| tokenizer.is_end(id);
    let request = Request { prompt: &prompt, start: 0, n_predict: 60, is_end: &is_end, stop: &stop, counters: false };
    let mut ids = Vec::new();
    runner.forget(0, 0);
    let sampler = &mut Sampler::new(chain);
    let stats = generate_within(runner, &request, sampler, Some(&mut constrained), &mut |id| ids.push(id))?;
    Ok((ids, stats))
}

fn chains() -> [SamplerOptions; 2] {
    [0.0, 0.8].map(|temperature| SamplerOptions { temperature, seed: 7, ..SamplerOptions::default() })
}

const SCHEMA: &str = r#"{"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":99},
    "kind":{"enum":["cat","dog"]}},"required":["age","kind"],"additionalProperties":false}"#;

#[test]
fn a_schema_gives_its_json_and_the_same_on_host_and_device() {
    let gguf = Gguf::open(&util::demo_path()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let source = Source::JsonSchema(SCHEMA.to_string());
    let mut reference = util::reference(&gguf);
    let mut device = util::vulkan(&gguf, util::options(CacheType::F32));
    for chain in chains() {
        let (ids, stats) = text(&mut reference, &tokenizer, &source, chain.clone()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&tokenizer.decode(&ids)).unwrap();
        assert!(json["age"].as_u64().is_some_and(|age| age <= 99), "{json}");
        assert!(["cat", "dog"].contains(&json["kind"].as_str().unwrap()), "{json}");
        assert_eq!(stats.stop, StopReason::End);
        if let Some(device) = &mut device {
            assert_eq!(text(device, &tokenizer, &source, chain).unwrap().0, ids);
        }
    }
}

#[test]
fn a_grammar_gives_its_text_and_ends_where_it_may() {
    let gguf = Gguf::open(&util::demo_path()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let mut runner = util::reference(&gguf);
    for chain in chains() {
        let source = Source::Gbnf("root ::= \" yes\" | \" no\" \"!\"{2}".to_string());
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
        Source::Gbnf("root ::= \"a\" root".to_string()),
        Source::JsonSchema(r#"{"type":"integer","minimum":3,"maximum":2}"#.to_string()),
        Source::JsonSchema("false".to_string()),
    ] {
        let error = text(&mut runner, &tokenizer, &source, SamplerOptions::default()).map(|_| ()).unwrap_err();
        assert!(matches!(&error, Error::Request(what) if !what.contains('\n')), "{error}");
    }
}
