//! All models that requests may name: loaded when one is asked for, unloaded when others need the room or nobody asks.

use super::model::Served;
use super::refusal::{refusal, stopping};
use super::settings::Settings;
use pumex_serve::engine::{Engine, Health, Model, ModelState, Offer, Properties, Refusal, RefusalKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often is looked whether a model sleeps.
const LOOK: Duration = Duration::from_millis(200);

/// A model that requests may name.
#[derive(Clone)]
pub struct Listed {
    /// How it is loaded and served; its name is that of answers.
    pub settings: Settings,
    /// Other names.
    pub aliases: Vec<String>,
    /// Words of the user's.
    pub tags: Vec<String>,
    /// Seconds since 1970, and bytes, of its file.
    pub file: (u64, u64),
}

/// Where a model is.
enum Place {
    Unloaded,
    Sleeping,
    Loading,
    Loaded(Arc<Served>),
    Failed(String),
}

struct Entry {
    listed: Listed,
    place: Mutex<Place>,
    /// Held while it is loaded or unloaded.
    turn: Mutex<()>,
    used: Mutex<Instant>,
    known: Mutex<Option<Properties>>,
}

/// All models.
pub struct Models {
    entries: Vec<Entry>,
    /// Most models that are loaded at once.
    most: usize,
    draining: AtomicBool,
    stopped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Asked<T> = Result<T, Refusal>;

impl Entry {
    fn served(&self) -> Option<Arc<Served>> {
        match &*lock(&self.place) {
            Place::Loaded(served) => Some(served.clone()),
            _ => None,
        }
    }

    fn state(&self) -> ModelState {
        match &*lock(&self.place) {
            Place::Unloaded => ModelState::Unloaded,
            Place::Sleeping => ModelState::Sleeping,
            Place::Loading => ModelState::Loading,
            Place::Failed(_) => ModelState::Failed,
            Place::Loaded(served) => match served.health() {
                (_, Some(_)) => ModelState::Failed,
                (true, None) => ModelState::Loading,
                (false, None) => ModelState::Loaded,
            },
        }
    }

    fn named(&self, name: &str) -> bool {
        self.listed.settings.name == name || self.listed.aliases.iter().any(|alias| alias == name)
    }

    /// Unloads it once its requests are over. False if it was not loaded.
    fn unload(&self, place: Place, wait: bool) -> bool {
        let _turn = lock(&self.turn);
        let Some(served) = self.served() else { return false };
        while wait && served.idle().is_none() && served.health().1.is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        *lock(&self.place) = place;
        served.stop();
        true
    }
}

impl Models {
    /// Models of which `most` are loaded at once; unloaded after `idle` without a request.
    pub fn new(listed: Vec<Listed>, most: usize, idle: Option<Duration>) -> Arc<Models> {
        let entry = |listed| Entry {
            listed,
            place: Mutex::new(Place::Unloaded),
            turn: Mutex::new(()),
            used: Mutex::new(Instant::now()),
            known: Mutex::new(None),
        };
        let models = Arc::new(Models {
            entries: listed.into_iter().map(entry).collect(),
            most: most.max(1),
            draining: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        if let Some(idle) = idle {
            let all = Arc::downgrade(&models);
            let watch = move || {
                while let Some(models) = all.upgrade().filter(|m| !m.stopped.load(Ordering::Relaxed)) {
                    models.put_to_sleep(idle);
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

    fn put_to_sleep(&self, idle: Duration) {
        for entry in &self.entries {
            let long = |served: &Arc<Served>| served.idle().is_some_and(|since| since >= idle);
            let unused = lock(&entry.used).elapsed() >= idle;
            if unused && entry.served().as_ref().is_some_and(long) {
                tracing::info!("model {}: sleeps", entry.listed.settings.name);
                entry.unload(Place::Sleeping, false);
            }
        }
    }

    /// Whether all were stopped, and none is at work or being loaded.
    pub fn are_over(&self) -> bool {
        let over =
            |entry: &Entry| entry.turn.try_lock().is_ok() && entry.served().is_none_or(|served| served.is_over());
        self.entries.iter().all(over)
    }

    fn entry(&self, name: Option<&str>) -> Option<&Entry> {
        match name.filter(|name| !name.is_empty()) {
            Some(name) => {
                let tagged = |entry: &&Entry| name.strip_suffix(":latest").is_some_and(|name| entry.named(name));
                let found = self.entries.iter().find(|entry| entry.named(name));
                let found = found.or_else(|| self.entries.iter().find(tagged));
                // With one model, as with llama.cpp, any name stands for it.
                found.or_else(|| self.entries.first().filter(|_| self.entries.len() == 1))
            }
            None => self.entries.iter().find(|entry| entry.served().is_some()).or_else(|| self.entries.first()),
        }
    }

    /// Unloads what was of no use for longest while there are too many.
    fn make_room(&self, but: &Entry) {
        loop {
            let loaded = self.entries.iter().filter(|e| !std::ptr::eq(*e, but) && e.served().is_some());
            let loaded: Vec<&Entry> = loaded.collect();
            if loaded.len() < self.most {
                return;
            }
            let oldest = loaded.into_iter().min_by_key(|entry| *lock(&entry.used));
            if !oldest.is_some_and(|entry| entry.unload(Place::Unloaded, true)) {
                return;
            }
        }
    }

    fn load(&self, entry: &Entry) -> Asked<Arc<Served>> {
        let _turn = lock(&entry.turn);
        if let Some(served) = entry.served().filter(|served| served.health().1.is_none()) {
            return Ok(served);
        }
        if self.draining.load(Ordering::Relaxed) {
            return Err(stopping());
        }
        self.make_room(entry);
        *lock(&entry.place) = Place::Loading;
        match Served::load(entry.listed.settings.clone()) {
            Ok(served) => {
                let served = Arc::new(served);
                *lock(&entry.known) = Some(served.properties().clone());
                *lock(&entry.place) = Place::Loaded(served.clone());
                if self.stopped.load(Ordering::Relaxed) {
                    served.stop();
                }
                Ok(served)
            }
            Err(error) => {
                *lock(&entry.place) = Place::Failed(error.to_string());
                Err(refusal(RefusalKind::Failed, format!("model {}: {error}", entry.listed.settings.name)))
            }
        }
    }
}

impl Engine for Models {
    fn health(&self) -> Health {
        if self.draining.load(Ordering::Relaxed) {
            return Health::Stopping;
        }
        let states: Vec<ModelState> = self.entries.iter().map(Entry::state).collect();
        let only = || match &*lock(&self.entries[0].place) {
            Place::Failed(why) => why.clone(),
            Place::Loaded(served) => served.health().1.unwrap_or_default(),
            _ => String::new(),
        };
        match states[..] {
            [ModelState::Failed] => Health::Failed(only()),
            _ if states.contains(&ModelState::Loaded) => Health::Ok,
            _ if states.contains(&ModelState::Loading) => Health::Loading,
            _ => Health::Ok,
        }
    }

    fn offers(&self) -> Vec<Offer> {
        let offer = |entry: &Entry| Offer {
            name: entry.listed.settings.name.clone(),
            aliases: entry.listed.aliases.clone(),
            tags: entry.listed.tags.clone(),
            state: entry.state(),
            created: entry.listed.file.0,
            file_bytes: entry.listed.file.1,
            properties: lock(&entry.known).clone(),
        };
        self.entries.iter().map(offer).collect()
    }

    fn model(&self, name: Option<&str>) -> Asked<Arc<dyn Model>> {
        let entry = self.entry(name).ok_or_else(|| {
            let name: String = name.unwrap_or_default().chars().take(200).collect();
            refusal(RefusalKind::NotFound, format!("model {name:?}: there is no such model"))
        })?;
        *lock(&entry.used) = Instant::now();
        let served = entry.served().filter(|served| served.health().1.is_none());
        served.map_or_else(|| self.load(entry), Ok).map(|served| served as Arc<dyn Model>)
    }

    fn loaded(&self, name: Option<&str>) -> Option<Arc<dyn Model>> {
        self.entry(name)?.served().map(|served| served as Arc<dyn Model>)
    }

    fn unload(&self, name: &str) -> Asked<()> {
        let entry = self.entries.iter().find(|entry| entry.named(name));
        let entry = entry.ok_or_else(|| refusal(RefusalKind::NotFound, format!("model {name:.200}: there is none")))?;
        entry.unload(Place::Unloaded, true);
        Ok(())
    }

    fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.entries.iter().filter_map(Entry::served).for_each(|served| served.drain());
    }

    fn stop(&self) {
        self.drain();
        self.stopped.store(true, Ordering::Relaxed);
        self.entries.iter().filter_map(Entry::served).for_each(|served| served.stop());
    }
}
