//! Whether a device computes what it should: a small model on it, by every kernel that the policy would take, against the
//! reference on the CPU. A kernel that is wrong is turned off for the device, and the next row of the policy serves.
//!
//! What was found is kept beside the pipelines, for this device, driver and these modules.

use super::{Debug, Options, VulkanRunner};
use crate::cpu::Reference;
use crate::gguf::Gguf;
use crate::kernel::lacking;
pub use crate::kernel::SUBGROUPS;
use crate::quantize::recipe::{self, Recipe, RECIPES};
use crate::step::{Row, RowOutput, Runner, Token, Want};
use crate::vk::{self, Caps, Device, Disabled};
use crate::{model, policy, synthetic, Error, Result};

/// Name of the file that keeps what was found.
const FILE: &str = "selftest";
/// The recipe that a device shows itself with when it is first used.
const USUAL: &str = "Q4_K_M";
/// Why a kernel is turned off.
const WRONG: &str = "found wrong by the self-test";

/// Kernels that have a next row, in the order in which they are suspected.
pub const SUSPECTS: [&str; 13] = [
    "megakernel",
    "attn_flash",
    "attn_staged",
    "attn_matrix2",
    "attn_mat",
    "gemm_few",
    "gemm_mat",
    "gemm_staged",
    "gemm_dot",
    "gemm_half",
    "gemv_dot",
    "gemm_float",
    "megakernel_moe",
];

/// Squared error of logits, relative to theirs, that is no rounding: activations of 8 bits make about 1e-4.
const MOST_ERROR: f64 = 0.02;
/// Rows of the steps that are compared: a prompt by tiles, one by few rows, then single rows.
const STEPS: [usize; 4] = [40, 9, 1, 1];

/// What a test of a device came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Kernels that are wrong, and were left out in turn.
    pub wrong: Vec<&'static str>,
    /// Squared error of the logits as kernels were at first, relative to theirs.
    pub before: f64,
    /// Without those that are wrong.
    pub after: f64,
}

