//! What requests get is what each would get alone.

use super::{all, ask, exact, greedy, load, message, prompts, run, settings, All};
use pumex::conversation::{generate, Request};
use pumex::gguf::Gguf;
use pumex::sample::{Sampler, SamplerOptions};
use pumex::server::ModelSettings;
use pumex::text::Tokenizer;
use pumex_serve::engine::{
    Chat, Constraint, FinishReason, Generate, Model, Prompt, PromptPart, RefusalKind, Sampling, ToolChoice,
};
use serde_json::json;
use std::sync::atomic::AtomicBool;

/// What `pumex run` gives: ids of a greedy continuation.
fn alone(prompt: &str, tokens: i64) -> Vec<u32> {
    let gguf = Gguf::open(&crate::util::demo_path()).unwrap();
    let options = pumex::engine::Options { n_seqs: 1, n_ctx: Some(256), ..exact(1).engine };
    let mut runner = pumex::engine::load(&gguf, &options, &mut |_, _| ()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let ids = tokenizer.encode(prompt, tokenizer.add_bos(), true).unwrap();
    let mut out = Vec::new();
    let request = Request {
        prompt: &ids,
        media: &pumex::step::Media::new(),
        start: 0,
        n_predict: tokens,
        is_end: &|id| tokenizer.is_end(id),
        stop: &AtomicBool::new(false),
        counters: false,
    };
    let mut sampler = Sampler::new(SamplerOptions { temperature: 0.0, ..SamplerOptions::default() });
    generate(&mut *runner, &request, &mut sampler, &mut |id| out.push(id)).unwrap();
    out
}

#[test]
fn sixteen_at_once_get_what_each_gets_alone() {
    let model = load(exact(16));
    let prompts = prompts(16);
    let waiting: Vec<_> = prompts.iter().map(|prompt| ask(&model, greedy(prompt, 24))).collect();
    let found: Vec<All> = waiting.into_iter().map(all).collect();
    for (prompt, found) in prompts.iter().zip(&found) {
        assert_eq!(found.answers[0].ids, alone(prompt, 24), "{prompt}");
        assert_eq!(found.finish().reason, FinishReason::Length, "{prompt}");
    }
    let metrics = model.metrics();
    assert!(
        metrics.requests_done == 16 && metrics.busy_slot_steps > metrics.steps * 2,
        "steps are shared: {metrics:?}"
    );
}

#[test]
fn answers_to_one_prompt_share_it_and_have_seeds_of_their_own() {
    let model = load(exact(4));
    let warm = |seed: i64, n: usize| {
        let sampling = Sampling { temperature: Some(1.5), seed: Some(seed), ..Sampling::default() };
        Generate { n, sampling, ..greedy("And it came to pass in those days", 12) }
    };
    let three = run(&model, warm(7, 3));
    let texts: Vec<&str> = three.answers.iter().map(|a| a.text.as_str()).collect();
    assert!(texts.len() == 3 && texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
    let second = run(&model, Generate { cache_prompt: false, ..warm(8, 1) });
    assert_eq!(second.text(), texts[1], "answer 1 of seed 7 is answer 0 of seed 8");
    let again = run(&model, warm(7, 3));
    assert_eq!(again.cached, three.finish().prompt_tokens - 1, "all find the prompt again");
    assert_eq!(again.answers.len(), 3);
    let mut slots = three.slots.clone();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), 3);
    let many = model.generate(warm(1, 5), tokio::sync::mpsc::channel(1).0).unwrap_err();
    assert_eq!((many.kind, many.field.as_deref()), (RefusalKind::Invalid, Some("n")));
}

#[test]
fn what_ends_an_answer_is_not_part_of_it_however_its_tokens_fall() {
    let model = load(settings(2));
    let whole = run(&model, greedy("And it came to pass", 40));
    let text = whole.text();
    // Every stretch of a few bytes, within tokens and across them.
    for (from, len) in [(3, 2), (10, 5), (17, 9), (30, 3)] {
        let stop = &text[from..from + len];
        let before = &text[..text.find(stop).unwrap()];
        let found =
            run(&model, Generate { stop: vec!["never".into(), stop.into()], ..greedy("And it came to pass", 40) });
        assert_eq!((found.text(), &found.finish().reason), (before, &FinishReason::Stop(stop.into())));
    }
}

