//! What is done with idle slots: saved, restored, emptied.

use super::prefix::PrefixOwner;
use super::refusal::{invalid, refusal};
use super::sequences::SharedIds;
use super::worker::{SlotAction, SlotCall, Worker};
use pumex_engine::session::KV_BLOCK;
use pumex_engine::state;
use pumex_serve::engine::{Holder, Refusal, RefusalKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Held while a slot is saved in a folder of which all files together have a limit.
static SAVING: Mutex<()> = Mutex::new(());

/// Longest name of a file.
const LONGEST: usize = 255;

/// The path of a file of that name in the folder.
///
/// # Errors
/// A name that is a path, or that no file has.
pub fn path(folder: Option<&PathBuf>, name: &str) -> Result<PathBuf, Refusal> {
    let what = "slots are not saved: start the server with --slot-save-path";
    let folder = folder.ok_or_else(|| refusal(RefusalKind::Unsupported, what))?;
    let bad = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let wrong = name.is_empty() || name.len() > LONGEST || name.contains("..") || name == "." || name.contains(bad);
    if wrong || name.ends_with([' ', '.']) || name.starts_with(' ') {
        let what =
            "filename: expected a file's name, without a folder, \"..\" or characters that stand for something else";
        return Err(invalid("filename", what.into()));
    }
    Ok(folder.join(name))
}

/// A file of a saved slot.
#[derive(Clone, Copy, Debug)]
struct SlotFile<'a> {
    /// Its name, for messages.
    name: &'a str,
    /// Where it lies.
    path: &'a Path,
}

impl Worker<'_> {
    /// Does what is asked with a slot, while no step is under way.
    ///
    /// # Errors
    /// No such slot, one at work or of somebody else, what the file system says, a file of something else.
    pub(super) fn act(&mut self, call: &SlotCall) -> Result<(usize, u64), Refusal> {
        let SlotCall { slot, action, whose, .. } = call;
        let slot = *slot;
        match self.slots.get(slot) {
            None => {
                let what = format!("id_slot: expected below {}, found {slot}", self.slots.len());
                return Err(invalid("id_slot", what));
            }
            Some(Some(_)) => return Err(refusal(RefusalKind::Unavailable, format!("slot {slot} is at work"))),
            Some(None) => {}
        }
        let key = if self.loaded.settings.share_prefixes { "" } else { &whose.key };
        let owner = &PrefixOwner::new(key, &[]);
        let folder = folder_of(self.loaded.settings.slot_folder.as_ref(), whose);
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
        let model = self.loaded.fingerprint.get().copied().unwrap_or(0);
        match action {
            SlotAction::Save(name) => {
                let path = path(folder.as_ref(), name)?;
                let seq = self.seqs.slot_of(slot, owner).ok_or_else(|| nothing_in(slot))?;
                make_folder(&path, whose).map_err(|error| of_file(name, error))?;
                let fingerprint = state::with_scales(model, &self.seqs.scales(seq));
                Ok((self.save(seq, SlotFile { name, path: &path }, fingerprint)?, size(&path)))
            }
            SlotAction::Restore(name) => {
                let path = path(folder.as_ref(), name)?;
                if !path.is_file() {
                    let missing = refusal(RefusalKind::NotFound, format!("filename: there is no file {name}"));
                    return Err(Refusal { field: Some("filename".into()), ..missing });
                }
                // What is of other scales than the slot had, or the key has, nobody may ask for again.
                let had = self.seqs.slot_of(slot, owner).map(|seq| self.seqs.scales(seq));
                let mut scales: Vec<Vec<f32>> = had.into_iter().collect();
                scales.push(self.shared.view().scales_of(&whose.key).to_vec());
                let is_of = |scales: &Vec<f32>| state::has_fingerprint(&path, state::with_scales(model, scales));
                let at = scales.iter().position(is_of).unwrap_or(scales.len() - 1);
                let owner = PrefixOwner::new(key, &scales[at]);
                let fingerprint = state::with_scales(model, &scales[at]);
                Ok((self.restore(&owner, slot, SlotFile { name, path: &path }, fingerprint)?, size(&path)))
            }
            SlotAction::Erase => match (self.seqs.slot(slot).0, self.seqs.slot_of(slot, owner)) {
                (Some(_), None) => Err(nothing_in(slot)),
                _ => Ok((self.empty(slot), 0)),
            },
        }
    }

    /// Writes a kept sequence to a file, with its kept beginnings where the model cannot go back to them; gives how many ids it holds.
    fn save(&mut self, seq: u32, file: SlotFile<'_>, fingerprint: u64) -> Result<usize, Refusal> {
        let SlotFile { name, path } = file;
        let of_file = |error| of_file(name, error);
        let beginnings = if self.loaded.goes_back { Vec::new() } else { self.seqs.beginnings(seq) };
        let ids = self.seqs.ids(seq).to_vec();
        let limit = self.loaded.settings.slot_bytes;
        // Several models save into one folder: what is counted must be what is there.
        let _alone = limit.map(|_| SAVING.lock().unwrap_or_else(PoisonError::into_inner));
        let used = limit.map_or(Ok(0), |_| state::bytes_of_others(path)).map_err(of_file)?;
        let held = state::SequenceToSave { ids: &ids, seq, beginnings: &beginnings };
        let room = limit.map_or(u64::MAX, |limit| limit.saturating_sub(used));
        if !state::save_all(path, fingerprint, held, room, self.runner).map_err(of_file)? {
            let limit = limit.unwrap_or_default();
            let what = format!(
                "filename: {name}: expected at most {limit} bytes of saved slots (--slot-save-limit), of which other files \
                 have {used}, found more than the {room} that are left"
            );
            return Err(invalid("filename", what));
        }
        Ok(ids.len())
    }

    /// Has a slot hold what is in a file; gives how many ids that is. On an error it holds what it held.
    fn restore(
        &mut self,
        owner: &PrefixOwner,
        slot: usize,
        file: SlotFile<'_>,
        fingerprint: u64,
    ) -> Result<usize, Refusal> {
        let SlotFile { name, path } = file;
        let saved = state::open(path, fingerprint, self.runner).map_err(|error| of_file(name, error))?;
        let busy = |what: &str| refusal(RefusalKind::Unavailable, format!("filename: {name}: {what} are at work"));
        let former = self.seqs.slot(slot).0;
        let mut stay: Vec<u32> = former.into_iter().collect();
        let seq = self.seqs.take(self.runner, &stay).ok_or_else(|| busy("all sequences"))?;
        let needed = saved.ids().len().div_ceil(KV_BLOCK);
        while self.runner.free_blocks() < needed && self.seqs.evict(self.runner, &stay) {}
        let short = needed.saturating_sub(self.runner.free_blocks());
        if short > 0 {
            // The file is whole: what the slot holds may make room for it, where that is enough.
            let own = former.map_or(0, |former| self.runner.sequence_len(former).div_ceil(KV_BLOCK));
            if short > own {
                self.seqs.free(self.runner, seq);
                return Err(busy("too many of the cache's blocks"));
            }
            stay.drain(..).for_each(|former| self.seqs.free(self.runner, former));
        }
        let mut others = Vec::new();
        while others.len() < saved.beginnings() {
            let Some(other) = self.seqs.take(self.runner, &stay) else { break };
            others.push(other);
        }
        match saved.restore(self.runner, seq, &others) {
            Ok((ids, lengths)) => {
                for (other, length) in others.iter().zip(lengths) {
                    self.seqs.keep(self.runner, *other, owner, None, SharedIds { ids: &ids[..length], steady: 0 });
                }
                // Nobody knows in which steps they were computed.
                self.seqs.keep(self.runner, seq, owner, Some(slot), SharedIds { ids: &ids, steady: 0 });
                stay.into_iter().for_each(|former| self.seqs.free(self.runner, former));
                Ok(ids.len())
            }
            Err(error) => {
                others.into_iter().chain([seq]).for_each(|seq| self.seqs.free(self.runner, seq));
                Err(of_file(name, error))
            }
        }
    }

    /// Empties a slot; gives how many ids it held.
    fn empty(&mut self, slot: usize) -> usize {
        let (seq, ids) = self.seqs.slot(slot);
        let n = ids.len();
        if let Some(seq) = seq {
            self.seqs.free(self.runner, seq);
        }
        n
    }
}

