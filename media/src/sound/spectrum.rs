//! Mel spectra: windows of samples, their frequencies, and sums of these in bins as wide as ears hear them.

use rayon::prelude::*;
use realfft::RealFftPlanner;

/// Where bins stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Even up to 1,000 Hz and logarithmic above; all bins have the same area.
    Slaney,
    /// `2595 log10(1 + f / 700)`; all bins have the same height.
    Htk,
}

impl Scale {
    fn mel(self, hertz: f64) -> f64 {
        match self {
            Scale::Htk => 2595.0 * (1.0 + hertz / 700.0).log10(),
            Scale::Slaney if hertz < 1000.0 => hertz * 3.0 / 200.0,
            Scale::Slaney => 15.0 + (hertz / 1000.0).ln() * 27.0 / 6.4f64.ln(),
        }
    }

    fn hertz(self, mel: f64) -> f64 {
        match self {
            Scale::Htk => 700.0 * (10f64.powf(mel / 2595.0) - 1.0),
            Scale::Slaney if mel < 15.0 => mel * 200.0 / 3.0,
            Scale::Slaney => 1000.0 * ((mel - 15.0) * 6.4f64.ln() / 27.0).exp(),
        }
    }
}

/// Weights of frequencies in each bin: where the first that is not 0 stands, and those from there on.
pub(super) struct Bank(Vec<(usize, Vec<f32>)>);

impl Bank {
    /// Triangles from 0 Hz to half the rate, for transforms of `n_fft` samples.
    pub(super) fn new(bins: usize, n_fft: usize, rate: u32, scale: Scale) -> Bank {
        let top = scale.mel(f64::from(rate) / 2.0);
        let edge = |i: usize| scale.hertz(top * (i as f64 / (bins + 1) as f64));
        let step = f64::from(rate) / n_fft as f64;
        let row = |bin: usize| {
            let [left, centre, right] = [edge(bin), edge(bin + 1), edge(bin + 2)];
            let area = match scale {
                Scale::Slaney => 2.0 / (right - left).max(1e-30),
                Scale::Htk => 1.0,
            };
            let weight = |k: usize| {
                let hertz = k as f64 * step;
                let weight = match hertz {
                    f if f >= left && f <= centre => (f - left) / (centre - left).max(1e-30),
                    f if f > centre && f <= right => (right - f) / (right - centre).max(1e-30),
                    _ => 0.0,
                };
                (weight * area) as f32
            };
            (0..=n_fft / 2).map(weight).collect::<Vec<f32>>()
        };
        Bank((0..bins).map(|bin| Bank::sparse(&row(bin))).collect())
    }

    /// Given weights, `[bins, n_fft / 2 + 1]`.
    pub(super) fn from_weights(weights: &[f32], n_fft: usize) -> Bank {
        Bank(weights.chunks_exact(n_fft / 2 + 1).map(Bank::sparse).collect())
    }

    fn sparse(row: &[f32]) -> (usize, Vec<f32>) {
        let set = |w: &f32| *w != 0.0;
        match (row.iter().position(set), row.iter().rposition(set)) {
            (Some(first), Some(last)) => (first, row[first..=last].to_vec()),
            _ => (0, Vec::new()),
        }
    }

    /// How many there are.
    pub(super) fn bins(&self) -> usize {
        self.0.len()
    }
}

/// What keeps logarithms of silence finite.
#[derive(Clone, Copy)]
pub(super) enum Floor {
    /// The least value.
    Least(f64),
    /// What is added to every value.
    Added(f64),
}

/// The base of logarithms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    Natural,
    Ten,
}

/// Half a wave of a cosine over `len` samples; one that repeats has its last sample left out.
pub(super) fn hann(len: usize, repeats: bool) -> Vec<f32> {
    let period = if repeats { len } else { len - 1 } as f64;
    (0..len).map(|i| (0.5 - 0.5 * (std::f64::consts::TAU * i as f64 / period).cos()) as f32).collect()
}

/// A window in the middle of a longer transform.
pub(super) fn centre(window: &[f32], n_fft: usize) -> Vec<f32> {
    let mut centred = vec![0.0; n_fft];
    centred[(n_fft - window.len()) / 2..][..window.len()].copy_from_slice(window);
    centred
}

