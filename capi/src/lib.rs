//! C's side of Pumex: a model is opened, texts become ids, a sequence goes on with ids and gives logits, a sampler chooses.
//!
//! What can fail gives null, a negative number or false, and [`pumex_last_error`] then says why, in words. Nothing here unwinds into C.
//! Objects are freed by their own functions; models may be used by several threads, sequences and samplers by one at a time.
#![allow(unsafe_code)] // what C gives is pointers

mod last_error;

use pumex::{Constraint, Error, Model, Result, Sampler, Sampling, Session};
use std::ffi::{c_char, CStr};

/// A model.
pub struct PumexModel(Model);

/// One sequence of ids, with the logits after the last of them.
pub struct PumexSequence {
    session: Session,
    logits: Vec<f32>,
}

/// What chooses ids.
pub struct PumexSampler(Sampler);

/// [`last_error::record_error`] of the library's own errors.
fn record_error<T>(otherwise: T, work: impl FnOnce() -> Result<T>) -> T {
    last_error::record_error(otherwise, work)
}

fn missing(name: &str) -> Error {
    Error::Request(format!("{name}: expected a pointer, found null"))
}

/// # Safety
/// A text for C, or null.
unsafe fn text<'a>(name: &str, text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        return Err(missing(name));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|e| Error::Request(format!("{name}: expected UTF-8, {e}")))
}

/// # Safety
/// So many ids, or null.
unsafe fn slice<'a, T>(name: &str, from: *const T, count: usize) -> Result<&'a [T]> {
    match (from.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(missing(name)),
        // SAFETY: the caller's promise.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(from, count) }),
    }
}

/// # Safety
/// An object that lives, or null.
unsafe fn object<'a, T>(name: &str, object: *const T) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { object.as_ref() }.ok_or_else(|| missing(name))
}

/// # Safety
/// An object that lives and nobody else uses, or null.
unsafe fn object_mut<'a, T>(name: &str, object: *mut T) -> Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { object.as_mut() }.ok_or_else(|| missing(name))
}

/// # Safety
/// An object that was given out and is used no more, or null.
unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: it came of `Box::into_raw`, and nobody has it any more: the caller's promise.
        let object = unsafe { Box::from_raw(object) };
        record_error((), || {
            drop(object);
            Ok(())
        });
    }
}

/// Copies as much as fits; gives how much there is.
///
/// # Safety
/// Room for so many, or null where there is none.
unsafe fn copy<T: Copy>(name: &str, from: &[T], to: *mut T, room: usize) -> Result<i64> {
    let count = from.len().min(room);
    if count > 0 {
        if to.is_null() {
            return Err(missing(name));
        }
        // SAFETY: there is room for `room`, which is no less: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, count) };
    }
    i64::try_from(from.len()).map_err(|_| Error::Request(format!("{name}: too many")))
}

/// Why the last call on this thread that failed did so. It stays until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn pumex_last_error() -> *const c_char {
    last_error::pointer()
}

/// Opens a GGUF file. `device` is auto, cpu, vulkan or a device's name, or null for auto; `n_ctx` positions of a context, 0 for the
/// model's own. Null if that fails.
///
/// # Safety
/// Texts for C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_model_open(path: *const c_char, device: *const c_char, n_ctx: u32) -> *mut PumexModel {
    record_error(std::ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let path = unsafe { text("path", path)? };
        // SAFETY: likewise.
        let device = if device.is_null() { "auto" } else { unsafe { text("device", device)? } };
        // Sequences load it; nothing else is asked of it here.
        let model = Model::options().device(device).n_ctx(n_ctx).on_demand(true).open(path)?;
        Ok(Box::into_raw(Box::new(PumexModel(model))))
    })
}

/// Frees a model. Sequences and samplers of it go on.
///
/// # Safety
/// A model that is used no more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_model_free(model: *mut PumexModel) {
    // SAFETY: the caller's promise.
    unsafe { free(model) }
}

/// Ids of the vocabulary; 0 if there is no model.
///
/// # Safety
/// A model, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_n_vocab(model: *const PumexModel) -> usize {
    // SAFETY: the caller's promise.
    record_error(0, || Ok(unsafe { object("model", model)? }.0.n_vocab()))
}

/// Whether an id ends a text or a turn.
///
/// # Safety
/// A model, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_is_end(model: *const PumexModel, id: u32) -> bool {
    // SAFETY: the caller's promise.
    record_error(false, || unsafe { object("model", model)? }.0.is_end(id))
}

