//! A model's thread: loads it, works, and loads it anew when the runner failed.

use super::draft::{self, DraftRunner};
use super::embedding::{self, Call};
use super::loaded_model::{LoadedModel, TextParts};
use super::model_status::ModelStatus;
use super::projector::Eyes;
use super::queue::Queue;
use super::refusal::{public_text, refusal, stopping};
use super::request::Job;
use super::settings::{DraftModel, ModelSettings, TestFault};
use super::worker::{Worker, WorkerCommand, WorkerExit, WorkerParts};
use pumex_dialogue::embedding::ClassifierHead;
use pumex_engine as engine;
use pumex_engine::{state, Options};
use pumex_gguf::{Error, Gguf, Result};
use pumex_model as model;
use pumex_serve::engine::{Event, RefusalKind};
use pumex_step::Runner;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::Arc;

/// Times that a model is loaded anew after it failed without a step in between.
const TRIES: u32 = 3;

/// Who can ask what of the thread.
pub enum Inbox {
    /// For text.
    Commands(Receiver<WorkerCommand>),
    /// For vectors.
    Calls(Receiver<Call>),
}

/// What a model is, once it is loaded.
pub type Ready = Result<(Arc<LoadedModel>, Arc<ModelStatus>)>;

/// Loads a model, says what it is, and works until nobody needs it.
pub fn main(settings: ModelSettings, inbox: &Inbox, ready: &Sender<Ready>) {
    let known = match first(&settings, inbox, ready) {
        Ok(known) => known,
        Err(error) => {
            // Who asked waits for this.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let Some(mut state) = known else { return };
    let mut failures = 0;
    loop {
        state.shared.loading.store(true, Ordering::Relaxed);
        let before = state.shared.view().metrics.steps;
        match catch_panic(|| again(&mut state, inbox)).unwrap_or_else(Err) {
            Ok(WorkerExit::Stopped) => return,
            Ok(WorkerExit::Failed(error)) | Err(error) => {
                failures = if state.shared.view().metrics.steps > before { 1 } else { failures + 1 };
                tracing::error!("the engine failed, and is loaded anew: {error}");
                if failures >= TRIES {
                    give_up(&mut state, inbox, &error);
                    return;
                }
            }
        }
    }
}

/// What goes on from one runner to the next.
struct ModelThread {
    loaded: Arc<LoadedModel>,
    shared: Arc<ModelStatus>,
    queue: Queue<Box<Job>>,
    fault: Option<TestFault>,
}

/// Loads it for the first time and works. None if that was all; else what goes on.
fn first(settings: &ModelSettings, inbox: &Inbox, ready: &Sender<Ready>) -> Result<Option<ModelThread>> {
    let gguf = (settings.open)()?;
    let mut options = settings.options();
    if settings.embeds {
        options = embedding_options(&gguf, settings)?;
    } else if model::plan(&gguf)?.looks_ahead() {
        let what = "the model sees whole texts and writes none: --embeddings serves its vectors";
        return Err(Error::file(gguf.path(), "unsupported", what));
    }
    let eyes = if settings.embeds { None } else { Eyes::open(&gguf, settings)? };
    make_room(&mut options, eyes.as_ref(), settings)?;
    // The vocabulary is read while the device takes the weights.
    let (text, runner) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| TextParts::read(&gguf, settings));
        let runner = engine::load(&gguf, &options, &mut |_, _| ());
        let text = reading.join().unwrap_or_else(|_| Err(Error::Request("the vocabulary could not be read".into())));
        (text, runner)
    });
    let (text, mut runner) = (text?, runner?);
    if runner.answers_from().is_some() && settings.draft.is_some() {
        let what = "--model-draft: expected a model that continues texts, found one that answers sources";
        return Err(Error::file(gguf.path(), "unsupported", what));
    }
    let loaded = Arc::new(LoadedModel::new(&gguf, (text, eyes), settings.clone(), &*runner)?);
    // What cannot be promised is told before anybody asks.
    let why = match settings.embeds {
        true => Some("expected a model that answers, found one that gives vectors, whose texts share steps"),
        false => loaded.unsteady.as_deref(),
    };
    if let Some(why) = why.filter(|_| settings.deterministic) {
        return Err(Error::Request(format!("--deterministic: {why}")));
    }
    if settings.slot_folder.is_some() {
        loaded.fingerprint.get_or_init(|| state::fingerprint(&gguf));
    }
    let shared = Arc::new(ModelStatus::new((settings.slots, loaded.n_ctx()), settings.scales()));
    if let Some(draft) = &settings.draft {
        draft::check(&loaded.tokenizer, &pumex_text::Tokenizer::from_gguf(&(draft.open)()?)?)?;
    }
    let told = ready.send(Ok((loaded.clone(), shared.clone())));
    if told.is_err() {
        return Ok(None);
    }
    let mut state = ModelThread { loaded, shared, queue: Queue::default(), fault: settings.fault };
    let done = work(&mut state, inbox, (&gguf, &mut *runner));
    drop(runner);
    match done {
        Ok(WorkerExit::Stopped) => Ok(None),
        Ok(WorkerExit::Failed(error)) | Err(error) => {
            tracing::error!("the engine failed, and is loaded anew: {error}");
            Ok(Some(state))
        }
    }
}

