//! TLS: a handshake with the certificate that was given, and files that do not fit.
//!
//! The certificate in `tests/data` is its own root, for localhost, and lasts a hundred years; nobody trusts it but these tests.

use crate::client::{connect, read_reply, request_text, run, settings};
use crate::fake::FakeEngine;
use pumex_serve::http::{HttpSettings, Server, Tls};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn tls_settings(certificate: &str, key: &str) -> HttpSettings {
    HttpSettings { tls: Some(Tls { certificate: data(certificate), key: data(key) }), ..settings() }
}

/// A client that trusts the certificate, or nobody.
fn client(trusts: bool) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if trusts {
        roots.add(CertificateDer::from_pem_file(data("certificate.pem")).unwrap()).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    Arc::new(builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn requests_are_served_behind_the_certificate_and_not_without_a_handshake() {
    let server = run(FakeEngine::hello(), tls_settings("certificate.pem", "key.pem"));
    assert!(server.addresses[0].to_string().starts_with("https://"), "{}", server.addresses[0]);
    let name = ServerName::try_from("localhost").unwrap();
    let session = |trusts| ClientConnection::new(client(trusts), name.clone()).unwrap();
    let mut stream = StreamOwned::new(session(true), connect(server.address));
    for path in ["/health", "/v1/models"] {
        stream.write_all(&request_text("GET", path, &[], b"")).unwrap();
        assert_eq!(read_reply(&mut stream).unwrap().status, 200, "{path}, on one connection");
    }
    // What is streamed comes whole.
    let body = br#"{"messages":[{"role":"user","content":"a"}],"stream":true}"#;
    let text = request_text("POST", "/v1/chat/completions", &[("Content-Type", "application/json")], body);
    stream.write_all(&text).unwrap();
    assert!(read_reply(&mut stream).unwrap().text().ends_with("data: [DONE]\n\n"));
    let mut stranger = StreamOwned::new(session(false), connect(server.address));
    assert!(stranger.write_all(&request_text("GET", "/health", &[], b"")).is_err(), "nobody vouches for it");
    let mut plain = connect(server.address);
    plain.write_all(&request_text("GET", "/health", &[], b"")).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn files_that_are_no_pair_are_refused_by_name() {
    for (certificate, key, expected) in [
        ("none.pem", "key.pem", "none.pem"),
        ("certificate.pem", "none.pem", "none.pem"),
        ("certificate.pem", "certificate.pem", "certificate.pem"),
        ("key.pem", "key.pem", "key.pem"),
        ("certificate.pem", "other-key.pem", "certificate.pem"),
    ] {
        let error = Server::bind(FakeEngine::hello(), tls_settings(certificate, key)).err().map(|e| e.to_string());
        assert!(error.as_ref().is_some_and(|e| e.contains(expected)), "{certificate}, {key}: {error:?}");
    }
}
