//! How a server is set up.

use super::{Error, Network};
use std::path::PathBuf;
use std::time::Duration;

/// How a server is set up. [`HttpSettings::default`] is safe: this machine only, nobody else's pages.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Addresses and names to listen on; those that end in `.sock` are paths of Unix sockets.
    pub hosts: Vec<String>,
    /// Port; 0 takes a free one.
    pub port: u16,
    /// Keys of which a request must bring one; with none, none is asked for.
    pub keys: Vec<String>,
    /// A file of further ones ([`HttpSettings::keys_of`]), which is read again on SIGHUP.
    pub key_file: Option<PathBuf>,
    /// Listens beyond this machine even without a key.
    pub insecure: bool,
    /// Names that a request's `Host` may have beside addresses, `localhost` and names in `hosts`. With keys, none stands for all.
    pub allowed_hosts: Vec<String>,
    /// Proxies whose `X-Forwarded-For` says who asks, where wrong keys are counted.
    pub trusted_proxies: Vec<Network>,
    /// Whose pages may ask.
    pub cors: Cors,
    /// Certificate and key; none is plain HTTP.
    pub tls: Option<Tls>,
    /// Path before those of all endpoints; empty: none.
    pub prefix: String,
    /// Whether a last message of the assistant's is continued where a request does not say.
    pub prefills: bool,
    /// Lengths of vectors where a request does not say.
    pub normalize: Option<i32>,
    /// Whether pictures and sounds of other servers are fetched, from public addresses.
    pub remote_media: bool,
    /// The folder whose files requests may name as pictures and sounds.
    pub media_path: Option<PathBuf>,
    /// Whether there are pages at `/` and `/status`.
    pub page: bool,
    /// Whether `/slots` tells and changes what slots do.
    pub slots: bool,
    /// Whether there is `/metrics`.
    pub metrics: bool,
    /// Told a line of each request when its answer begins.
    pub log: Option<fn(std::fmt::Arguments<'_>)>,
    /// Tells the prompt in each answer of chats (`__verbose`).
    pub verbose: bool,
    /// The program's version, as `build_info` and others say it.
    pub version: String,
    /// Threads for connections.
    pub threads: usize,
    /// Sizes and times.
    pub limits: ConnectionLimits,
}

/// Whose pages may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cors {
    /// Only this server's own.
    Closed,
    /// Pages of this machine, whatever their port.
    Localhost,
    /// Pages of these origins, such as `https://example.org`.
    Origins(Vec<String>),
    /// Everybody's.
    Any,
}

/// Files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those that vouch for it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Sizes and times of connections and requests.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionLimits {
    /// Connections at a time; above, those that wait for their next request are closed.
    pub connections: usize,
    /// Connections at a time from one address.
    pub connections_each: usize,
    /// Bytes that bodies being worked on take together, about.
    pub room: usize,
    /// Values of JSON in a body.
    pub values: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Pictures and sounds of a request.
    pub media: usize,
    /// Bytes of one of them.
    pub medium: usize,
    /// For those of a request that other servers have.
    pub media_time: Duration,
    /// Bytes of all headers of a request.
    pub headers: usize,
    /// Bytes of a path with its query.
    pub uri: usize,
    /// For headers, from their first byte; also for the handshake of TLS.
    pub header_time: Duration,
    /// For a body; after a third of it, a body has to come at 1 KiB a second.
    pub body_time: Duration,
    /// For the next request on a connection.
    pub idle_time: Duration,
    /// Without a byte taken by a client that is sent something.
    pub write_time: Duration,
    /// For requests that run when the server is to stop.
    pub drain: Duration,
    /// Between comments that show that a stream lives.
    pub ping: Duration,
    /// Wrong keys from one address in a minute.
    pub failures: usize,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            connections: 1024,
            connections_each: 1024,
            room: 256 << 20,
            values: 1 << 20,
            body: 16 << 20,
            media: 64,
            medium: 32 << 20,
            media_time: Duration::from_secs(10),
            headers: 16 << 10,
            uri: 8 << 10,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            ping: Duration::from_secs(30),
            failures: 10,
        }
    }
}

impl Default for HttpSettings {
    fn default() -> HttpSettings {
        HttpSettings {
            hosts: vec!["127.0.0.1".into()],
            port: 8080,
            keys: Vec::new(),
            key_file: None,
            insecure: false,
            allowed_hosts: Vec::new(),
            prefix: String::new(),
            prefills: true,
            normalize: None,
            remote_media: false,
            media_path: None,
            trusted_proxies: Vec::new(),
            cors: Cors::Closed,
            tls: None,
            page: true,
            slots: true,
            metrics: true,
            log: None,
            verbose: false,
            version: env!("CARGO_PKG_VERSION").into(),
            threads: 2,
            limits: ConnectionLimits::default(),
        }
    }
}

impl HttpSettings {
    /// Keys of a file, one a line; empty lines and those that begin with `#` are none.
    ///
    /// # Errors
    /// The file cannot be read, or holds none.
    pub fn keys_of(path: &std::path::Path) -> Result<Vec<String>, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::io(path.display().to_string()))?;
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        let keys: Vec<String> = lines.map(String::from).collect();
        match keys.is_empty() {
            true => Err(Error::Settings(format!("{}: expected a key on a line, found none", path.display()))),
            false => Ok(keys),
        }
    }

    /// Whether a request must bring a key.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty() || self.key_file.is_some()
    }

    /// All keys, as they are now.
    ///
    /// # Errors
    /// As [`HttpSettings::keys_of`].
    pub(super) fn all_keys(&self) -> Result<Vec<String>, Error> {
        let more = self.key_file.as_deref().map(HttpSettings::keys_of).transpose()?;
        Ok(self.keys.iter().cloned().chain(more.unwrap_or_default()).collect())
    }

    /// Refuses what is not safe: anybody who can reach the machine, without a key.
    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Settings(text));
        let path = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
        if !self.prefix.is_empty() && (!self.prefix.starts_with('/') || !self.prefix.chars().all(path)) {
            return wrong(format!("the prefix of paths: expected one as /x, found {:?}", self.prefix));
        }
        if self.hosts.is_empty() {
            return wrong("expected an address to listen on, found none".into());
        }
        if self.keys.iter().any(|k| k.trim().is_empty()) {
            return wrong("a key is empty".into());
        }
        let open = self.hosts.iter().find(|h| !is_local(h));
        match open {
            Some(host) if !self.has_keys() && !self.insecure => wrong(format!(
                "{host} can be reached from other machines: give a key (--api-key), or --insecure to serve anybody"
            )),
            _ => Ok(()),
        }
    }
}

/// Whether only this machine reaches that host.
fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host.ends_with(".sock") || host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_need_a_key() {
        let settings = |host: &str| HttpSettings { hosts: vec![host.into()], ..HttpSettings::default() };
        for host in ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "/run/pumex.sock"] {
            assert!(settings(host).check().is_ok(), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.1.2", "example.org", "localhost.example.org"] {
            assert!(settings(host).check().is_err(), "{host}");
            assert!(HttpSettings { insecure: true, ..settings(host) }.check().is_ok(), "{host}");
            assert!(HttpSettings { keys: vec!["k".into()], ..settings(host) }.check().is_ok(), "{host}");
            assert!(HttpSettings { keys: vec![" ".into()], ..settings(host) }.check().is_err(), "{host}");
        }
        assert!(HttpSettings { hosts: vec![], ..HttpSettings::default() }.check().is_err());
    }
}
