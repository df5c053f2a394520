//! What all handlers share.

use super::body_memory::BodyMemory;
use super::stop::{Stage, Stopper};
use super::worker_pool::Desks;
use super::HttpSettings;
use crate::auth::ApiKeys;
use crate::engine::{Engine, Health, Model, Offer, Refusal, RefusalKind};
use crate::errors::{invalid, refusal, Result};
use crate::latency::Latencies;
use crate::native::metrics::Before;
use crate::openai::control::Controls;
use crate::openai::responses::ItemStore;
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::sync::{oneshot, watch, Mutex as Turn, Semaphore};

/// Threads that work for requests at once: tokenizing, templates, grammars. Each holds on to memory that it needed once.
const DESKS: usize = 4;
/// Threads beside them for grammars, schemas and functions, which anybody may make slow.
const SLOW_DESKS: usize = 3;
/// Media that are fetched from other servers at once.
const FETCHES: usize = 8;

tokio::task_local! {
    /// What of the request at work is not done as it says, though it is answered.
    pub(super) static WARNINGS: Arc<Mutex<Vec<String>>>;
    /// Whether the request at work loads the model that it names, where its path says so.
    pub(super) static AUTOLOAD: Option<bool>;
}

/// What all handlers share.
pub(crate) struct App {
    pub engine: Arc<dyn Engine>,
    pub settings: HttpSettings,
    pub keys: ApiKeys,
    pub counts: Arc<Counts>,
    pub latencies: Arc<Latencies>,
    pub scraped: Before,
    pub controls: Controls,
    /// Items of responses that later ones may name.
    pub kept: ItemStore,
    pub room: BodyMemory,
    /// Turns of those that fetch media from other servers.
    pub fetches: Semaphore,
    desks: Arc<Desks>,
    /// Threads for those who may be at it for long, so that others need not wait for them.
    slow_desks: Arc<Desks>,
    loads: Loads,
    pub started: SystemTime,
    pub stage: watch::Receiver<Stage>,
}

/// Turns of those that wait for a model to be loaded, so that one thread at a time does.
#[derive(Default)]
struct Loads(Mutex<HashMap<String, Arc<Turn<()>>>>);

impl Loads {
    fn of(&self, name: Option<&str>) -> Arc<Turn<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, turn| Arc::strong_count(turn) > 1);
        all.entry(name.unwrap_or_default().to_string()).or_default().clone()
    }
}

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    running: watch::Sender<u64>,
    /// Handlers that panicked.
    pub panics: AtomicU64,
}

/// A request that runs, until it is dropped.
pub(crate) struct RunningGuard(Arc<Counts>);

impl Counts {
    pub fn begin(self: &Arc<Counts>) -> RunningGuard {
        self.running.send_modify(|n| *n += 1);
        RunningGuard(self.clone())
    }

    pub fn running(&self) -> u64 {
        *self.running.borrow()
    }

    /// Returns when no request runs.
    pub async fn until_idle(&self) {
        let mut running = self.running.subscribe();
        // The sender is ours: waiting cannot fail.
        let _ = running.wait_for(|n| *n == 0).await;
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.running.send_modify(|n| *n -= 1);
    }
}

