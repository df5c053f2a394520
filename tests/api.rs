//! The library as programs use it, with the demo model on the CPU.

use crate::util::{demo_path, shared_folder};
use pumex::{Constraint, Error, FinishReason, Message, Model, Pooling, Prompt, Sampling};
use serde_json::{json, Value};

const PROMPT: &str = "In the beginning";

fn demo() -> Model {
    Model::options().device("cpu").n_ctx(256).open(demo_path()).unwrap()
}

fn error_text<T>(result: pumex::Result<T>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn an_answer_is_the_same_whole_in_parts_and_id_by_id() {
    let model = demo();
    let greedy = || model.generate(PROMPT).max_tokens(12).temperature(0.0);
    let reply = greedy().reply().unwrap();
    assert_eq!(reply.finish, FinishReason::Length);
    assert_eq!((reply.completion_tokens, reply.tokens.len()), (12, 12));
    let parts: Vec<String> = greedy().stream().unwrap().map(|chunk| chunk.unwrap().to_string()).collect();
    assert!(parts.len() > 1, "{parts:?}");
    assert_eq!(parts.concat(), reply.text);

    let ids = model.tokenize(PROMPT).unwrap();
    assert_eq!(reply.prompt_tokens, ids.len());
    assert_eq!(model.generate(ids.clone()).max_tokens(12).temperature(0.0).text().unwrap(), reply.text);
    let mut session = model.session().unwrap();
    let sampling = Sampling { temperature: Some(0.0), ..Sampling::default() };
    let mut sampler = model.sampler(&sampling, None).unwrap();
    let mut logits = session.eval(&ids).unwrap();
    let mut found = Vec::new();
    for _ in 0..12 {
        found.push(sampler.sample(&logits).unwrap());
        sampler.accept(found[found.len() - 1]).unwrap();
        logits = session.eval(&found[found.len() - 1..]).unwrap();
    }
    assert_eq!(found, reply.tokens.iter().map(|t| t.id).collect::<Vec<_>>());
    assert_eq!(model.detokenize(&found).unwrap(), reply.text);
}

#[test]
fn models_are_shared_by_threads_and_answers_may_be_left() {
    fn assert_sync<T: Send + Sync>(_: &T) {}
    fn assert_send<T: Send>(_: &T) {}
    let model = Model::options().device("cpu").n_ctx(256).parallel(2).open(demo_path()).unwrap();
    assert_sync(&model);
    let answer = model.generate(PROMPT).stream().unwrap();
    assert_send(&answer);
    assert_send(&model.session().unwrap());
    // It never ends by itself within the time of a test, and takes one of two slots.
    drop(answer);
    let prompts = ["One", "Two", "Three", "Four"];
    let texts: Vec<String> = std::thread::scope(|scope| {
        let ask = |prompt| model.generate(prompt).max_tokens(8).temperature(0.0).text().unwrap();
        let all: Vec<_> = prompts.iter().map(|prompt| scope.spawn(move || ask(*prompt))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(texts.iter().filter(|text| text.is_empty()).count(), 0, "{texts:?}");
    let last = model.clone().generate(PROMPT).max_tokens(4).stream().unwrap();
    drop(model);
    assert_eq!(last.reply().unwrap().completion_tokens, 4);
}

#[test]
fn conversations_and_shapes_hold() {
    let model = demo();
    let messages = [Message::system("Be brief."), Message::user("Who floats?")];
    let reply = model.chat(messages.clone()).max_tokens(6).temperature(0.0).seed(1).reply().unwrap();
    assert!(reply.prompt_tokens > 10 && reply.completion_tokens <= 6, "{reply:?}");
    let schema = json!({
        "type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}}, "required": ["a", "b"],
        "additionalProperties": false,
    });
    let text = model.chat(messages).json_schema(schema).seed(3).text().unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert!([json!(1), json!(2)].contains(&value["a"]) && value["b"].is_boolean(), "{text}");
    assert_eq!(model.generate(PROMPT).grammar("root ::= \"yes\"").text().unwrap(), "yes");
    let found = model.generate(PROMPT).regex("[ab]{3}").logprobs(2).reply().unwrap();
    assert!(found.text.len() == 3 && found.text.bytes().all(|b| b"ab".contains(&b)), "{found}");
    assert!(found.tokens.iter().all(|t| t.logprob.is_some_and(|p| p <= 0.0) && t.top.len() == 2), "{found:?}");
    let within = Constraint::Regex("x+y".into());
    let mut sampler = model.sampler(&Sampling::default(), Some(&within)).unwrap();
    let logits = model.logits(&model.tokenize(PROMPT).unwrap()).unwrap();
    let id = sampler.sample(&logits[0]).unwrap();
    assert!(model.token_bytes(id, false).unwrap().iter().all(|b| b"xy".contains(b)));
}

#[test]
fn vectors_have_length_one_whoever_stands_beside_them() {
    let model = Model::options().device("cpu").n_ctx(64).embeddings(true).open(demo_path()).unwrap();
    let both = model.embed(["a stone", "the sea"]).unwrap();
    for (text, vector) in ["a stone", "the sea"].iter().zip(&both) {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
        let alone = &model.embed([text]).unwrap()[0];
        assert!(alone.iter().zip(vector).all(|(a, b)| (a - b).abs() < 1e-3), "{text}");
    }
    let each = model.embed_with(["a stone"], Some(Pooling::None), Some(-1), false).unwrap();
    assert_eq!(each[0].0.len(), each[0].1);
    assert!(error_text(model.embed(["stone ".repeat(500)])).contains("64"));
}

#[test]
fn sequences_go_back_and_are_kept() {
    let model = demo();
    let ids = model.tokenize("In the beginning was").unwrap();
    let rows = model.logits(&ids).unwrap();
    assert_eq!((rows.len(), rows[0].len()), (ids.len(), model.n_vocab()));
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 0.05 * (1.0 + b.abs()));
    let mut session = model.session().unwrap();
    assert!(near(&session.eval(&ids).unwrap(), &rows[ids.len() - 1]));
    assert_eq!(session.forget(2).unwrap(), 2);
    assert!(near(&session.eval(&ids[2..]).unwrap(), &rows[ids.len() - 1]));
    let kept = session.save().unwrap();
    let next = session.eval(&[5]).unwrap();
    let mut other = model.session().unwrap();
    other.restore(ids.len(), kept.clone()).unwrap();
    let again = other.eval(&[5]).unwrap();
    assert!(again == next, "what was kept gives the same bits");
    assert_eq!(other.held(), ids.len() + 1);
    assert!(other.restore(ids.len(), kept[..kept.len() / 2].to_vec()).is_err());
    assert_eq!(other.held(), 0);
}

#[test]
fn errors_name_what_is_wrong() {
    let open = |path: &str| Model::options().device("cpu").open(path);
    assert!(error_text(open("no/such.gguf")).starts_with("no/such.gguf: "));
    assert!(error_text(open(file!())).contains("api.rs: "));
    assert!(matches!(Model::options().cache_types("f16", "q9"), Err(Error::Request(text)) if text.contains("q9")));
    assert!(error_text(Model::options().device("no such device").open(demo_path())).starts_with("device"));
    assert!(error_text(Model::options().device("cpu").mmproj("no.gguf").open(demo_path())).starts_with("no.gguf"));
    let model = Model::options().device("cpu").n_ctx(64).on_demand(true).open(demo_path()).unwrap();
    assert!(error_text(model.generate(PROMPT).grammar("root ::= x").stream()).contains("grammar"));
    assert!(error_text(model.generate(PROMPT).temperature(f32::NAN).stream()).contains("temperature"));
    assert!(error_text(model.generate("stone ".repeat(500)).reply()).contains("64"));
    assert!(error_text(model.generate(vec![9_999_999]).reply()).contains("9999999"));
    assert!(error_text(model.detokenize(&[9_999_999])).contains("9999999"));
    assert!(error_text(model.chat([Message::user("").image_bytes(vec![0; 9])]).reply()).contains("mmproj"));
    assert!(error_text(Message::from_json(json!({"content": "x"}))).contains("role"));
    let mut session = model.session().unwrap();
    assert!(error_text(session.eval(&[])).contains("ids"));
    assert!(error_text(session.eval(&[1; 65])).contains("64"));
    assert!(error_text(session.eval(&[u32::MAX])).contains("4294967295"));
    let mut sampler = model.sampler(&Sampling::default(), None).unwrap();
    assert!(error_text(sampler.sample(&[0.0])).contains("logits"));
}

#[test]
fn pictures_stand_in_prompts_and_messages() {
    let Some(shared) = shared_folder() else { return };
    let path = |name: &str| shared.join("golden/vision").join(name);
    let options = Model::options().device("cpu").n_ctx(256).mmproj(path("mmproj/qwen2vl.gguf"));
    let model = options.open(path("text/tiny-qwen2vl.gguf")).unwrap();
    let [a, d] = ["a_gradient_224x224", "d_checker_33x20"].map(|name| path(&format!("images/{name}.png")));
    let bytes = |path: &std::path::Path| std::fs::read(path).unwrap();
    let told = |picture: &std::path::Path| {
        let prompt = Prompt::from("hi").image_bytes(bytes(picture)).text("ok");
        model.generate(prompt).max_tokens(6).temperature(0.0).reply().unwrap()
    };
    assert!(told(&a).prompt_tokens > 60);
    assert_ne!((told(&a).prompt_tokens, told(&a).text), (told(&d).prompt_tokens, told(&d).text));
    let message = || Message::user("What is it?").image(&a).unwrap();
    let reply = model.chat([message()]).max_tokens(2).reply().unwrap();
    assert!(reply.prompt_tokens > 60, "{}", reply.prompt_tokens);
    let without = model.chat([Message::user("What is it?")]).max_tokens(2).reply().unwrap();
    assert!(without.prompt_tokens + 50 < reply.prompt_tokens);
}
