//! A query and a text as one text, whose score is sought.

use pumex_gguf::Result;
use pumex_text::Tokenizer;

/// A query and a text in the words of `template`, where a file has one for such pairs, else one after the other, with what files put
/// between.
///
/// # Errors
/// Text that the vocabulary cannot hold.
pub fn pair(tokenizer: &Tokenizer, template: Option<&str>, query: &str, text: &str) -> Result<Vec<u32>> {
    if let Some(template) = template {
        let filled = template.split("{query}").map(|part| part.replace("{document}", text)).collect::<Vec<_>>();
        let mut ids = tokenizer.encode(&filled.join(query), tokenizer.add_bos(), true)?;
        ids.extend(tokenizer.closing());
        return Ok(ids);
    }
    let mut ids = tokenizer.encode(query, tokenizer.add_bos(), false)?;
    ids.extend(tokenizer.eos().filter(|_| tokenizer.add_eos()));
    ids.extend(tokenizer.separator());
    ids.extend(tokenizer.encode(text, false, false)?);
    ids.extend(tokenizer.closing());
    Ok(ids)
}
