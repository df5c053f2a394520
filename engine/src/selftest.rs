//! Whether a device computes what it should: small models on it, by every kernel that the policy would take, against the
//! reference on the CPU. A kernel that is wrong is turned off for the device, and the next row of the policy serves.
//!
//! A model goes several ways ([`Ways`]): with activations of 8 and of 16 bits, and, if all that may be chosen is to be tried,
//! through each kernel of many rows that `tune` or a flag can put in the place of the policy's. Each step's logits may be off by
//! what the arithmetic of the kernels that it goes through explains, and no more.
//!
//! What was found is kept beside the pipelines, for this device, driver and these modules.

use super::tune::ways::{self, Way};
use super::{Debug, Options, VulkanRunner};
use crate::cpu::Reference;
use crate::kernel::lacking;
pub use crate::kernel::SUBGROUPS;
use pumex_gguf::{Error, Gguf, Result};
use pumex_lower::policy;
use pumex_lower::policy::ActivationQuant;
use pumex_model as model;
use pumex_model::quantize::recipe;
use pumex_model::quantize::recipe::{Recipe, RECIPES};
use pumex_model::synthetic;
use pumex_plan::Op;
use pumex_step::{Row, RowOutput, Runner, Token, Want};
use pumex_vk as vk;
use pumex_vk::{Caps, Device, Disabled};
use std::collections::BTreeSet;

/// Name of the file that keeps what was found.
const FILE: &str = "selftest";
/// The recipe that a device shows itself with when it is first used.
const USUAL: &str = "Q4_K_M";
/// Why a kernel is turned off.
const WRONG: &str = "found wrong by the self-test";

/// How a step's products and attention are computed, and what of a squared error of logits, relative to theirs, that explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arithmetic {
    /// Floats, or codes of 16 bits; 1e-8 is usual, a cache of halves included.
    Exact,
    /// Halves; up to 7e-7 is usual.
    Halves,
    /// Codes of 8 bits; 1e-4 is usual, up to 3e-4 with weights of few bits.
    Bytes,
}

impl Arithmetic {
    /// That of a step of so many rows, with codes of activations as told, of a model with experts, whose rows may come one by one, or
    /// without, where steps go through kernels of these names.
    pub fn of(rows: usize, codes: ActivationQuant, experts: bool, kernels: &BTreeSet<String>) -> Arithmetic {
        let any = |names: &[&str]| names.iter().any(|name| kernels.contains(*name));
        let coded = any(&["gemv_dot", "megakernel", "megakernel_moe"]) && codes == ActivationQuant::Q8;
        let halves = ["gemm_few", "gemm_panels", "gemm_mat", "gemm_matrix2", "gemm_staged", "gemm_half"];
        let attention = ["attn_mat", "attn_prompt", "attn_flash", "attn_staged", "attn_matrix2"];
        match rows {
            _ if coded && (experts || rows <= policy::FEW_ROWS) => Arithmetic::Bytes,
            2.. if any(&["gemm_dot", "gemm_bytes"]) => Arithmetic::Bytes,
            2.. if any(&halves) || any(&attention) => Arithmetic::Halves,
            _ => Arithmetic::Exact,
        }
    }

    /// The largest squared error of logits, relative to theirs.
    pub fn bound(self) -> f64 {
        match self {
            Arithmetic::Exact => 1e-6,
            Arithmetic::Halves => 1e-5,
            Arithmetic::Bytes => 1e-3,
        }
    }
}

/// What a model is to be tried with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// What the policy takes, with codes of 8 and of 16 bits.
    Usual,
    /// And every kernel of many rows that may be put in the place of what it takes.
    All,
}

/// Rows of the steps that are compared: prompts in large tiles and in small ones, one by few rows, then single rows.
const STEPS: [usize; 5] = [130, 40, 9, 1, 1];

