//! Models of the Hugging Face Hub, by the cache that other tools share.

use crate::Result;
use std::path::PathBuf;

/// What a repository has: the model's file, and its projector's where there is one.
pub struct Fetched {
    /// The model, or the first of its files.
    pub model: PathBuf,
    /// The projector.
    pub mmproj: Option<PathBuf>,
}

/// Fetches what `user/repo:Q4_K_M` names, unless it is in the cache.
///
/// # Errors
/// No such repository or file; a hub that cannot be reached.
#[cfg(feature = "download")]
pub fn fetch(repo: &str) -> Result<Fetched> {
    use crate::Error;
    use pumex_hub::{Event, HubSettings, Watch};
    let error = |e: pumex_hub::Error| match e {
        pumex_hub::Error::Io { path, source } => Error::io(&path, source),
        other => Error::Request(other.to_string()),
    };
    let settings = HubSettings::from(|key| std::env::var_os(key)).map_err(error)?;
    let never = std::sync::atomic::AtomicBool::new(false);
    let mut tell = |event: Event<'_>| match event {
        Event::Begins { name, total } => tracing::info!("downloading {name}, {total} bytes"),
        Event::Cached(why) => tracing::warn!("taken from the cache, as the Hub cannot be reached: {why}"),
        _ => {}
    };
    let watch = &mut Watch { tell: &mut tell, stop: &never };
    let model = pumex_hub::fetch(&settings, repo, None, watch).map_err(error)?;
    let mmproj = pumex_hub::fetch_projector(&settings, repo, watch).map_err(error)?;
    Ok(Fetched { model, mmproj })
}

/// Says that there is no way to.
///
/// # Errors
/// Always.
#[cfg(not(feature = "download"))]
pub fn fetch(repo: &str) -> Result<Fetched> {
    let what = format!("{repo}: expected a build with the feature `download`, found one without; give a file's path");
    Err(crate::Error::Request(what))
}
