//! Vectors of many clients at once.

use super::{greedy, load, prompts, settings};
use pumex::server::Settings;
use pumex_serve::engine::{Embed, Model, PromptPart, RefusalKind};

#[test]
fn vectors_of_clients_that_ask_at_once_are_those_of_each_alone() {
    let model = load(Settings { embeds: true, ..super::exact(1) });
    let embed = |texts: &[String]| {
        let inputs = texts.iter().map(|text| vec![PromptPart::Text(text.clone())]).collect();
        model.embed(&Embed { inputs, pooling: None, normalize: None }).unwrap()
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
    let refused = model.embed(&Embed { inputs, pooling: None, normalize: None }).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::ContextExceeded);
    let text = model.generate(greedy("a", 1), tokio::sync::mpsc::channel(1).0).unwrap_err();
    assert_eq!(text.kind, RefusalKind::Unsupported);
    let writer = load(settings(1));
    let refused = writer.embed(&Embed { inputs: vec![vec![PromptPart::Token(1)]], pooling: None, normalize: None });
    assert_eq!(refused.unwrap_err().kind, RefusalKind::Unsupported);
}
