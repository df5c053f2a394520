//! Several models: loaded when a request names them, unloaded for others, and found anew.

use super::{ask, greedy, run, settings, wait};
use pumex::server::{ListedModel, ModelSettings, Models, Scan, Serving};
use pumex::Error;
use pumex_serve::engine::{Engine, Health, ModelChange, ModelState, RefusalKind};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};

fn list_model(name: &str, alias: &str) -> ListedModel {
    let settings = ModelSettings { name: name.into(), ..settings(1) };
    ListedModel { aliases: vec![alias.into()], file: (0, 1), ..ListedModel::new(settings) }
}

/// What was told since the last time.
fn drain_changes(changes: &mut broadcast::Receiver<ModelChange>) -> Vec<String> {
    let word = |change| match change {
        ModelChange::State { model, state, .. } => format!("{model} {state:?}"),
        ModelChange::Removed { model } => format!("{model} removed"),
        ModelChange::Reloaded => "reloaded".into(),
    };
    std::iter::from_fn(|| changes.try_recv().ok()).map(word).collect()
}

#[test]
fn models_are_loaded_when_asked_for_and_the_oldest_goes() {
    let all = vec![list_model("a", "one"), list_model("b", "two"), list_model("c", "three")];
    let models = Models::new(all, Serving { several: true, most: 2, ..Serving::default() });
    let states = || models.offers().iter().map(|o| o.state).collect::<Vec<_>>();
    assert_eq!(models.health(), Health::Ok);
    for name in ["a", "two"] {
        let model = models.model(Some(name)).unwrap();
        assert_eq!(run(&*model, greedy("And", 2)).finish().completion_tokens, 2);
        wait("idle", || model.metrics().requests_running == 0);
    }
    assert!(models.find_loaded(Some("c")).is_none());
    let first = models.find_loaded(Some("a")).unwrap();
    assert_eq!(run(&*first, greedy("And", 2)).finish().completion_tokens, 2, "what is loaded is used without a load");
    drop(first);
    models.model(Some("c:latest")).unwrap();
    use ModelState::{Loaded, Unloaded};
    assert_eq!(states(), [Loaded, Unloaded, Loaded], "b was of no use for longest");
    assert_eq!(models.model(Some("d")).err().map(|e| e.kind), Some(RefusalKind::NotFound));
    assert_eq!((models.unload("a").unwrap(), models.unload("one").unwrap()), (true, false));
    assert_eq!(states(), [Unloaded, Unloaded, Loaded]);
    let last = models.model(Some("c")).unwrap();
    let running = ask(&*last, greedy("And it came to pass", 200));
    models.drain();
    assert_eq!(models.health(), Health::Stopping);
    assert!(last.generate(greedy("a", 1), mpsc::channel(1).0).is_err());
    models.stop();
    let found = super::all(running);
    assert!(found.failed.is_some() || found.answers[0].finish.is_some(), "{found:?}");
}

#[test]
fn idle_models_sleep_and_wake() {
    let sleepy = ListedModel { idle: Some(Duration::from_millis(500)), ..list_model("a", "one") };
    let models = Models::new(vec![sleepy], Serving::default());
    models.model(None).unwrap();
    run(&*models.model(None).unwrap(), greedy("And it came", 3));
    wait("asleep", || models.offers()[0].state == ModelState::Sleeping);
    let past = models.past(None);
    assert!(past.requests_done == 1 && past.prompt_tokens > 0 && past.requests_running == 0, "{past:?}");
    assert!(models.find_loaded(None).is_none() && models.offers()[0].properties.is_some());
    let awake = models.model(None).unwrap();
    assert_eq!(run(&*awake, greedy("And", 2)).finish().completion_tokens, 2);
    assert_eq!(awake.metrics().requests_done, 2, "it counts on");
}

