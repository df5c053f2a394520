//! The server: sockets, connections, limits, and the router.

mod app;
mod body;
mod body_memory;
mod connection;
mod connection_slots;
mod endpoints;
mod form;
mod guard;
mod io_timeout;
mod listen;
mod local;
mod log;
#[cfg(test)]
mod owners;
mod pages;
mod proxies;
mod router;
mod settings;
mod stop;
mod tls;
mod worker_pool;

pub use endpoints::Endpoints;
pub use listen::Address;
pub use local::{InProcessAnswer as LocalAnswer, Local};
pub use proxies::Network;
pub use settings::{ConnectionLimits, Cors, HttpSettings, Tls};
pub use stop::Stopper;

pub(crate) use app::{blocking, warn, App};
pub(crate) use body::{json, query, read, read_form, truth};
pub(crate) use body_memory::{BodyMemory, BodyShare};
pub(crate) use form::FormPart;
pub(crate) use guard::Caller;

use crate::engine::Engine;
use std::sync::Arc;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings contradict each other or are not safe.
    #[error("{0}")]
    Settings(String),
    /// The system refuses.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The engine gave up.
    #[error("the server ends: {0}")]
    Engine(String),
}

impl Error {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        |source| Error::Io { what, source }
    }
}

/// Serves an engine until SIGTERM or SIGINT, and blocks. Calls `listening` once with the addresses, when connections are accepted and
/// signals are heeded. The first signal drains: new requests are refused, those that run go on for [`ConnectionLimits::drain`]; the
/// second ends at once. An engine that gave up ends it too, so that whoever watches the process starts another.
///
/// # Errors
/// Settings that are not safe, an address that is taken, keys or certificates that cannot be read; an engine that gave up.
pub fn serve(engine: Arc<dyn Engine>, settings: HttpSettings, listening: impl FnOnce(&[Address])) -> Result<(), Error> {
    Server::bind(engine, settings)?.work(true, listening)
}

/// A server that is bound to its addresses.
pub struct Server {
    app: Arc<App>,
    stopper: Stopper,
    sockets: Vec<listen::Socket>,
    addresses: Vec<Address>,
    tls: Option<tokio_rustls::TlsAcceptor>,
}

impl Server {
    /// Checks the settings and binds to the addresses; nothing is accepted yet.
    ///
    /// # Errors
    /// As [`serve`]'s.
    pub fn bind(engine: Arc<dyn Engine>, settings: HttpSettings) -> Result<Server, Error> {
        settings.check()?;
        let tls = settings.tls.as_ref().map(tls::acceptor).transpose()?;
        let sockets = listen::bind(&settings)?;
        let addresses = sockets.iter().map(|s| s.address(tls.is_some())).collect::<Result<_, _>>()?;
        let stopper = Stopper::new();
        let app = Arc::new(App::new(engine, settings, &stopper)?);
        Ok(Server { app, stopper, sockets, addresses, tls })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What ends it from elsewhere.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until the stopper says otherwise. Blocks.
    ///
    /// # Errors
    /// The system has no threads or refuses the sockets.
    pub fn run(self) -> Result<(), Error> {
        self.work(false, |_| ())
    }

    fn work(self, signals: bool, listening: impl FnOnce(&[Address])) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.app.settings.threads.max(1))
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(Error::io("threads for connections"))?;
        let result = runtime.block_on(async {
            if signals {
                stop::heed_signals(self.stopper.clone()).map_err(Error::io("signals"))?;
                stop::heed_hangups(&self.app).map_err(Error::io("signals"))?;
            }
            let router = router::router(self.app.clone());
            for socket in self.sockets {
                let listener = socket.listener().map_err(Error::io("listening"))?;
                tokio::spawn(connection::accept(listener, self.tls.clone(), router.clone(), self.app.clone()));
            }
            listening(&self.addresses);
            let given_up = async {
                match signals {
                    true => stop::until_failed(&self.app).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop::until_over(&self.app, &self.stopper) => Ok(()),
                why = given_up => {
                    self.stopper.stop();
                    stop::until_over(&self.app, &self.stopper).await;
                    Err(Error::Engine(why))
                }
            }
        });
        // Work of the engine that blocks a thread ends by itself, or with the process.
        runtime.shutdown_background();
        listen::remove(&self.addresses);
        result
    }
}
