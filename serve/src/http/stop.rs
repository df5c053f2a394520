//! How a server ends: it drains first.

use super::App;
use crate::engine::Health;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How far a server is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It serves.
    Runs,
    /// It ends what runs.
    Drains,
    /// What still runs is ended now.
    Cuts,
    /// It is over.
    Over,
}

/// Ends a server. Clones end the same one.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<watch::Sender<Stage>>);

impl Stopper {
    pub(super) fn new() -> Stopper {
        Stopper(Arc::new(watch::Sender::new(Stage::Runs)))
    }

    pub(super) fn stage(&self) -> watch::Receiver<Stage> {
        self.0.subscribe()
    }

    /// Refuses new requests, and ends when those that run are over or their time is up; called again, ends at once.
    pub fn stop(&self) {
        self.0.send_modify(|stage| *stage = if *stage == Stage::Runs { Stage::Drains } else { Stage::Over });
    }

    /// Cuts off what still runs, if it is not over.
    fn cut(&self) {
        self.0.send_modify(|stage| *stage = Stage::Cuts.max(*stage));
    }
}

/// How long requests go on after Ctrl-C: somebody waits for the end there.
const LEAVE: Duration = Duration::from_millis(500);
/// How long clients have to hear that their requests were ended, and after Ctrl-C.
const FAREWELL: [Duration; 2] = [Duration::from_secs(2), Duration::from_millis(700)];

/// Each SIGTERM or SIGINT is a call of [`Stopper::stop`]; after a SIGINT, requests have little time.
pub(super) fn heed_signals(stopper: Stopper) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{signal, SignalKind};
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::spawn(async move {
            loop {
                let typed = tokio::select! { _ = term.recv() => false, _ = int.recv() => true };
                stopper.stop();
                if typed {
                    let stopper = stopper.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(LEAVE).await;
                        stopper.cut();
                    });
                }
            }
        });
    }
    #[cfg(not(unix))]
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            stopper.stop();
        }
    });
    Ok(())
}

/// How often is looked whether the engine gave up.
const LOOK: Duration = Duration::from_millis(200);

/// Returns when the engine has given up, and why.
pub(super) async fn until_failed(app: &App) -> String {
    loop {
        if let Health::Failed(why) = app.engine.health() {
            return why;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Each SIGHUP has the file of keys read again.
pub(super) fn heed_hangups(app: &Arc<App>) -> std::io::Result<()> {
    #[cfg(unix)]
    if app.settings.key_file.is_some() {
        let mut hangups = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
        let app = app.clone();
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                match app.settings.all_keys() {
                    Ok(keys) => {
                        app.keys.replace(&keys);
                        tracing::info!("keys are read again: {} are good", app.keys.len());
                    }
                    Err(error) => tracing::warn!("keys stay as they are: {error}"),
                }
            }
        });
    }
    Ok(())
}

/// Returns when the server is over and the engine is told.
pub(super) async fn until_over(app: &App, stopper: &Stopper) {
    let mut stage = stopper.stage();
    // The sender lives as long as the stopper: waiting cannot fail.
    let _ = stage.wait_for(|s| *s >= Stage::Drains).await;
    app.engine.drain();
    tracing::info!(requests = app.counts.running(), "the server stops when these requests are over");
    tokio::select! {
        () = app.counts.until_idle() => {}
        () = tokio::time::sleep(app.settings.limits.drain) => tracing::warn!("requests that still run are ended"),
        _ = stage.wait_for(|s| *s >= Stage::Cuts) => (),
    }
    if *stage.borrow() == Stage::Over {
        return;
    }
    let farewell = FAREWELL[usize::from(*stage.borrow() == Stage::Cuts)];
    let engine = app.engine.clone();
    let ended = tokio::task::spawn_blocking(move || engine.stop());
    // Errors reach the clients whose requests were ended, if these take them.
    let told = async {
        let _ = ended.await;
        app.counts.until_idle().await;
    };
    tokio::select! {
        () = told => {}
        () = tokio::time::sleep(farewell) => {}
        _ = stage.wait_for(|s| *s == Stage::Over) => {}
    }
}