impl App {
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        settings: HttpSettings,
        stopper: &Stopper,
    ) -> std::result::Result<App, super::Error> {
        let limits = settings.limits.clone();
        Ok(App {
            keys: ApiKeys::new(&settings.all_keys()?, limits.failures),
            engine,
            settings,
            counts: Arc::default(),
            latencies: Arc::default(),
            scraped: Before::default(),
            controls: Controls::default(),
            kept: ItemStore::default(),
            room: BodyMemory::new(limits.room),
            fetches: Semaphore::new(FETCHES),
            desks: Desks::new(DESKS, DESKS),
            slow_desks: Desks::new(SLOW_DESKS, 1),
            loads: Loads::default(),
            started: SystemTime::now(),
            stage: stopper.stage(),
        })
    }

    /// Whether the server is about to end.
    pub fn stops(&self) -> bool {
        *self.stage.borrow() > Stage::Runs
    }

    /// Whether requests are served.
    pub fn health(&self) -> Health {
        match self.stops() {
            true => Health::Stopping,
            false => self.engine.health(),
        }
    }

    /// What the engine would know a name by: none where it has one model only, without Ollama's `:latest` where nothing else has it.
    fn resolve<'a>(&self, name: Option<&'a str>, offers: &[Offer]) -> Option<&'a str> {
        let several = offers.len() != 1 || self.engine.router().is_some();
        let name = name.filter(|n| !n.is_empty() && several)?;
        let known = |n: &str| offers.iter().any(|o| o.name == n || o.aliases.iter().any(|a| a == n));
        match name.strip_suffix(":latest") {
            Some(short) if !known(name) => Some(short),
            _ => Some(name),
        }
    }

    /// A model, loaded if it was not.
    pub async fn model(self: &Arc<App>, name: Option<&str>) -> Result<Arc<dyn Model>> {
        self.ready()?;
        let name = self.resolve(name, &self.engine.offers());
        if let Some(model) = self.engine.awake(name) {
            return Ok(model);
        }
        let is_loaded = self.engine.find_loaded(name).is_some();
        let usual = self.engine.router().is_none_or(|router| router.autoload);
        if !is_loaded && !AUTOLOAD.try_with(|asked| *asked).ok().flatten().unwrap_or(usual) {
            return Err(invalid("model", "the model is not loaded, and requests load none (see POST /models/load)"));
        }
        let load = async {
            let turn = self.loads.of(name).lock_owned().await;
            match self.engine.awake(name) {
                Some(model) => Ok(model),
                None => {
                    let (engine, name) = (self.engine.clone(), name.map(String::from));
                    let load = move || {
                        // Also after its client is gone.
                        let _turn = turn;
                        engine.model(name.as_deref())
                    };
                    blocking(load).await
                }
            }
        };
        self.unless_stopping(load).await
    }

    /// Runs what computes for a moment, in turn with others: key by key.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        Self::work_at(&self.desks, work).await
    }

    /// Runs what may take seconds, in turn with its like: it holds up nothing else.
    pub async fn work_slowly<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> std::result::Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        Self::work_at(&self.slow_desks, work).await
    }

    async fn work_at<T: Send + 'static>(
        desks: &Arc<Desks>,
        work: impl FnOnce() -> std::result::Result<T, Refusal> + Send + 'static,
    ) -> Result<T> {
        let desk = desks.take().await;
        let at_desk = move || {
            let _desk = desk;
            work()
        };
        blocking(at_desk).await
    }

    /// What comes of work that was queued, on a channel that ends with it.
    pub async fn reply<T>(&self, reply: oneshot::Receiver<std::result::Result<T, Refusal>>) -> Result<T> {
        let gone = |_| Err(refusal(RefusalKind::Failed, "the engine gave up this request"));
        Ok(reply.await.unwrap_or_else(gone)?)
    }

    /// What takes as long as a model to load does, unless the server is to stop meanwhile.
    pub async fn unless_stopping<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            () = self.until_stop() => Err(stopping().into()),
        }
    }

    /// Returns when the server is about to end.
    pub async fn until_stop(&self) {
        // The sender lives as long as the server: waiting cannot fail.
        let _ = self.stage.clone().wait_for(|s| *s > Stage::Runs).await;
    }

    /// A model if it is loaded. Wakes none.
    pub fn find_loaded(&self, name: Option<&str>) -> Option<Arc<dyn Model>> {
        self.engine.find_loaded(self.resolve(name, &self.engine.offers()))
    }

    /// Refuses while nothing is served.
    pub fn ready(&self) -> Result<()> {
        let text = match self.health() {
            Health::Ok => return Ok(()),
            Health::Loading => "Loading model".to_string(),
            Health::Stopping => return Err(stopping().into()),
            Health::Failed(why) => why,
        };
        Err(refusal(RefusalKind::Unavailable, text).into())
    }

    pub fn count_panic(&self) {
        self.counts.panics.fetch_add(1, Ordering::Relaxed);
    }
}

fn stopping() -> Refusal {
    refusal(RefusalKind::Unavailable, "The server is stopping")
}

/// Tells whoever asks, in a header of the answer, and the log, that something of the request at work is not done as it says.
pub(crate) fn warn(text: String) {
    // Outside of a request there is nobody to tell.
    let _ = WARNINGS.try_with(|all| {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&text) {
            all.push(text);
        }
    });
}

/// Runs what may block for long where that is allowed.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::result::Result<T, Refusal> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => {
            Err(crate::errors::RequestFault::new(crate::errors::Cause::Panic, "the engine failed at this request"))
        }
    }
}