/// What a test of a device came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Kernels that are wrong, and were left out in turn.
    pub wrong: Vec<&'static str>,
    /// Squared error of logits as kernels were at first, relative to theirs: of the step that took most of its bound.
    pub before: f64,
    /// Without those that are wrong.
    pub after: f64,
    /// Kernels that steps went through.
    pub tried: BTreeSet<String>,
}

/// A step's squared error, relative to its logits, and how much of the bound of its arithmetic that is.
#[derive(Clone, Copy, Debug)]
struct Off {
    error: f64,
    share: f64,
}

impl Off {
    fn is_right(self) -> bool {
        self.share < 1.0 // not so where it is no number
    }

    /// The worse of two; a number is better than none.
    fn or_worse(self, other: Off) -> Off {
        if self.share.is_nan() || self.share >= other.share {
            self
        } else {
            other
        }
    }
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
            let found = test(&device, USUAL, debug, Ways::Usual)?;
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

/// Tests a device with models of every recipe, all ways, tells of each, and keeps which kernels are wrong.
///
/// # Errors
/// As [`test()`]; what `told` says.
pub fn all(device: &Device, told: &mut dyn FnMut(&str, &Found) -> Result<()>) -> Result<Vec<String>> {
    let (mut device, mut wrong) = (device.clone(), Vec::new());
    for recipe in RECIPES {
        let found = test(&device, recipe.name, Debug::default(), Ways::All)?;
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
        return device.with_caps(policy::without_subgroups(caps));
    }
    if caps.disabled_reason(kernel).is_none() {
        tracing::warn!(
            "device {}: kernel {kernel} computes wrongly here and is turned off; the next row serves",
            caps.name
        );
        caps.disabled.push(Disabled { kernel: kernel.into(), why: WRONG.into() });
    }
    device.with_caps(caps)
}

/// Tests a device with models of a recipe of `quantize`, and finds which kernels are wrong, if some are.
///
/// # Errors
/// No such recipe; a device that is wrong whatever kernels it is given; one that is lost.
pub fn test(device: &Device, recipe: &str, debug: Debug, tried: Ways) -> Result<Found> {
    let recipe: &'static Recipe =
        recipe::find(recipe).ok_or_else(|| Error::Request(format!("self-test: no recipe {recipe}")))?;
    let (mut device, mut found) = (device.clone(), Found::default());
    let [mut before, mut after] = [Off { error: 0.0, share: 0.0 }; 2];
    for shape in [synthetic::PROBE, synthetic::PROBE_EXPERTS] {
        let gguf = shape.model(recipe)?;
        let truth = truth(&gguf)?;
        for (way, codes) in ways_of(device.caps(), tried) {
            let probe = Probe { gguf: &gguf, truth: &truth, way, codes, debug };
            let (wrong, [first, last]) = probe.test(&device, &mut found.tried)?;
            (before, after) = (first.or_worse(before), last.or_worse(after));
            device = if wrong.is_empty() { device } else { without_quietly(&device, &wrong) };
            found.wrong.extend(wrong);
        }
    }
    Ok(Found { before: before.error, after: after.error, ..found })
}

/// The ways that a device's models may go.
fn ways_of(caps: &Caps, tried: Ways) -> Vec<(Way, ActivationQuant)> {
    let usual = [ActivationQuant::Q8, ActivationQuant::Q16].map(|codes| (Way::default(), codes));
    if tried == Ways::Usual {
        return usual.into();
    }
    let products = ways::products(caps).into_iter().map(|p| Way { products: Some(p), ..Way::default() });
    let attention =
        ways::attention(caps).into_iter().map(|kernel| Way { attention: Some(kernel.into()), ..Way::default() });
    usual.into_iter().chain(products.chain(attention).map(|way| (way, ActivationQuant::Q16))).collect()
}

/// A model that goes a way.
struct Probe<'a> {
    gguf: &'a Gguf,
    truth: &'a [Vec<f32>],
    way: Way,
    codes: ActivationQuant,
    debug: Debug,
}