/// How spectra are made.
pub(super) struct Spectrum {
    /// The window's factors, as many as the transform's inputs.
    pub(super) window: Vec<f32>,
    /// Samples from one frame to the next.
    pub(super) hop: usize,
    pub(super) bank: Bank,
    /// Whether bins are sums of magnitudes; else of their squares.
    pub(super) magnitude: bool,
    pub(super) floor: Floor,
    pub(super) log: Log,
}

impl Spectrum {
    /// Frames that so many samples have: whole windows only.
    pub(super) fn frames(&self, samples: usize) -> usize {
        match samples.checked_sub(self.window.len()) {
            Some(rest) => rest / self.hop + 1,
            None => 0,
        }
    }

    fn log(&self, sum: f64) -> f32 {
        let sum = match self.floor {
            Floor::Least(least) => sum.max(least),
            Floor::Added(added) => sum + added,
        };
        match self.log {
            Log::Natural => sum.ln() as f32,
            Log::Ten => sum.log10() as f32,
        }
    }

    /// Logarithms of the bins of each frame, `[frames, bins]`.
    pub(super) fn log_mel(&self, samples: &[f32]) -> Vec<f32> {
        let (n_fft, bins) = (self.window.len(), self.bank.bins());
        let fft = RealFftPlanner::<f64>::new().plan_fft_forward(n_fft);
        let silent = self.log(0.0);
        let mut values = vec![silent; self.frames(samples.len()) * bins];
        values.par_chunks_mut(bins.max(1)).enumerate().for_each_init(
            || (fft.make_input_vec(), fft.make_output_vec(), fft.make_scratch_vec(), vec![0.0; n_fft / 2 + 1]),
            |(input, output, scratch, power), (frame, values)| {
                let samples = &samples[frame * self.hop..][..n_fft];
                if samples.iter().all(|s| *s == 0.0) {
                    return;
                }
                for ((x, sample), weight) in input.iter_mut().zip(samples).zip(&self.window) {
                    *x = f64::from(sample * weight);
                }
                // The lengths are the plan's own, so that this cannot fail.
                if fft.process_with_scratch(input, output, scratch).is_err() {
                    return;
                }
                for (power, x) in power.iter_mut().zip(output.iter()) {
                    *power = if self.magnitude { x.norm_sqr().sqrt() } else { x.norm_sqr() };
                }
                for (value, (first, weights)) in values.iter_mut().zip(&self.bank.0) {
                    let products = weights.iter().zip(&power[*first..]).map(|(w, p)| f64::from(*w) * p);
                    *value = self.log(products.sum());
                }
            },
        );
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_go_there_and_back() {
        for scale in [Scale::Slaney, Scale::Htk] {
            for hertz in [0.0, 1.0, 440.0, 999.0, 1000.0, 1001.0, 8000.0] {
                assert!((scale.hertz(scale.mel(hertz)) - hertz).abs() < 1e-9 * (1.0 + hertz), "{hertz}");
            }
        }
    }

    #[test]
    fn a_tone_is_loudest_in_the_bin_that_has_its_frequency() {
        for scale in [Scale::Slaney, Scale::Htk] {
            let spectrum = Spectrum {
                window: hann(400, true),
                hop: 160,
                bank: Bank::new(40, 400, 16_000, scale),
                magnitude: false,
                floor: Floor::Least(1e-10),
                log: Log::Ten,
            };
            let hertz = scale.hertz(scale.mel(8_000.0) * 21.0 / 41.0);
            let step = std::f64::consts::TAU * hertz / 16_000.0;
            let samples: Vec<f32> = (0..4_000).map(|i| (step * f64::from(i)).sin() as f32).collect();
            let mel = spectrum.log_mel(&samples);
            assert_eq!(mel.len(), 23 * 40);
            for frame in mel.chunks(40) {
                let loudest = (0..40).max_by(|a, b| frame[*a].total_cmp(&frame[*b]));
                assert_eq!(loudest, Some(20));
            }
        }
    }

    #[test]
    fn silence_is_the_logarithm_of_the_floor() {
        let spectrum = Spectrum {
            window: hann(16, true),
            hop: 4,
            bank: Bank::from_weights(&[1.0; 9], 16),
            magnitude: true,
            floor: Floor::Added(1e-3),
            log: Log::Natural,
        };
        assert_eq!(spectrum.log_mel(&[0.0; 20]), [1e-3f64.ln() as f32; 2]);
        assert!(spectrum.log_mel(&[0.0; 15]).is_empty());
    }
}
