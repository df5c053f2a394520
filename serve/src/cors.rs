//! Whose pages and names may ask: `Origin` and `Host`.

use crate::http::{Cors, HttpSettings};
use axum::http::{header, HeaderMap, HeaderValue};
use std::sync::OnceLock;

/// Whether pages of that origin may ask and read answers.
pub(crate) fn allows(cors: &Cors, origin: &str) -> bool {
    match cors {
        Cors::Closed => false,
        Cors::Any => true,
        Cors::Origins(origins) => origins.iter().any(|o| o.trim_end_matches('/').eq_ignore_ascii_case(origin)),
        Cors::Localhost => {
            let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            host.is_some_and(|h| matches!(without_port(h), "localhost" | "127.0.0.1" | "[::1]"))
        }
    }
}

/// Whether an origin is the server's own page.
pub(crate) fn is_own(origin: &str, host: Option<&str>) -> bool {
    let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    name.is_some() && name == host
}

/// Tells a browser that the page of that origin may read the answer.
pub(crate) fn allow(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

/// Tells a browser, before the request itself, which methods the page may use.
pub(crate) fn allow_methods(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
}

/// Whether a request may call the server so. A name that is not ours may be another site's that leads here (DNS rebinding);
/// addresses cannot be, and with keys the other site has none.
pub(crate) fn host_is_known(settings: &HttpSettings, host: &str) -> bool {
    let name = without_port(host).trim_end_matches('.').to_ascii_lowercase();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok()
        || name == "localhost"
        || is_private(&name)
        || own_name().is_some_and(|own| own == name)
        || settings.hosts.iter().chain(&settings.allowed_hosts).any(|h| h.eq_ignore_ascii_case(&name))
        || (settings.has_keys() && settings.allowed_hosts.is_empty())
}

/// Ends of names that no public site has: those of this machine, of its containers, and of networks at home.
const PRIVATE: &[&str] = &[".localhost", ".local", ".internal", ".lan", ".home.arpa", ".localdomain"];

/// Whether a name can be no public site's: none of those is without a dot.
fn is_private(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let single = !name.is_empty() && !name.contains('.');
    name.chars().all(plain) && (single || PRIVATE.iter().any(|end| name.ends_with(end)))
}

/// The machine's own name, where the system has it in a file; elsewhere it has no dot, or ends as names at home do.
fn own_name() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty())
    };
    NAME.get_or_init(read).as_deref()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_not_ours() {
        let settings = HttpSettings { allowed_hosts: vec!["a.example".into()], ..HttpSettings::default() };
        let good = [
            "localhost",
            "localhost:8080",
            "LOCALHOST.",
            "127.0.0.1:1",
            "[::1]:8080",
            "10.0.0.3",
            "a.example:80",
            "pumex:8080",
            "host.docker.internal",
            "host.containers.internal:1",
            "nas.local",
            "box.lan",
            "pi.home.arpa",
            "a.localhost",
        ];
        good.iter().for_each(|h| assert!(host_is_known(&settings, h), "{h}"));
        let bad = ["localhost.evil.com", "evil.com:8080", "", "a.example.evil", "127.0.0.1.nip.io", "local.com", "a b"];
        bad.iter().for_each(|h| assert!(!host_is_known(&settings, h), "{h}"));
        let keyed = HttpSettings { keys: vec!["k".into()], ..HttpSettings::default() };
        assert!(host_is_known(&keyed, "gpu.lan"));
    }

    #[test]
    fn this_machine_s_pages_are_known_by_their_host() {
        for origin in ["http://localhost", "https://localhost:3000", "http://127.0.0.1:5", "http://[::1]:9"] {
            assert!(allows(&Cors::Localhost, origin), "{origin}");
        }
        for origin in
            ["null", "http://localhost.evil.com", "http://evil.com", "http://127.0.0.1.evil.com:80", "localhost"]
        {
            assert!(!allows(&Cors::Localhost, origin) && !allows(&Cors::Closed, origin), "{origin}");
        }
        let some = Cors::Origins(vec!["https://a.example/".into()]);
        assert!(allows(&some, "https://a.example") && !allows(&some, "https://b.example"));
        assert!(
            is_own("http://localhost:8080", Some("localhost:8080"))
                && !is_own("http://localhost:1", Some("localhost:8080"))
        );
    }
}
