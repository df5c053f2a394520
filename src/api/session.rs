//! One sequence, id by id: for programs that choose ids themselves.

use crate::conversation::{check_ids, rows, run_chunks, Constraint as _};
use crate::engine::{self, Options};
use crate::gguf::Gguf;
use crate::grammar::{self, GrammarMask, GrammarSource};
use crate::sample::{self, Allowed};
use crate::step::{RowOutput, Runner};
use crate::text::Tokenizer;
use crate::{model, server, Error, Result};
use pumex_serve::engine::{Constraint, Sampling};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;

type Work = Box<dyn FnOnce(&mut dyn Runner) + Send>;

/// One sequence of ids in a context of its own, which gives logits. It is computed on a thread of its own; methods wait for it.
pub struct Session {
    work: Sender<Work>,
    n_vocab: usize,
    n_ctx: usize,
    held: usize,
}

impl Session {
    /// Loads the model for one sequence. Blocks until it is there.
    pub(super) fn load(gguf: Arc<Gguf>, options: Options) -> Result<Session> {
        let plan = model::plan(&gguf)?;
        if plan.encoder.is_some() || plan.looks_ahead() {
            let what = "expected a model that continues texts, found one whose texts must stand in one step";
            return Err(Error::file(gguf.path(), "unsupported", what));
        }
        let (work, inbox) = channel();
        let (ready, loaded) = channel();
        let main = move || serve(&gguf, &options, &inbox, &ready);
        let spawned = std::thread::Builder::new().name("sequence".into()).spawn(main);
        spawned.map_err(|e| Error::Request(format!("a thread for the sequence: {e}")))?;
        let (n_vocab, n_ctx) = loaded.recv().map_err(|_| session_ended_error())??;
        Ok(Session { work, n_vocab, n_ctx, held: 0 })
    }

    fn ask<T: Send + 'static>(&self, work: impl FnOnce(&mut dyn Runner) -> Result<T> + Send + 'static) -> Result<T> {
        let (reply, done) = channel();
        let work: Work = Box::new(move |runner| {
            // Who asked waits for this.
            let _ = reply.send(work(runner));
        });
        self.work.send(work).map_err(|_| session_ended_error())?;
        done.recv().map_err(|_| session_ended_error())?
    }

    /// Ids of the vocabulary, and so logits of a row.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Positions of the context.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    /// Ids that it holds.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Goes on with ids, and gives the logits after the last of them, `[n_vocab]`.
    ///
    /// # Errors
    /// No ids, ids that the vocabulary lacks, more than the context has room for, a device that fails.
    pub fn eval(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        self.run(ids, false)
    }

    /// Goes on with ids, and gives the logits after each of them, `[ids, n_vocab]`.
    ///
    /// # Errors
    /// As [`Session::eval`].
    pub fn eval_all(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        self.run(ids, true)
    }

    fn run(&mut self, ids: &[u32], all: bool) -> Result<Vec<f32>> {
        let (ids, start, n_ctx) = (ids.to_vec(), self.held, self.n_ctx);
        let n = ids.len();
        if n == 0 {
            return Err(Error::Request("ids: expected at least one, found none".into()));
        }
        if n > n_ctx.saturating_sub(start) {
            let what = format!("{n} ids after {start}: the context has {n_ctx} positions (n_ctx)");
            return Err(Error::Request(what));
        }
        check_ids(&ids, self.n_vocab)?;
        let done = self.ask(move |runner| {
            let output = |i| if all || i + 1 == n { RowOutput::Logits } else { RowOutput::None };
            let mut logits = Vec::new();
            let ran = run_chunks(runner, &rows(&ids, start, output), &AtomicBool::new(false), &mut |output| {
                logits.extend(output.logits);
                Ok(())
            });
            if let Err(error) = ran {
                runner.forget(0, start as u32);
                return Err(error);
            }
            Ok(logits)
        })?;
        self.held = start + n;
        Ok(done)
    }

    /// Forgets ids from position `from` on. Gives how many are held now: fewer than `from` where a state cannot go back.
    ///
    /// # Errors
    /// A thread that ended.
    pub fn forget(&mut self, from: usize) -> Result<usize> {
        if from < self.held {
            self.held = self.ask(move |runner| Ok(runner.forget(0, from as u32)))?.min(from);
        }
        Ok(self.held)
    }

    /// What it keeps of its ids, to go on from in another session of the same model and options.
    ///
    /// # Errors
    /// A device that fails.
    pub fn save(&mut self) -> Result<Vec<u8>> {
        self.ask(|runner| {
            let mut bytes = Vec::new();
            runner.save(0, &mut bytes).map(|()| bytes)
        })
    }

    /// Goes on from what [`Session::save`] gave of so many ids. On an error it holds nothing.
    ///
    /// # Errors
    /// Bytes of another model or other options.
    pub fn restore(&mut self, held: usize, bytes: Vec<u8>) -> Result<()> {
        self.held = 0;
        self.held = self.ask(move |runner| {
            runner.restore(0, &mut &bytes[..])?;
            match runner.sequence_len(0) {
                found if found == held => Ok(found),
                found => {
                    runner.forget(0, 0);
                    Err(Error::Request(format!("state: expected one of {held} ids, found one of {found}")))
                }
            }
        })?;
        Ok(())
    }

    /// One line naming the device.
    ///
    /// # Errors
    /// A thread that ended.
    pub fn device(&self) -> Result<String> {
        self.ask(|runner| Ok(runner.device()))
    }
}

