//! Which kernels a model's steps go through, as far as no table of shapes says: products of prompts, their attention, the
//! megakernel. Each way loads the model anew, for weights lie as their kernels want them.

use super::{median, warm_up, LEAST_GAIN, MOST_ERROR};
use crate::kernel::lacking;
use crate::{Debug, Options, VulkanRunner};
use pumex_gguf::{Gguf, Result};
use pumex_lower::policy;
use pumex_lower::policy::{AttentionKernel, ManyRows, ProductKernel};
use pumex_model as model;
use pumex_step::sample::rng::Rng;
use pumex_step::{Row, RowOutput, Runner, Token, Want};
use pumex_vk::{Caps, Device};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Products of many rows by cooperative matrices that threads fill themselves, and by none at all.
const MATRICES: &str = ProductKernel::Mat.name();
const NO_MATRICES: &str = "no matrices";
/// Rows of a prompt's step, if there is room for them.
const PROMPT: u32 = 512;
/// Rows whose logits are compared.
const COMPARED: usize = 40;
/// Steps that count: of prompts, of one row.
const STEPS: [usize; 2] = [5, 15];

/// A way; what is not told is as the policy has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Way {
    /// Products of many rows.
    pub products: Option<String>,
    /// Attention of many rows.
    pub attention: Option<String>,
    /// Whether layers of one row are one dispatch.
    pub megakernel: Option<bool>,
}

/// A way, and what it took.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Tried {
    /// The way.
    pub way: Way,
    /// Microseconds of a prompt's step, and of one row's.
    pub us: [f64; 2],
    /// Other logits than the policy's way has.
    pub wrong: bool,
}

/// What was found for a model.
#[derive(Clone, Debug, serde::Serialize)]
pub struct WaysReport {
    /// Rows of a prompt's step.
    pub rows: usize,
    /// By the policy, from where the search began, and what was tried after it.
    pub tried: Vec<Tried>,
    /// The best; none where the policy's is as good.
    pub kept: Option<Way>,
    /// Time ran out before all was tried.
    pub cut: bool,
}

impl Way {
    /// Options that make a model go this way; those that say something of it themselves stay as they are.
    pub fn of(&self, options: &Options) -> Options {
        let usual = Debug::default();
        let told = options.debug;
        let asked = (told.matrices, told.many_rows, told.megakernel) != (usual.matrices, None, None);
        if asked || !options.without.is_empty() {
            return options.clone();
        }
        let many_rows =
            self.products.as_ref().and_then(|name| ManyRows::ALL.into_iter().find(|by| by.label() == *name));
        let debug = Debug {
            matrices: self.products.as_deref() != Some(NO_MATRICES),
            many_rows,
            megakernel: self.megakernel,
            ..told
        };
        let attention = AttentionKernel::MANY_ROWS.map(AttentionKernel::name);
        let worse = |kernel: &&str| self.attention.as_deref() != Some(*kernel);
        let listed = self.attention.as_deref().is_some_and(|name| attention.contains(&name));
        // Products of subgroups' matrices come before all kernels of packed rows but those of whole workgroups.
        let packed = many_rows.is_some_and(|by| !matches!(by, ManyRows::Group(_)));
        let worse = attention.into_iter().take_while(worse).filter(|_| listed);
        let without = worse.chain(packed.then_some(MATRICES)).collect();
        Options { debug, without, ..options.clone() }
    }

    /// In words.
    pub fn told(&self) -> String {
        let usual = || "policy".to_string();
        let megakernel = self.megakernel.map_or_else(usual, |on| if on { "on" } else { "off" }.into());
        let of = |name: &Option<String>| name.clone().unwrap_or_else(usual);
        format!("products {}, attention {}, megakernel {megakernel}", of(&self.products), of(&self.attention))
    }
}

/// Squared error of logits over the squares of the true ones.
pub(crate) fn squared_error(found: &[f32], truth: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let all: f64 = truth.iter().map(|t| square(*t)).sum();
    found.iter().zip(truth).map(|(f, t)| square(f - t)).sum::<f64>() / all
}

/// Whether a device has what a kernel needs.
fn has(caps: &Caps, kernel: &str) -> bool {
    let known = pumex_shaders::kernels::find(kernel);
    known.is_some_and(|k| lacking(k.needs, caps).is_none()) && caps.disabled_reason(kernel).is_none()
}

