//! What is kept of prompts, what goes when blocks run out, and slots in files.

use super::{all, ask, greedy, load, prompts, run, settings, wait, All};
use pumex::server::ModelSettings;
use pumex_serve::engine::{FinishReason, Generate, Holder, Model, RefusalKind};

#[test]
fn beginnings_are_found_again_to_the_token() {
    let model = load(settings(2));
    let long =
        "And it came to pass, when the people saw that the people were gathered together, that the king said unto them";
    let first = run(&model, greedy(long, 4));
    let n = first.finish().prompt_tokens;
    assert!(first.cached == 0 && n > 20, "{n}");
    let again = run(&model, greedy(long, 4));
    assert_eq!((again.cached, again.text()), (n - 1, first.text()), "one token is computed again");
    let other = format!("{}xyz", &long[..60]);
    let common = {
        let (a, b) = (model.tokenize(long, true, true).unwrap(), model.tokenize(&other, true, true).unwrap());
        a.iter().zip(&b).take_while(|(a, b)| a == b).count()
    };
    let branch = run(&model, greedy(&other, 4));
    assert_eq!(branch.cached, common);
    let fresh = run(&model, Generate { cache_prompt: false, ..greedy(&other, 4) });
    assert_eq!((fresh.cached, fresh.text()), (0, branch.text()));
    let stranger = run(&model, Generate { user: Some("b".into()), ..greedy(long, 1) });
    assert_eq!(stranger.cached, 0, "users do not share");
    let shared = load(ModelSettings { share_prefixes: true, ..settings(2) });
    run(&shared, Generate { user: Some("a".into()), ..greedy(long, 1) });
    assert_eq!(run(&shared, Generate { user: Some("b".into()), ..greedy(long, 1) }).cached, n - 1);
}

#[test]
fn an_answer_is_part_of_the_next_prompt() {
    let model = load(settings(1));
    let first = run(&model, greedy("And it came to pass", 16));
    let whole = format!("And it came to pass{}", first.text());
    let (n, prompt) = (model.tokenize(&whole, true, true).unwrap().len(), first.finish().prompt_tokens);
    // The last token was chosen and not fed.
    assert_eq!(run(&model, greedy(&whole, 1)).cached, n.min(prompt + 16) - 1);
}

#[test]
fn those_for_whom_there_is_no_room_wait_and_go_on() {
    let prompts = prompts(6);
    let wide = load(settings(6));
    let expected: Vec<All> = prompts.iter().map(|prompt| run(&wide, greedy(prompt, 90))).collect();
    // Each needs four blocks in the end, and there are ten for six of them.
    let mut narrow = ModelSettings { unified: true, kept: 2, ..settings(6) };
    narrow.engine.n_ctx = Some(128);
    let model = load(narrow);
    let waiting: Vec<_> = prompts.iter().map(|prompt| ask(&model, greedy(prompt, 90))).collect();
    for (found, expected) in waiting.into_iter().map(all).zip(&expected) {
        // Products of several rows round otherwise than those of one.
        assert_eq!((&found.text()[..8], &found.finish().reason), (&expected.text()[..8], &expected.finish().reason));
        assert_eq!(found.finish().completion_tokens, 90);
    }
    assert!(model.metrics().preemptions > 0, "{:?}", model.metrics());
}

#[test]
fn a_full_context_ends_an_answer_or_goes_on_with_less() {
    let model = load(settings(1));
    let full = run(&model, greedy("And it came to pass", 1000));
    if full.finish().reason != FinishReason::End {
        assert_eq!((&full.finish().reason, full.finish().truncated), (&FinishReason::ContextFull, true));
    }
    let on = load(ModelSettings { context_shift: true, ..settings(1) });
    let mut request = greedy("And it came to pass", 400);
    request.sampling.ignore_eos = Some(true);
    let long = run(&on, request);
    assert_eq!((&long.finish().reason, long.finish().completion_tokens), (&FinishReason::Length, 400));
    assert!(long.finish().truncated);
}

#[test]
fn nothing_is_held_once_slots_are_empty() {
    let model = load(settings(3));
    let used = || model.metrics().blocks_used;
    assert_eq!(used(), 0);
    let waiting: Vec<_> = prompts(5).iter().map(|prompt| ask(&model, greedy(prompt, 20))).collect();
    waiting.into_iter().for_each(|w| drop(all(w)));
    assert!(used() > 0, "beginnings are kept");
    // A reader that goes ends its request within a step.
    let gone = ask(&model, greedy("And it came to pass", 200));
    drop(gone);
    wait("cancelled", || model.metrics().requests_cancelled == 1);
    wait("idle", || model.slots(&Holder::default()).iter().all(|slot| !slot.busy));
    let held = used();
    assert!((0..3).all(|slot| model.erase_slot(slot, &Holder::default()).is_ok()));
    assert!(used() < held);
}

#[test]
fn slots_come_back_from_files() {
    let folder = std::env::temp_dir().join(format!("pumex-slots-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let own = || ModelSettings { slot_folder: Some(folder.clone()), ..settings(2) };
    let model = load(own());
    let prompt = "And it came to pass, when the people saw it";
    let in_slot = |model: &dyn Model, slot| run(model, Generate { slot: Some(slot), ..greedy(prompt, 8) });
    let first = in_slot(&model, 1);
    let (n, held) = (first.finish().prompt_tokens, first.finish().held);
    let (saved, bytes) = model.save_slot(1, "one.bin", &Holder::default()).unwrap();
    assert!(saved == held && bytes > 1000, "{saved} {held} {bytes}");
    assert_eq!(model.restore_slot(0, "one.bin", &Holder::default()).unwrap(), (saved, bytes));
    let again = in_slot(&model, 0);
    assert_eq!((again.cached, again.text()), (n - 1, first.text()));
    assert_eq!(model.erase_slot(1, &Holder::default()).unwrap(), held);
    assert_eq!(
        in_slot(&model, 1).cached,
        n - 1,
        "a slot that is named and empty begins with what others of the user hold"
    );
    for bad in ["../one.bin", "", "a/b", "none.bin"] {
        assert_eq!(
            model.restore_slot(0, bad, &Holder::default()).unwrap_err().field.as_deref(),
            Some("filename"),
            "{bad:?}"
        );
    }
    std::fs::write(folder.join("other.bin"), "another kind of file").unwrap();
    let other = model.restore_slot(0, "other.bin", &Holder::default()).unwrap_err();
    let place = folder.to_string_lossy();
    assert!(other.message.starts_with("filename: other.bin: ") && !other.message.contains(&*place), "{other:?}");
    assert_eq!(model.save_slot(7, "x", &Holder::default()).unwrap_err().kind, RefusalKind::Invalid);
    let other = load(own());
    assert_eq!(other.restore_slot(1, "one.bin", &Holder::default()).unwrap().0, saved, "for another process, too");
    std::fs::remove_dir_all(folder).unwrap();
}
