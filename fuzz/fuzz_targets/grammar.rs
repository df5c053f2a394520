//! Any text as GBNF and as a JSON schema: a matcher whose first masks can be had, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumex_grammar::{Piece, Source, Vocabulary};
use std::sync::{Arc, OnceLock};

fn vocabulary() -> &'static Arc<Vocabulary> {
    static VOCABULARY: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    VOCABULARY.get_or_init(|| {
        let bytes: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
        let pieces = bytes.iter().map(|b| Piece::Text(b)).chain([Piece::Special(b"</s>")]);
        Arc::new(Vocabulary::new(pieces, &[256]).expect("a small vocabulary"))
    })
}

fuzz_target!(|text: &str| {
    for source in [Source::Gbnf(text.to_string()), Source::JsonSchema(text.to_string())] {
        let Ok(mut matcher) = vocabulary().matcher(&source) else { continue };
        for _ in 0..8 {
            let Ok(mask) = matcher.mask() else { break };
            let Some(id) = (0..257u32).find(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1) else { break };
            if matcher.accept(id).is_err() {
                break;
            }
        }
    }
});
