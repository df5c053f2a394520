//! `pumex embed`: pooling, classifiers, texts that share a step, and what is refused.

use crate::seeded::Recipe;
use crate::util::nmse;
use serde_json::{json, Value};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A model in a file of its own, gone with this.
struct TemporaryModel(PathBuf);

impl TemporaryModel {
    fn new(name: &str, recipe: &Recipe) -> TemporaryModel {
        let path = std::env::temp_dir().join(format!("pumex-embed-{name}-{}.gguf", std::process::id()));
        std::fs::write(&path, recipe.bytes()).unwrap();
        TemporaryModel(path)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
        command.args(["embed", "-m"]).arg(&self.0).args(["--device", "reference"]).args(args);
        command.stdin(Stdio::null()).env_remove("RUST_LOG").output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn vectors(&self, args: &[&str]) -> Vec<Vec<f32>> {
        serde_json::from_value(self.json(args)["embeddings"].take()).unwrap()
    }

    /// What a refusal says.
    fn refusal(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(!output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for TemporaryModel {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const TEXTS: [&str; 3] = ["1,5,9,60,33,2,8,11,40,17,3,22,21,7,13,55,50", "4,4,2", "9,8,7,6,5"];

fn texts<'a>(more: &[&'a str]) -> Vec<&'a str> {
    TEXTS.iter().flat_map(|ids| ["--tokens", ids]).chain(more.iter().copied()).collect()
}

/// BERT with a classifier of three scores.
fn classifier() -> Recipe {
    let mut recipe = Recipe::recipe_of("bert");
    let tensors: [(&str, &[u64]); 4] =
        [("cls.weight", &[64, 64]), ("cls.bias", &[64]), ("cls.output.weight", &[64, 3]), ("cls.output.bias", &[3])];
    recipe.tensors.extend(tensors.map(|(name, dims)| (name.to_string(), dims.to_vec())));
    recipe.keys.insert("pooling_type".into(), json!(4));
    recipe.keys.insert("classifier.output_labels".into(), json!(["yes", "no", "maybe"]));
    recipe
}

#[test]
fn scores_of_a_classifier_are_those_of_llama_cpp() {
    let made = TemporaryModel::new("scores", &classifier());
    let found = made.vectors(&texts(&[])).concat();
    // llama.cpp 0.5.0 on the same file, pooling "rank".
    let expected =
        [-1.551317, -0.1005252, -0.3113561, -1.597047, 0.173849, -0.05124462, -1.55525, -0.644443, -0.5408036];
    let error = nmse(&found, &expected);
    assert!(error < 1e-6, "NMSE {error:e}: {found:?}");
}

#[test]
fn dense_products_behind_pooling_are_those_of_llama_cpp() {
    let mut recipe = Recipe::recipe_of("gemma-embedding");
    recipe.tensors.insert("dense_2.weight".into(), vec![64, 96]);
    recipe.tensors.insert("dense_3.weight".into(), vec![96, 64]);
    recipe.keys.insert("pooling_type".into(), json!(1));
    let made = TemporaryModel::new("dense", &recipe);
    let found: Vec<f32> = made.vectors(&texts(&[])).iter().flat_map(|v| v.iter().step_by(16).copied()).collect();
    // llama.cpp 0.5.0 with the keys of the products' widths, pooling "mean", every 16th column, of length one.
    let expected = [
        -0.03093782,
        0.1493486,
        -0.02729641,
        0.01644705,
        -0.0467934,
        0.02121721,
        -0.2471198,
        -0.1016871,
        0.09617771,
        0.1981796,
        0.07376381,
        -0.1008793,
    ];
    let error = nmse(&found, &expected);
    assert!(error < 1e-6, "NMSE {error:e}: {found:?}");
}

#[test]
fn texts_that_share_a_step_get_what_each_gets_alone() {
    for (name, more) in
        [("bert", &["--embd-normalize", "-1"][..]), ("qwen2-sees-all", &[]), ("modern-bert", &["-ub", "6"])]
    {
        let made = TemporaryModel::new(name, &Recipe::recipe_of(name));
        let all = made.vectors(&texts(more));
        assert_eq!(all.len(), TEXTS.len());
        for (ids, shared) in TEXTS.iter().zip(&all) {
            let alone = made.vectors(&[&["--tokens", ids][..], more].concat());
            let error = nmse(shared, &alone[0]);
            assert!(error < 1e-12, "{name}, {ids}: NMSE {error:e}");
        }
    }
}

/// A decoder's text may be longer than a step; pooling takes rows of all its steps.
#[test]
fn vectors_are_of_the_rows_that_pooling_names() {
    let mut recipe = Recipe::recipe_of("qwen2-sees-all");
    recipe.keys.remove("attention.causal");
    for (name, recipe, more) in [("rows", Recipe::recipe_of("bert"), &[][..]), ("causal", recipe, &["-ub", "5"])] {
        let made = TemporaryModel::new(name, &recipe);
        let of = |pooling: &str| {
            let args = ["--tokens", TEXTS[0], "--embd-normalize", "-1", "--pooling", pooling];
            made.vectors(&[&args[..], more].concat())
        };
        let rows = of("none");
        assert_eq!(rows.len(), 17);
        assert_eq!((&of("cls")[..], &of("last")[..]), (&rows[..1], &rows[16..]), "{name}");
        let mean: Vec<f32> = (0..64).map(|i| rows.iter().map(|row| row[i]).sum::<f32>() / 17.0).collect();
        let error = nmse(&of("mean")[0], &mean);
        assert!(error < 1e-12, "{name}: NMSE {error:e}");
    }
}

#[test]
fn raw_numbers_are_those_of_the_json() {
    let made = TemporaryModel::new("raw", &Recipe::recipe_of("bert"));
    let vectors = made.vectors(&texts(&["--embd-normalize", "1"]));
    assert!(vectors.iter().all(|v| (v.iter().map(|x| x.abs()).sum::<f32>() - 1.0).abs() < 1e-5), "{vectors:?}");
    let out = made.0.with_extension("f32");
    let output = made.run(&texts(&["--embd-normalize", "1", "-o", out.to_str().unwrap()]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let raw = std::fs::read(&out).unwrap();
    let raw: Vec<f32> = raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    std::fs::remove_file(out).unwrap();
    let error = nmse(&raw, &vectors.concat());
    assert!(error < 1e-12, "NMSE {error:e}");
}

/// A vocabulary of letters, in words and alone.
fn letters(recipe: &mut Recipe) {
    let own = ["[UNK]", "[CLS]", "[SEP]"].map(String::from);
    let words = (b'a'..=b'z').map(|c| format!("\u{2581}{}", char::from(c)));
    let rest = (b'a'..=b'z').map(|c| char::from(c).to_string());
    let more = ["\u{2581},", "\u{2581}cde"].map(String::from);
    let mut tokens: Vec<String> = own.into_iter().chain(words).chain(rest).chain(more).collect();
    tokens.extend((tokens.len()..64).map(|i| format!("[{i}]")));
    let kinds: Vec<i32> = (0..tokens.len()).map(|i| [2, 3, 3].get(i).copied().unwrap_or(1)).collect();
    recipe.keys.insert("tokenizer.ggml.model".into(), json!("bert"));
    recipe.keys.insert("tokenizer.ggml.token_type".into(), json!(kinds));
    recipe.keys.insert("tokenizer.ggml.tokens".into(), json!(tokens));
    for (name, id) in [("unknown", 0), ("bos", 1), ("seperator", 2)] {
        recipe.keys.insert(format!("tokenizer.ggml.{name}_token_id"), json!(id));
    }
}

#[test]
fn rerank_scores_pairs_of_a_query_and_a_text() {
    let mut recipe = classifier();
    letters(&mut recipe);
    let made = TemporaryModel::new("rerank", &recipe);
    let json = made.json(&["--rerank", "ab", "cd", "a"]);
    let scores = json["scores"].as_array().unwrap();
    // [CLS] _a b [SEP] _c d [SEP]; [CLS] _a b [SEP] _a [SEP]
    let pairs = made.vectors(&["--tokens", "1,3,30,2,5,32,2", "--tokens", "1,3,30,2,3,2"]);
    assert_eq!((scores.len(), json["tokens"].clone()), (2, json!([7, 6])));
    for (i, (score, pair)) in scores.iter().zip(&pairs).enumerate() {
        assert_eq!(score["index"], i);
        let found: Vec<f32> =
            ["yes", "no", "maybe"].iter().map(|label| score["labels"][label].as_f64().unwrap() as f32).collect();
        assert!(nmse(&found, pair) < 1e-12 && score["score"] == score["labels"]["yes"], "{score}: {pair:?}");
    }
    recipe.keys.insert("tokenizer.chat_template.rerank".into(), json!("{query}, {document}"));
    let made = TemporaryModel::new("template", &recipe);
    assert_eq!(made.json(&["--rerank", "ab", "cd"])["tokens"], json!([7]), "[CLS] _a b _, _c d [SEP]");
}

#[test]
fn texts_come_from_arguments_files_and_lines() {
    let mut recipe = Recipe::recipe_of("bert");
    letters(&mut recipe);
    let made = TemporaryModel::new("texts", &recipe);
    let args = made.vectors(&["ab", "cdef, a"]);
    assert_eq!(args.len(), 2);
    assert_eq!(made.vectors(&["-p", "ab\ncdef, a", "--lines"]), args);
    assert_eq!(made.vectors(&["-p", "ab#cdef, a", "--embd-separator", "#"]), args);
    let file = made.0.with_extension("txt");
    std::fs::write(&file, "ab\n\ncdef, a\n").unwrap();
    assert_eq!(made.vectors(&["-f", file.to_str().unwrap(), "--lines"]), args);
    std::fs::remove_file(file).unwrap();
    assert_eq!(made.vectors(&["--tokens", "1,3,30,2", "--tokens", "1,56,34,55,3,2"]), args);
    // Letters are lowered, accents go, and what has no token is unknown as a word.
    assert_eq!(made.vectors(&["\u{c1}B", "CD\u{ea}f,\tA", "a\u{4e00}"])[..2], args[..]);
    assert_eq!(made.vectors(&["ab a? b"]), made.vectors(&["--tokens", "1,3,30,3,0,4,2"]));
}

/// However few rows a step may have.
#[test]
fn logits_of_rows_that_see_all_of_their_text_come_of_one_step() {
    let made = TemporaryModel::new("logits", &Recipe::recipe_of("llada"));
    let out = made.0.with_extension("logits");
    let logits = |ubatch: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
        command.args(["logits", "--device", "reference", "-ub", ubatch, "--tokens", TEXTS[0], "-m"]).arg(&made.0);
        let output = command.arg("-o").arg(&out).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(&out).unwrap()
    };
    let (whole, parts) = (logits("512"), logits("5"));
    std::fs::remove_file(&out).unwrap();
    assert!(whole.len() == 17 * 64 * 4 && whole == parts);
}

#[test]
fn what_cannot_be_embedded_is_refused_by_name() {
    let made = TemporaryModel::new("refused", &Recipe::recipe_of("bert"));
    let cases: [(&[&str], &[&str]); 7] = [
        (&["--tokens", "1,2", "--pooling", "rank"], &["cls.weight", "cls.output.weight", "found neither"]),
        (&["--tokens", "1,64"], &["token id 64", "64 ids"]),
        (&["--tokens", "1,x"], &["--tokens", "expected ids", "\"x\""]),
        (&["--tokens", "1", "--pooling", "most"], &["--pooling", "possible values"]),
        (&["--tokens", "1", "--rerank", "A"], &["cannot be used with"]),
        (&["some text"], &["vocabulary"]),
        (&["--tokens", "1", "--embd-normalize", "-2"], &["--embd-normalize", "-2"]),
    ];
    for (args, named) in cases {
        let said = made.refusal(args);
        assert!(named.iter().all(|n| said.contains(n)), "{args:?}: {said}");
    }
    let mut recipe = Recipe::recipe_of("bert");
    recipe.keys.insert("pooling_type".into(), json!(9));
    let said = TemporaryModel::new("pooling", &recipe).refusal(&["--tokens", "1"]);
    assert!(["bert.pooling_type", "4 (rank)", "found 9"].iter().all(|n| said.contains(n)), "{said}");
    let mut recipe = classifier();
    recipe.tensors.insert("cls.output.weight".into(), vec![32, 3]);
    let said = TemporaryModel::new("shape", &recipe).refusal(&["--tokens", "1"]);
    assert!(said.contains("cls.output.weight: expected shape [64, n], found [32, 3]"), "{said}");
}