impl Probe<'_> {
    /// Kernels that are wrong, and how far off the steps are with them and without. `tried` is told what they go through.
    fn test(&self, device: &Device, tried: &mut BTreeSet<String>) -> Result<(Vec<&'static str>, [Off; 2])> {
        let before = self.off(device, tried)?;
        if before.is_right() {
            return Ok((Vec::new(), [before; 2]));
        }
        let mut unseen = BTreeSet::new();
        let mut without = |kernels: &[&str]| self.off(&without_quietly(device, kernels), &mut unseen);
        // One at a time first; if that is not enough, all up to one.
        let suspects = || {
            let all = policy::replaceable_kernels().into_iter();
            all.filter(|kernel| runs(device.caps(), self.debug, kernel))
        };
        for kernel in suspects() {
            let after = without(&[kernel])?;
            if after.is_right() {
                return Ok((vec![kernel], [before, after]));
            }
        }
        let mut wrong = Vec::new();
        for kernel in suspects() {
            wrong.push(kernel);
            let after = without(&wrong)?;
            if after.is_right() {
                return Ok((wrong, [before, after]));
            }
        }
        let caps = device.caps();
        if !caps.emulated_subgroups {
            let after = without(&[SUBGROUPS])?;
            if after.is_right() {
                return Ok((vec![SUBGROUPS], [before, after]));
            }
        }
        let (name, error, bound) = (&caps.name, before.error, before.error / before.share);
        Err(Error::Device(format!(
            "{name}: expected logits of a small model as the CPU computes them, found a squared error of {error:.1e} of theirs \
             where {bound:.0e} is explained, whatever kernels are left out"
        )))
    }

    /// How far off the step is that is worst.
    fn off(&self, device: &Device, tried: &mut BTreeSet<String>) -> Result<Off> {
        let most = STEPS.iter().sum::<usize>().next_multiple_of(32) as u32;
        let debug = Debug { build_ahead: Some(false), ..self.debug };
        let told = Options { n_ctx: Some(most), max_rows: most, activations: Some(self.codes), ..Options::default() };
        let mut options = self.way.of(&told);
        options.debug = Debug { matrices: options.debug.matrices, many_rows: options.debug.many_rows, ..debug };
        let left_out: Vec<&str> = options.without.iter().map(|kernel| &**kernel).collect();
        let device = without_quietly(device, &left_out);
        let plan = model::plan(self.gguf)?;
        let mut runner = VulkanRunner::new(self.gguf, plan, device, &options, &mut |_, _| ())?;
        runner.build_rows(&STEPS)?;
        let experts = runner.plan().ops.iter().any(|op| matches!(op, Op::GatedExperts { .. }));
        let mut worst = Off { error: 0.0, share: 0.0 };
        for (rows, truth) in steps(runner.n_vocab()).zip(self.truth) {
            let error = match runner.run(&rows, Want::Logits) {
                Ok(found) => ways::squared_error(&found.logits, truth),
                Err(Error::Request(_)) => f64::NAN, // logits that are no numbers, of which no id can be chosen
                Err(other) => return Err(other),
            };
            let kernels = kernels_of(&runner);
            let share = error / Arithmetic::of(rows.len(), self.codes, experts, &kernels).bound();
            worst = Off { error, share }.or_worse(worst);
            tried.extend(kernels);
        }
        Ok(worst)
    }
}

/// Kernels that steps of a runner went through, without weight formats.
fn kernels_of(runner: &VulkanRunner) -> BTreeSet<String> {
    runner.kernels().iter().filter_map(|module| module.split('.').next()).map(String::from).collect()
}

/// Whether a kernel may run on a device.
fn runs(caps: &Caps, debug: Debug, kernel: &str) -> bool {
    let needs = pumex_shaders::kernels::find(kernel).map(|row| row.needs);
    let stages = kernel.starts_with("megakernel");
    caps.disabled_reason(kernel).is_none()
        && needs.is_some_and(|needs| lacking(needs, caps).is_none())
        && (!stages || policy::megakernel_tile(caps, debug.megakernel).is_some())
}

