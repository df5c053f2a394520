//! Pictures and sounds of requests: found in bodies, held against what the model takes, and brought in.

mod data;
mod files;
mod parts;
mod remote;

pub(crate) use parts::{find_medium, mark};

use crate::engine::{Chat, Medium, MediumKind, ModelProperties, Prompt, PromptPart, RefusalKind, MEDIA_MARK};
use crate::errors::{invalid, refusal, RequestFault, Result};
use crate::http::{blocking, App, BodyMemory, BodyShare};
use bytes::Bytes;
use serde_json::Value;
use std::time::Instant;

/// Base64 that is longer is decoded where others need not wait for it.
const LONG: usize = 256 << 10;

/// Media of a body, in the order in which they stand in it. They are read once it is known which model they are for.
#[derive(Default)]
pub(crate) struct BodyMedia<'a>(Vec<BodyMedium<'a>>);

/// A medium as it stands in a body.
pub(crate) struct BodyMedium<'a> {
    /// None: what its bytes look like.
    kind: Option<MediumKind>,
    /// What the body calls it: image, audio or media.
    word: &'static str,
    /// Where it says that it is one.
    at: String,
    /// Where to find it; or what is wrong with it, which counts only where it could be taken.
    place: Result<MediumLocation<'a>>,
}

/// Where a medium is to be found, and how large it may become.
pub(crate) struct MediumLocation<'a> {
    pub source: MediumSource<'a>,
    /// Where the source stands in the body.
    pub field: String,
    /// Tokens of a picture.
    pub max_tokens: Option<usize>,
}

/// Where the bytes of a medium are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediumSource<'a> {
    /// Here, in base64.
    Base64(&'a str),
    /// At a URL: `data:`, `http:`, `https:` or `file:`.
    Url(&'a str),
}

impl<'a> BodyMedium<'a> {
    pub fn picture(at: String, place: Result<MediumLocation<'a>>) -> BodyMedium<'a> {
        BodyMedium { kind: Some(MediumKind::Picture), word: "image", at, place }
    }

    pub fn sound(at: String, place: Result<MediumLocation<'a>>) -> BodyMedium<'a> {
        BodyMedium { kind: Some(MediumKind::Sound), word: "audio", at, place }
    }

    /// Either, in base64, by what its bytes look like.
    pub fn either(word: &'static str, at: String, field: String, data: &'a str) -> BodyMedium<'a> {
        let place = MediumLocation { source: MediumSource::Base64(data), field, max_tokens: None };
        BodyMedium { kind: None, word, at, place: Ok(place) }
    }
}

impl<'a> BodyMedia<'a> {
    /// Takes one more, for which a mark is to stand in the text.
    pub fn add(&mut self, found: BodyMedium<'a>) {
        self.0.push(found);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Refuses them where nothing takes any.
    ///
    /// # Errors
    /// There are some.
    pub fn refuse(&self, why: &str) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some(BodyMedium { at, word, .. }) => {
                Err(invalid(at, format!("/{at}: {word} input is not supported - {why}")))
            }
        }
    }

    /// Brings them into a prompt for a model: among its parts they take the place of their marks.
    ///
    /// # Errors
    /// As [`BodyMedia::bring`]; more or fewer marks than media.
    pub async fn settle(self, app: &App, model: &ModelProperties, prompt: &mut Prompt) -> Result<()> {
        match prompt {
            _ if self.0.is_empty() => Ok(()),
            Prompt::Chat(chat) => self.bring(app, model, chat).await,
            Prompt::Infill { .. } => self.refuse("none stands in a gap"),
            Prompt::Parts(parts) => {
                let (count, media) = (self.len(), self.read(app, model).await?);
                let found: usize = parts.iter().map(|part| part.text().matches(MEDIA_MARK).count()).sum();
                if found != count {
                    let text =
                        format!("expected {MEDIA_MARK} as often as there are media ({count}), found it {found} times");
                    return Err(invalid("prompt", format!("/prompt: {text}")));
                }
                let mut media = media.into_iter().map(PromptPart::Medium);
                *parts = std::mem::take(parts).into_iter().flat_map(|part| split(part, &mut media)).collect();
                Ok(())
            }
        }
    }

    /// Brings them into a conversation for a model.
    ///
    /// # Errors
    /// Media that the model does not take, that are wrong, too large or too many; a text that holds their mark.
    pub async fn bring(self, app: &App, model: &ModelProperties, chat: &mut Chat) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let (count, media) = (self.len(), self.read(app, model).await?);
        let texts = chat.messages.iter().chain(&chat.tools).chain(chat.template_kwargs.values());
        if texts.map(marks).sum::<usize>() != count {
            let why = "stands for media in a prompt, and cannot stand in the text of one with media";
            return Err(invalid("", format!("{MEDIA_MARK} {why}")));
        }
        chat.media = media;
        Ok(())
    }

    /// Reads them for a model.
    ///
    /// # Errors
    /// Media that the model does not take, that are wrong, too large or too many.
    pub async fn read(self, app: &App, model: &ModelProperties) -> Result<Vec<Medium>> {
        for found in &self.0 {
            match found.kind {
                Some(kind) => found.check(kind, model)?,
                None if !model.vision && !model.audio => return Err(found.unfit(model)),
                None => {}
            }
        }
        let most = app.settings.limits.media;
        if let Some(over) = self.0.get(most) {
            let text = format!("/{}: expected at most {most} media in a request, found {}", over.at, self.len());
            return Err(invalid(&over.at, text));
        }
        // All of a request are fetched within one time.
        let until = Instant::now() + app.settings.limits.media_time;
        let mut media = Vec::with_capacity(self.len());
        for found in self.0 {
            media.push(found.read(app, model, until).await?);
        }
        Ok(media)
    }
}