/// The device without kernels that it computes wrongly: as was found before, or, at the first use of a GPU and driver, now. What is found
/// is kept only of a `whole` device, for which nothing was left out: it says nothing of kernels that were not tried.
///
/// # Errors
/// A device that is wrong whatever kernels it is given; one that is lost.
pub(super) fn passed(device: Device, whole: bool) -> Result<Device> {
    let modules = pumex_shaders::fingerprint();
    let known = vk::recall(device.caps(), modules, FILE).and_then(|text| serde_json::from_slice(&text).ok());
    let wrong: Vec<String> = match known {
        Some(wrong) => wrong,
        None if !policy::builds_ahead(device.caps()) => Vec::new(), // its first pipelines would take longer than a model
        None => {
            let begun = std::time::Instant::now();
            // The megakernel takes seconds to build, and has a trial of its own; `devices --self-test` tests it, too.
            let debug = Debug { megakernel: Some(false), ..Debug::default() };
            let found = test(&device, USUAL, debug)?;
            tracing::info!("load: self-test, {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
            let wrong: Vec<String> = found.wrong.iter().map(ToString::to_string).collect();
            if whole {
                remember(device.caps(), &wrong)?;
            }
            wrong
        }
    };
    Ok(wrong.iter().fold(device, |device, kernel| without(&device, kernel)))
}

/// Tests a device with a model of every recipe, tells of each, and keeps which kernels are wrong.
///
/// # Errors
/// As [`test()`]; what `told` says.
pub fn all(device: &Device, told: &mut dyn FnMut(&str, &Found) -> Result<()>) -> Result<Vec<String>> {
    let (mut device, mut wrong) = (device.clone(), Vec::new());
    for recipe in RECIPES {
        let found = test(&device, recipe.name, Debug::default())?;
        told(recipe.name, &found)?;
        for kernel in found.wrong {
            device = without(&device, kernel);
            wrong.push(kernel.to_string());
        }
    }
    remember(device.caps(), &wrong)?;
    Ok(wrong)
}

/// Keeps which kernels of a device are wrong, for the next process.
fn remember(caps: &Caps, wrong: &[String]) -> Result<()> {
    let text = serde_json::to_vec(wrong).map_err(|e| Error::Request(format!("JSON: {e}")))?;
    vk::remember(caps, pumex_shaders::fingerprint(), FILE, &text);
    Ok(())
}

/// The same device, for which that kernel, or [`SUBGROUPS`], is not chosen.
pub fn without(device: &Device, kernel: &str) -> Device {
    let mut caps = device.caps().clone();
    if kernel == SUBGROUPS {
        tracing::warn!("device {}: subgroups compute wrongly here and are not used", caps.name);
        return device.chosen_by(policy::without_subgroups(caps));
    }
    if caps.disabled(kernel).is_none() {
        tracing::warn!(
            "device {}: kernel {kernel} computes wrongly here and is turned off; the next row serves",
            caps.name
        );
        caps.disabled.push(Disabled { kernel: kernel.into(), why: WRONG.into() });
    }
    device.chosen_by(caps)
}

/// Tests a device with a model of a recipe of `quantize`, and finds which kernels are wrong, if some are.
///
/// # Errors
/// No such recipe; a device that is wrong whatever kernels it is given; one that is lost.
pub fn test(device: &Device, recipe: &str, debug: Debug) -> Result<Found> {
    let recipe: &'static Recipe =
        recipe::find(recipe).ok_or_else(|| Error::Request(format!("self-test: no recipe {recipe}")))?;
    let gguf = synthetic::PROBE.model(recipe)?;
    let truth = truth(&gguf)?;
    let error = |device: &Device| error(&gguf, device, debug, &truth);
    let before = error(device)?;
    if is_right(before) {
        return Ok(Found { wrong: Vec::new(), before, after: before });
    }
    // One at a time first; if that is not enough, all up to one.
    let suspects = || SUSPECTS.into_iter().filter(|kernel| runs(device.caps(), debug, kernel));
    for kernel in suspects() {
        let after = error(&without_quietly(device, &[kernel]))?;
        if is_right(after) {
            return Ok(Found { wrong: vec![kernel], before, after });
        }
    }
    let mut wrong = Vec::new();
    for kernel in suspects() {
        wrong.push(kernel);
        let after = error(&without_quietly(device, &wrong))?;
        if is_right(after) {
            return Ok(Found { wrong, before, after });
        }
    }
    let caps = device.caps();
    if !caps.emulated_subgroups {
        let after = error(&device.chosen_by(policy::without_subgroups(caps.clone())))?;
        if is_right(after) {
            return Ok(Found { wrong: vec![SUBGROUPS], before, after });
        }
    }
    let name = &caps.name;
    Err(Error::Device(format!(
        "{name}: expected logits of a small model as the CPU computes them, found a squared error of {before:.3} of theirs, \
         whatever kernels are left out"
    )))
}

/// Whether a kernel may run on a device.
fn runs(caps: &Caps, debug: Debug, kernel: &str) -> bool {
    let needs = pumex_shaders::kernels::find(kernel).map(|row| row.needs);
    let stages = kernel.starts_with("megakernel");
    caps.disabled(kernel).is_none()
        && needs.is_some_and(|needs| lacking(needs, caps).is_none())
        && (!stages || policy::megakernel_tile(caps, debug.megakernel).is_some())
}

fn without_quietly(device: &Device, kernels: &[&str]) -> Device {
    let mut caps = device.caps().clone();
    caps.disabled.extend(kernels.iter().map(|kernel| Disabled { kernel: (*kernel).into(), why: WRONG.into() }));
    device.chosen_by(caps)
}

fn is_right(error: f64) -> bool {
    error < MOST_ERROR // not so where it is no number
}

/// The steps: rows of one sequence, all with logits.
fn steps(n_vocab: usize) -> impl Iterator<Item = Vec<Row>> {
    let mut pos = 0;
    STEPS.into_iter().map(move |count| {
        let row = |pos: u32| Row {
            seq: 0,
            pos,
            token: Token::Id(1 + (pos * 37 + 11) % (n_vocab as u32 - 1)),
            output: RowOutput::Logits,
        };
        let rows = (pos..pos + count as u32).map(row).collect();
        pos += count as u32;
        rows
    })
}

fn logits(runner: &mut dyn Runner) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    for rows in steps(runner.n_vocab()) {
        all.extend(runner.run(&rows, Want::Logits)?.logits);
    }
    Ok(all)
}

/// Logits of the reference.
fn truth(gguf: &Gguf) -> Result<Vec<f32>> {
    let most = STEPS.iter().sum::<usize>().next_multiple_of(32);
    logits(&mut Reference::new(gguf, model::plan(gguf)?, most, 1, most))
}

/// Squared error of a device's logits over the squares of the true ones.
fn error(gguf: &Gguf, device: &Device, debug: Debug, truth: &[f32]) -> Result<f64> {
    let most = STEPS.iter().sum::<usize>().next_multiple_of(32) as u32;
    let debug = Debug { build_ahead: Some(false), ..debug };
    let options = Options { n_ctx: Some(most), max_rows: most, debug, ..Options::default() };
    let mut runner = VulkanRunner::new(gguf, model::plan(gguf)?, device.clone(), &options, &mut |_, _| ())?;
    runner.build_rows(&STEPS)?;
    let found = match logits(&mut runner) {
        Ok(found) => found,
        Err(Error::Request(_)) => return Ok(f64::NAN), // logits that are no numbers, of which no id can be chosen
        Err(other) => return Err(other),
    };
    Ok(squared_error(&found, truth))
}

/// Squared error of logits over the squares of the true ones.
pub(super) fn squared_error(found: &[f32], truth: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let all: f64 = truth.iter().map(|t| square(*t)).sum();
    found.iter().zip(truth).map(|(f, t)| square(f - t)).sum::<f64>() / all
}
