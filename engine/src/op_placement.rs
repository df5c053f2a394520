//! Which ops of a plan run on the CPU though there is a GPU: those of the first layers, and those that read certain tensors.

use super::weights;
use pumex_gguf::{Error, Result};
use pumex_lower::slabs;
use pumex_plan::{Op, Plan};
use pumex_vk::Device;
use regex::Regex;

/// Where tensors go whose names a pattern matches; of several patterns that match, the first one counts.
#[derive(Clone, Debug)]
pub struct Override {
    /// Somewhere in the name.
    pub pattern: Regex,
    /// To the CPU; else to the GPU.
    pub on_cpu: bool,
    /// The flag that it came from, if it must match something.
    pub flag: Option<&'static str>,
}

impl Override {
    /// The experts of the first `layers` layers, or of all, stay on the CPU.
    pub fn experts(layers: Option<usize>) -> Option<Override> {
        let layer = match layers {
            Some(n) => format!("^blk\\.({})", (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join("|")),
            None => String::new(),
        };
        // Of no layer, the first part would match all.
        let some = layers != Some(0);
        let pattern = some.then(|| Regex::new(&format!("{layer}\\.ffn_(up|down|gate|gate_up)_(ch|)exps")));
        Some(Override { pattern: pattern?.ok()?, on_cpu: true, flag: None })
    }
}

/// Whether every pattern that must match a tensor does.
///
/// # Errors
/// One that does not.
pub(super) fn check(plan: &Plan, overrides: &[Override]) -> Result<()> {
    for (rule, flag) in overrides.iter().filter_map(|rule| Some((rule, rule.flag?))) {
        if !plan.weights.iter().any(|w| rule.pattern.is_match(&w.name)) {
            let (found, example) = (rule.pattern.as_str(), plan.weights.first().map_or("", |w| &w.name));
            let what = format!("{flag} {found}: expected a pattern that matches a tensor's name, such as {example}");
            return Err(Error::Usage(what));
        }
    }
    Ok(())
}

/// Overrides that keep tensors on the CPU that no buffer of the device can hold.
pub(super) fn of_limits(plan: &Plan, device: &Device) -> Vec<Override> {
    let (caps, mut rules) = (device.caps(), Vec::new());
    for w in weights::too_large(plan, caps, device.stages_weights()) {
        let (bytes, most) = (slabs::device_bytes(w, w.rows, device.stages_weights()), caps.largest_buffer());
        tracing::warn!(
            "{}: {bytes} bytes are more than the {most} of the largest buffer of {}; what reads it runs on the CPU",
            w.name,
            caps.name
        );
        let pattern = Regex::new(&format!("^{}$", regex::escape(&w.name))).ok();
        rules.extend(pattern.map(|pattern| Override { pattern, on_cpu: true, flag: None }));
    }
    rules
}

/// Runs of ops in order with whether they run on the CPU, where the last `on_gpu` layers, and what comes after them, run on a
/// GPU as far as `overrides` say nothing else.
pub(super) fn segments(plan: &Plan, on_gpu: usize, overrides: &[Override], max_rows: usize) -> Vec<(bool, Plan)> {
    let ops = plan.ops.len();
    let cut = match plan.layers.len().saturating_sub(on_gpu) {
        0 => 0,
        // A layer may have no weights.
        layer => (layer..plan.layers.len()).find_map(|layer| plan.first_op(layer)).unwrap_or(ops),
    };
    let named = |name: &str| overrides.iter().find(|rule| rule.pattern.is_match(name)).is_some_and(|rule| rule.on_cpu);
    let named: Vec<bool> = plan.weights.iter().map(|w| named(&w.name)).collect();
    plan.segments(|i: usize, op: &Op| i < cut || op.weights().iter().any(|w| named[w.0]), max_rows)
}

/// Whether no layer can run on another device than those before it.
pub(super) fn is_whole(plan: &Plan, max_rows: usize) -> bool {
    (1..plan.layers.len()).all(|on_gpu| segments(plan, on_gpu, &[], max_rows).len() == 1)
}

/// Why a plan cannot be parted between devices at some layer or other.
pub(super) fn why_whole(plan: &Plan) -> &'static str {
    match plan.encoder {
        Some(_) => "an encoder and its decoder share keys and values, which stay on one device",
        None => "the layers hand on more than one row of numbers there",
    }
}

/// Layers that are on the CPU, on both, and on the GPU.
pub(super) fn count(layers: usize, segments: &[(bool, Plan)]) -> [usize; 3] {
    let mut count = [0; 3];
    for layer in 0..layers {
        let has = |cpu: bool| segments.iter().any(|(on, plan)| *on == cpu && plan.first_op(layer).is_some());
        count[match (has(true), has(false)) {
            (true, false) => 0,
            (true, true) => 1,
            _ => 2,
        }] += 1;
    }
    count
}
