//! TLS, by rustls with ring.

use super::{Error, Tls};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// What shakes hands with that certificate.
pub(super) fn acceptor(files: &Tls) -> Result<TlsAcceptor, Error> {
    let wrong = |path: &Path, what: String| Error::Settings(format!("{}: {what}", path.display()));
    let certificate = files.certificate.as_path();
    let chain: Vec<CertificateDer> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|e| wrong(certificate, e.to_string()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| wrong(&files.key, e.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(chain, key))
        .map_err(|e| wrong(certificate, e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