/// Writes the ids of a text, as many as there is room for, and gives how many there are; negative if that fails. `add_special`: with
/// those that begin every text; `parse_special`: special tokens are read out of it.
///
/// # Safety
/// A model, a text for C, room for so many ids.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_tokenize(
    model: *const PumexModel,
    content: *const c_char,
    add_special: bool,
    parse_special: bool,
    ids: *mut u32,
    room: usize,
) -> i64 {
    record_error(-1, || {
        // SAFETY: the caller's promise.
        let (model, content) = unsafe { (object("model", model)?, text("content", content)?) };
        let found = model.0.tokenize_with(content, add_special, parse_special)?;
        // SAFETY: likewise.
        unsafe { copy("ids", &found, ids, room) }
    })
}

/// Writes the bytes of an id, as many as there is room for and without a zero behind them, and gives how many there are; negative if
/// that fails. They may be a part of a character.
///
/// # Safety
/// A model, room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_token_bytes(model: *const PumexModel, id: u32, bytes: *mut u8, room: usize) -> i64 {
    record_error(-1, || {
        // SAFETY: the caller's promise.
        let found = unsafe { object("model", model)? }.0.token_bytes(id, false)?;
        // SAFETY: likewise.
        unsafe { copy("bytes", &found, bytes, room) }
    })
}

/// Loads the model for a sequence of its own. Null if that fails.
///
/// # Safety
/// A model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_sequence_new(model: *const PumexModel) -> *mut PumexSequence {
    record_error(std::ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let session = unsafe { object("model", model)? }.0.session()?;
        Ok(Box::into_raw(Box::new(PumexSequence { session, logits: Vec::new() })))
    })
}

/// Frees a sequence.
///
/// # Safety
/// A sequence that is used no more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_sequence_free(sequence: *mut PumexSequence) {
    // SAFETY: the caller's promise.
    unsafe { free(sequence) }
}

/// Goes on with ids. Gives the logits after the last of them, one for each id of the vocabulary, which stay until the sequence is used
/// again; null if that fails.
///
/// # Safety
/// A sequence, so many ids.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_step(sequence: *mut PumexSequence, ids: *const u32, count: usize) -> *const f32 {
    record_error(std::ptr::null(), || {
        // SAFETY: the caller's promise.
        let (sequence, ids) = unsafe { (object_mut("sequence", sequence)?, slice("ids", ids, count)?) };
        sequence.logits = sequence.session.eval(ids)?;
        Ok(sequence.logits.as_ptr())
    })
}

/// Forgets ids from a position on. Gives how many are held now: fewer where a state cannot go back; negative if that fails.
///
/// # Safety
/// A sequence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_forget(sequence: *mut PumexSequence, from: usize) -> i64 {
    record_error(-1, || {
        // SAFETY: the caller's promise.
        let sequence = unsafe { object_mut("sequence", sequence)? };
        let before = sequence.session.held();
        let held = sequence.session.forget(from)?;
        if held < before {
            // They were of what is forgotten.
            sequence.logits.clear();
        }
        i64::try_from(held).map_err(|_| Error::Request("held: too many".into()))
    })
}

/// What chooses ids: by temperature (0: the most probable), the `top_k` most probable (0: all), those that reach `top_p` together, a
/// seed (negative: of the clock), within a grammar in llama.cpp's notation, or null for none. Null if that fails.
///
/// # Safety
/// A model, a text for C or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_sampler_new(
    model: *const PumexModel,
    temperature: f32,
    top_k: i32,
    top_p: f32,
    seed: i64,
    grammar: *const c_char,
) -> *mut PumexSampler {
    record_error(std::ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let model = unsafe { object("model", model)? };
        // SAFETY: likewise.
        let grammar = if grammar.is_null() { None } else { Some(unsafe { text("grammar", grammar)? }) };
        let sampling = Sampling {
            temperature: Some(temperature),
            top_k: Some(top_k),
            top_p: Some(top_p),
            seed: Some(seed),
            ..Sampling::default()
        };
        let within = grammar.map(|text| Constraint::Grammar(text.to_string()));
        Ok(Box::into_raw(Box::new(PumexSampler(model.0.sampler(&sampling, within.as_ref())?))))
    })
}

/// Frees a sampler.
///
/// # Safety
/// A sampler that is used no more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_sampler_free(sampler: *mut PumexSampler) {
    // SAFETY: the caller's promise.
    unsafe { free(sampler) }
}

/// The next id by the sequence's logits, which is taken as the next of the text; negative if that fails.
///
/// # Safety
/// A sampler, a sequence.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pumex_sample(sampler: *mut PumexSampler, sequence: *const PumexSequence) -> i64 {
    record_error(-1, || {
        // SAFETY: the caller's promise.
        let (sampler, sequence) = unsafe { (object_mut("sampler", sampler)?, object("sequence", sequence)?) };
        let id = sampler.0.sample(&sequence.logits)?;
        sampler.0.accept(id)?;
        Ok(i64::from(id))
    })
}
