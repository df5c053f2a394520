//! What is kept for a request belongs to the holder of its key.

use super::{greedy, load, run, settings};
use pumex::server::ModelSettings;
use pumex_serve::engine::{Generate, Holder, Model, RefusalKind};

fn holder(key: &str) -> Holder {
    Holder { key: key.into(), folder: Some(format!("folder-{key}")) }
}

fn of(user: &str, text: &str, slot: Option<usize>) -> Generate {
    Generate { user: Some(user.into()), slot, stop: vec!["a stop text".into()], ..greedy(text, 1) }
}

#[test]
fn slots_and_their_files_are_of_one_key() {
    let folder = std::env::temp_dir().join(format!("pumex-owners-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let model = load(ModelSettings { slot_folder: Some(folder.clone()), ..settings(2) });
    let (mine, theirs) = (holder("0"), holder("1"));
    let secret = "And it came to pass, when the people saw the secret of the king";
    let slot = run(&model, of("0/ann", secret, None)).slots[0];
    // Whoever names the slot finds nothing, and does not even hit it by chance.
    assert_eq!(run(&model, of("1", secret, Some(slot))).cached, 0, "by another key");
    let slot = run(&model, of("0/ann", secret, None)).slots[0];
    assert_eq!(run(&model, of("2", secret, None)).cached, 0);
    let slot_of_mine = run(&model, of("0/ann", secret, Some(slot))).slots[0];
    assert!(run(&model, of("0/bob", secret, Some(slot))).cached > 0, "a user of the same key who names it");
    for (refusal, what) in [
        (model.save_slot(slot_of_mine, "a.bin", &theirs).unwrap_err(), "save"),
        (model.erase_slot(slot_of_mine, &theirs).unwrap_err(), "erase"),
    ] {
        assert_eq!((refusal.kind, refusal.field.as_deref()), (RefusalKind::Invalid, Some("id_slot")), "{what}");
        assert!(refusal.message.contains("holds nothing of yours"), "{what}: {}", refusal.message);
    }
    let (saved, _) = model.save_slot(slot_of_mine, "a.bin", &mine).unwrap();
    let missing = model.restore_slot(slot_of_mine, "a.bin", &theirs).unwrap_err();
    assert_eq!(missing.kind, RefusalKind::NotFound, "a file of another key's folder");
    assert_eq!(model.restore_slot(slot_of_mine, "a.bin", &mine).unwrap().0, saved);
    assert_eq!(run(&model, of("3", secret, Some(slot_of_mine))).cached, 0, "what was restored is its key's");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn nobody_sees_what_slots_do_for_others() {
    let model = load(settings(2));
    let slot = run(&model, of("0/ann", "And it came to pass", None)).slots[0];
    let own = &model.slots(&holder("0"))[slot];
    assert!(own.settings.as_ref().unwrap().to_string().contains("a stop text") && own.request.is_some());
    let seen = &model.slots(&holder("1"))[slot];
    assert_eq!((&seen.settings, seen.request, seen.held, seen.prompt_tokens), (&None, None, 0, 0));
}

#[test]
fn scales_that_one_key_sets_are_not_anothers() {
    let adapters = vec![("a.gguf".into(), 1.0)];
    let model = load(ModelSettings { adapters, ..settings(1) });
    model.set_adapters(&[(0, 0.5)], &holder("0")).unwrap();
    let scale = |key: &str| model.adapters(&holder(key))[0].scale;
    assert_eq!((scale("0"), scale("1")), (0.5, 1.0));
    for scale in [f32::NAN, f32::INFINITY, 1e10, -1e5] {
        let refusal = model.set_adapters(&[(0, scale)], &holder("0")).unwrap_err();
        assert_eq!(refusal.field.as_deref(), Some("scale"), "{scale}");
        let asked = Generate { adapters: Some(vec![(0, scale)]), ..greedy("a", 1) };
        let refusal = model.generate(asked, tokio::sync::mpsc::channel(1).0).unwrap_err();
        assert_eq!(refusal.field.as_deref(), Some("lora"), "{scale}");
    }
}
