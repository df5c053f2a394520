//! Texts to vectors and scores on a runner of their own. Calls that wait together share steps.

use super::loaded_model::LoadedModel;
use super::model_status::ModelStatus;
use super::refusal::{engine_failure, invalid, refusal, too_long, wrong};
use pumex_dialogue::embedding::{check, embed, normalize_vector, pair, ClassifierHead, Pooling, Steps};
use pumex_gguf::Result;
use pumex_serve::engine::{
    self, Embed, EmbeddingResult, Pooling as Asked, PromptPart, Refusal, RefusalKind, Rerank, ScoreSender,
};
use pumex_step::Runner;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::time::Instant;

/// Most texts of a step.
pub const MOST_TEXTS: u32 = 64;

/// What a call's texts become: vectors of each.
pub type TextVectors = Vec<Vec<Vec<f32>>>;

/// A call: ids of each text, and how their rows become vectors.
pub struct Call {
    /// Ids.
    pub texts: Vec<Vec<u32>>,
    /// Pooling.
    pub pooling: Pooling,
    /// Where what they become goes.
    pub reply: EmbeddingReply,
    /// Its place in the queue.
    pub place: QueueSlot,
}

/// Where what texts become goes.
pub enum EmbeddingReply {
    /// Vectors, scaled as asked for.
    Vectors(engine::VectorSender, Option<i32>),
    /// Scores.
    Scores(ScoreSender),
}

impl EmbeddingReply {
    fn is_gone(&self) -> bool {
        match self {
            EmbeddingReply::Vectors(to, _) => to.is_closed(),
            EmbeddingReply::Scores(to) => to.is_closed(),
        }
    }
}

/// A place in the queue, counted until it is dropped.
pub struct QueueSlot {
    shared: Arc<ModelStatus>,
    begun: Instant,
}

impl QueueSlot {
    /// A place among at most so many; how many there are, where none is free.
    ///
    /// # Errors
    /// A full queue.
    pub fn take(shared: &Arc<ModelStatus>, most: usize) -> std::result::Result<QueueSlot, usize> {
        let waiting = shared.waiting.fetch_add(1, Ordering::Relaxed);
        let place = QueueSlot { shared: shared.clone(), begun: Instant::now() };
        if waiting >= most {
            shared.view().metrics.requests_refused += 1;
            return Err(waiting);
        }
        Ok(place)
    }

