//! Pictures in requests: found again, forked, saved and restored; what does not go with them is refused by its name.

use super::{all, ask, greedy, load, run};
use crate::util::shared_folder;
use pumex::gguf::{FileAccess, Gguf};
use pumex::projector::{MediaOptions, Projector};
use pumex::server::{ModelSettings, OpenProjector, ServedModel};
use pumex_serve::engine::{FinishReason, Generate, Holder, Medium, MediumKind, Model, Prompt, PromptPart};
use std::path::Path;
use std::sync::Arc;

/// Rows that the encoder of Qwen2-VL makes of the first picture.
const ROWS: usize = 64;

/// A small Qwen2-VL with so many slots of 256 positions, on the CPU in plain f32.
fn seeing(vision: &Path, slots: usize) -> ModelSettings {
    let (text, mmproj) = (vision.join("text/tiny-qwen2vl.gguf"), vision.join("mmproj/qwen2vl.gguf"));
    let mut own = super::exact(slots);
    own.engine.max_rows = 128;
    let engine = own.engine.clone();
    own.open = Arc::new(move || Gguf::open(&text));
    let open: OpenProjector =
        Arc::new(move |_| Projector::open(&mmproj, FileAccess::default(), MediaOptions::default(), &engine).map(Some));
    own.projector = Some(open);
    own
}

fn picture(vision: &Path, name: &str) -> PromptPart {
    let bytes = std::fs::read(vision.join("images").join(name)).unwrap();
    let kind = MediumKind::Picture;
    PromptPart::Medium(Medium { kind, bytes: bytes.into(), max_tokens: None, field: "picture".into() })
}

/// A greedy request with one of two pictures between two texts.
fn asking(vision: &Path, first: bool, end: &str) -> Generate {
    let name = if first { "a_gradient_224x224.png" } else { "d_checker_33x20.png" };
    let text = |text: &str| PromptPart::Text(text.into());
    let parts = vec![text("hi"), picture(vision, name), text(end)];
    Generate { prompt: Prompt::Parts(parts), ..greedy("", 6) }
}

fn vision() -> Option<std::path::PathBuf> {
    shared_folder().map(|shared| shared.join("golden/vision"))
}

#[test]
fn pictures_are_found_again_and_shared_by_several_answers() {
    let Some(vision) = vision() else { return };
    let model = load(seeing(&vision, 4));
    let alone = run(&model, asking(&vision, true, "ok"));
    assert!(alone.cached < ROWS && alone.finish().prompt_tokens > ROWS, "{alone:?}");
    let again = run(&model, asking(&vision, true, "so"));
    assert!(again.cached > ROWS, "the picture is found: {}", again.cached);
    let other = run(&model, asking(&vision, false, "ok"));
    assert!(other.cached < ROWS && other.answers[0].ids != alone.answers[0].ids, "the answer follows from the picture");
    let forked = run(&model, Generate { n: 3, ..asking(&vision, true, "ok") });
    for answer in &forked.answers {
        assert_eq!(answer.ids, alone.answers[0].ids, "answers share the picture");
    }
}

#[test]
fn requests_with_pictures_at_the_same_time_are_answered_as_alone() {
    let Some(vision) = vision() else { return };
    let model = load(seeing(&vision, 4));
    let alone = [true, false].map(|first| run(&load(seeing(&vision, 1)), asking(&vision, first, "ok")));
    let together: Vec<_> = (0usize..8).map(|i| ask(&model, asking(&vision, i.is_multiple_of(2), "ok"))).collect();
    for (i, events) in together.into_iter().enumerate() {
        assert_eq!(all(events).answers[0].ids, alone[i % 2].answers[0].ids, "request {i}");
    }
}

#[test]
fn a_slot_with_a_picture_is_saved_and_restored() {
    let Some(vision) = vision() else { return };
    let folder = std::env::temp_dir().join(format!("pumex-slot-media-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let open = || -> ServedModel { load(ModelSettings { slot_folder: Some(folder.clone()), ..seeing(&vision, 2) }) };
    let (model, whose) = (open(), Holder::default());
    let first = run(&model, Generate { slot: Some(0), ..asking(&vision, true, "ok") });
    model.save_slot(0, "seen", &whose).unwrap();
    // Another process knows nothing of the picture but its rows' ids.
    drop(model);
    let model = open();
    model.restore_slot(1, "seen", &whose).unwrap();
    let again = run(&model, Generate { slot: Some(1), ..asking(&vision, true, "ok") });
    assert!(again.cached > ROWS, "the picture is found: {}", again.cached);
    assert_eq!(again.answers[0].ids, first.answers[0].ids);
    // Another picture is not taken for it.
    let other = run(&model, Generate { slot: Some(1), ..asking(&vision, false, "ok") });
    assert!(other.cached < ROWS, "{}", other.cached);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_does_not_go_with_pictures_is_refused_by_its_name() {
    let Some(vision) = vision() else { return };
    let model = load(seeing(&vision, 1));
    let refused = |request: Generate| {
        let (events, mut receiver) = tokio::sync::mpsc::channel(64);
        let refusal = model.generate(request, events).err();
        let mut later = super::All::default();
        if refusal.is_none() {
            std::iter::from_fn(|| receiver.blocking_recv()).for_each(|event| later.take(event));
        }
        refusal.or(later.failed).unwrap()
    };
    for (request, field) in [
        (Generate { deterministic: Some(true), ..asking(&vision, true, "ok") }, "deterministic"),
        (Generate { prompt_logprobs: Some(1), ..asking(&vision, true, "ok") }, "prompt_logprobs"),
    ] {
        let refusal = refused(request);
        assert_eq!(refusal.field.as_deref(), Some(field), "{refusal}");
        assert!(refusal.to_string().contains("found pictures or sounds in it"), "{refusal}");
    }
}

#[test]
fn an_answer_to_a_picture_ends_where_the_context_does() {
    let Some(vision) = vision() else { return };
    let mut settings = ModelSettings { context_shift: true, ..seeing(&vision, 1) };
    settings.engine.n_ctx = Some(96);
    let model = load(settings);
    let endless = Generate {
        max_tokens: Some(200),
        sampling: pumex_serve::engine::Sampling { ignore_eos: Some(true), ..greedy("", 1).sampling },
        ..asking(&vision, true, "ok")
    };
    let whole = run(&model, endless);
    assert_eq!(whole.finish().reason, FinishReason::ContextFull, "{whole:?}");
    assert!(whole.finish().held <= 96, "the picture stays whole: {whole:?}");
    // A text alone goes on.
    let sampling = pumex_serve::engine::Sampling { ignore_eos: Some(true), ..greedy("", 1).sampling };
    let shifted = run(&model, Generate { sampling, ..greedy("hi", 200) });
    assert_eq!((&shifted.finish().reason, shifted.finish().truncated), (&FinishReason::Length, true));
}
