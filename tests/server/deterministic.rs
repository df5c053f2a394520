//! `--deterministic`: an answer is the same to the bit, whoever is served beside it and whatever is kept.

use super::{all, ask, greedy, load, prefix_checkpoints, run, settings};
use crate::cli::{pumex, stderr, stdout};
use crate::util::{has_device, options};
use pumex::engine::{CacheType, Debug};
use pumex::gguf::Gguf;
use pumex::server::{ModelSettings, ServedModel};
use pumex_serve::engine::{Event, Generate, Model, RefusalKind};
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;

/// Longer than a piece of a prompt, so that some of it is found again.
const LONG: &str = "And it came to pass, when the people saw that the people were gathered together, that the king said unto them, \
    Wherefore have ye done this thing, and come hither to the house of my father? And they answered him, We have heard that the \
    king of the land is gone up against the city, and that the men of war are fallen by the sword; and behold, the women and the \
    children are carried away, and the gates are burned with fire, and there is none to deliver. And the king rent his clothes, \
    and went up by the way of the wilderness, he and all his servants with him, and they lifted up their voice and wept. ";

/// On the CPU, with room for steps of a whole piece.
fn cpu(slots: usize) -> ModelSettings {
    let mut settings = ModelSettings { deterministic: true, ..settings(slots) };
    (settings.engine.max_rows, settings.engine.n_ctx) = (128, Some(512 * slots as u32));
    settings
}

fn vulkan(slots: usize) -> ModelSettings {
    let cpu = cpu(slots);
    let engine = pumex::engine::Options { n_ctx: cpu.engine.n_ctx, max_rows: 128, ..options(CacheType::F16) };
    ModelSettings { engine, ..cpu }
}

fn request(prompt: &str, tokens: usize) -> Generate {
    Generate { logprobs: Some(2), ..greedy(prompt, tokens) }
}

/// Ids with the bits of their log-probabilities, of all answers, and how many ids of the prompt were kept.
fn bits(mut events: Receiver<Event>) -> (Vec<(usize, u32, u32)>, usize) {
    let (mut found, mut cached) = (Vec::new(), 0);
    while let Some(event) = events.blocking_recv() {
        match event {
            Event::Started { cached_tokens, .. } => cached = cached_tokens,
            Event::Piece { answer, tokens, .. } => {
                found.extend(tokens.iter().map(|t| (answer, t.id, t.logprob.unwrap().to_bits())));
            }
            Event::Failed(refusal) => panic!("{refusal}"),
            _ => {}
        }
    }
    found.sort_by_key(|(answer, ..)| *answer);
    (found, cached)
}

fn alone(model: &dyn Model, request: Generate) -> (Vec<(usize, u32, u32)>, usize) {
    bits(ask(model, request))
}

/// Prompts of other lengths, of which some begin alike.
fn prompts() -> Vec<String> {
    let ends = ["And", "And behold, it was so. Then the king", "The", "Then went he out from them, and"];
    let mut all: Vec<String> = ends.iter().map(|end| format!("{LONG}{end}")).collect();
    all.extend(["In the beginning", "The king said unto the woman, Go", "Now"].map(String::from));
    all
}

fn are_steady(model: &ServedModel, tokens: usize, what: &str) {
    let fresh = |prompt: &str| Generate { cache_prompt: false, ..request(prompt, tokens) };
    let prompts = prompts();
    let truth: Vec<_> = prompts.iter().map(|prompt| alone(model, fresh(prompt)).0).collect();
    assert!(truth.iter().all(|truth| !truth.is_empty()), "{what}");
    for (prompt, truth) in prompts.iter().zip(&truth) {
        let again = alone(model, request(prompt, tokens));
        assert_eq!(&again.0, truth, "{what}: asked again");
        assert!(again.1.is_multiple_of(128) && (again.1 > 0) == (prompt.len() > 500), "{what}: {} kept", again.1);
        // Two together, one of which goes the usual way.
        let usual = Generate { deterministic: Some(false), ..fresh(LONG) };
        let (beside, found) = (ask(model, usual), ask(model, fresh(prompt)));
        assert_eq!(&bits(found).0, truth, "{what}: beside another");
        drop(all(beside));
    }
    for kept in [false, true] {
        let waiting: Vec<_> =
            prompts.iter().map(|p| ask(model, Generate { cache_prompt: kept, ..request(p, tokens) })).collect();
        for ((found, truth), prompt) in waiting.into_iter().map(bits).zip(&truth).zip(&prompts) {
            assert_eq!(&found.0, truth, "{what}: one of seven, kept {kept}: {prompt}");
        }
    }
}

#[test]
fn answers_on_the_cpu_do_not_depend_on_company_or_on_what_is_kept() {
    are_steady(&load(cpu(7)), 12, "CPU");
    // Models that cannot go back have what is kept at the beginnings of pieces.
    let bytes = prefix_checkpoints::file("qwen3next");
    let open = Arc::new(move || Gguf::from_static("steady.gguf", bytes));
    are_steady(&load(ModelSettings { open, ..cpu(7) }), 4, "qwen3next");
}

