//! Which pre-tokenizer a vocabulary has: by the ids of one text, which has everything that pre-tokenizers differ in.

use super::hf::Read;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of the ids of [`TEXT`] as Python prints lists, and `tokenizer.ggml.pre`.
const KNOWN: &str = include_str!("../pre.txt");

const TEXT: &str = concat!(
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\u{200d}🌫️ (multiple emojis concatenated) ✅ 🦙🦙 ",
    "3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 កាន់តែពិសេសអាច😁 ?我想在apple工作1314151天～ ",
    "------======= нещо на Български ''''''```````\"\"\"\"......!!!!!!?????? I've been 'told he's there, 'RE you sure? ",
    "'M not sure I'll make it, 'D you like some tea? We'Ve a'lL",
);

/// Classes that put their own signs around texts, whatever `tokenizer.json` says.
const OWN: [&str; 4] = ["Llama", "CodeLlama", "Gemma", "Cohere"];

/// The ids of a text as the tokenizer's class gives them.
fn ids(read: &Read) -> Result<Vec<u32>, String> {
    let class = read.settings.get("tokenizer_class").and_then(Value::as_str).unwrap_or_default();
    let own = OWN.iter().any(|begin| class.starts_with(begin));
    let encoded = read.tokenizer.encode(TEXT, !own).map_err(|e| format!("expected a tokenizer: {e}"))?;
    let mut ids = encoded.get_ids().to_vec();
    if own {
        let flag = |key: &str, or: bool| read.settings.get(key).and_then(Value::as_bool).unwrap_or(or);
        let id = |key: &str, or: &str| {
            let named = read.settings.get(key);
            let text = named.and_then(Value::as_str).or(named.and_then(|t| t.get("content")).and_then(Value::as_str));
            read.tokenizer.token_to_id(text.unwrap_or(or))
        };
        if flag("add_bos_token", true) {
            ids.splice(..0, id("bos_token", "<s>"));
        }
        if flag("add_eos_token", false) {
            ids.extend(id("eos_token", "</s>"));
        }
    }
    Ok(ids)
}

/// The name of a hash.
fn name(hash: &str) -> Option<&'static str> {
    KNOWN.lines().filter_map(|line| line.split_once(' ')).find(|(known, _)| *known == hash).map(|(_, name)| name)
}

/// The name of a tokenizer's pre-tokenizer.
///
/// # Errors
/// As text: one that is not known.
pub fn detect(read: &Read) -> Result<String, String> {
    let list: Vec<String> = ids(read)?.iter().map(u32::to_string).collect();
    let hash: String = Sha256::digest(format!("[{}]", list.join(", "))).iter().map(|b| format!("{b:02x}")).collect();
    name(&hash).map(String::from).ok_or_else(|| {
        format!("expected a vocabulary whose pre-tokenizer is known, found one with the sum {hash}; --pre NAME says which it is")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_whole_and_stand_once() {
        let rows: Vec<(&str, &str)> = KNOWN.lines().filter_map(|line| line.split_once(' ')).collect();
        assert!(rows.len() > 90 && rows.len() == KNOWN.lines().count());
        for (i, (hash, _)) in rows.iter().enumerate() {
            assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{hash}");
            assert!(!rows[..i].iter().any(|(other, _)| other == hash), "{hash}");
        }
    }
}
