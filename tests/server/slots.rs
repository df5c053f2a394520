//! Slots in files: what goes wrong leaves slots and files as they were.

use super::process::{ask, Process};
use super::{greedy, load, run, settings};
use pumex::server::{ModelSettings, ServedModel};
use pumex_serve::engine::{Generate, Holder, Model, RefusalKind};
use serde_json::json;
use std::path::PathBuf;

struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> TemporaryFolder {
        let folder = std::env::temp_dir().join(format!("pumex-slots-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        TemporaryFolder(folder)
    }

    fn model(&self, slots: usize) -> ServedModel {
        load(ModelSettings { slot_folder: Some(self.0.clone()), ..settings(slots) })
    }

    /// Names of what is in it.
    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn in_slot(model: &dyn Model, slot: usize, text: &str) -> super::All {
    run(model, Generate { slot: Some(slot), ..greedy(text, 4) })
}

const MINE: &str = "And it came to pass, when the people saw it";
const OTHER: &str = "The king said unto the woman, Go";

#[test]
fn a_restore_that_fails_leaves_what_the_slot_held() {
    let folder = TemporaryFolder::new("failed");
    let (model, whose) = (folder.model(2), Holder::default());
    in_slot(&model, 0, MINE);
    model.save_slot(0, "good", &whose).unwrap();
    let good = std::fs::read(folder.0.join("good")).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut foreign = good.clone();
    foreign[12] ^= 1; // the model's fingerprint
    for (name, bytes) in
        [("cut", &good[..good.len() - 9]), ("flipped", &flipped), ("foreign", &foreign), ("text", b"no")]
    {
        std::fs::write(folder.0.join(name), bytes).unwrap();
    }
    let first = in_slot(&model, 1, OTHER);
    let held = || model.slots(&whose)[1].held;
    let before = first.finish().held;
    super::wait("the answer is over", || held() == before);
    for (name, kind) in [
        ("cut", RefusalKind::Invalid),
        ("flipped", RefusalKind::Invalid),
        ("foreign", RefusalKind::Invalid),
        ("text", RefusalKind::Invalid),
        ("missing", RefusalKind::NotFound),
        ("../good", RefusalKind::Invalid),
    ] {
        let refusal = model.restore_slot(1, name, &whose).unwrap_err();
        assert_eq!((refusal.kind, refusal.field.as_deref()), (kind, Some("filename")), "{name}: {refusal}");
        assert_eq!(held(), before, "{name}");
    }
    let again = in_slot(&model, 1, OTHER);
    assert_eq!((again.cached, again.text()), (first.finish().prompt_tokens - 1, first.text()));
    // One that is whole takes its place.
    let (restored, _) = model.restore_slot(1, "good", &whose).unwrap();
    assert_eq!((held(), in_slot(&model, 1, MINE).cached > 0), (restored, true));
}

#[test]
fn a_slot_that_fills_the_cache_makes_room_for_what_is_restored() {
    let folder = TemporaryFolder::new("room");
    let small = || {
        let mut small = ModelSettings { slot_folder: Some(folder.0.clone()), unified: true, kept: 0, ..settings(1) };
        small.engine.n_ctx = Some(128);
        load(small)
    };
    let (model, whose) = (small(), Holder::default());
    let long = |text: &str| run(&model, Generate { slot: Some(0), ..greedy(text, 100) }).finish().held;
    let held = long(MINE);
    assert!(held > 96, "{held}");
    model.save_slot(0, "long", &whose).unwrap();
    assert!(long(OTHER) > 80);
    assert_eq!(model.restore_slot(0, "long", &whose).unwrap().0, held);
    assert_eq!(model.slots(&whose)[0].held, held);
}

#[test]
fn saved_slots_of_a_key_have_a_limit() {
    let folder = TemporaryFolder::new("limit");
    let holder = |key: &str| Holder { key: key.into(), folder: Some(format!("folder-{key}")) };
    let (mine, theirs) = (holder("0"), holder("1"));
    let bytes = {
        let model = folder.model(1);
        run(&model, Generate { user: Some("0".into()), ..greedy(MINE, 4) });
        model.save_slot(0, "a", &mine).unwrap().1
    };
    let limit = 2 * bytes + bytes / 2;
    let model = load(ModelSettings { slot_folder: Some(folder.0.clone()), slot_bytes: Some(limit), ..settings(1) });
    run(&model, Generate { user: Some("0".into()), ..greedy(MINE, 4) });
    // What is replaced does not count, and neither does what is no saved slot.
    std::fs::write(folder.0.join("folder-0/model.gguf"), vec![7; limit as usize]).unwrap();
    for name in ["a", "b", "a", "b"] {
        assert_eq!(model.save_slot(0, name, &mine).unwrap().1, bytes, "{name}");
    }
    let refusal = model.save_slot(0, "c", &mine).unwrap_err();
    assert_eq!((refusal.kind, refusal.field.as_deref()), (RefusalKind::Invalid, Some("filename")));
    let told =
        [format!("at most {limit} bytes"), format!("other files have {}", 2 * bytes), "--slot-save-limit".into()];
    assert!(told.iter().all(|part| refusal.message.contains(part)), "{refusal}");
    assert!(!folder.0.join("folder-0/c").exists());
    std::fs::remove_file(folder.0.join("folder-0/a")).unwrap();
    model.save_slot(0, "c", &mine).unwrap();
    // Another key has its own.
    run(&model, Generate { user: Some("1".into()), ..greedy(MINE, 4) });
    assert_eq!(model.save_slot(0, "c", &theirs).unwrap().1, bytes);
}

/// No file may be longer than so many KiB, in place of a full disk.
#[tokio::test]
async fn a_disk_that_fills_leaves_the_file_that_was_there() {
    let folder = TemporaryFolder::new("full");
    let flags = ["--slot-save-path", folder.0.to_str().unwrap(), "--slot-save-limit", "64", "-np", "1", "-c", "512"];
    let Some(server) = Process::start_with_file_limit(192, &flags) else { return };
    let prompt = |n: usize| json!({ "prompt": vec![300; n], "n_predict": 1, "temperature": 0 });
    let save = json!({ "filename": "one.bin" });
    assert!(ask(server.address, "/completion", &prompt(8)).await.contains(" 200 "));
    let saved = ask(server.address, "/slots/0?action=save", &save).await;
    assert!(saved.contains(" 200 "), "{saved}");
    let good = std::fs::read(folder.0.join("one.bin")).unwrap();
    assert!(ask(server.address, "/completion", &prompt(400)).await.contains(" 200 "));
    let full = ask(server.address, "/slots/0?action=save", &save).await;
    assert!(full.contains(" 500 ") && full.contains("one.bin") && full.contains("File too large"), "{full}");
    assert!(std::fs::read(folder.0.join("one.bin")).unwrap() == good && folder.names() == ["one.bin"]);
    // The slot holds what it held, and is saved where there is room.
    let restored = ask(server.address, "/slots/0?action=restore", &save).await;
    assert!(restored.contains(" 200 "), "{restored}");
}