#[test]
fn models_that_come_change_and_go_are_found_and_those_that_run_stay_until_told_otherwise() {
    let found = Arc::new(Mutex::new(vec![list_model("a", "one"), list_model("b", "two")]));
    let there = found.clone();
    let scan: Scan = Box::new(move || Ok(there.lock().unwrap().clone()));
    let serving = Serving { several: true, most: 2, scan: Some(scan), ..Serving::default() };
    let models = Models::new(found.lock().unwrap().clone(), serving);
    let mut changes = models.changes();
    let states = || models.offers().iter().map(|o| format!("{} {:?}", o.name, o.state)).collect::<Vec<_>>();
    models.rescan(false);
    assert!(drain_changes(&mut changes).is_empty(), "nothing is new");
    models.model(Some("a")).unwrap();
    assert_eq!(drain_changes(&mut changes), ["a Loading", "a Loaded"]);
    let changed = ListedModel { file: (5, 1), ..list_model("a", "one") };
    *found.lock().unwrap() = vec![changed, list_model("c", "three")];
    models.rescan(false);
    assert_eq!(states(), ["a Loaded", "c Unloaded"]);
    assert_eq!(drain_changes(&mut changes), ["b removed", "reloaded"]);
    assert_eq!(models.model(Some("b")).err().map(|e| e.kind), Some(RefusalKind::NotFound));
    models.rescan(true);
    assert_eq!(states(), ["a Unloaded", "c Unloaded"]);
    assert_eq!(models.offers()[0].created, 5);
    assert_eq!(drain_changes(&mut changes), ["a Unloaded", "reloaded"]);
    found.lock().unwrap().clear();
    models.rescan(false);
    assert!(states().is_empty() && models.health() == Health::Ok);
    assert_eq!(models.model(None).err().map(|e| e.kind), Some(RefusalKind::NotFound));
}

#[test]
fn a_model_that_cannot_be_loaded_says_why_and_may_be_asked_for_again() {
    let broken = ModelSettings { open: Arc::new(|| Err(Error::Request("no such weights".into()))), ..settings(1) };
    let broken = ListedModel { settings: ModelSettings { name: "a".into(), ..broken }, ..list_model("a", "one") };
    let models = Models::new(vec![broken, list_model("b", "two")], Serving { several: true, ..Serving::default() });
    let mut changes = models.changes();
    assert!(models.model(Some("a")).err().unwrap().message.contains("no such weights"));
    assert_eq!(drain_changes(&mut changes), ["a Loading", "a Failed"]);
    let gone = ListedModel { path: Some("/no/such/file.gguf".into()), ..list_model("c", "") };
    let few = Models::new(vec![list_model("b", ""), gone], Serving { several: true, ..Serving::default() });
    few.model(Some("b")).unwrap();
    let told = few.model(Some("c")).err().unwrap().message;
    assert!(told.contains("file.gguf") && !told.contains("/no/such"), "its name, and not where it lies: {told}");
    let states: Vec<_> = few.offers().iter().map(|o| o.state).collect();
    assert_eq!(states, [ModelState::Loaded, ModelState::Failed], "for nothing no model goes");
    let offers = models.offers();
    assert!(offers[0].state == ModelState::Failed && offers[0].failure.as_ref().unwrap().contains("no such weights"));
    assert_eq!(run(&*models.model(Some("b")).unwrap(), greedy("And", 2)).finish().completion_tokens, 2);
}

#[test]
fn where_memory_runs_out_the_oldest_model_goes_and_the_next_one_is_loaded() {
    // Stands for a device that has room for one.
    let models: Arc<Mutex<Option<Arc<Models>>>> = Arc::default();
    let all = models.clone();
    let open = Arc::new(move || {
        let others = all.lock().unwrap().as_ref().is_some_and(|m| m.offers()[0].state == ModelState::Loaded);
        match others {
            true => Err(Error::OutOfMemory("needed 2 of 1".into())),
            false => pumex::gguf::Gguf::open(&crate::util::demo_path()),
        }
    });
    let large =
        ListedModel { settings: ModelSettings { name: "b".into(), open, ..settings(1) }, ..list_model("b", "two") };
    let serving = Serving { several: true, most: 4, ..Serving::default() };
    let served = Models::new(vec![list_model("a", "one"), large], serving);
    *models.lock().unwrap() = Some(served.clone());
    served.model(Some("a")).unwrap();
    served.model(Some("b")).unwrap();
    let states: Vec<_> = served.offers().iter().map(|o| o.state).collect();
    assert_eq!(states, [ModelState::Unloaded, ModelState::Loaded]);
    *models.lock().unwrap() = None;
    served.stop();
}