/// A sound that came as a file of that field, for a model.
///
/// # Errors
/// A model that does not hear; a file that is empty or too large.
pub(crate) fn sound(app: &App, model: &ModelProperties, field: &str, file: &[u8]) -> Result<Medium> {
    let wrong = |what: String| invalid(field, format!("/{field}: {what}"));
    let none = || wrong("expected a sound, found no bytes".into());
    BodyMedium::sound(field.to_string(), Err(none())).check(MediumKind::Sound, model)?;
    check_size(app, file.len() as u64).map_err(wrong)?;
    if file.is_empty() {
        return Err(none());
    }
    let bytes = MediumBytes { _room: app.room.grab(file.len())?, bytes: file.to_vec() };
    Ok(Medium { kind: MediumKind::Sound, bytes: Bytes::from_owner(bytes), max_tokens: None, field: field.into() })
}

impl BodyMedium<'_> {
    /// A refusal of media that the model does not take.
    fn unfit(&self, model: &ModelProperties) -> RequestFault {
        let reads = match (model.vision, model.audio) {
            (false, false) => "text only",
            (true, false) => "text and images",
            (false, true) => "text and audio",
            (true, true) => "text, images and audio",
        };
        invalid(&self.at, format!("/{}: {} input is not supported - this model reads {reads}", self.at, self.word))
    }

    fn check(&self, kind: MediumKind, model: &ModelProperties) -> Result<()> {
        let takes = match kind {
            MediumKind::Picture => model.vision,
            MediumKind::Sound => model.audio,
        };
        takes.then_some(()).ok_or_else(|| self.unfit(model))
    }

    async fn read(self, app: &App, model: &ModelProperties, until: Instant) -> Result<Medium> {
        let place = self.place.as_ref().map_err(RequestFault::clone)?;
        let wrong = |what: String| invalid(&place.field, format!("/{}: {what}", place.field));
        let bytes = match place.source {
            MediumSource::Base64(text) => decode_base64(app, text, wrong)?,
            MediumSource::Url(url) => {
                match url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
                    Some("data") => {
                        let (kind, text) = data::parts(url).map_err(wrong)?;
                        self.check_type(kind).map_err(wrong)?;
                        decode_base64(app, text, wrong)?
                    }
                    Some("http" | "https") => fetched(app, url, until, wrong).await?,
                    Some("file") => of_file(app, url, wrong).await?,
                    _ => return Err(wrong("expected a URL that begins with data:, http:, https: or file:".into())),
                }
            }
        };
        let kind = self.kind.unwrap_or_else(|| data::kind_of(&bytes));
        self.check(kind, model)?;
        Ok(Medium { kind, bytes, max_tokens: place.max_tokens, field: place.field.clone() })
    }

    /// Whether a media type is of the right sort; none and that of any bytes are.
    fn check_type(&self, found: &str) -> std::result::Result<(), String> {
        let expected = match self.kind {
            Some(MediumKind::Picture) => "image/",
            Some(MediumKind::Sound) => "audio/",
            None => "",
        };
        let is_such = found.get(..expected.len()).is_some_and(|sort| sort.eq_ignore_ascii_case(expected));
        match is_such || found.is_empty() || found.eq_ignore_ascii_case("application/octet-stream") {
            true => Ok(()),
            false => Err(format!("expected a type that begins with {expected}, found {found:.100}")),
        }
    }
}

