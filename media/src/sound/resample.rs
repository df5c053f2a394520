//! Another rate of samples.

use crate::{Error, Result};
use rubato::audioadapter_buffers::direct::SequentialSlice;
use rubato::{Fft, FixedSync, Indexing, Resampler, WindowFunction};

/// The least samples of the filter: the longer it is, the closer to the new rate's half are the sounds that it keeps.
const LEAST: u32 = 1024;

/// Makes mono samples of another rate out of those that are pushed.
pub(super) struct Resample {
    inner: Option<Fft<f32>>,
    rates: [u32; 2],
    pending: Vec<f32>,
    taken: u64,
    out: Vec<f32>,
}

fn resample_error(error: impl std::fmt::Display) -> Error {
    Error::Medium(format!("sound: resampling: {error}"))
}

fn greatest_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a
    } else {
        greatest_divisor(b, a % b)
    }
}

impl Resample {
    /// From a rate to another one, both from 1 on.
    pub(super) fn new(from: u32, to: u32) -> Result<Resample> {
        // As many samples as give a whole number at the other rate, and twice as often as needed: only an even filter's middle is
        // where the resampler says it is.
        let unit = from / greatest_divisor(from, to);
        let chunk = (unit * LEAST.div_ceil(unit).next_multiple_of(2)) as usize;
        let (window, fixed) = (WindowFunction::BlackmanHarris2, FixedSync::Both);
        let inner = match from == to {
            true => None,
            false => {
                Some(Fft::new_custom(from as usize, to as usize, chunk, 1, 1, window, fixed).map_err(resample_error)?)
            }
        };
        Ok(Resample { inner, rates: [from, to], pending: Vec::new(), taken: 0, out: Vec::new() })
    }

    /// The next samples.
    pub(super) fn push(&mut self, samples: &[f32]) -> Result<()> {
        let Some(inner) = &mut self.inner else {
            self.out.extend_from_slice(samples);
            return Ok(());
        };
        self.taken += samples.len() as u64;
        self.pending.extend_from_slice(samples);
        let mut at = 0;
        while self.pending.len() - at >= inner.input_frames_next() {
            let needed = inner.input_frames_next();
            step(inner, &self.pending[at..at + needed], &mut self.out)?;
            at += needed;
        }
        self.pending.drain(..at);
        Ok(())
    }

    /// All samples, as long as what was pushed.
    pub(super) fn finish(mut self) -> Result<Vec<f32>> {
        let Some(inner) = &mut self.inner else { return Ok(self.out) };
        let expected = (self.taken * u64::from(self.rates[1])).div_ceil(u64::from(self.rates[0])) as usize;
        let delay = inner.output_delay();
        step(inner, &self.pending, &mut self.out)?;
        while self.out.len() < expected + delay {
            step(inner, &[], &mut self.out)?;
        }
        self.out.drain(..delay);
        self.out.truncate(expected);
        Ok(self.out)
    }
}

/// Appends what comes of a whole chunk, or of part of one with silence behind.
fn step(inner: &mut Fft<f32>, samples: &[f32], out: &mut Vec<f32>) -> Result<()> {
    let (from, room) = (out.len(), inner.output_frames_next());
    out.resize(from + room, 0.0);
    let input = SequentialSlice::new(samples, 1, samples.len()).map_err(resample_error)?;
    let mut output = SequentialSlice::new_mut(&mut out[from..], 1, room).map_err(resample_error)?;
    let part = Indexing::new().partial_len(samples.len());
    let whole = samples.len() >= inner.input_frames_next();
    let (_, made) =
        inner.process_into_buffer(&input, &mut output, (!whole).then_some(&part)).map_err(resample_error)?;
    out.truncate(from + made);
    if made == 0 {
        return Err(resample_error("no samples came out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, hertz: f32, seconds: f32) -> Vec<f32> {
        let step = std::f32::consts::TAU * hertz / rate as f32;
        (0..(rate as f32 * seconds) as usize).map(|i| 0.5 * (step * i as f32).sin()).collect()
    }

    fn resample(samples: &[f32], from: u32, to: u32, at_once: usize) -> Vec<f32> {
        let mut resample = Resample::new(from, to).unwrap();
        samples.chunks(at_once).for_each(|c| resample.push(c).unwrap());
        resample.finish().unwrap()
    }

    #[test]
    fn tones_stay_what_they_are_at_another_rate() {
        for from in [8_000, 11_025, 22_050, 24_000, 32_000, 44_100, 44_101, 48_000, 96_000] {
            let found = resample(&tone(from, 440.0, 1.0), from, 16_000, 777);
            let wanted = tone(16_000, 440.0, 1.0);
            assert!(found.len().abs_diff(wanted.len()) <= 1, "{from}: {}", found.len());
            let worst =
                |range: std::ops::Range<usize>| range.map(|i| (found[i] - wanted[i]).abs()).fold(0.0f32, f32::max);
            assert!(worst(2_000..14_000) < 2e-3, "{from}: {}", worst(2_000..14_000));
        }
    }

    #[test]
    fn tones_above_half_the_new_rate_are_gone() {
        let found = resample(&tone(48_000, 11_000.0, 1.0), 48_000, 16_000, 4_096);
        let loudest = found[2_000..14_000].iter().fold(0.0f32, |m, s| m.max(s.abs()));
        assert!(loudest < 1e-3, "{loudest}");
    }

    #[test]
    fn pieces_and_the_whole_give_the_same_samples() {
        let samples = tone(44_100, 300.0, 0.3);
        assert_eq!(resample(&samples, 44_100, 16_000, 1), resample(&samples, 44_100, 16_000, 1 << 20));
    }

    #[test]
    fn one_sample_and_none_come_out_as_many() {
        assert_eq!(resample(&[0.5], 16_000, 16_000, 1), [0.5]);
        assert_eq!(resample(&[0.5], 48_000, 16_000, 1).len(), 1);
        assert_eq!(resample(&[], 48_000, 16_000, 1).len(), 0);
    }
}