#[test]
fn models_that_are_asked_for_at_once_are_not_more_than_may_be_loaded() {
    let all = vec![list_model("a", "one"), list_model("b", "two"), list_model("c", "three")];
    let models = Models::new(all, Serving { several: true, most: 1, ..Serving::default() });
    let mut changes = models.changes();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "a", "b"] {
            let models = models.clone();
            scope.spawn(move || models.model(Some(name)).map(drop).unwrap());
        }
    });
    let mut running = 0i32;
    for told in drain_changes(&mut changes) {
        running += match told.split(' ').nth(1) {
            Some("Loading") => 1,
            Some("Unloaded") => -1,
            _ => 0,
        };
        assert!(running <= 1, "{told}");
    }
}

/// Asks models from several threads for a while, with pauses of all lengths around those after which models go; every request must be
/// answered. Gives how often a model went.
fn hammer(names: &[&str], idle: Option<Duration>, serving: Serving) -> usize {
    let (threads, rounds) = (2, if crate::util::exhaustive() { 400 } else { 60 });
    let models = Models::new(names.iter().map(|name| ListedModel { idle, ..list_model(name, "") }).collect(), serving);
    let mut changes = models.changes();
    let mut gone = 0;
    let mut count = |changes: &mut broadcast::Receiver<ModelChange>| {
        gone += drain_changes(changes).iter().filter(|t| t.ends_with("Sleeping") || t.ends_with("Unloaded")).count();
        gone
    };
    let ask_all = |thread: usize| {
        let mut state = thread as u32;
        let mut random = |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % n
        };
        for round in 0..rounds {
            let name = names[random(names.len() as u32) as usize];
            let model = models.awake(Some(name)).map_or_else(|| models.model(Some(name)), Ok).unwrap();
            std::thread::sleep(Duration::from_micros(u64::from(random(4000))));
            let events = ask(&*model, greedy("And it came", 1 + round % 3));
            drop(model);
            let found = super::all(events);
            assert_eq!(found.failed, None, "{name}, round {round}");
            assert_eq!(found.finish().completion_tokens, 1 + round % 3);
            std::thread::sleep(Duration::from_micros(u64::from(random(9000))));
        }
    };
    std::thread::scope(|scope| {
        let ask_all = &ask_all;
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(move || ask_all(thread))).collect();
        while all.iter().any(|thread| !thread.is_finished()) {
            count(&mut changes);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    count(&mut changes)
}

#[test]
fn a_request_never_meets_a_model_that_falls_asleep() {
    let slept = hammer(&["a"], Some(Duration::from_millis(1)), Serving::default());
    assert!(slept > 2, "it slept {slept} times");
}

#[test]
fn a_request_never_meets_a_model_that_makes_room_and_each_has_its_turn() {
    let went = hammer(&["a", "b"], None, Serving { several: true, most: 1, ..Serving::default() });
    assert!(went > 3, "models went {went} times");
}

#[test]
fn a_model_that_is_to_go_waits_for_its_requests_as_long_as_it_may() {
    let shifts = ModelSettings { context_shift: true, ..list_model("a", "").settings };
    let hasty = ListedModel { patience: Some(Duration::from_millis(20)), ..ListedModel::new(shifts) };
    let models = Models::new(vec![hasty], Serving::default());
    let model = models.model(None).unwrap();
    let mut endless = greedy("And it came", 1_000_000);
    endless.sampling.ignore_eos = Some(true);
    let (events, running) = mpsc::channel(100_000);
    model.generate(endless, events).unwrap();
    assert!(models.unload("a").unwrap());
    assert_eq!(super::all(running).failed.map(|f| f.kind), Some(RefusalKind::Unavailable));
    let late = model.generate(greedy("And", 1), mpsc::channel(1).0).unwrap_err();
    assert_eq!(late.kind, RefusalKind::Unavailable, "who holds on to it is told");
    assert_eq!(run(&*models.model(None).unwrap(), greedy("And", 2)).finish().completion_tokens, 2);
}
