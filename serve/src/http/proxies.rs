//! Programs between clients and this server that say whose request one is.

use axum::http::HeaderMap;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u32,
}

impl FromStr for Network {
    type Err = String;

    /// An address, or one and the number of bits that count: `10.0.0.0/8`.
    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("expected an address or a network such as 10.0.0.0/8, found {text:?}");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let first: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let all = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse).map_err(|_| wrong())?;
        if bits > all {
            return Err(wrong());
        }
        Ok(Network { first, bits })
    }
}

impl Network {
    /// Whether an address is one of it.
    pub fn has(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, all: u32| (a ^ b).checked_shr(all - self.bits).unwrap_or(0) == 0;
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// Whose request one is: of those that `X-Forwarded-For` names behind proxies that are trusted, the last that is none; else the one who
/// connected. What others claim counts for nothing.
pub(super) fn client(peer: Option<IpAddr>, headers: &HeaderMap, trusted: &[Network]) -> Option<IpAddr> {
    let is_proxy = |address: IpAddr| trusted.iter().any(|network| network.has(address));
    let mut found = peer?;
    let named = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let named: Vec<&str> = named.flat_map(|value| value.split(',')).collect();
    for name in named.into_iter().rev() {
        if !is_proxy(found) {
            break;
        }
        let Ok(address) = name.trim().parse() else { break };
        found = address;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::{client, Network};
    use axum::http::HeaderMap;
    use std::net::IpAddr;

    #[test]
    fn networks_have_what_begins_like_them() {
        let has = |network: &str, address: &str| network.parse::<Network>().unwrap().has(address.parse().unwrap());
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.200.3.4", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fd12::1", true),
            ("::/0", "fe80::1", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
        ] {
            assert_eq!(has(network, address), expected, "{network} {address}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "host"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_trusted_proxies_say_who_asks() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let who = |peer: &str, forwarded: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            client(Some(peer.parse().unwrap()), &headers, &trusted).unwrap().to_string()
        };
        assert_eq!(who("1.1.1.1", &["9.9.9.9"]), "1.1.1.1", "anybody may claim to be another");
        assert_eq!(who("10.0.0.1", &["9.9.9.9"]), "9.9.9.9");
        assert_eq!(
            who("10.0.0.1", &["8.8.8.8, 9.9.9.9, 10.0.0.2"]),
            "9.9.9.9",
            "what the client itself named is no news"
        );
        assert_eq!(who("10.0.0.1", &["9.9.9.9", "10.0.0.2"]), "9.9.9.9");
        assert_eq!(who("10.0.0.1", &["nonsense"]), "10.0.0.1");
        assert_eq!(client(None, &HeaderMap::new(), &trusted), None::<IpAddr>);
    }
}
