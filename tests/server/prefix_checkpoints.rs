//! Beginnings of prompts for models that cannot go back: with a recurrent state, or with windows.

use super::{exact, greedy, load, run};
use crate::checkpoints::{model_of, vocabulary};
use crate::util::demo_path;
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::Gguf;
use pumex::server::ModelSettings;
use pumex_serve::engine::{Generate, Holder, Model};
use std::sync::Arc;

/// A seeded model with the demo model's vocabulary in its file.
pub fn file(name: &str) -> &'static [u8] {
    let (model, demo) = (model_of(name, vocabulary()), Gguf::open(&demo_path()).unwrap());
    let own = model.meta().iter().filter(|(key, _)| !key.starts_with("tokenizer."));
    let words = demo.meta().iter().filter(|(key, _)| key.starts_with("tokenizer."));
    let entry = |t: &pumex::gguf::Tensor| Entry {
        name: t.name.clone(),
        dims: t.dims.clone(),
        type_id: t.type_id,
        len_bytes: t.len_bytes,
    };
    let entries: Vec<Entry> = model.own_tensors().iter().map(entry).collect();
    let mut bytes = header(own.chain(words), &entries, ALIGNMENT);
    for t in model.own_tensors() {
        bytes.extend_from_slice(model.data(t));
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    bytes.leak()
}

#[test]
fn prompts_go_on_from_where_others_with_their_beginning_were() {
    let shared = "And it came to pass, when the people saw that the people were gathered together, that the king said \
                  unto them, Wherefore have ye done this thing, and come hither to the house of my father?";
    for name in ["mamba", "qwen3next", "gemma3"] {
        let bytes = file(name);
        let open = Arc::new(move || Gguf::from_static("kept.gguf", bytes));
        let model = load(ModelSettings { open, ..exact(2) });
        let ask = |text: &str| run(&model, greedy(text, 6));
        let fresh = |text: &str| run(&model, Generate { cache_prompt: false, ..greedy(text, 6) }).text().to_string();
        let ends = ["And they answered him", "Then he went out from them", "Now there was a man"];
        let texts = ends.map(|end| format!("{shared} {end}"));
        let first = ask(&texts[0]);
        let n = first.finish().prompt_tokens;
        let again = ask(&texts[0]);
        assert_eq!((again.cached, again.text()), (n - 1, first.text()), "{name}: the same prompt");
        let on = ask(&format!("{}{}. And", texts[0], first.text()));
        assert!(on.cached >= n - 1, "{name}: a text that goes on: {} of {n}", on.cached);
        ask(&texts[1]);
        let third = ask(&texts[2]);
        let common = model.tokenize(shared, true, true).unwrap().len();
        assert!(third.cached + 2 >= common, "{name}: a beginning that two had: {} of {common}", third.cached);
        assert_eq!(third.text(), fresh(&texts[2]), "{name}");
    }
}

#[test]
fn a_slots_file_holds_what_its_prompt_is_asked_again_with() {
    let folder = std::env::temp_dir().join(format!("pumex-beginnings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let whose = Holder::default();
    let text =
        "And it came to pass, when the people saw that the people were gathered together, that the king said unto them";
    for name in ["mamba", "qwen3next", "gemma3"] {
        let bytes = file(name);
        let server = || {
            let open = Arc::new(move || Gguf::from_static("kept.gguf", bytes));
            load(ModelSettings { open, slot_folder: Some(folder.clone()), ..exact(1) })
        };
        let model = server();
        let first = run(&model, greedy(text, 6));
        let n = first.finish().prompt_tokens;
        let (saved, _) = model.save_slot(0, name, &whose).unwrap();
        assert_eq!(saved, first.finish().held, "{name}");
        let again = server();
        assert_eq!(again.restore_slot(0, name, &whose).unwrap().0, saved, "{name}");
        let asked = run(&again, greedy(text, 6));
        assert_eq!((asked.cached, asked.text()), (n - 1, first.text()), "{name}: the same prompt");
        // It goes on from the whole, too.
        let other = server();
        other.restore_slot(0, name, &whose).unwrap();
        let on = format!("{text}{}. And", first.text());
        let (there, here) = (run(&other, greedy(&on, 6)), run(&model, greedy(&on, 6)));
        assert!(there.cached >= n - 1 && there.text() == here.text(), "{name}: {} of {n}", there.cached);
    }
    std::fs::remove_dir_all(folder).unwrap();
}
