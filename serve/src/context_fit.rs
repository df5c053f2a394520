//! Conversations that are longer than the context.

use crate::engine::{Chat, Medium, Model};
use crate::errors::Result;
use crate::http::App;
use crate::media::marks;
use serde_json::Value;
use std::sync::Arc;

/// The conversation without so many of its oldest messages that it fits the context. What the system says stays, and the last message.
pub(crate) async fn fitting(
    app: &Arc<App>,
    model: &Arc<dyn Model>,
    whole: Chat,
    context: Option<usize>,
) -> Result<Chat> {
    let n_ctx = model.properties().n_ctx;
    let room = context.map_or(n_ctx, |most| most.min(n_ctx));
    let bytes: usize = whole.messages.iter().map(|m| m.to_string().len()).sum();
    // A token is no less than a byte, and what a template adds is no more than as much again.
    if 2 * bytes + 1024 < room && whole.tools.is_empty() && whole.media.is_empty() {
        return Ok(whole);
    }
    let model = model.clone();
    app.work(move || {
        let without = |count: usize| {
            let last = whole.messages.len() - 1;
            let mut left = count;
            let mut stays = |(at, message): &(usize, &Value)| {
                let goes = left > 0 && *at < last && message["role"] != "system";
                left -= usize::from(goes);
                !goes
            };
            let mut chat = Chat { messages: Vec::new(), media: Vec::new(), ..whole.clone() };
            let mut media = whole.media.iter();
            for message in whole.messages.iter().enumerate() {
                let held = if whole.media.is_empty() { 0 } else { marks(message.1) };
                let own: Vec<Medium> = media.by_ref().take(held).cloned().collect();
                if stays(&message) {
                    chat.messages.push(message.1.clone());
                    chat.media.extend(own);
                }
            }
            chat
        };
        let fits = |count: usize| model.render(&without(count)).is_ok_and(|(_, tokens)| tokens < room);
        let (mut fewest, mut most) = (0, whole.messages.len().saturating_sub(1));
        if fits(0) || !fits(most) {
            // What does not fit at all is refused with its numbers, and so is what no template takes.
            return Ok(without(0));
        }
        while most - fewest > 1 {
            let middle = (fewest + most) / 2;
            *(if fits(middle) { &mut most } else { &mut fewest }) = middle;
        }
        Ok(without(most))
    })
    .await
}
