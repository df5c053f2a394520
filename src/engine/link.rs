//! Order between the dispatches of a step without barriers: counters in device memory that workgroups raise and await.
//!
//! Dispatches between two barriers of the plan form a *stage*. The twin of `shaders/glsl/lib/link.glsl`.

use crate::kernel::Kernels;
use crate::vk::{Buffer, Class, Device, Uploader};
use crate::Result;

/// Words between counters, and how many there are.
const LINK_WORDS: usize = 32;
const LINK_COUNTERS: usize = 5;
/// Word that is set if a wait was given up.
const LATE: usize = LINK_COUNTERS * LINK_WORDS;
/// The first stage has a counter of its own: it clears the others while nothing else runs.
const FIRST: usize = 4;
/// Clears all counters but the dispatch's own; no counter at all.
const CLEAR_OTHERS: usize = 7;
const CLEAR_NONE: usize = 6;

/// The stage that is being recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stage {
    at: usize,
    groups: usize,
    groups_before: usize,
}

fn counter(stage: usize) -> usize {
    if stage == 0 {
        FIRST
    } else {
        stage % FIRST
    }
}

impl Stage {
    /// Goes on to the next stage, which waits for all workgroups of this one.
    pub fn next(&mut self) {
        *self = Stage { at: self.at + 1, groups: 0, groups_before: self.groups };
    }

    /// Counts a dispatch of so many workgroups.
    pub fn count(&mut self, groups: usize) {
        self.groups += groups;
    }

    /// The word that tells a dispatch of this stage which counters to use.
    pub fn word(&self) -> usize {
        let (before, clear) = match self.at {
            0 => (CLEAR_NONE, CLEAR_OTHERS),
            1 => (counter(0), CLEAR_NONE),
            at => (counter(at - 1), counter(at - 2)),
        };
        counter(self.at) | before << 3 | clear << 6 | self.groups_before << 9
    }
}

/// Counters, all zero.
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn counters(device: &Device) -> Result<Buffer> {
    let zeros = vec![0u8; 4 * (LATE + 1)];
    let buffer = device.buffer("links", zeros.len() as u64, Class::Scratch)?;
    let mut uploader = Uploader::new(device, zeros.len() as u64)?;
    uploader.write(&buffer, 0, &zeros)?;
    uploader.finish()?;
    Ok(buffer)
}

/// Stages of the self-test, and workgroups of each: more than are resident at once on any device.
const CHECKED_STAGES: usize = 48;
const CHECKED_GROUPS: usize = 4096;

/// Whether links order this device's dispatches: nothing in the specification promises that workgroups make progress while
/// others wait, so a chain of them is run and every value checked.
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn work(device: &Device, kernels: &mut Kernels) -> Result<bool> {
    let links = counters(device)?;
    let len = 4 * (CHECKED_GROUPS + 1) as u64;
    let values = device.buffer("link values", len, Class::Scratch)?;
    let host = device.buffer("link result", len, Class::Readback)?;
    let mut uploader = Uploader::new(device, len)?;
    uploader.write(&values, 0, &vec![0; len as usize])?;
    uploader.finish()?;
    let pipeline = kernels.get("link_check", None, &[("LINKED", 1)])?;
    let mut recorder = device.recorder()?;
    let mut stage = Stage::default();
    for at in 0..CHECKED_STAGES {
        let mut push = [values.address().to_le_bytes(), links.address().to_le_bytes()].concat();
        push.extend((stage.word() as u32).to_le_bytes());
        push.extend((at as u32).to_le_bytes());
        recorder.dispatch(&pipeline, &push, [CHECKED_GROUPS as u32, 1, 1]);
        stage.count(CHECKED_GROUPS);
        stage.next();
    }
    recorder.copy_barrier();
    recorder.copy(&values, 0, &host, 0, len);
    recorder.host_barrier();
    [&links, &values].iter().for_each(|b| recorder.keep(b));
    let recording = recorder.finish()?;
    device.wait(device.submit(&recording)?)?;
    let mut found = vec![0u32; CHECKED_GROUPS + 1];
    host.read(0, bytemuck::cast_slice_mut(&mut found));
    let wrong = found.pop();
    Ok(wrong == Some(0) && found.iter().all(|v| *v as usize == CHECKED_STAGES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_clear_before_its_stage_raises_it() {
        let mut counts = [9usize; 8]; // whatever the step before left
        counts[FIRST] = 0;
        let mut stage = Stage::default();
        for at in 0..50 {
            let groups = 3 + at % 5;
            stage.count(groups);
            let word = stage.word();
            let (own, before, clear) = (word & 7, word >> 3 & 7, word >> 6 & 7);
            if at > 0 {
                assert_eq!(counts[before], word >> 9, "stage {at} waits for what it finds");
            }
            for i in 0..LINK_COUNTERS {
                if i == clear || (clear == CLEAR_OTHERS && i != own) {
                    counts[i] = 0;
                }
            }
            assert_eq!(counts[own], 0, "stage {at}");
            counts[own] = groups;
            stage.next();
        }
        assert_eq!(counts[FIRST], 0, "the next step finds its first counter clear");
    }
}