fn without_quietly(device: &Device, kernels: &[&str]) -> Device {
    let mut caps = device.caps().clone();
    if kernels.contains(&SUBGROUPS) {
        caps = policy::without_subgroups(caps);
    }
    let others = kernels.iter().filter(|kernel| **kernel != SUBGROUPS);
    caps.disabled.extend(others.map(|kernel| Disabled { kernel: (*kernel).into(), why: WRONG.into() }));
    device.with_caps(caps)
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
            medium: None,
        };
        let rows = (pos..pos + count as u32).map(row).collect();
        pos += count as u32;
        rows
    })
}

/// Logits of the reference, step by step.
fn truth(gguf: &Gguf) -> Result<Vec<Vec<f32>>> {
    let most = STEPS.iter().sum::<usize>().next_multiple_of(32);
    let mut runner = Reference::new(gguf, model::plan(gguf)?, most, 1, most);
    let vocab = runner.n_vocab();
    steps(vocab).map(|rows| Ok(runner.run(&rows, Want::Logits)?.logits)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumex_lower::policy::devices;

    #[test]
    fn all_ways_of_a_device_lead_through_each_kernel_of_many_rows_that_it_has() {
        let led = |device: &str| -> Vec<String> {
            let ways = ways_of(&devices::find(device).unwrap(), Ways::All);
            ways.into_iter().filter_map(|(way, _)| way.products.or(way.attention)).collect()
        };
        let h200 = led("h200");
        let all = ["gemm_mat", "gemm_bytes", "gemm_staged", "gemm_dot", "gemm_half", "no matrices"];
        let attention = ["attn_prompt", "attn_flash", "attn_staged", "attn_matrix2", "attn_prefill"];
        for wanted in all.iter().chain(&attention) {
            assert!(h200.iter().any(|way| way == wanted), "{wanted}: {h200:?}");
        }
        assert_eq!(h200.iter().filter(|way| way.starts_with("gemm_matrix2")).count(), 3);
        let lavapipe = led("lavapipe");
        assert_eq!(lavapipe, ["gemm_dot", "gemm_half", "no matrices", "attn_prefill"]);
        let codes: Vec<_> = ways_of(&devices::lavapipe(), Ways::Usual).into_iter().map(|(_, codes)| codes).collect();
        assert_eq!(codes, [ActivationQuant::Q8, ActivationQuant::Q16]);
    }

    #[test]
    fn bounds_are_those_of_the_least_exact_kernel_of_a_step() {
        let of = |rows, codes, experts, kernels: &[&str]| {
            Arithmetic::of(rows, codes, experts, &kernels.iter().map(ToString::to_string).collect())
        };
        let (q8, q16) = (ActivationQuant::Q8, ActivationQuant::Q16);
        let cases = [
            (of(1, q16, false, &["gemv_dot", "gemm_mat", "attn_mat"]), Arithmetic::Exact),
            (of(1, q8, false, &["gemv_dot", "gemm_mat"]), Arithmetic::Bytes),
            (of(1, q8, false, &["gemv", "gemm_tile"]), Arithmetic::Exact),
            (of(40, q8, false, &["gemv_dot", "gemm_mat"]), Arithmetic::Halves),
            (of(40, q8, true, &["gemv_dot", "gemm_mat"]), Arithmetic::Bytes),
            (of(40, q16, false, &["gemv_dot", "gemm_bytes"]), Arithmetic::Bytes),
            (of(40, q16, false, &["gemm_tile", "attn_flash"]), Arithmetic::Halves),
            (of(40, q8, false, &["gemv_dot", "gemm_tile", "attn_prefill"]), Arithmetic::Exact),
        ];
        cases.iter().for_each(|(found, expected)| assert_eq!(found, expected));
        assert!(Arithmetic::Exact.bound() < Arithmetic::Halves.bound() && Arithmetic::Bytes.bound() <= 1e-3);
    }
}