/// Where somebody's slots are saved.
fn folder_of(folder: Option<&PathBuf>, whose: &Holder) -> Option<PathBuf> {
    let folder = folder?;
    Some(whose.folder.as_ref().map_or_else(|| folder.clone(), |own| folder.join(own)))
}

/// Makes the folder of a file, where somebody has one of their own.
fn make_folder(path: &Path, whose: &Holder) -> pumex_gguf::Result<()> {
    match path.parent().filter(|_| whose.folder.is_some()) {
        Some(folder) => std::fs::create_dir_all(folder).map_err(|e| pumex_gguf::Error::io(folder, e)),
        None => Ok(()),
    }
}

/// Nobody is told what a slot holds of others.
fn nothing_in(slot: usize) -> Refusal {
    invalid("id_slot", format!("slot {slot} holds nothing of yours"))
}

/// What is wrong with a file, by its name: nobody is told where it lies.
fn of_file(name: &str, error: pumex_gguf::Error) -> Refusal {
    match error {
        pumex_gguf::Error::File { what, .. } => invalid("filename", format!("filename: {name}: {what}")),
        pumex_gguf::Error::Io { source, .. } => refusal(RefusalKind::Failed, format!("filename: {name}: {source}")),
        other => invalid("filename", format!("filename: {name}: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::path;
    use std::path::PathBuf;

    #[test]
    fn files_of_slots_lie_in_their_folder() {
        let folder = PathBuf::from("/slots");
        assert_eq!(path(Some(&folder), "a b.bin").unwrap(), PathBuf::from("/slots/a b.bin"));
        for bad in ["", ".", "..", "../a", "a/b", "a\\b", "a..b", "a\nb", "/etc/passwd", "a:b", "a.", &"a".repeat(300)]
        {
            assert!(path(Some(&folder), bad).is_err(), "{bad:?}");
        }
        assert!(path(None, "a").is_err());
    }
}