#[test]
fn grammars_and_schemas_hold() {
    let model = load(settings(2));
    let within = |constraint| Generate { constraint: Some(constraint), ..greedy("Answer:", 60) };
    let found = run(&model, within(Constraint::Grammar("root ::= (\"yes\" | \"no\") \" sir\"".into())));
    assert!(["yes sir", "no sir"].contains(&found.text()), "{found:?}");
    assert_eq!(found.finish().reason, FinishReason::End);
    let schema = json!({ "type": "object", "properties": { "n": { "enum": [1, 2] } }, "required": ["n"], "additionalProperties": false });
    let found = run(&model, within(Constraint::Schema(schema)));
    let value: serde_json::Value = serde_json::from_str(found.text()).unwrap();
    assert!(value["n"] == 1 || value["n"] == 2, "{value}");
    let wrong = model.generate(within(Constraint::Grammar("root ::= (".into())), tokio::sync::mpsc::channel(1).0);
    assert_eq!(wrong.unwrap_err().field.as_deref(), Some("grammar"));
}

/// Writes functions and calls between marks.
pub const CALLS: &str = "{% if tools %}{{ tools|tojson }} in <tool_call> </tool_call>{% endif %}\
                     {% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}\
                     {% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

#[test]
fn calls_are_of_the_functions_that_were_given() {
    let mut wide = ModelSettings { chat_template: Some(CALLS.into()), ..settings(1) };
    wide.engine.n_ctx = Some(1024);
    let model = load(wide);
    let function = json!({ "name": "get", "parameters": {
        "type": "object", "properties": { "n": { "enum": [3, 4] } }, "required": ["n"], "additionalProperties": false } });
    let Prompt::Chat(chat) = message("go", 1).prompt else { panic!() };
    let chat = |tool_choice| Chat {
        tools: vec![json!({ "type": "function", "function": function.clone() })],
        tool_choice,
        parallel_tool_calls: Some(false),
        ..chat.clone()
    };
    let request = |choice| Generate { prompt: Prompt::Chat(chat(choice)), ..message("", 400) };
    for choice in [ToolChoice::Required, ToolChoice::Function("get".into())] {
        let found = run(&model, request(choice));
        let (name, arguments) = &found.answers[0].calls[0];
        let value: serde_json::Value = serde_json::from_str(arguments).unwrap();
        assert!(name == "get" && (value["n"] == 3 || value["n"] == 4), "{found:?}");
        assert_eq!((&found.finish().reason, found.text()), (&FinishReason::ToolCalls, ""));
    }
    let unknown = model.generate(request(ToolChoice::Function("put".into())), tokio::sync::mpsc::channel(1).0);
    assert!(unknown.unwrap_err().message.contains("put"));
    let (without, with) = (chat(ToolChoice::None), chat(ToolChoice::Auto));
    assert!(model.render(&without).unwrap().1 < model.render(&with).unwrap().1, "no function is told of");
}

#[test]
fn messages_spell_no_special_tokens_and_prompts_do() {
    let model = load(ModelSettings { chat_template: Some("chatml".into()), ..settings(1) });
    let marked = run(&model, message("a<|end_of_text|>b", 1));
    assert!(marked.prompt.contains("a<|end_of_text|>b"));
    let raw = |text: &str| model.tokenize(text, false, true).unwrap().len();
    assert_eq!(raw("<|end_of_text|>"), 1);
    assert!(marked.finish().prompt_tokens > raw(&marked.prompt), "the message's bytes are no token");
}

#[test]
fn reasoning_ends_when_that_is_asked_for() {
    let template = "{%- for m in messages -%}{{ m.role }}: {% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n\
                    </think>\n\n{% endif %}{{ m.content }}\n{% endfor -%}{%- if add_generation_prompt -%}assistant: <think>\n{%- endif -%}";
    let model = load(ModelSettings { chat_template: Some(template.into()), ..settings(1) });
    let switch = pumex_serve::engine::RequestSwitch::default();
    let request = || Generate { end_reasoning: Some(switch.clone()), ..message("Who?", 12) };
    let found = run(&model, request());
    assert_eq!((found.finish().reasoning_tokens, found.text()), (12, ""));
    switch.set();
    let found = run(&model, request());
    assert!(found.finish().reasoning_tokens < 3 && !found.text().is_empty(), "{found:?}");
}