/// Makes steps large enough for any picture whose rows see each other, beside the answers of all slots, and leaves memory to the encoder.
fn make_room(options: &mut engine::Options, eyes: Option<&Eyes>, settings: &ModelSettings) -> Result<()> {
    options.reserved_bytes = eyes.map_or(0, Eyes::reserved_bytes);
    if let Some(most) = eyes.map(Eyes::widest).transpose()?.filter(|most| *most > 0) {
        let rows = u32::try_from(most + settings.slots).unwrap_or(u32::MAX);
        options.max_rows = options.max_rows.max(rows);
    }
    Ok(())
}

/// Loads it anew and works.
fn again(state: &mut ModelThread, inbox: &Inbox) -> Result<WorkerExit> {
    let settings = &state.loaded.settings;
    let gguf = (settings.open)()?;
    let mut options = if settings.embeds { embedding_options(&gguf, settings)? } else { settings.options() };
    make_room(&mut options, state.loaded.eyes.as_ref(), settings)?;
    let mut runner = engine::load(&gguf, &options, &mut |_, _| ())?;
    work(state, inbox, (&gguf, &mut *runner))
}

/// What panics is an error like others, after which the model is loaded anew.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Error::Request(format!("a panic: {text}"))
    })
}

/// Works with a model that is loaded: a panic then does not mean that it could not be loaded so.
fn work(state: &mut ModelThread, inbox: &Inbox, loaded: (&Gguf, &mut dyn Runner)) -> Result<WorkerExit> {
    catch_panic(|| serve(state, inbox, loaded)).unwrap_or_else(|panic| Ok(WorkerExit::Failed(panic)))
}

fn serve(state: &mut ModelThread, inbox: &Inbox, (gguf, runner): (&Gguf, &mut dyn Runner)) -> Result<WorkerExit> {
    state.shared.loading.store(false, Ordering::Relaxed);
    match inbox {
        Inbox::Commands(commands) => {
            let (settings, n_ctx) = (&state.loaded.settings, state.loaded.n_ctx());
            let opened = settings.draft.as_ref().map(|draft| (draft.open)()).transpose()?;
            let small = settings.draft.as_ref().zip(opened.as_ref());
            let load = |(draft, gguf): (&DraftModel, _)| {
                engine::load(gguf, &draft.options(settings.slots, n_ctx), &mut |_, _| ())
            };
            let mut small = small.map(load).transpose()?;
            let draft = small.as_mut().map(|small| DraftRunner::new(&mut **small, settings.slots));
            let parts = WorkerParts {
                runner,
                draft,
                loaded: state.loaded.clone(),
                status: state.shared.clone(),
                queue: &mut state.queue,
                fault: &mut state.fault,
            };
            Ok(Worker::new(parts)?.run(commands))
        }
        Inbox::Calls(calls) => {
            let scales = state.loaded.settings.scales();
            (0..embedding::MOST_TEXTS).try_for_each(|seq| runner.set_adapter_scales(seq, &scales))?;
            let head = model::plan(gguf).and_then(|plan| {
                let plan = plan.embedding();
                ClassifierHead::read(gguf, plan.n_vocab, plan.looks_ahead())
            });
            embedding::serve(runner, &head?, calls).map(|()| WorkerExit::Stopped)
        }
    }
}

/// Room for texts to embed: as long as the model takes them, and several to a step.
fn embedding_options(gguf: &Gguf, settings: &ModelSettings) -> Result<Options> {
    let plan = model::plan(gguf)?.embedding();
    let trained = u32::try_from(plan.n_ctx_train).unwrap_or(u32::MAX);
    let mut options = settings.engine.clone();
    let n_ctx = options.n_ctx.filter(|n| *n > 0).map_or(trained, |n| n.min(trained));
    if plan.looks_ahead() {
        // All of a text must stand in one step.
        options.max_rows = options.max_rows.max(n_ctx);
    }
    let block = pumex_engine::session::KV_BLOCK as u32;
    let positions = n_ctx.max(options.max_rows) + embedding::MOST_TEXTS * block;
    Ok(Options {
        n_ctx: Some(n_ctx),
        n_seqs: embedding::MOST_TEXTS,
        cache_positions: Some(positions),
        embeds: true,
        ..options
    })
}

/// The model does not come up again: all who wait are told, now and from now on.
fn give_up(state: &mut ModelThread, inbox: &Inbox, error: &Error) {
    let why = refusal(RefusalKind::Failed, format!("the engine failed: {}", public_text(error)));
    state.shared.view().failed = Some(public_text(error));
    let tell = |job: &Job| {
        // Its reader may be gone.
        let _ = job.events.try_send(Event::Failed(why.clone()));
    };
    state.queue.remove(|_| true).iter().for_each(|job| tell(job));
    match inbox {
        Inbox::Commands(commands) => {
            while let Ok(command) = commands.recv() {
                match command {
                    WorkerCommand::Generate(job) => tell(&job),
                    WorkerCommand::Slot(call) => {
                        let _ = call.reply.send(Err(stopping()));
                    }
                    WorkerCommand::Stop => return,
                }
            }
        }
        Inbox::Calls(calls) => {
            while let Ok(call) = calls.recv() {
                call.tell(Err(why.clone()), &[]);
            }
        }
    }
}
