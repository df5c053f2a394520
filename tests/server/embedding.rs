//! Vectors of many clients at once.

use super::{greedy, load, prompts, settings, wait};
use pumex::server::ModelSettings;
use pumex_serve::engine::{Embed, EmbeddingResult, Model, PromptPart, Refusal, RefusalKind};
use tokio::sync::oneshot;

/// Vectors of texts, when they are there.
fn vectors(model: &dyn Model, inputs: Vec<Vec<PromptPart>>) -> Result<Vec<EmbeddingResult>, Refusal> {
    let (reply, done) = oneshot::channel();
    model.embed(&Embed { inputs, truncate: false, pooling: None, normalize: None }, reply)?;
    done.blocking_recv().unwrap()
}

#[test]
fn vectors_of_clients_that_ask_at_once_are_those_of_each_alone() {
    let model = load(ModelSettings { embeds: true, ..super::exact(1) });
    let embed = |texts: &[String]| {
        let inputs = texts.iter().map(|text| vec![PromptPart::Text(text.clone())]).collect();
        vectors(&model, inputs).unwrap()
    };
    let texts = prompts(20);
    let alone: Vec<_> = texts.iter().flat_map(|text| embed(std::slice::from_ref(text))).collect();
    assert!(alone.windows(2).all(|pair| pair[0] != pair[1]));
    let together: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = texts.chunks(4).map(|some| scope.spawn(|| embed(some))).collect();
        asked.into_iter().flat_map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(together, alone);
    let long = "word ".repeat(400);
    let inputs = vec![vec![PromptPart::Text(long)]];
    let refused = vectors(&model, inputs).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::ContextExceeded);
    let text = model.generate(greedy("a", 1), tokio::sync::mpsc::channel(1).0).unwrap_err();
    assert_eq!(text.kind, RefusalKind::Unsupported);
    let writer = load(settings(1));
    let refused = vectors(&writer, vec![vec![PromptPart::Token(1)]]);
    assert_eq!(refused.unwrap_err().kind, RefusalKind::Unsupported);
}

#[test]
fn texts_of_clients_that_are_gone_are_left_out_and_the_queue_has_an_end() {
    let model = load(ModelSettings { embeds: true, queue: 2, ..settings(1) });
    let inputs = vec![vec![PromptPart::Text("And it came to pass ".repeat(30))]; 64];
    let embed = Embed { inputs, truncate: false, pooling: None, normalize: None };
    let mut gone = 0;
    let refused = (0..1000).find_map(|_| {
        let refused = model.embed(&embed, oneshot::channel().0).err();
        gone += u64::from(refused.is_none());
        refused
    });
    wait("all are over", || model.metrics().requests_waiting == 0);
    let metrics = model.metrics();
    assert_eq!(metrics.requests_cancelled + metrics.requests_done, gone);
    assert!(metrics.requests_cancelled > 0 && model.idle().is_some());
    assert_eq!(refused.map_or(0, |refused| u64::from(refused.kind == RefusalKind::Busy)), metrics.requests_refused);
    assert_eq!(vectors(&model, vec![vec![PromptPart::Token(1)]]).unwrap().len(), 1);
}