fn session_ended_error() -> Error {
    Error::Request("the thread of the sequence ended".into())
}

/// Loads the model, says what it is, and works until nobody asks any more.
fn serve(gguf: &Gguf, options: &Options, inbox: &Receiver<Work>, ready: &Sender<Result<(usize, usize)>>) {
    let mut runner = match engine::load(gguf, options, &mut |_, _| ()) {
        Ok(runner) => runner,
        Err(error) => {
            // Who asked waits for this.
            let _ = ready.send(Err(error));
            return;
        }
    };
    if ready.send(Ok((runner.n_vocab(), runner.n_ctx()))).is_ok() {
        inbox.iter().for_each(|work| work(&mut *runner));
    }
}

/// Chooses ids from logits, with llama.cpp's chain.
pub struct Sampler {
    chain: sample::Sampler,
    within: Option<GrammarMask>,
    n_vocab: usize,
}

impl Sampler {
    pub(super) fn new(tokenizer: &Tokenizer, sampling: &Sampling, within: Option<&Constraint>) -> Result<Sampler> {
        let options = server::sampler_options(sampling, tokenizer)?;
        let source = within.map(|constraint| match constraint {
            Constraint::Grammar(text) => GrammarSource::Gbnf(text.clone()),
            Constraint::Schema(schema) => GrammarSource::JsonSchema(schema.to_string()),
            Constraint::JsonObject => GrammarSource::JsonObject,
            Constraint::Regex(text) => GrammarSource::Regex(text.clone()),
        });
        let compile = |source: GrammarSource| -> Result<GrammarMask> {
            let vocabulary = grammar::vocabulary(tokenizer, &[])?;
            Ok(GrammarMask::new(grammar::matcher(&vocabulary, &source)?))
        };
        let within = source.map(compile).transpose()?;
        Ok(Sampler { chain: sample::Sampler::new(options), within, n_vocab: tokenizer.n_vocab() })
    }

    /// Takes ids of the prompt, for the steps that look back.
    pub fn look_back(&mut self, ids: &[u32]) {
        self.chain.look_back(ids);
    }

    /// The next id, of the logits of one row, `[n_vocab]`. It is not taken yet: see [`Sampler::accept`].
    ///
    /// # Errors
    /// Another number of logits than of ids, logits that are NaN, a grammar that allows nothing.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32> {
        if logits.len() < self.n_vocab || logits.is_empty() {
            let (expected, found) = (self.n_vocab, logits.len());
            return Err(Error::Request(format!("logits: expected {expected}, one for each id, found {found}")));
        }
        let allowed = match &mut self.within {
            Some(within) => Allowed::These(within.allowed_ids()?),
            None => Allowed::All,
        };
        self.chain.sample_of(logits, allowed).ok_or_else(|| Error::nan_logits(0))
    }

    /// Takes an id as the next of the text.
    ///
    /// # Errors
    /// One that the grammar does not allow.
    pub fn accept(&mut self, id: u32) -> Result<()> {
        if let Some(within) = &mut self.within {
            within.accept(id)?;
        }
        self.chain.accept(id);
        Ok(())
    }

    /// Whether the grammar's text is over.
    pub fn is_over(&self) -> bool {
        self.within.as_ref().is_some_and(|within| within.is_over())
    }
}
