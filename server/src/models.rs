//! All models that requests may name: loaded when one is asked for, unloaded when others need the room or nobody asks.
//!
//! They are entries that a folder, and a preset with options of each, are merged into whenever the list is asked for; each has a
//! turn, held while it is loaded or unloaded. Who is given a model holds on to it until the request is queued: one goes to sleep,
//! or makes room, when nobody holds it and its requests are over, and is given to nobody from the moment that it is to make room.
//! There are at most as many as are allowed, and where memory runs out at a load the one that was of no use for longest goes
//! first. What happens to entries is broadcast.

mod entry;

use super::model::ServedModel;
use super::refusal::{public_text, refusal, stopping};
pub use entry::ListedModel;
use entry::{lock, LoadState, ModelEntry};
use pumex_gguf::{Error, Result};
use pumex_serve::engine::{
    Engine, Health, Library, Metrics, Model, ModelChange, ModelState, Offer, Refusal, RefusalKind, Router,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;

/// How often is looked whether a model sleeps.
const LOOK: Duration = Duration::from_millis(200);
/// How often is looked whether another model can make room.
const PATIENCE: Duration = Duration::from_millis(5);
/// Changes that a listener may be behind.
const CHANGES: usize = 256;

/// Finds the models that there are.
pub type Scan = Box<dyn Fn() -> Result<Vec<ListedModel>> + Send + Sync>;

/// How models are served.
pub struct Serving {
    /// Requests choose by name among several, even if there is one now.
    pub several: bool,
    /// Most models that are loaded at once.
    pub most: usize,
    /// A request loads the model that it names.
    pub autoload: bool,
    /// Finds models that came, changed or went.
    pub scan: Option<Scan>,
    /// Files of models that requests may fetch and remove.
    pub library: Option<Arc<dyn Library>>,
}

impl Default for Serving {
    fn default() -> Serving {
        Serving { several: false, most: 1, autoload: true, scan: None, library: None }
    }
}

/// All models.
pub struct Models {
    entries: Mutex<Vec<Arc<ModelEntry>>>,
    serving: Serving,
    changes: broadcast::Sender<ModelChange>,
    /// Held by who makes room for a model, until that is being loaded.
    room: Mutex<()>,
    draining: AtomicBool,
    stopped: AtomicBool,
}

/// Why a model is not loaded.
enum LoadFailure {
    /// Nobody tried.
    Refused(Refusal),
    /// It cannot be.
    Failed(Error),
}

type AdmissionResult<T> = std::result::Result<T, Refusal>;

impl Models {
    /// These models.
    pub fn new(listed: Vec<ListedModel>, serving: Serving) -> Arc<Models> {
        let changes = broadcast::Sender::new(CHANGES);
        let shortest = listed.iter().filter_map(|listed| listed.idle).min();
        let idle = shortest.or(serving.scan.is_some().then_some(LOOK));
        let models = Arc::new(Models {
            entries: Mutex::new(listed.into_iter().map(|listed| ModelEntry::new(listed, changes.clone())).collect()),
            serving: Serving { most: serving.most.max(1), ..serving },
            changes,
            room: Mutex::new(()),
            draining: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        if let Some(idle) = idle {
            let all = Arc::downgrade(&models);
            let watch = move || {
                while let Some(models) = all.upgrade().filter(|m| !m.stopped.load(Ordering::Relaxed)) {
                    models.put_to_sleep();
                    drop(models);
                    std::thread::sleep(LOOK.min(idle));
                }
            };
            let spawned = std::thread::Builder::new().name("sleep".into()).spawn(watch);
            if let Err(error) = spawned {
                tracing::warn!("idle models stay loaded: {error}");
            }
        }
        models
    }

    fn all(&self) -> Vec<Arc<ModelEntry>> {
        lock(&self.entries).clone()
    }

    fn put_to_sleep(&self) {
        for entry in self.all() {
            if entry.sleep() {
                tracing::info!("model {}: sleeps", entry.name());
            }
        }
    }

    /// Whether all were stopped, and none is at work or being loaded.
    pub fn are_over(&self) -> bool {
        let over = |entry: &Arc<ModelEntry>| {
            entry.turn.try_lock().is_ok() && entry.loaded_model().is_none_or(|served| served.is_over())
        };
        self.all().iter().all(over)
    }

    fn entry(&self, name: Option<&str>) -> Option<Arc<ModelEntry>> {
        let all = self.all();
        let found = match name.filter(|name| !name.is_empty()) {
            Some(name) => {
                let tagged =
                    |entry: &&Arc<ModelEntry>| name.strip_suffix(":latest").is_some_and(|name| entry.is_named(name));
                let found = all.iter().find(|entry| entry.is_named(name)).or_else(|| all.iter().find(tagged));
                // With one model, as with llama.cpp, any name stands for it.
                found.or_else(|| all.first().filter(|_| all.len() == 1 && !self.serving.several))
            }
            None => all.iter().find(|entry| entry.loaded_model().is_some()).or_else(|| all.first()),
        };
        found.cloned()
    }

    fn find_entry(&self, name: Option<&str>) -> AdmissionResult<Arc<ModelEntry>> {
        self.entry(name).ok_or_else(|| {
            let what = match name {
                Some(name) => format!("model {:?}: there is no such model", name.chars().take(200).collect::<String>()),
                None => "there is no model".into(),
            };
            Refusal { field: Some("model".into()), ..refusal(RefusalKind::NotFound, what) }
        })
    }

    /// Unloads the model that was of no use for longest. False if no other is loaded.
    fn evict(&self, but: &ModelEntry) -> bool {
        let others = self.all().into_iter().filter(|e| !std::ptr::eq(&**e, but) && e.loaded_model().is_some());
        let oldest = others.min_by_key(|entry| entry.last_used());
        oldest.is_some_and(|entry| {
            tracing::info!("model {}: makes room for {}", entry.name(), but.name());
            entry.try_unload() || {
                // Its own thread is at it.
                std::thread::sleep(PATIENCE);
                true
            }
        })
    }

    /// Unloads what was of no use for longest while there are too many; the model is being loaded then.
    fn make_room(&self, of: &ModelEntry) {
        let _room = lock(&self.room);
        loop {
            let others = self.all().into_iter().filter(|e| !std::ptr::eq(&**e, of) && e.is_running()).count();
            if others < self.serving.most {
                break;
            }
            if !self.evict(of) {
                // Others are being loaded.
                std::thread::sleep(PATIENCE);
            }
        }
        of.set(LoadState::Loading);
    }

    /// Loads a model; where memory runs out, without those that were of no use for longest.
    fn load_model(&self, entry: &ModelEntry) -> Result<ServedModel> {
        loop {
            match ServedModel::load(entry.listed.settings.clone()) {
                Err(error @ Error::OutOfMemory(_)) => {
                    let _room = lock(&self.room);
                    if !self.evict(entry) {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
    }

    fn load(&self, entry: &ModelEntry) -> AdmissionResult<Arc<ServedModel>> {
        self.try_load(entry).map_err(|broken| match broken {
            LoadFailure::Refused(refusal) => refusal,
            LoadFailure::Failed(error) => {
                refusal(RefusalKind::Failed, format!("model {}: {}", entry.name(), public_text(&error)))
            }
        })
    }

    /// Loads the only model, or says why it cannot be: before anybody asks.
    ///
    /// # Errors
    /// A file that cannot be loaded, too little memory.
    pub fn start(&self) -> Result<()> {
        let entry = self.find_entry(None).map_err(|refusal| Error::Request(refusal.message))?;
        self.try_load(&entry).map(drop).map_err(|broken| match broken {
            LoadFailure::Refused(refusal) => Error::Request(refusal.message),
            LoadFailure::Failed(error) => error,
        })
    }

    fn try_load(&self, entry: &ModelEntry) -> std::result::Result<Arc<ServedModel>, LoadFailure> {
        let _turn = lock(&entry.turn);
        if let Some(served) = entry.working() {
            return Ok(served);
        }
        if self.draining.load(Ordering::Relaxed) {
            return Err(LoadFailure::Refused(stopping()));
        }
        // For a file that is not there no model has to go.
        let there = entry.listed.path.as_ref().map_or(Ok(()), |p| p.metadata().map(drop).map_err(|e| Error::io(p, e)));
        let made = there.and_then(|()| {
            self.make_room(entry);
            self.load_model(entry)
        });
        match made {
            Ok(served) => {
                let served = Arc::new(served);
                served.go_on_counting(entry.past());
                entry.set(LoadState::Loaded(served.clone()));
                if self.stopped.load(Ordering::Relaxed) {
                    served.stop();
                }
                Ok(served)
            }
            Err(error) => {
                tracing::error!("model {}: {error}", entry.name());
                entry.set(LoadState::Failed(public_text(&error)));
                Err(LoadFailure::Failed(error))
            }
        }
    }

    /// Lists what was found in place of what is listed. Models that run stay as they are.
    fn merge(&self, found: Vec<ListedModel>) {
        let mut entries = lock(&self.entries);
        let mut before = std::mem::take(&mut *entries);
        let mut changed = false;
        for listed in found {
            let known = before.iter().position(|entry| entry.name() == listed.settings.name);
            let known = known.map(|at| before.remove(at));
            let kept = known.filter(|entry| entry.is_running() || entry.listed.is_same(&listed));
            changed |= kept.is_none();
            entries.push(kept.unwrap_or_else(|| ModelEntry::new(listed, self.changes.clone())));
        }
        for entry in before {
            if entry.is_running() {
                entries.push(entry);
            } else {
                changed = true;
                let _ = self.changes.send(ModelChange::Removed { model: entry.name().into() });
            }
        }
        entries.sort_by(|a, b| a.name().cmp(b.name()));
        drop(entries);
        if changed {
            let _ = self.changes.send(ModelChange::Reloaded);
        }
    }
}

impl Engine for Models {
    fn health(&self) -> Health {
        if self.draining.load(Ordering::Relaxed) {
            return Health::Stopping;
        }
        let all = self.all();
        match &all[..] {
            // Of several, each answers for itself.
            [only] if !self.serving.several => match only.state() {
                ModelState::Failed => Health::Failed(only.failure().unwrap_or_default()),
                // A request that wakes a model waits for it, and so do others.
                ModelState::Loading if only.loaded_model().is_some() || only.loads_first() => Health::Loading,
                _ => Health::Ok,
            },
            _ => Health::Ok,
        }
    }

    fn offers(&self) -> Vec<Offer> {
        self.all().iter().map(|entry| entry.offer()).collect()
    }

    fn past(&self, name: Option<&str>) -> Metrics {
        self.entry(name).map(|entry| entry.past()).unwrap_or_default()
    }

    fn router(&self) -> Option<Router> {
        let Serving { most, autoload, .. } = self.serving;
        self.serving.several.then_some(Router { most, autoload })
    }

    fn changes(&self) -> broadcast::Receiver<ModelChange> {
        self.changes.subscribe()
    }

    fn rescan(&self, running: bool) {
        let Some(scan) = &self.serving.scan else { return };
        let found = match scan() {
            Ok(found) => found,
            Err(error) => return tracing::warn!("models are listed as they were: {error}"),
        };
        let is_there = |entry: &Arc<ModelEntry>| {
            found.iter().any(|listed| listed.settings.name == entry.name() && listed.is_same(&entry.listed))
        };
        for entry in self.all().into_iter().filter(|entry| running && !is_there(entry)) {
            entry.unload();
        }
        self.merge(found);
    }

    fn model(&self, name: Option<&str>) -> AdmissionResult<Arc<dyn Model>> {
        let entry = self.find_entry(name)?;
        *lock(&entry.used) = Instant::now();
        entry.working().map_or_else(|| self.load(&entry), Ok).map(|served| served as Arc<dyn Model>)
    }

    fn awake(&self, name: Option<&str>) -> Option<Arc<dyn Model>> {
        let entry = self.entry(name)?;
        *lock(&entry.used) = Instant::now();
        entry.working().map(|served| served as Arc<dyn Model>)
    }

    fn find_loaded(&self, name: Option<&str>) -> Option<Arc<dyn Model>> {
        self.entry(name)?.loaded_model().map(|served| served as Arc<dyn Model>)
    }

    fn unload(&self, name: &str) -> AdmissionResult<bool> {
        Ok(self.find_entry(Some(name))?.unload())
    }

    fn library(&self) -> Option<Arc<dyn Library>> {
        self.serving.library.clone()
    }

    fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.all().iter().filter_map(|entry| entry.loaded_model()).for_each(|served| served.drain());
    }

    fn stop(&self) {
        self.drain();
        self.stopped.store(true, Ordering::Relaxed);
        self.all().iter().filter_map(|entry| entry.loaded_model()).for_each(|served| served.stop());
    }
}