#[test]
fn answers_on_a_device_do_not_depend_on_company_or_on_what_is_kept() {
    if has_device() {
        are_steady(&load(vulkan(7)), 2, "Vulkan");
    }
}

#[test]
fn an_answer_that_had_to_wait_goes_on_as_if_it_had_not() {
    let wide = load(cpu(6));
    let prompts = super::prompts(6);
    let truth: Vec<_> = prompts.iter().map(|prompt| alone(&wide, request(prompt, 90)).0).collect();
    let mut narrow = ModelSettings { unified: true, kept: 2, ..cpu(6) };
    narrow.engine.n_ctx = Some(128);
    let model = load(narrow);
    let waiting: Vec<_> = prompts.iter().map(|prompt| ask(&model, request(prompt, 90))).collect();
    for (found, truth) in waiting.into_iter().map(bits).zip(&truth) {
        assert_eq!(&found.0, truth);
    }
    assert!(model.metrics().preemptions > 0, "{:?}", model.metrics());
}

#[test]
fn the_first_of_several_answers_is_that_of_one() {
    let model = load(cpu(4));
    let prompt = format!("{LONG}And");
    let (one, _) = alone(&model, request(&prompt, 10));
    let (three, _) = alone(&model, Generate { n: 3, cache_prompt: false, ..request(&prompt, 10) });
    let of = |answer: usize| three.iter().filter(|t| t.0 == answer).map(|t| (0, t.1, t.2)).collect::<Vec<_>>();
    assert!([0, 1, 2].iter().all(|answer| of(*answer) == one), "all greedy");
}

#[test]
fn what_cannot_be_promised_is_refused() {
    let error = ServedModel::load(ModelSettings { deterministic: true, ..settings(1) }).err().unwrap().to_string();
    assert!(error.starts_with("--deterministic: expected steps of at least 128 rows (-ub), found 64"), "{error}");
    let asked = |deterministic| Generate { deterministic, ..greedy("And", 1) };
    let model = load(settings(1));
    let refusal = model.generate(asked(Some(true)), tokio::sync::mpsc::channel(1).0).unwrap_err();
    assert_eq!((refusal.kind, refusal.field.as_deref()), (RefusalKind::Invalid, Some("deterministic")));
    assert!(refusal.message.contains("128 rows (-ub), found 64"), "{refusal}");
    assert!(run(&model, asked(Some(false))).failed.is_none() && run(&model, asked(None)).failed.is_none());
    // Where nothing can come between, a request may ask for it on any server.
    let mut wide = settings(1);
    wide.engine.max_rows = 128;
    assert!(run(&load(wide), asked(Some(true))).failed.is_none());
    let error = ServedModel::load(ModelSettings { embeds: true, ..cpu(1) }).err().unwrap().to_string();
    assert!(error.starts_with("--deterministic: expected a model that answers"), "{error}");
    if !has_device() {
        return;
    }
    let usual = vulkan(1);
    let debug = Debug { megakernel: Some(true), ..usual.engine.debug };
    let engine = pumex::engine::Options { debug, ..usual.engine };
    let model = load(ModelSettings { engine, deterministic: false, ..usual });
    match model.generate(asked(Some(true)), tokio::sync::mpsc::channel(4).0) {
        Err(refusal) => assert!(refusal.message.contains("megakernel"), "{refusal}"),
        Ok(_) => eprintln!("skipped: no megakernel here"),
    }
}

#[test]
fn a_run_gives_the_answer_of_a_server_and_refuses_what_it_cannot_promise() {
    let prompt = format!("{LONG}Then");
    let model = load(cpu(2));
    let served = run(&model, Generate { max_tokens: Some(24), ..greedy(&prompt, 24) });
    let args = ["run", "--device", "cpu", "-c", "512", "-n", "24", "--temp", "0", "--no-display-prompt", "-p", &prompt];
    let ran = pumex(&[&args[..], &["--deterministic", "-no-cnv"]].concat());
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert_eq!(stdout(&ran).trim_end_matches('\n'), served.text().trim_end_matches('\n'));
    for (more, told) in [
        (&["-ub", "64"][..], "--deterministic: expected steps of at least 128 rows (-b, -ub), found 64"),
        (&["--prompt-cache", "absent"], "--prompt-cache"),
        (&["-cnv", "--chat-template", "chatml"], "--deterministic: expected a prompt to continue"),
    ] {
        let refused = pumex(&[&args[..], &["--deterministic"], more].concat());
        assert!(refused.status.code() == Some(2) && stderr(&refused).contains(told), "{more:?}: {}", stderr(&refused));
    }
    let bench =
        ["bench", "--device", "cpu", "-p", "1", "-n", "0", "-r", "1", "-o", "json", "--no-warmup", "--deterministic"];
    let bench = pumex(&bench);
    assert!(stdout(&bench).contains("\"n_ubatch\": 128"), "{}{}", stdout(&bench), stderr(&bench));
}
