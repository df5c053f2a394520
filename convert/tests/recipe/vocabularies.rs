//! Small vocabularies in the files that families have them in.

use super::RecipeFolder;
use serde_json::{json, Map, Value};

/// How byte-level BPE writes a byte.
fn byte_to_char(byte: u8) -> char {
    let plain = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if plain(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|b| !plain(*b)).count() as u32;
    char::from_u32(256 + before).unwrap()
}

fn added_token_entry(id: usize, content: &str, special: bool, normalized: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": normalized, "special": special,
    })
}

/// A special token as settings may name it.
fn added_token(content: &str) -> Value {
    json!({"__type": "AddedToken", "content": content, "lstrip": false, "normalized": false, "rstrip": false,
        "single_word": false, "special": true})
}

/// Byte-level BPE: 266 tokens, of which 4 are added. `pairs` writes merges as two texts.
pub fn bpe(folder: &mut RecipeFolder, pairs: bool, template: bool) {
    let mut vocab: Map<String, Value> = (0..=255u8).map(|b| (byte_to_char(b).to_string(), json!(b))).collect();
    let merges = [("t", "h"), ("th", "e"), ("Ġ", "a"), ("i", "n"), ("Ġ", "the"), ("e", "r")];
    for (i, (a, b)) in merges.iter().enumerate() {
        vocab.insert(format!("{a}{b}"), json!(256 + i));
    }
    let merges: Vec<Value> =
        merges.iter().map(|(a, b)| if pairs { json!([a, b]) } else { json!(format!("{a} {b}")) }).collect();
    let tokens = [
        added_token_entry(262, "<|begin|>", true, false),
        added_token_entry(263, "<|im_end|>", true, false),
        added_token_entry(264, "<think>", false, false),
        added_token_entry(265, "<tool▁call>", false, true),
    ];
    let processor = match template {
        true => json!({"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
            {"type": "TemplateProcessing",
             "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                      {"SpecialToken": {"id": "<|begin|>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [262], "tokens": ["<|begin|>"]}}},
        ]}),
        false => json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}),
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": tokens, "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": processor,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
                  "fuse_unk": false, "byte_fallback": false, "ignore_merges": true, "vocab": vocab, "merges": merges},
    });
    folder.json("tokenizer.json", &tokenizer);
    let config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "eos_token": added_token("<|im_end|>"),
        "pad_token": "<|im_end|>", "clean_up_tokenization_spaces": false, "model_max_length": 4096,
        "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}",
    });
    folder.json("tokenizer_config.json", &config);
    folder.pre = Some("qwen2");
}

/// A field of a message.
fn field(out: &mut Vec<u8>, key: u8, bytes: &[u8]) {
    out.push(key << 3 | 2);
    let mut len = bytes.len();
    while len > 127 {
        out.push(len as u8 | 128);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend(bytes);
}

/// Pieces of [`spm`]: three signs, 256 bytes and 9 texts.
pub const PIECES: usize = 268;

fn pieces() -> Vec<(String, f32, u8)> {
    let mut pieces = vec![("<unk>".to_string(), 0.0, 2), ("<s>".to_string(), 0.0, 3), ("</s>".to_string(), 0.0, 3)];
    pieces.extend((0..256).map(|b| (format!("<0x{b:02X}>"), 0.0, 6)));
    let texts = ["▁", "▁t", "e", "a", "▁the", "o", "n", "<user>", "é"];
    pieces.extend(
        texts.iter().enumerate().map(|(i, t)| (t.to_string(), -(i as f32) - 0.25, if *t == "<user>" { 4 } else { 1 })),
    );
    pieces
}

/// A SentencePiece model with tokens that `tokenizer_config.json` adds.
pub fn spm(folder: &mut RecipeFolder, class: &str) {
    let mut model = Vec::new();
    for (text, score, kind) in pieces() {
        let mut piece = Vec::new();
        field(&mut piece, 1, text.as_bytes());
        piece.push(2 << 3 | 5);
        piece.extend(score.to_le_bytes());
        piece.extend([3 << 3, kind]);
        field(&mut model, 1, &piece);
    }
    // The trainer's: BPE, with bytes for what is unknown.
    field(&mut model, 2, &[3 << 3, 2, 0x98, 2, 1]);
    field(&mut model, 3, b"\x0a\x08identity");
    folder.files.insert("tokenizer.model".to_string(), model);
    let decoder: Map<String, Value> =
        [(1, "<s>", true), (268, "<|turn|>", false), (269, "<mark>", true), (270, "▁▁", false)]
            .iter()
            .map(|(id, text, special)| {
                let mut token = added_token_entry(*id, text, *special, false);
                token.as_object_mut().unwrap().remove("id");
                (id.to_string(), token)
            })
            .collect();
    let config = json!({
        "tokenizer_class": class, "add_bos_token": true, "add_eos_token": false, "bos_token": "<s>", "eos_token": "</s>",
        "unk_token": "<unk>",
        "added_tokens_decoder": decoder,
        "chat_template": [{"name": "default", "template": "{{ messages[0]['content'] }}"}, {"name": "tool-use",
        "template": "{{ tools }}"}],
    });
    folder.json("tokenizer_config.json", &config);
}

/// The pieces of the SentencePiece model in `tokenizer.json`, as BPE that falls back to bytes.
pub fn plain(folder: &mut RecipeFolder) {
    let mut vocab: Map<String, Value> =
        pieces().iter().enumerate().map(|(i, (text, ..))| (text.clone(), json!(i))).collect();
    vocab.insert("▁th".into(), json!(PIECES));
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added_token_entry(0, "<unk>", true, false), added_token_entry(1, "<s>", true, false),
            added_token_entry(2, "</s>", true, false),
                         added_token_entry(269, "[INST]", true, false), added_token_entry(270, "[more]", false, false)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": "<s>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null, "end_of_word_suffix": null,
                  "fuse_unk": true, "byte_fallback": true, "vocab": vocab, "merges": ["▁t h", "▁th e"]},
    });
    // Merges need their parts.
    let mut tokenizer = tokenizer;
    tokenizer["model"]["merges"] = json!([]);
    folder.json("tokenizer.json", &tokenizer);
    let config = json!({
        "tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true, "add_eos_token": false, "bos_token": "<s>", "eos_token": "</s>",
        "unk_token": "<unk>", "additional_special_tokens": ["[INST]"],
    });
    folder.json("tokenizer_config.json", &config);
    folder.text("chat_template.jinja", "{{ bos_token }}{{ messages[0]['content'] }}");
}

/// WordPiece.
pub fn word_piece(folder: &mut RecipeFolder) {
    let texts = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "##s", "##ing", "word", ".", "!"];
    let vocab: Map<String, Value> = texts.iter().enumerate().map(|(i, t)| (t.to_string(), json!(i))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]"},
        "added_tokens": (0..5).map(|i| added_token_entry(i, texts[i], true, false)).collect::<Vec<_>>(),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
        "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                     {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                               "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": vocab},
    });
    folder.json("tokenizer.json", &tokenizer);
    let config = json!({
        "tokenizer_class": "BertTokenizer", "do_lower_case": true, "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]",
        "cls_token": "[CLS]", "mask_token": "[MASK]", "tokenize_chinese_chars": true, "strip_accents": null,
    });
    folder.json("tokenizer_config.json", &config);
    folder.pre = Some("jina-v2-en");
}
