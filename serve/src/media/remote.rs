//! Media of other servers: fetched from public addresses alone, within a size and a time.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// Servers that a request may be sent on to.
const MOST_REDIRECTS: u32 = 3;
/// Bytes that are read at a time.
const PIECE: usize = 64 << 10;

/// Which addresses are connected to.
pub type AddressFilter = fn(IpAddr) -> bool;

/// What a URL of HTTP has. Blocks until it is there, or until then.
///
/// # Errors
/// A server that cannot be reached, is at an address that is not allowed, or does not answer with a file of at most so many bytes.
pub fn fetch(url: &str, most: usize, until: Instant, allowed: AddressFilter) -> Result<Vec<u8>, String> {
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let config = ureq::Agent::config_builder()
        .max_redirects(MOST_REDIRECTS)
        .http_status_as_error(false)
        .timeout_global(Some(left))
        .accept_encoding("identity")
        // A proxy would look up names itself.
        .proxy(None)
        .user_agent(concat!("pumex/", env!("CARGO_PKG_VERSION")))
        .build();
    let resolver = GuardedResolver { usual: DefaultResolver::default(), allowed };
    let agent = ureq::Agent::with_parts(config, DefaultConnector::default(), resolver);
    let mut answer = agent.get(url).call().map_err(|e| public_failure_text(&e))?;
    let status = answer.status().as_u16();
    if status != 200 {
        return Err(format!("expected the status 200 of its server, found {status}"));
    }
    let too_long = || format!("expected a file of at most {most} bytes, found more");
    let length = answer.headers().get("content-length").and_then(|l| l.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > most as u64) {
        return Err(too_long());
    }
    let (mut reader, mut bytes) = (answer.body_mut().with_config().limit(u64::MAX).reader(), Vec::new());
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece) {
            Ok(0) if bytes.is_empty() => return Err("expected a file, found no bytes".into()),
            Ok(0) => return Ok(bytes),
            Ok(n) if bytes.len() + n > most => return Err(too_long()),
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
            Err(e) if is_late(&e) => return Err(late()),
            Err(_) => return Err("its server broke off".into()),
        }
        if Instant::now() > until {
            return Err(late());
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    error.kind() == std::io::ErrorKind::TimedOut || matches!(inner, Some(ureq::Error::Timeout(_)))
}

fn late() -> String {
    "its server did not send it in time".into()
}

/// What of a failure those who asked may know.
fn public_failure_text(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "there is no such server".into(),
        ureq::Error::Other(refused) if refused.is::<NotPublic>() => refused.to_string(),
        ureq::Error::Timeout(_) => late(),
        ureq::Error::TooManyRedirects => format!("expected at most {MOST_REDIRECTS} redirects, found more"),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "expected a URL of HTTP".into(),
        ureq::Error::Io(e) if is_late(e) => late(),
        _ => "its server cannot be reached".into(),
    }
}

/// Looks up names, and gives no address that is not allowed: what is connected to is what was looked at.
#[derive(Debug)]
struct GuardedResolver {
    usual: DefaultResolver,
    allowed: AddressFilter,
}

#[derive(Debug, thiserror::Error)]
#[error("its server is not at a public address")]
struct NotPublic;

impl Resolver for GuardedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.usual.resolve(uri, config, timeout)?;
        match found.iter().all(|address| (self.allowed)(address.ip())) {
            true => Ok(found),
            false => Err(ureq::Error::Other(Box::new(NotPublic))),
        }
    }
}

/// Whether an address is one of the public network: none of this machine, of a local network, or of a special use.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // Addresses of the older kind in newer ones.
    let inside = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inside(high, low),
        [0x2002, high, low, ..] => inside(high, low),
        // Teredo and others of special uses, and documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn addresses_of_this_machine_and_of_local_networks_are_not_public() {
        let special = [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a00:1::",
            "100::1",
            "3fff::1",
            "5f00::1",
        ];
        for text in special {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.1.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2001:4860::8888",
        ];
        for text in public {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    /// A server that answers each request with the next of these texts, and where it is.
    fn serve(answers: Vec<String>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = [0; 2048];
                let _ = stream.read(&mut head);
                let _ = stream.write_all(answer.as_bytes());
                if answer.ends_with("...") {
                    std::thread::sleep(Duration::from_millis(1500));
                }
            }
        });
        port
    }

    fn answer(head: &str, body: &str) -> String {
        format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn files_are_fetched_within_their_bounds() {
        let table = [
            (vec![answer("200 OK", "a picture")], Ok(b"a picture".to_vec())),
            (vec![answer("302 Found\r\nLocation: /b", ""), answer("200 OK", "b")], Ok(b"b".to_vec())),
            (vec![answer("302 Found\r\nLocation: /b", ""); 4], Err("redirects")),
            (vec![answer("200 OK", &"x".repeat(101))], Err("at most 100 bytes")),
            (
                vec![format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "x".repeat(101))],
                Err("at most 100 bytes"),
            ),
            (vec![answer("200 OK", "")], Err("no bytes")),
            (vec![answer("404 Not Found", "x")], Err("found 404")),
            (vec!["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n...".to_string()], Err("in time")),
        ];
        for (answers, expected) in table {
            let port = serve(answers);
            let until = Instant::now() + Duration::from_millis(1000);
            let found = fetch(&format!("http://127.0.0.1:{port}/a"), 100, until, |_| true);
            match expected {
                Ok(bytes) => assert_eq!(found, Ok(bytes)),
                Err(words) => assert!(found.as_ref().is_err_and(|e| e.contains(words)), "{words}: {found:?}"),
            }
        }
    }

    #[test]
    fn nothing_is_sent_to_addresses_that_are_not_public_nor_by_redirects() {
        let until = Instant::now() + Duration::from_secs(5);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let secret = format!("http://127.0.0.1:{port}/secret");
        for url in [
            secret.as_str(),
            &format!("http://localhost:{port}/"),
            "http://[::1]:1/",
            "http://0x7f.1:1/",
            "http://2130706433/",
        ] {
            let found = fetch(url, 100, until, is_public);
            assert!(found.as_ref().is_err_and(|e| e.contains("not at a public address")), "{url}: {found:?}");
        }
        // The first server may be asked, the second not.
        let first = serve(vec![answer(&format!("302 Found\r\nLocation: http://localhost:{port}/secret"), "")]);
        let only_once: AddressFilter = |_| {
            static ASKED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
            !ASKED.swap(true, std::sync::atomic::Ordering::SeqCst)
        };
        let found = fetch(&format!("http://127.0.0.1:{first}/a"), 100, until, only_once);
        assert!(found.as_ref().is_err_and(|e| e.contains("not at a public address")), "{found:?}");
        assert!(listener.accept().is_err(), "somebody connected");
        for url in ["http://", "http:///a", "https:", "http://[", "http://exa mple/"] {
            assert!(fetch(url, 100, until, |_| true).is_err(), "{url}");
        }
    }
}