    /// Counts what came of it.
    fn count_result(&self, tokens: usize, is_good: bool) {
        let metrics = &mut self.shared.view().metrics;
        metrics.steps += 1;
        metrics.prompt_tokens += tokens as u64;
        metrics.prompt_seconds += self.begun.elapsed().as_secs_f64();
        metrics.step_seconds += self.begun.elapsed().as_secs_f64();
        match is_good {
            true => metrics.requests_done += 1,
            false => metrics.requests_failed += 1,
        }
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.shared.view().idle_since = Some(Instant::now());
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Call {
    /// Tells who asked, who may have gone.
    pub fn tell(self, found: std::result::Result<TextVectors, Refusal>, lens: &[usize]) {
        let tokens: usize = lens.iter().sum();
        self.place.count_result(tokens, found.is_ok());
        match self.reply {
            EmbeddingReply::Vectors(to, normalize) => {
                let _ = to.send(found.map(|found| pool_and_normalize(found, lens, self.pooling, normalize)));
            }
            EmbeddingReply::Scores(to) => {
                let score = |of: Vec<Vec<f32>>| of.first().and_then(|scores| scores.first()).copied().unwrap_or(0.0);
                let _ = to.send(found.map(|found| (found.into_iter().map(score).collect(), tokens)));
            }
        }
    }
}

/// Works on calls until nobody can make one; fails with the runner.
///
/// # Errors
/// The runner's.
pub fn serve(runner: &mut dyn Runner, head: &ClassifierHead, calls: &Receiver<Call>) -> Result<()> {
    let mut next = None;
    while let Some(first) = next.take().or_else(|| calls.recv().ok()) {
        let mut together = vec![first];
        next = gather(&mut together, calls);
        together.retain(|call| {
            let gone = call.reply.is_gone();
            call.place.shared.view().metrics.requests_cancelled += u64::from(gone);
            !gone
        });
        let Some(pooling) = together.first().map(|call| call.pooling) else { continue };
        let counts: Vec<usize> = together.iter().map(|call| call.texts.len()).collect();
        let texts: Vec<Vec<u32>> = together.iter_mut().flat_map(|call| std::mem::take(&mut call.texts)).collect();
        let lens: Vec<usize> = texts.iter().map(Vec::len).collect();
        let steps = Steps::new(&lens, runner.max_rows());
        let found = embed(runner, &texts, &steps, (pooling, head), &AtomicBool::new(false));
        let mut found = found.map(|found| found.unwrap_or_default().into_iter());
        let mut lens = &lens[..];
        for (call, count) in together.into_iter().zip(counts) {
            let told = match &mut found {
                Ok(found) => {
                    let own: TextVectors = found.by_ref().take(count).collect();
                    let checked = own.iter().try_for_each(|of| check(of));
                    checked.map(|()| own).map_err(|error| refusal(RefusalKind::Failed, error.to_string()))
                }
                Err(error) => Err(engine_failure(error)),
            };
            let (own, rest) = lens.split_at(count);
            call.tell(told, own);
            lens = rest;
        }
        found?;
    }
    Ok(())
}

/// Takes calls that wait and can share steps with the first one, as long as a step may have room; gives one that cannot.
fn gather(together: &mut Vec<Call>, calls: &Receiver<Call>) -> Option<Call> {
    let mut count = together.iter().map(|call| call.texts.len()).sum::<usize>();
    while count < MOST_TEXTS as usize {
        let call = calls.try_recv().ok()?;
        if call.pooling != together[0].pooling {
            return Some(call);
        }
        count += call.texts.len();
        together.push(call);
    }
    None
}

impl LoadedModel {
    fn whole(&self, ids: Vec<u32>) -> std::result::Result<Vec<u32>, Refusal> {
        let most = self.n_ctx();
        match ids.len() {
            0 => Err(invalid("input", "input: a text has no tokens, and at least one is needed".into())),
            n if n > most => Err(too_long(n, most)),
            _ => Ok(ids),
        }
    }

    /// Ids of the texts of a call, and how they are pooled.
    ///
    /// # Errors
    /// A model that gives no vectors, texts that are too long.
    pub fn texts(&self, request: &Embed) -> std::result::Result<(Vec<Vec<u32>>, Pooling), Refusal> {
        let Some(usual) = self.properties.embeds else {
            let what = "this model gives text, not vectors: start the server with --embeddings";
            return Err(refusal(RefusalKind::Unsupported, what));
        };
        let text = |parts: &Vec<PromptPart>| {
            let mut ids = Vec::new();
            for (i, part) in parts.iter().enumerate() {
                match part {
                    PromptPart::Token(id) if (*id as usize) < self.properties.n_vocab => ids.push(*id),
                    PromptPart::Token(id) => {
                        let n_vocab = self.properties.n_vocab;
                        return Err(invalid("input", format!("input: expected ids below {n_vocab}, found {id}")));
                    }
                    PromptPart::Medium(medium) => return Err(super::media::no_media(medium)),
                    PromptPart::Text(text) => {
                        let bos = i == 0 && self.tokenizer.add_bos();
                        ids.extend(self.tokenizer.encode(text, bos, true).map_err(wrong("input"))?);
                        ids.extend(self.tokenizer.closing().filter(|_| i + 1 == parts.len()));
                    }
                }
            }
            let (most, end) = (self.n_ctx(), self.tokenizer.closing());
            if request.truncate && ids.len() > most {
                ids.truncate(most);
                // What stands at every text's end does so behind what is left of it.
                ids.last_mut().zip(end).into_iter().for_each(|(last, end)| *last = end);
            }
            self.whole(ids)
        };
        let texts = request.inputs.iter().map(text).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok((texts, of(request.pooling.unwrap_or(usual))))
    }

    /// Ids of a query with each of the texts to rank.
    ///
    /// # Errors
    /// A model that gives no scores, texts that are too long.
    pub fn pairs(&self, request: &Rerank) -> std::result::Result<Vec<Vec<u32>>, Refusal> {
        if self.properties.embeds != Some(Asked::Rank) {
            let what =
                "this model gives no scores: start the server with --reranking and a model that has a classifier";
            return Err(refusal(RefusalKind::Unsupported, what));
        }
        let template = self.rerank_template.as_deref();
        let pair = |text: &String| pair(&self.tokenizer, template, &request.query, text).map_err(wrong("documents"));
        request.documents.iter().map(|text| self.whole(pair(text)?)).collect()
    }
}

/// Vectors as a request wants them.
fn pool_and_normalize(
    vectors: TextVectors,
    lens: &[usize],
    pooling: Pooling,
    normalize: Option<i32>,
) -> Vec<EmbeddingResult> {
    let p = normalize.unwrap_or(if pooling == Pooling::None { -1 } else { 2 });
    let scale = |v: Vec<f32>| if pooling == Pooling::Rank { v } else { normalize_vector(v, p) };
    let texts = vectors.into_iter().zip(lens);
    texts
        .map(|(all, tokens)| EmbeddingResult { vectors: all.into_iter().map(scale).collect(), tokens: *tokens })
        .collect()
}

/// The library's name of a pooling.
pub fn of(pooling: Asked) -> Pooling {
    match pooling {
        Asked::None => Pooling::None,
        Asked::Mean => Pooling::Mean,
        Asked::Cls => Pooling::Cls,
        Asked::Last => Pooling::Last,
        Asked::Rank => Pooling::Rank,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use tokio::sync::oneshot;

    #[test]
    fn calls_that_wait_go_together_up_to_what_a_step_has_room_for() {
        let (to, from) = channel();
        let shared = Arc::new(ModelStatus::new((1, 8), Vec::new()));
        let call = |texts: usize, pooling| {
            let place = QueueSlot::take(&shared, 9).unwrap_or_else(|n| panic!("{n} wait"));
            Call { texts: vec![vec![1]; texts], pooling, reply: EmbeddingReply::Scores(oneshot::channel().0), place }
        };
        for (texts, pooling) in [(2, Pooling::Mean), (61, Pooling::Mean), (1, Pooling::Mean), (1, Pooling::Last)] {
            to.send(call(texts, pooling)).unwrap();
        }
        let round = |first: Option<Call>| {
            let mut together = vec![first.unwrap_or_else(|| from.recv().unwrap())];
            let other = gather(&mut together, &from);
            (together.iter().map(|call| call.texts.len()).collect::<Vec<_>>(), other)
        };
        let (first, none) = round(Some(call(3, Pooling::Mean)));
        assert_eq!((first, none.is_none()), (vec![3, 2, 61], true));
        let (second, other) = round(None);
        assert_eq!((second, other.as_ref().map(|call| call.pooling)), (vec![1], Some(Pooling::Last)));
        assert_eq!(round(other).0, [1]);
        assert_eq!(shared.waiting.load(Ordering::Relaxed), 0, "all are over");
    }
}