#[test]
fn log_probabilities_are_told_with_the_best() {
    let model = load(settings(1));
    let (events, mut receiver) = tokio::sync::mpsc::channel(64);
    model.generate(Generate { logprobs: Some(3), ..greedy("And it came to pass", 3) }, events).unwrap();
    let mut seen = 0;
    while let Some(event) = receiver.blocking_recv() {
        let pumex_serve::engine::Event::Piece { tokens, .. } = event else { continue };
        for token in tokens {
            assert_eq!((token.top.len(), token.top[0].id, Some(token.top[0].logprob)), (3, token.id, token.logprob));
            assert!(token.logprob.unwrap() < 0.0);
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}

#[test]
fn what_is_wrong_with_a_request_is_found_before_it_starts() {
    let model = load(settings(1));
    let refused = |request: Generate| model.generate(request, tokio::sync::mpsc::channel(1).0).unwrap_err();
    let long = "word ".repeat(400);
    let error = refused(greedy(&long, 1));
    assert_eq!((error.kind, error.tokens.map(|t| t.1)), (RefusalKind::ContextExceeded, Some(256)));
    let of = |sampling| Generate { sampling, ..greedy("a", 1) };
    let penalty = refused(of(Sampling { repeat_penalty: Some(0.0), ..Sampling::default() }));
    assert_eq!(penalty.field.as_deref(), Some("repeat_penalty"));
    let ids = Prompt::Parts(vec![PromptPart::Token(1 << 20)]);
    assert_eq!(refused(Generate::new(ids)).field.as_deref(), Some("prompt"));
    let mut twice = message("a", 1);
    let Prompt::Chat(chat) = &mut twice.prompt else { panic!() };
    chat.messages
        .extend([json!({ "role": "assistant", "content": "b" }), json!({ "role": "assistant", "content": "c" })]);
    assert_eq!(refused(twice).field.as_deref(), Some("messages"));
}

#[test]
fn proposals_of_a_small_model_change_nothing() {
    let draft = pumex::server::DraftModel {
        open: std::sync::Arc::new(|| Gguf::open(&crate::util::demo_path())),
        engine: exact(1).engine,
        most: 4,
        least: 0,
    };
    let (plain, drafted) = (load(exact(4)), load(ModelSettings { draft: Some(draft), ..exact(4) }));
    let warm = |temperature, seed| {
        let sampling = Sampling { temperature: Some(temperature), seed: Some(seed), ..Sampling::default() };
        Generate { sampling, ..greedy("And it came to pass", 40) }
    };
    for (temperature, seed) in [(0.0, 1), (0.7, 2), (2.0, 3)] {
        let (expected, found) = (run(&plain, warm(temperature, seed)), run(&drafted, warm(temperature, seed)));
        assert_eq!(found.answers[0].ids, expected.answers[0].ids, "{temperature}");
        let timings = found.finish().timings;
        assert!(timings.draft_tokens > 0 && timings.draft_accepted <= timings.draft_tokens, "{timings:?}");
        if temperature == 0.0 {
            assert_eq!(timings.draft_accepted, timings.draft_tokens, "the same model says the same");
            let at = drafted.metrics().draft_accepted_at;
            assert_eq!((at.len(), at.iter().sum::<u64>()), (4, timings.draft_accepted as u64), "{at:?}");
        }
    }
    let at_once: Vec<_> = prompts(4).iter().map(|prompt| ask(&drafted, greedy(prompt, 30))).collect();
    for (found, prompt) in at_once.into_iter().map(all).zip(prompts(4)) {
        assert_eq!(found.answers[0].ids, alone(&prompt, 30), "{prompt}");
    }
    let stop = Generate { stop: vec![" the".into()], ..warm(0.0, 1) };
    assert_eq!(run(&drafted, stop.clone()).text(), run(&plain, stop).text());
}
