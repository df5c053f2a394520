//! One model that requests may name, and where it is.

use crate::model::ServedModel;
use crate::settings::ModelSettings;
use pumex_serve::engine::{Metrics, Model, ModelChange, ModelProperties, ModelState, Offer};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;

/// A model that requests may name.
#[derive(Clone)]
pub struct ListedModel {
    /// How it is loaded and served; its name is that of answers.
    pub settings: ModelSettings,
    /// Other names.
    pub aliases: Vec<String>,
    /// Words of the user's.
    pub tags: Vec<String>,
    /// Its file; none of a model that is in the program.
    pub path: Option<PathBuf>,
    /// Seconds since 1970, and bytes, of its file.
    pub file: (u64, u64),
    /// It sleeps after so long without a request.
    pub idle: Option<Duration>,
    /// Its requests have so long to end when it is to be unloaded; none: as long as they take.
    pub patience: Option<Duration>,
    /// It is to be loaded at the start.
    pub at_start: bool,
    /// What its settings were made of, where they are its own.
    pub options: String,
}

impl ListedModel {
    /// A model of these settings, without a file or other names.
    pub fn new(settings: ModelSettings) -> ListedModel {
        ListedModel {
            settings,
            aliases: Vec::new(),
            tags: Vec::new(),
            path: None,
            file: (0, 0),
            idle: None,
            patience: None,
            at_start: false,
            options: String::new(),
        }
    }

    /// Whether both are the same file as it was, served alike.
    pub fn is_same(&self, other: &ListedModel) -> bool {
        (&self.path, self.file, &self.options) == (&other.path, other.file, &other.options)
    }
}

/// Where a model is.
pub enum LoadState {
    Unloaded,
    Sleeping,
    Loading,
    /// Who gets a clone can ask it: as long as there is one, it stays.
    Loaded(Arc<ServedModel>),
    /// Nobody gets it to ask any more; it is unloaded once those who did are done.
    Leaving(Arc<ServedModel>),
    /// Whoever took it out frees it.
    Ending,
    Failed(String),
}