/// Ways of products that a device has.
pub(crate) fn products(caps: &Caps) -> Vec<String> {
    let rows = ManyRows::ALL.into_iter().filter(|by| has(caps, by.kernel())).map(ManyRows::label);
    let matrices =
        (!caps.matrix_n.is_empty() && caps.disabled_reason(MATRICES).is_none()).then(|| MATRICES.to_string());
    matrices.into_iter().chain(rows).chain([NO_MATRICES.to_string()]).collect()
}

/// Kernels of many rows' attention that a device has, as the policy prefers them.
pub(crate) fn attention(caps: &Caps) -> Vec<&'static str> {
    AttentionKernel::MANY_ROWS.map(AttentionKernel::name).into_iter().filter(|kernel| has(caps, kernel)).collect()
}

struct Search<'a> {
    gguf: &'a Gguf,
    device: &'a Device,
    options: &'a Options,
    stop: &'a AtomicBool,
    /// Of a prompt's step: as many as there is room for.
    rows: usize,
    truth: Vec<f32>,
    tried: Vec<Tried>,
}

impl Search<'_> {
    /// Loads the model this way and times it.
    fn time(&mut self, way: &Way) -> Result<usize> {
        let options = way.of(self.options);
        let mut caps = self.device.caps().clone();
        let why = || "another one is tried".to_string();
        caps.disabled.extend(options.without.iter().map(|k| pumex_vk::Disabled { kernel: (*k).into(), why: why() }));
        let device = self.device.with_caps(caps);
        let mut runner = VulkanRunner::new(self.gguf, model::plan(self.gguf)?, device, &options, &mut |_, _| ())?;
        self.rows = self.rows.min(runner.max_rows());
        let vocab = runner.n_vocab() as u32;
        let mut rng = Rng::new(1);
        let ids: Vec<u32> = (0..self.rows).map(|_| rng.next_below(vocab)).collect();
        let row = |pos: usize, output: RowOutput| Row {
            seq: 0,
            pos: pos as u32,
            token: Token::Id(ids[pos]),
            output,
            medium: None,
        };
        let prompt: Vec<Row> = (0..ids.len())
            .map(|pos| row(pos, if pos + 1 == ids.len() { RowOutput::Id } else { RowOutput::None }))
            .collect();
        let compared: Vec<Row> = (0..COMPARED.min(ids.len())).map(|pos| row(pos, RowOutput::Logits)).collect();
        let logits = runner.run(&compared, Want::Logits)?.logits;
        let wrong = !self.truth.is_empty() && squared_error(&logits, &self.truth) > MOST_ERROR;
        if self.truth.is_empty() {
            self.truth = logits;
        }
        runner.time_steps(true);
        let mut us = [0.0; 2];
        for (i, rows) in [prompt, vec![row(0, RowOutput::Id)]].iter().enumerate() {
            let step = |runner: &mut VulkanRunner| {
                runner.forget(0, 0);
                runner.run(rows, Want::Ids).map(|_| ())
            };
            warm_up(|| step(&mut runner))?;
            let mut taken = Vec::new();
            for _ in 0..STEPS[i] {
                step(&mut runner)?;
                taken.push(runner.last_step().gpu_us);
            }
            us[i] = median(taken);
        }
        self.tried.push(Tried { way: way.clone(), us, wrong });
        Ok(self.tried.len() - 1)
    }

    /// How much longer a way takes than another, over both kinds of steps.
    fn ratio(&self, way: usize, other: usize) -> f64 {
        let ratio = |i: usize| self.tried[way].us[i] / self.tried[other].us[i];
        (ratio(0) * ratio(1)).sqrt()
    }

    /// Tries each of these, and has the best of them and of `best`.
    fn best(&mut self, mut best: usize, ways: Vec<Way>, goes_on: &mut dyn FnMut(usize) -> bool) -> Result<usize> {
        for way in ways {
            if self.stop.load(Ordering::Relaxed) || !goes_on(self.tried.len()) {
                break;
            }
            // One that the device or the model cannot go is passed over.
            let Ok(found) = self.time(&way) else { continue };
            if !self.tried[found].wrong && self.ratio(found, best) < 1.0 - LEAST_GAIN {
                best = found;
            }
        }
        Ok(best)
    }
}

