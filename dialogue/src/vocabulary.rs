//! What sampler chains know of a model's tokens.

use pumex_step::sample::infill::TokenWords;
use pumex_step::sample::Breakers;
use pumex_text::Tokenizer;

/// What DRY knows of these texts.
pub fn breakers(texts: &[String], tokenizer: &Tokenizer) -> Breakers {
    let piece = |id: u32| match tokenizer.piece(id) {
        [] => tokenizer.token_text(id).to_vec(),
        piece => piece.to_vec(),
    };
    let encode = |rest: &[u8]| tokenizer.encode(&String::from_utf8_lossy(rest), false, false).unwrap_or_default();
    Breakers::of_texts(texts, n_vocab(tokenizer), piece, encode)
}

/// The ids that end texts.
pub fn ends(tokenizer: &Tokenizer) -> Vec<u32> {
    (0..n_vocab(tokenizer)).filter(|id| tokenizer.is_end(*id)).collect()
}

fn n_vocab(tokenizer: &Tokenizer) -> u32 {
    u32::try_from(tokenizer.n_vocab()).unwrap_or(u32::MAX)
}

/// What ids write, for the sampler infill.
pub fn words(tokenizer: &Tokenizer) -> TokenWords {
    let mut words = TokenWords::default();
    (0..n_vocab(tokenizer)).for_each(|id| words.push(tokenizer.piece(id), tokenizer.is_end(id)));
    words.end = tokenizer.eot().or_else(|| tokenizer.eos());
    words
}