/// A model and where it is.
pub struct ModelEntry {
    pub listed: ListedModel,
    place: Mutex<LoadState>,
    /// Held while it is loaded or unloaded.
    pub turn: Mutex<()>,
    pub used: Mutex<Instant>,
    known: Mutex<Option<Arc<ModelProperties>>>,
    /// What it counted when it was loaded last.
    past: Mutex<Metrics>,
    changes: broadcast::Sender<ModelChange>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ModelEntry {
    /// A model that is not loaded.
    pub fn new(listed: ListedModel, changes: broadcast::Sender<ModelChange>) -> Arc<ModelEntry> {
        let (place, used) = (Mutex::new(LoadState::Unloaded), Mutex::new(Instant::now()));
        Arc::new(ModelEntry {
            listed,
            place,
            turn: Mutex::new(()),
            used,
            known: Mutex::new(None),
            past: Mutex::default(),
            changes,
        })
    }

    pub fn name(&self) -> &str {
        &self.listed.settings.name
    }

    pub fn is_named(&self, name: &str) -> bool {
        self.name() == name || self.listed.aliases.iter().any(|alias| alias == name)
    }

    pub fn loaded_model(&self) -> Option<Arc<ServedModel>> {
        match &*lock(&self.place) {
            LoadState::Loaded(served) | LoadState::Leaving(served) => Some(served.clone()),
            _ => None,
        }
    }

    /// The model, if it is loaded, works and takes requests.
    pub fn working(&self) -> Option<Arc<ServedModel>> {
        match &*lock(&self.place) {
            LoadState::Loaded(served) => Some(served.clone()).filter(|served| served.health().1.is_none()),
            _ => None,
        }
    }

    pub fn state(&self) -> ModelState {
        match &*lock(&self.place) {
            LoadState::Unloaded => ModelState::Unloaded,
            LoadState::Sleeping => ModelState::Sleeping,
            LoadState::Loading => ModelState::Loading,
            LoadState::Ending => ModelState::Loaded,
            LoadState::Failed(_) => ModelState::Failed,
            LoadState::Loaded(served) | LoadState::Leaving(served) => match served.health() {
                (_, Some(_)) => ModelState::Failed,
                (true, None) => ModelState::Loading,
                (false, None) => ModelState::Loaded,
            },
        }
    }

    /// Why it does not work, where that is so.
    pub fn failure(&self) -> Option<String> {
        match &*lock(&self.place) {
            LoadState::Failed(why) => Some(why.clone()),
            LoadState::Loaded(served) | LoadState::Leaving(served) => served.health().1,
            _ => None,
        }
    }

    /// Whether it has memory or is about to.
    pub fn is_running(&self) -> bool {
        matches!(
            &*lock(&self.place),
            LoadState::Loading | LoadState::Loaded(_) | LoadState::Leaving(_) | LoadState::Ending
        )
    }

    /// Whether it is loaded now and never was before: it neither wakes nor comes up again.
    pub fn loads_first(&self) -> bool {
        matches!(&*lock(&self.place), LoadState::Loading) && lock(&self.known).is_none()
    }

    /// From now on it is there.
    pub fn set(&self, place: LoadState) {
        let (state, failure) = match &place {
            LoadState::Unloaded => (ModelState::Unloaded, None),
            LoadState::Sleeping => (ModelState::Sleeping, None),
            LoadState::Loading => (ModelState::Loading, None),
            LoadState::Failed(why) => (ModelState::Failed, Some(why.clone())),
            LoadState::Leaving(_) | LoadState::Ending => (ModelState::Loaded, None),
            LoadState::Loaded(served) => {
                *lock(&self.known) = Some(Arc::new(served.properties().clone()));
                (ModelState::Loaded, None)
            }
        };
        *lock(&self.place) = place;
        let properties = if state == ModelState::Loaded { lock(&self.known).clone() } else { None };
        // Nobody need listen.
        let _ = self.changes.send(ModelChange::State { model: self.name().into(), state, failure, properties });
    }

    /// When it was asked for or worked last.
    pub fn last_used(&self) -> Instant {
        let (now, asked) = (Instant::now(), *lock(&self.used));
        let worked = self.loaded_model().map(|served| now - served.idle().unwrap_or_default());
        worked.map_or(asked, |worked| worked.max(asked))
    }

    /// What it counted when it was loaded last.
    pub fn past(&self) -> Metrics {
        lock(&self.past).clone()
    }

    pub fn offer(&self) -> Offer {
        let ListedModel { settings, aliases, tags, path, file, .. } = &self.listed;
        Offer {
            name: settings.name.clone(),
            aliases: aliases.clone(),
            tags: tags.clone(),
            state: self.state(),
            failure: self.failure(),
            path: path.as_ref().map(|path| path.display().to_string()),
            created: file.0,
            file_bytes: file.1,
            properties: lock(&self.known).clone(),
        }
    }

    /// Unloads it once its requests are over. False if it was not loaded.
    pub fn unload(&self) -> bool {
        let _turn = lock(&self.turn);
        self.leave()
    }

    /// Unloads it once its requests are over, unless another thread loads or unloads it. False if it was not loaded.
    pub fn try_unload(&self) -> bool {
        self.turn.try_lock().is_ok_and(|_turn| self.leave())
    }

    /// Puts it to sleep if nobody asked for anything for as long as that takes, nor is about to. Does not wait.
    pub fn sleep(&self) -> bool {
        let Some(idle) = self.listed.idle else { return false };
        let Ok(_turn) = self.turn.try_lock() else { return false };
        if lock(&self.used).elapsed() < idle {
            return false;
        }
        let Some(served) = self.take(|served| served.idle().is_some_and(|since| since >= idle)) else {
            return false;
        };
        self.end(&served, LoadState::Sleeping);
        true
    }

    fn leave(&self) -> bool {
        // Who asks from now on waits until it can be loaded again.
        {
            let mut place = lock(&self.place);
            match std::mem::replace(&mut *place, LoadState::Unloaded) {
                LoadState::Loaded(served) => *place = LoadState::Leaving(served),
                other => {
                    *place = other;
                    return false;
                }
            }
        }
        let over = |served: &ServedModel| served.idle().is_some() || served.health().1.is_some();
        let begun = Instant::now();
        let served = loop {
            if let Some(served) = self.take(over) {
                break served;
            }
            if self.listed.patience.is_some_and(|most| begun.elapsed() >= most) {
                let mut place = lock(&self.place);
                match std::mem::replace(&mut *place, LoadState::Ending) {
                    LoadState::Leaving(served) => break served,
                    other => *place = other,
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.end(&served, LoadState::Unloaded);
        true
    }

    /// Takes the model out if this is the only one who has it, and `may` holds: then nobody can ask it for anything any more.
    fn take(&self, may: impl Fn(&ServedModel) -> bool) -> Option<Arc<ServedModel>> {
        let mut place = lock(&self.place);
        let (LoadState::Loaded(served) | LoadState::Leaving(served)) = &mut *place else { return None };
        // Clones come out of this place only, and it is locked: the only one stays the only one. What others did with theirs before they
        // dropped them is seen from here on.
        Arc::get_mut(served).filter(|served| may(served))?;
        match std::mem::replace(&mut *place, LoadState::Ending) {
            LoadState::Loaded(served) | LoadState::Leaving(served) => Some(served),
            _ => None,
        }
    }

    /// Frees a model that was taken out, and says where it is now.
    fn end(&self, served: &ServedModel, place: LoadState) {
        *lock(&self.past) = Metrics {
            requests_running: 0,
            requests_waiting: 0,
            blocks_used: 0,
            blocks_cached: 0,
            blocks_total: 0,
            ..served.metrics()
        };
        served.stop();
        self.set(place);
    }
}