/// Tries the ways that a device has for a model; none if it was interrupted. `blind`: begins without matrices and megakernel.
///
/// # Errors
/// As of a load.
pub(super) fn search(
    gguf: &Gguf,
    device: &Device,
    options: &Options,
    (most, blind): (Duration, bool),
    stop: &AtomicBool,
    told: &mut dyn FnMut(usize, usize),
) -> Result<Option<WaysReport>> {
    let begun = Instant::now();
    let room = options.n_ctx.unwrap_or(256).max(PROMPT + 1);
    let options =
        &Options { n_ctx: Some(room), n_seqs: 1, debug: Debug::default(), without: Vec::new(), ..options.clone() };
    let caps = device.caps();
    let mut search = Search {
        gguf,
        device,
        options,
        stop,
        rows: options.max_rows.min(PROMPT) as usize,
        truth: Vec::new(),
        tried: Vec::new(),
    };
    let table = search.time(&Way::default())?;
    let plain = Way {
        products: Some(NO_MATRICES.into()),
        attention: Some(AttentionKernel::Prefill.name().into()),
        megakernel: Some(false),
    };
    let start = if blind { search.time(&plain)? } else { table };
    let whole = policy::megakernel_tile(caps, Some(true)).is_some_and(|tile| tile.groups > 1);
    let all = products(caps).len() + AttentionKernel::MANY_ROWS.len() + 2 * usize::from(whole) + 2;
    let mut cut = false;
    let mut goes_on = |done: usize| {
        told(done.min(all), all);
        cut |= begun.elapsed() > most;
        !cut
    };
    let mut best = start;
    let from = |search: &Search<'_>, best: usize| search.tried[best].way.clone();
    let way = from(&search, best);
    let ways = products(caps).into_iter().filter(|name| way.products.as_ref() != Some(name));
    // With other products any attention may be the best: the policy's first.
    let ways = ways.map(|name| Way { products: Some(name), attention: None, ..way.clone() }).collect();
    best = search.best(best, ways, &mut goes_on)?;
    let way = from(&search, best);
    let ways = attention(caps).into_iter().filter(|name| way.attention.as_deref() != Some(name));
    let ways = ways.map(|name| Way { attention: Some(name.into()), ..way.clone() }).collect();
    best = search.best(best, ways, &mut goes_on)?;
    let way = from(&search, best);
    let ways = [true, false].into_iter().filter(|on| whole && way.megakernel != Some(*on));
    let ways = ways.map(|on| Way { megakernel: Some(on), ..way.clone() }).collect();
    best = search.best(best, ways, &mut goes_on)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    // Once more, one after the other, for clocks that were not up.
    let kept = if best == start {
        None
    } else {
        let (start_way, best_way) = (from(&search, start), from(&search, best));
        let (start, best) = (search.time(&start_way)?, search.time(&best_way)?);
        (search.ratio(best, start) < 1.0 - LEAST_GAIN).then_some(best_way)
    };
    Ok(Some(WaysReport { rows: search.rows, tried: search.tried, kept, cut }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumex_lower::policy::devices;

    #[test]
    fn what_a_device_lacks_is_not_tried() {
        let names = products(&devices::h200());
        assert_eq!(names.first().map(String::as_str), Some(MATRICES));
        assert!(names.iter().any(|name| name == "gemm_matrix2, Halves"), "{names:?}");
        assert_eq!(names.last().map(String::as_str), Some(NO_MATRICES));
        let names = products(&devices::lavapipe());
        assert!(!names.iter().any(|name| name == MATRICES || name.starts_with("gemm_matrix2")), "{names:?}");
    }

    #[test]
    fn a_way_says_what_options_do_not() {
        let (usual, said) = (Options::default(), |options: &Options| (options.debug, options.without.clone()));
        assert_eq!(said(&Way::default().of(&usual)), said(&usual));
        let way =
            Way { products: Some("gemm_dot".into()), attention: Some("attn_matrix2".into()), megakernel: Some(false) };
        let of = way.of(&usual);
        assert_eq!((of.debug.matrices, of.debug.many_rows), (true, Some(ManyRows::Dot)));
        assert_eq!(
            (of.without, of.debug.megakernel),
            (vec!["attn_prompt", "attn_flash", "attn_staged", MATRICES], Some(false))
        );
        let told = Options { debug: Debug { matrices: false, ..Debug::default() }, ..usual.clone() };
        assert_eq!(said(&way.of(&told)), said(&told));
        // What a file says may be anything.
        let unknown = Way { products: Some("none".into()), attention: Some("none".into()), megakernel: None };
        assert_eq!(said(&unknown.of(&usual)), said(&usual));
        for by in ManyRows::ALL {
            let way = Way { products: Some(by.label()), ..Way::default() };
            assert_eq!(way.of(&usual).debug.many_rows, Some(by));
        }
    }
}
