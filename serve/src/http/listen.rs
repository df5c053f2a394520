//! Sockets: of addresses, names and paths.

use super::{Error, HttpSettings};
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port.
    Tcp {
        /// Both.
        address: SocketAddr,
        /// Whether TLS is spoken.
        tls: bool,
    },
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Address::Tcp { address, tls: false } => write!(f, "http://{address}"),
            Address::Tcp { address, tls: true } => write!(f, "https://{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that is bound.
pub(super) enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener, PathBuf),
}

/// A bound socket within the runtime.
pub(super) enum Listener {
    Tcp(tokio::net::TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

/// A connection's two directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

impl Listener {
    /// The next connection, and whose it is where that has an address.
    pub async fn accept(&self) -> std::io::Result<(Box<dyn Duplex>, Option<IpAddr>)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Small pieces of a stream are not held back; a socket that refuses works as well.
                let _ = stream.set_nodelay(true);
                Ok((Box::new(stream), Some(peer.ip())))
            }
            #[cfg(unix)]
            Listener::Unix(listener) => Ok((Box::new(listener.accept().await?.0), None)),
        }
    }
}

impl Socket {
    pub fn address(&self, tls: bool) -> Result<Address, Error> {
        match self {
            Socket::Tcp(socket) => {
                let address = socket.local_addr().map_err(Error::io("address of a socket"))?;
                Ok(Address::Tcp { address, tls })
            }
            #[cfg(unix)]
            Socket::Unix(_, path) => Ok(Address::Unix(path.clone())),
        }
    }

    /// Needs a runtime.
    pub fn listener(self) -> std::io::Result<Listener> {
        match self {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Ok(Listener::Tcp(tokio::net::TcpListener::from_std(socket)?))
            }
            #[cfg(unix)]
            Socket::Unix(socket, _) => {
                socket.set_nonblocking(true)?;
                Ok(Listener::Unix(tokio::net::UnixListener::from_std(socket)?))
            }
        }
    }
}

/// Binds to each host; a name may have several addresses, of which one must do.
pub(super) fn bind(settings: &HttpSettings) -> Result<Vec<Socket>, Error> {
    let mut sockets = Vec::new();
    let mut port = settings.port;
    for host in &settings.hosts {
        if host.ends_with(".sock") {
            sockets.push(bind_path(PathBuf::from(host))?);
            continue;
        }
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let what = format!("{host}, port {port}");
        let addresses: Vec<SocketAddr> = (name, port).to_socket_addrs().map_err(Error::io(what.clone()))?.collect();
        let socket = TcpListener::bind(addresses.as_slice()).map_err(Error::io(what))?;
        // Port 0 is chosen once, and is the same on all hosts.
        port = socket.local_addr().map_or(port, |a| a.port());
        sockets.push(Socket::Tcp(socket));
    }
    Ok(sockets)
}

/// A socket that a server left behind is taken over; one at which somebody answers is not, nor is any other file.
#[cfg(unix)]
fn bind_path(path: PathBuf) -> Result<Socket, Error> {
    use std::os::unix::fs::FileTypeExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    let left = std::fs::symlink_metadata(&path).is_ok_and(|m| m.file_type().is_socket());
    if left && UnixStream::connect(&path).is_err() {
        std::fs::remove_file(&path).map_err(Error::io(path.display().to_string()))?;
    }
    let listener = UnixListener::bind(&path).map_err(Error::io(path.display().to_string()))?;
    Ok(Socket::Unix(listener, path))
}

#[cfg(not(unix))]
fn bind_path(path: PathBuf) -> Result<Socket, Error> {
    Err(Error::Settings(format!("{}: this system has no Unix sockets", path.display())))
}

/// Removes the files of Unix sockets.
pub(super) fn remove(addresses: &[Address]) {
    for address in addresses {
        if let Address::Unix(path) = address {
            // What cannot be removed is taken over by the next server.
            let _ = std::fs::remove_file(path);
        }
    }
}