/// A part with media in the place of their marks.
fn split(part: PromptPart, media: &mut impl Iterator<Item = PromptPart>) -> Vec<PromptPart> {
    let text = match part {
        PromptPart::Text(text) if text.contains(MEDIA_MARK) => text,
        other => return vec![other],
    };
    let mut parts = Vec::new();
    for (i, piece) in text.split(MEDIA_MARK).enumerate() {
        parts.extend((i > 0).then(|| media.next()).flatten());
        parts.extend((!piece.is_empty()).then(|| PromptPart::Text(piece.into())));
    }
    parts
}

/// The bytes of base64, which take room until the last clone is dropped.
fn decode_base64(app: &App, text: &str, wrong: impl Fn(String) -> RequestFault) -> Result<Bytes> {
    let bound = data::most_bytes(text);
    check_size(app, bound as u64).map_err(&wrong)?;
    let room = app.room.grab(bound)?;
    let bytes = match text.len() > LONG {
        true => tokio::task::block_in_place(|| data::decode_base64(text)),
        false => data::decode_base64(text),
    };
    Ok(Bytes::from_owner(MediumBytes { bytes: bytes.map_err(wrong)?, _room: room }))
}

/// What another server has.
async fn fetched(app: &App, url: &str, until: Instant, wrong: impl Fn(String) -> RequestFault) -> Result<Bytes> {
    if !app.settings.remote_media {
        let text = "the server was not started with --allow-remote-media: send the medium itself, as a data: URL";
        return Err(wrong(text.into()));
    }
    let turn = tokio::time::timeout_at(until.into(), app.fetches.acquire()).await;
    let _turn = turn.map_err(|_| refusal(RefusalKind::Busy, "other requests wait for media of other servers"))?;
    let url = url.to_string();
    brought(app, wrong, move |most| remote::fetch(&url, most, until, remote::is_public)).await
}

/// What a file of the server has.
async fn of_file(app: &App, url: &str, wrong: impl Fn(String) -> RequestFault) -> Result<Bytes> {
    let Some(folder) = app.settings.media_path.clone() else {
        return Err(wrong(
            "the server was not started with --media-path: send the medium itself, as a data: URL".into(),
        ));
    };
    let url = url.to_string();
    brought(app, wrong, move |most| files::read(&folder, &url, most)).await
}

/// Bytes that come from elsewhere, of at most so many, where waiting for them is allowed.
async fn brought(
    app: &App,
    wrong: impl Fn(String) -> RequestFault,
    bring: impl FnOnce(usize) -> std::result::Result<Vec<u8>, String> + Send + 'static,
) -> Result<Bytes> {
    let most = app.settings.limits.medium;
    let room = app.room.grab(most)?;
    let bytes = blocking(move || Ok(bring(most))).await?.map_err(wrong)?;
    let room = BodyMemory::keep(room, bytes.len());
    Ok(Bytes::from_owner(MediumBytes { bytes, _room: room }))
}

fn check_size(app: &App, bytes: u64) -> std::result::Result<(), String> {
    let most = app.settings.limits.medium;
    match bytes > most as u64 {
        true => Err(format!("expected a file of at most {most} bytes, found more")),
        false => Ok(()),
    }
}

/// Bytes, and the room that they take.
struct MediumBytes {
    bytes: Vec<u8>,
    _room: BodyShare,
}

impl AsRef<[u8]> for MediumBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How often the mark of media stands in the texts of a value.
pub(crate) fn marks(value: &Value) -> usize {
    match value {
        Value::String(text) => text.matches(MEDIA_MARK).count(),
        Value::Array(items) => items.iter().map(marks).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.matches(MEDIA_MARK).count() + marks(value)).sum(),
        _ => 0,
    }
}
