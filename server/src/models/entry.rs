//! One model that requests may name, and where it is.

use crate::model::Served;
use crate::settings::Settings;
use pumex_serve::engine::{Change, Metrics, Model, ModelState, Offer, Properties};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;

/// A model that requests may name.
#[derive(Clone)]
pub struct Listed {
    /// How it is loaded and served; its name is that of answers.
    pub settings: Settings,
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

impl Listed {
    /// A model of these settings, without a file or other names.
    pub fn new(settings: Settings) -> Listed {
        Listed {
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
    pub fn is_same(&self, other: &Listed) -> bool {
        (&self.path, self.file, &self.options) == (&other.path, other.file, &other.options)
    }
}

/// Where a model is.
pub enum Place {
    Unloaded,
    Sleeping,
    Loading,
    /// Who gets a clone can ask it: as long as there is one, it stays.
    Loaded(Arc<Served>),
    /// Nobody gets it to ask any more; it is unloaded once those who did are done.
    Leaving(Arc<Served>),
    /// Whoever took it out frees it.
    Ending,
    Failed(String),
}

/// A model and where it is.
pub struct Entry {
    pub listed: Listed,
    place: Mutex<Place>,
    /// Held while it is loaded or unloaded.
    pub turn: Mutex<()>,
    pub used: Mutex<Instant>,
    known: Mutex<Option<Arc<Properties>>>,
    /// What it counted when it was loaded last.
    past: Mutex<Metrics>,
    changes: broadcast::Sender<Change>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// A model that is not loaded.
    pub fn new(listed: Listed, changes: broadcast::Sender<Change>) -> Arc<Entry> {
        let (place, used) = (Mutex::new(Place::Unloaded), Mutex::new(Instant::now()));
        Arc::new(Entry {
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

    pub fn named(&self, name: &str) -> bool {
        self.name() == name || self.listed.aliases.iter().any(|alias| alias == name)
    }

    pub fn served(&self) -> Option<Arc<Served>> {
        match &*lock(&self.place) {
            Place::Loaded(served) | Place::Leaving(served) => Some(served.clone()),
            _ => None,
        }
    }

    /// Likewise, if it works and takes requests.
    pub fn working(&self) -> Option<Arc<Served>> {
        match &*lock(&self.place) {
            Place::Loaded(served) => Some(served.clone()).filter(|served| served.health().1.is_none()),
            _ => None,
        }
    }

    pub fn state(&self) -> ModelState {
        match &*lock(&self.place) {
            Place::Unloaded => ModelState::Unloaded,
            Place::Sleeping => ModelState::Sleeping,
            Place::Loading => ModelState::Loading,
            Place::Ending => ModelState::Loaded,
            Place::Failed(_) => ModelState::Failed,
            Place::Loaded(served) | Place::Leaving(served) => match served.health() {
                (_, Some(_)) => ModelState::Failed,
                (true, None) => ModelState::Loading,
                (false, None) => ModelState::Loaded,
            },
        }
    }

    /// Why it does not work, where that is so.
    pub fn failure(&self) -> Option<String> {
        match &*lock(&self.place) {
            Place::Failed(why) => Some(why.clone()),
            Place::Loaded(served) | Place::Leaving(served) => served.health().1,
            _ => None,
        }
    }

    /// Whether it has memory or is about to.
    pub fn is_running(&self) -> bool {
        matches!(&*lock(&self.place), Place::Loading | Place::Loaded(_) | Place::Leaving(_) | Place::Ending)
    }

    /// Whether it is loaded now and never was before: it neither wakes nor comes up again.
    pub fn loads_first(&self) -> bool {
        matches!(&*lock(&self.place), Place::Loading) && lock(&self.known).is_none()
    }

    /// From now on it is there.
    pub fn set(&self, place: Place) {
        let (state, failure) = match &place {
            Place::Unloaded => (ModelState::Unloaded, None),
            Place::Sleeping => (ModelState::Sleeping, None),
            Place::Loading => (ModelState::Loading, None),
            Place::Failed(why) => (ModelState::Failed, Some(why.clone())),
            Place::Leaving(_) | Place::Ending => (ModelState::Loaded, None),
            Place::Loaded(served) => {
                *lock(&self.known) = Some(Arc::new(served.properties().clone()));
                (ModelState::Loaded, None)
            }
        };
        *lock(&self.place) = place;
        let properties = if state == ModelState::Loaded { lock(&self.known).clone() } else { None };
        // Nobody need listen.
        let _ = self.changes.send(Change::State { model: self.name().into(), state, failure, properties });
    }

    /// When it was asked for or worked last.
    pub fn last_used(&self) -> Instant {
        let (now, asked) = (Instant::now(), *lock(&self.used));
        let worked = self.served().map(|served| now - served.idle().unwrap_or_default());
        worked.map_or(asked, |worked| worked.max(asked))
    }

    /// What it counted when it was loaded last.
    pub fn past(&self) -> Metrics {
        lock(&self.past).clone()
    }

    pub fn offer(&self) -> Offer {
        let Listed { settings, aliases, tags, path, file, .. } = &self.listed;
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

    /// Likewise, unless another thread loads or unloads it.
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
        self.end(&served, Place::Sleeping);
        true
    }

    fn leave(&self) -> bool {
        // Who asks from now on waits until it can be loaded again.
        {
            let mut place = lock(&self.place);
            match std::mem::replace(&mut *place, Place::Unloaded) {
                Place::Loaded(served) => *place = Place::Leaving(served),
                other => {
                    *place = other;
                    return false;
                }
            }
        }
        let over = |served: &Served| served.idle().is_some() || served.health().1.is_some();
        let begun = Instant::now();
        let served = loop {
            if let Some(served) = self.take(over) {
                break served;
            }
            if self.listed.patience.is_some_and(|most| begun.elapsed() >= most) {
                let mut place = lock(&self.place);
                match std::mem::replace(&mut *place, Place::Ending) {
                    Place::Leaving(served) => break served,
                    other => *place = other,
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.end(&served, Place::Unloaded);
        true
    }

    /// Takes the model out if this is the only one who has it, and `may` holds: then nobody can ask it for anything any more.
    fn take(&self, may: impl Fn(&Served) -> bool) -> Option<Arc<Served>> {
        let mut place = lock(&self.place);
        let (Place::Loaded(served) | Place::Leaving(served)) = &mut *place else { return None };
        // Clones come out of this place only, and it is locked: the only one stays the only one. What others did with theirs before they
        // dropped them is seen from here on.
        Arc::get_mut(served).filter(|served| may(served))?;
        match std::mem::replace(&mut *place, Place::Ending) {
            Place::Loaded(served) | Place::Leaving(served) => Some(served),
            _ => None,
        }
    }

    /// Frees a model that was taken out, and says where it is now.
    fn end(&self, served: &Served, place: Place) {
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
