//! gpt-oss's replies: messages of channels, of which one that is a call is the last.

use super::writer::{regex, LarkWriter};
use super::ToolChoice;

/// Most messages before the last: a reply ends, whether its model likes to or not.
pub const MOST: usize = 8;

/// The whole of a reply behind `<|start|>assistant`. The text of reasoning and the `<|end|>` behind it are not in it: who follows the
/// reply leaves them out.
pub fn reply(w: &mut LarkWriter, choice: &ToolChoice) -> String {
    let thought = write_reasoning(w);
    let said = w.text(None, "<|end|>");
    let said =
        w.rule(&format!("{} {said} {}", w.mark("<|channel|>commentary<|message|>"), w.mark("<|start|>assistant")));
    let call = call(w);
    let last = match choice {
        ToolChoice::Auto => {
            // Text that spells a message's head would be read as one.
            let text = w.rule(&format!("{} FINAL?", w.mark("<|channel|>final<|message|>")));
            w.define("FINAL", &format!("/(?s:.+)/ & ~/(?s:.*){}(?s:.*)/", regex("<|start|>")));
            format!("( {text} | {call} )")
        }
        _ => call,
    };
    format!("({thought} | {said}){{0,{MOST}}} {last}")
}

/// A message of reasoning without its text, and the head of the next message.
pub fn write_reasoning(w: &mut LarkWriter) -> String {
    w.rule(&format!("{} {}", w.mark("<|channel|>analysis<|message|>"), w.mark("<|start|>assistant")))
}

fn call(w: &mut LarkWriter) -> String {
    let json = format!("({} | \" \"? {})?", w.mark(" json"), w.mark("<|constrain|>json"));
    // Some vocabularies have the mark behind a call as the end of a reply.
    let end = match w.vocabulary.special("<|call|>").is_some_and(|id| w.vocabulary.ends.contains(&id)) {
        true => String::new(),
        false => w.mark("<|call|>"),
    };
    w.each_tool(|w, name, schema| {
        let to = w.mark(&format!(" to=functions.{name}"));
        let [channel, message] = [w.mark("<|channel|>commentary"), w.mark("<|message|>")];
        let value = w.value(schema);
        format!("( {to} {channel} | {channel} {to} ) {json} {message} {value} {end}")
    })
}
